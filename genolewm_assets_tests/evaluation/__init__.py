"""Tests of the probes, their scores, and the command."""
