"""Mitochondrial genomes: quality, rotation, alignment, haplogroup, split."""
