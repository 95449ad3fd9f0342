"""Generated VCF files, and readers of VCF measured on them."""
