"""Fuzzing of what reads files of others: VCF, its indexes, instrument files; finds become tests beside their module."""
