"""Readers of external data: catalogues, downloads and file formats, and builders that turn a source file into a shard.

Belongs here: catalogues, downloads, FASTA, VCF, BED, ClinVar's listing, and the mapping of external names and terms to
those of this package. Does not belong here: sequence and coordinate arithmetic (``genome``), publication of files
(``store``), allele tables (``variants``), content checks and everything that a trainer imports (``training``,
``mito``), the simulated sample (``sample``), the asset graph (``defs``).

Nothing is re-exported, because a catalogue must load without the VCF, FASTA and download libraries. Import the
subpackage that you need, such as ``genolewm_assets.sources.catalog`` or ``genolewm_assets.sources.vcf``.
"""

__all__: list[str] = []
