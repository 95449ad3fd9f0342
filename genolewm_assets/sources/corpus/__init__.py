"""Corpus files and their alignment."""
