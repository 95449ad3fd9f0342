"""Simulated alleles, what is known of them, and the VCF text that says it."""
