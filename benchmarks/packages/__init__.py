"""Measurements of the steps that make packages."""
