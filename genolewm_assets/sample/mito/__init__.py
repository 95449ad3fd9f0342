"""Simulated mitochondrial genomes and their heteroplasmy."""
