"""Table schemas, and the one Parquet writer."""
