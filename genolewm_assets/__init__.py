"""The data platform behind genomic world models: a Dagster asset graph of checked, reproducible data sets.

Rooms: ``genome`` (shared vocabulary), ``store`` (crash-safe files), ``lewm`` (schemas and domain logic of the training
data), ``sources`` (readers at the edge), ``sample`` (the simulated miniature), ``defs`` (the Dagster layer).
"""

__version__ = "0.1.0"
