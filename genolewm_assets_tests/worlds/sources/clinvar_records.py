"""ClinVar records on a toy genome, and the shard that is built from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
from genolewm_assets.variants.schema import CLINVAR_VARIANTS, REJECTS
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

Row = dict[str, object]

SEQUENCE = b"ACGATTTTTCACACACGTAGCTAGCTAGGATC"
TOY = ContigSet([Contig("chr17", len(SEQUENCE), aliases=("17",)), Contig("chrM", len(SEQUENCE), aliases=("MT",))])
INFO = ["CLNSIG:.:String", "CLNREVSTAT:.:String", "GENEINFO:1:String", "ALLELEID:1:Integer"]


def build(
    folder: Path, records: list[tuple[object, ...]], *, single_file: bool = False
) -> tuple[list[Row], Mapping[str, int], list[Row]]:
    out = folder / "out"
    report = build_clinvar_shard(
        write_text(folder / "in.vcf", vcf_text(records, info=INFO)),
        release="2026-02-26",
        contigs=TOY,
        reference=lambda _: SEQUENCE,
        out_dir=out,
        single_file=single_file,
    )
    names = ["variants.parquet"] if single_file else ["chr17.parquet", "chrM.parquet"]
    tables = [pq.read_table(out / name) for name in names]
    rejects = pq.read_table(out / "rejects.parquet")
    assert {p.name for p in out.iterdir()} == {*names, "rejects.parquet"}
    assert all(table.schema.equals(CLINVAR_VARIANTS.arrow) for table in tables)
    assert rejects.schema.equals(REJECTS.arrow)
    assert report.rows == {
        **{name: table.num_rows for name, table in zip(names, tables, strict=True)},
        "rejects.parquet": rejects.num_rows,
    }
    counts = report.counts
    assert counts["alleles_in"] == counts["kept"] + counts["rejected"] + counts["filtered"]
    return [row for table in tables for row in table.to_pylist()], counts, rejects.to_pylist()


def record(
    clnsig: str = "Pathogenic",
    *,
    chrom: str = "17",
    pos: int = 3,
    name: object = 7,
    ref: str = "G",
    alt: str = "T",
    more: str = "",
) -> tuple[object, ...]:
    return (chrom, pos, name, ref, alt, ".", f"ALLELEID=70;CLNSIG={clnsig}{more}")
