"""Tile contigs into reference windows, and check the tiling."""
