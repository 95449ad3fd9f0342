"""Tests of :mod:`genolewm_assets.forensic`."""
