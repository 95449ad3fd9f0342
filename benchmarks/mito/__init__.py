"""Measurements of mitochondrial genomes, tokens and data set items."""
