"""The YAML catalogue as validated settings."""
