"""The simulated miniature: a genome with its gnomAD-style and ClinVar-style sources, written on first use.

Belongs here: the simulation and its files in the public servers' layouts, and the facts known about them. Does not
belong here: reading such files (``sources``), fixtures of a single test (the tests), real sequence or real variants
(nowhere in this repository). Imports ``genome`` and ``store``, never ``sources``: readers are tested on files they had
no part in.
"""

from genolewm_assets.sample.facts import (
    CONTENT_MD5,
    CONTIG_MD5,
    SAMPLE_FACTS,
    ChangeFacts,
    ClinvarFacts,
    CorpusFacts,
    GenomeFacts,
    GnomadFacts,
    HeteroplasmyFacts,
    MitoGenomeFacts,
    SampleFacts,
)
from genolewm_assets.sample.writer import write_sample

__all__ = [
    "CONTENT_MD5",
    "CONTIG_MD5",
    "SAMPLE_FACTS",
    "ChangeFacts",
    "ClinvarFacts",
    "CorpusFacts",
    "GenomeFacts",
    "GnomadFacts",
    "HeteroplasmyFacts",
    "MitoGenomeFacts",
    "SampleFacts",
    "write_sample",
]
