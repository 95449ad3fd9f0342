"""Tests of the audit of packages."""
