"""Tests of the crash-safe files; `plans.py` has the small builds they use."""
