"""VCF and BGZF: index, blocks, regions, counts."""
