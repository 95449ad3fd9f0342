"""Mitochondrial collections and heteroplasmy files."""
