"""The data platform behind genomic world models: a Dagster asset graph of checked, reproducible data sets.

Here: the commands (``cli`` and its kin), the Dagster entry point (``definitions``),
and ``errors`` and ``progress``, which every room uses. ARCHITECTURE.md lists the rooms.
"""

__version__ = "0.1.0"
