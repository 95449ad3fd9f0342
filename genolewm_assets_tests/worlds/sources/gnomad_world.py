"""A toy genome, and shards built of gnomAD records on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.variants.schema import GNOMAD_VARIANTS, REJECTS
from genolewm_assets.variants.shard import REJECTS_FILE, VARIANTS_FILE
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

Reference = Callable[[Contig], bytes]
SEQUENCE = b"ACGATTTTTCACACACGTAGCTAGCTAGGATC"
TOY = ContigSet(
    [
        Contig("chr17", len(SEQUENCE), aliases=("17",)),
        Contig("chrX", len(SEQUENCE), aliases=("X",)),
        Contig("chrY", len(SEQUENCE), aliases=("Y",)),
        Contig("chrM", len(SEQUENCE), circular=True, aliases=("MT",)),
    ]
)
PLAIN = ["AF:A:Float", "AC:A:Integer", "AN:1:Integer"]


def build(
    folder: Path,
    records: Sequence[tuple[object, ...]],
    *,
    info: list[str],
    contig: str | None = "chr17",
    reference: Reference | None = lambda _: SEQUENCE,
    meta: tuple[str, ...] = (),
    release: str | None = None,
    **params: float | bool,
) -> tuple[list[dict[str, object]], Mapping[str, int], list[dict[str, object]]]:
    report = build_gnomad_shard(
        write_text(folder / "in.vcf", vcf_text(records, info=info, meta=meta)),
        contig=None if contig is None else TOY[contig],
        contigs=TOY,
        reference=reference,
        params=GnomadParams(**params),  # type: ignore[arg-type]
        out_dir=folder / "out",
        release=release,
    )
    rows = pq.read_table(folder / "out" / VARIANTS_FILE)
    rejects = pq.read_table(folder / "out" / REJECTS_FILE)
    assert rows.schema.equals(GNOMAD_VARIANTS.arrow)
    assert rejects.schema.equals(REJECTS.arrow)
    assert report.rows == {VARIANTS_FILE: rows.num_rows, REJECTS_FILE: rejects.num_rows}
    counts = report.counts
    assert counts["alleles_in"] == counts["kept"] + counts["rejected"] + counts["filtered"]
    assert not list((folder / "out").glob(".spool*"))
    return rows.to_pylist(), counts, rejects.to_pylist()


def snv(info: str, *, filters: str = "PASS", pos: int = 3, ref: str = "G", alt: str = "T") -> tuple[object, ...]:
    return ("chr17", pos, "rs1", ref, alt, filters, info)
