"""The assets, one module per subject."""
