"""Heteroplasmic and clinical variants on the circle."""
