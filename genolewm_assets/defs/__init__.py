"""The Dagster layer: one module per domain, plus partitions, gates, metadata and the workspace resource.

Here: asset and check declarations, which files an asset's build reads and writes, what the UI shows. Not here: reading
formats (``sources``), domain logic (``lewm``), publishing and hashing (``store``).
"""
