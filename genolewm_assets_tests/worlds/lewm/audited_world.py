"""The small package with its reference as a FASTA, and with a ClinVar VCF that has its labels."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from pathlib import Path

from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.worlds.lewm import package_world as world

CLNSIG = {"P": "Pathogenic", "LP": "Likely_pathogenic", "B": "Benign", "LB": "Likely_benign"}
CLNSIG |= {"VUS": "Uncertain_significance", "OTHER": "not_provided"}
#: By review stars.
_CLNREVSTAT = (
    "no_assertion_criteria_provided",
    "criteria_provided,_single_submitter",
    "criteria_provided,_multiple_submitters,_no_conflicts",
    "reviewed_by_expert_panel",
    "practice_guideline",
)


#: Contigs as text.
TEXTS = {name: text.decode() for name, text in world.SEQUENCES.items()}


@dataclass(frozen=True)
class AuditedWorld:
    """A published package, and what it is audited with."""

    package: Path
    fasta: Path
    vcf: Path


def make_audited_world(folder: Path, *, in_pieces: bool = False, **changes: object) -> AuditedWorld:
    """Publish the package of ``package_world`` without caches of states; ``changes`` are exchanged sources."""
    root = Root(folder / "root")
    root.claim("tiny", world.GENOME_DIGEST)
    held = [row for name in ("chr20", "chr21") for row in world.clinvar(name).to_pylist()]
    of_contigs = [("holdout-chr", "validation" if row["chrom"] == "chr20" else "test", row) for row in held]
    temporal = world.clinvar("chr17").to_pylist()
    alleles = world.held_alleles(
        ("holdout-temporal", "validation", temporal[3]), ("holdout-temporal", "test", temporal[30]), *of_contigs
    )
    # With margins left and right of the blocks, no left flank of a training window has a held-out base.
    changes = {"alleles": alleles, "policy": world.UNBUFFERED} | changes
    sources = world.make_sources(**changes)
    sources = replace(world.with_pieces(root, sources) if in_pieces else sources, caches=())
    package = world.publish(root, sources).directory
    fasta = write_fasta(folder / "genome.fa", TEXTS)
    vcf = folder / "clinvar.vcf.gz"
    with gzip.open(vcf, "wt") as out:
        out.write("##fileformat=VCFv4.1\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
        for row in (row for contig in world.LENGTHS for row in world.clinvar(contig).to_pylist()):
            columns = (row["chrom"][3:], row["pos"], row["clinvar_id"], row["ref"], row["alt"], ".", ".")
            info = f"CLNSIG={CLNSIG[row['label']]};CLNREVSTAT={_CLNREVSTAT[row['stars']]}"
            out.write("\t".join(map(str, columns)) + f"\t{info}\n")
    return AuditedWorld(package, fasta, vcf)
