"""Caches of encoder states: pooling, index, export."""
