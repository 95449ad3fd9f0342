"""Cost of looking for held-out sequence: the filter's search, the audit's search, and minimap2 alone."""
