"""ClinVar listing, releases and files to a variant shard."""
