"""Array stores, ours and others, measured on random rows."""
