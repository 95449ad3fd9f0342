"""Tests of what a reader can open of a whole root."""
