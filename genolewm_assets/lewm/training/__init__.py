"""From a package and states to batches."""
