"""Planted leaks: copies and parts of a package with leaks of each kind, and the share of them that an audit finds.

Not here: the searches (``audit``).
"""
