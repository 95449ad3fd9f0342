"""Measurements of the stream of training tuples: its speed beside peers, and large packages."""
