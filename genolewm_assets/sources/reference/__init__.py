"""FASTA and annotation tracks."""
