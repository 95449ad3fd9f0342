"""The mitochondrial track, measured."""
