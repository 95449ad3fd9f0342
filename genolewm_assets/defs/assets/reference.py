"""``reference/genome``: the catalogue's FASTA, compressed, indexed and compared with the catalogue's pins."""

from pathlib import Path

import dagster as dg

from genolewm_assets.defs.assets.observations import reference_source
from genolewm_assets.defs.display import describe_published, in_words, share
from genolewm_assets.defs.runtime import REBUILT, GatedAsset, Plan, Workspace, on_every_partition
from genolewm_assets.progress import Progress
from genolewm_assets.sources.files import CHECKSUM_MATCHES
from genolewm_assets.sources.reference import compare_contigs, prepare_genome
from genolewm_assets.store.artefacts import BuildReport, Check, CheckResult, Published
from genolewm_assets.store.tables import read_table
from genolewm_assets.windows.reference import GENOME_CONTIGS

_CONTIGS_MATCH = Check(
    "contigs_match_pins",
    "The contigs of the FASTA have the lengths and MD5s that the catalogue pins.",
    "The FASTA is not the genome that the catalogue pins. Name the right file in genome.fasta, or, for another "
    "assembly, state its contigs with their lengths and MD5s and use a new root.",
)


def plan_genome(workspace: Workspace, _partition: str, progress: Progress) -> Plan:
    """Plan the genome: copy and index the catalogue's FASTA, and measure its contigs."""
    genome, contigs = workspace.catalog.genome, workspace.contigs
    source = workspace.source(genome.fasta, md5=genome.md5, progress=progress)

    def write(work: Path) -> BuildReport:
        with source.local() as local:
            table = prepare_genome(local.path, work, contigs, progress=progress)
        differences = compare_contigs(table, contigs)
        pinned = CheckResult(
            _CONTIGS_MATCH,
            passed=not differences,
            figures={"differences": "; ".join(map(str, differences))},
            rows=[each._asdict() for each in differences],
        )
        return BuildReport(
            counts={
                "contigs": table.num_rows,
                "bases": sum(table["length"].to_pylist()),
                "acgt_bases": sum(table["acgt_bases"].to_pylist()),
            },
            rows={"contigs.parquet": table.num_rows},
            checks=(local.checksum_check(), pinned),
        )

    return Plan(recipe={"genome_digest": workspace.catalog.genome_digest, "source": source.identity()}, write=write)


#: Columns of the table of contigs that fit beside each other.
_SHOWN = ["contig", "length", "md5"]


def describe_genome(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a genome: bases, share of ACGT, and the table of contigs."""
    table, counts = read_table(published.file("contigs.parquet")), published.manifest.counts
    return {
        **describe_published(published, rows=table.num_rows, stated=counts),
        # The catalogue pins the genome, so they never vary.
        **in_words(bases=counts["bases"], acgt_share=share(counts["acgt_bases"], counts["bases"])),
        "contigs": dg.MetadataValue.table([dg.TableRecord(row) for row in table.select(_SHOWN).to_pylist()]),
    }


reference_genome = GatedAsset(
    key="reference/genome",
    description="""
    One row per contig of the pinned reference genome, published with its block-compressed, indexed FASTA.

    All coordinates and REF alleles of the graph refer to this sequence. A FASTA whose contig lengths or MD5s differ
    from the catalogue's pins is refused.
    """,
    kinds={"fasta", "pysam"},
    code_version="2",
    place=lambda workspace, _: f"reference/{workspace.catalog.genome_digest[:12]}",
    deps=(on_every_partition(reference_source),),
    automation=REBUILT,
    table=GENOME_CONTIGS,
    checks=(CHECKSUM_MATCHES, _CONTIGS_MATCH),
    plan=plan_genome,
    entries={
        "bases": "length of all contigs",
        "acgt_share": "share of them that are A, C, G or T, 0 to 1",
        "contigs": "the contigs with length, topology and MD5",
    },
    describe=describe_genome,
    pictured=False,
)
