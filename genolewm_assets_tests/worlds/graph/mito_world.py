"""A tiny world whose mitochondrial contig, genomes, calls and gnomAD file are those of the sample."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from genolewm_assets.sample.alleles.mitochondrion import mito_vcf, simulate_mito_sites
from genolewm_assets.sample.bgzip import write_bgzip
from genolewm_assets.sample.genome.reference import simulate_reference
from genolewm_assets.sample.mito.collection import fasta_text, genbank_text
from genolewm_assets.sample.mito.genomes import simulate_mito_genomes
from genolewm_assets.sample.mito.heteroplasmy import AF_LAYOUT, HL_LAYOUT, heteroplasmy_vcf
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

FASTA, GENBANK = "mtdna/genomes.fa.gz", "mtdna/genomes.gb.gz"
CALLS = ("mtdna/heteroplasmy_af.vcf.gz", "mtdna/heteroplasmy_hl.vcf.gz")
GNOMAD = "gnomad.chrM.vcf.bgz"
#: ClinVar's alleles on chrM in either release.
N_CLINICAL = (40, 65)
GENOMES, TOKENS, VARIANTS = "mito/genomes", "mito/tokens", "mito/variants"


@functools.cache
def mito_files() -> tuple[bytes, Mapping[str, bytes]]:
    contig = simulate_reference()["chrM"]
    reference, genomes = contig.sequence.decode("ascii"), simulate_mito_genomes(contig)
    return contig.sequence, {
        FASTA: fasta_text(genomes, reference),
        GENBANK: genbank_text(genomes, reference),
        CALLS[0]: heteroplasmy_vcf(contig, genomes, AF_LAYOUT),
        CALLS[1]: heteroplasmy_vcf(contig, genomes, HL_LAYOUT),
        GNOMAD: mito_vcf(contig, simulate_mito_sites(contig)),
    }


class MitoWorld(BuiltWorld):
    """Sources of the mitochondrial assets, and what they are made from."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sequences["chrM"], files = mito_files()
        self.write_fasta(self.sequences)
        for name, text in files.items():
            write_bgzip(self.folder / name, text)
        for release, size in zip(RELEASES, N_CLINICAL, strict=True):
            self.write_clinvar(release, header_date=release, records=self.clinvar_records("chrM")[:size])
        self.write_catalog()
        self.edit_catalog(
            gnomad={"sources": {"chrM": {"url": GNOMAD, "release": "3.1", "md5": "published"}}},
            mito={
                "genomes": [{"url": name, "md5": "published"} for name in (FASTA, GENBANK)],
                "heteroplasmy": [{"url": name, "md5": "published"} for name in CALLS],
            },
        )

    def build(self) -> None:
        for asset, partition in [
            ("reference/genome", None),
            ("gnomad/shard", "chrM"),
            *((asset, release) for release in RELEASES for asset in ("clinvar/release", "clinvar/shard")),
        ]:
            assert self.materialize(asset, partition=partition).success, (asset, partition)
