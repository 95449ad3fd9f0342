"""What Dagster costs at 24 contigs, 704 pieces of the corpus and 200 releases: loading, ticks, a partition."""
