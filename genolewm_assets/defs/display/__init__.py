"""What the Dagster UI shows."""
