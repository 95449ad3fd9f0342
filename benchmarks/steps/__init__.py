"""Memory of single steps of the graph, as Dagster runs them: build, checks, pictures and metadata."""
