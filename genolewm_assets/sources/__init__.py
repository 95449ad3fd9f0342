"""Readers of external data: catalogues, downloads and file formats, and builders that turn a source file into a shard.

Not here: sequence arithmetic (``genome``), publication (``store``), allele tables (``variants``), what a trainer
imports (``training``, ``mito``). Nothing is re-exported, because a catalogue must load without the VCF and FASTA
libraries.
"""

__all__: list[str] = []
