"""The data platform behind genomic world models: a Dagster asset graph of checked, reproducible data sets.

Here: the commands, the Dagster entry point (``definitions``), ``errors`` and ``progress``. ARCHITECTURE.md lists rooms.
"""

__version__ = "0.1.0"
