"""Tests of the crash-safe files; `worlds/plans.py` has the small builds they use."""
