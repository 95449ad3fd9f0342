"""Checksummed array stores that grow, caches of them, row index."""
