"""Generators of VCF files, and measurements of VCF readers and shard builders on them."""
