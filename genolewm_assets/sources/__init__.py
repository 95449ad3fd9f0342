"""Readers at the edge: whatever comes from outside, and the one place where its spellings become ours.

Belongs here: catalogues, downloads, FASTA, VCF, BED, ClinVar's listing, the layouts of gnomAD and the terms of ClinVar,
and the builders that turn a source file into a shard's files. Does not belong here: sequence and coordinate arithmetic
(``genome``), how files are published and verified (``store``), table schemas, content checks and everything a trainer
imports (``lewm``), the simulated sample (``sample``), the asset graph (``defs``).

Nothing is re-exported: a catalogue must load without the VCF, FASTA and download libraries, so import the module you
need (``genolewm_assets.sources.catalog.catalog``, ``.vcf_scan``, ``.gnomad``, ``.clinvar``, ...).
"""

__all__: list[str] = []
