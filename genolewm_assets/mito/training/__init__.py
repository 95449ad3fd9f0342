"""Mitochondrial data sets, masking, positional encoding."""
