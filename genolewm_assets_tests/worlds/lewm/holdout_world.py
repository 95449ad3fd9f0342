"""Small tables that holdouts are made from, and a simulated genome of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from genolewm_assets.genome import Contig, ContigSet, WindowProfile
from genolewm_assets.holdouts.alleles import CLINVAR_COLUMNS
from genolewm_assets.holdouts.build import HoldoutInputs
from genolewm_assets.holdouts.corpus import CORPUS_COLUMNS
from genolewm_assets.variants.schema import ALLELE_KEY, CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets.windows.corpus.windows import CORPUS_WINDOWS
from genolewm_assets.windows.reference.schema import GENOME_CONTIGS

Row = dict[str, object]

SMALL = WindowProfile("small", window_bp=1_200, stride_bp=800, margin_bp=60)
CONTIGS = ContigSet(
    [
        Contig("chr17", 400_000, aliases=("17",)),
        Contig("chr20", 120_000, aliases=("20",)),
        Contig("chr21", 120_000, aliases=("21",)),
    ]
)


def part_of(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def gnomad(alleles: Iterable[tuple[object, ...]], contig: str = "chr17") -> pa.Table:
    """Return common alleles of one contig from (pos, ref, alt)."""
    rows = [dict(zip(ALLELE_KEY, (contig, *allele), strict=True)) for allele in sorted(alleles)]
    return pa.Table.from_pylist(rows, schema=part_of(GNOMAD_VARIANTS.arrow, ALLELE_KEY))


def allele(pos: int, genes: Iterable[str] = (), label: str = "P", *, ref: str = "A", **more: object) -> Row:
    """Return an allele of ClinVar that names genes: ``SYMBOL:ID``, or ``SYMBOL`` alone."""
    named = [gene.partition(":") for gene in genes]
    row: Row = {"chrom": "chr17", "pos": pos, "ref": ref, "alt": "C", "label": label, "stars": 1, "clinvar_id": pos}
    row["gene_symbols"] = [symbol for symbol, _, _ in named]
    row["gene_ids"] = [int(number) if number else None for _, _, number in named]
    return {**row, **more}


def clinvar(rows: Iterable[Row]) -> pa.Table:
    rows = sorted(rows, key=lambda row: tuple(row[name] for name in ALLELE_KEY))  # type: ignore[arg-type,return-value]
    return pa.Table.from_pylist(rows, schema=part_of(CLINVAR_VARIANTS.arrow, CLINVAR_COLUMNS))


def windows(contig: Contig, profile: WindowProfile = SMALL) -> pa.Table:
    tiled = profile.tile(contig)
    return pa.table({"start": tiled.start, "end": tiled.end})


def corpus_row(number: int, how: str = "coordinates", **more: object) -> Row:
    row: Row = {"source": "eukaryote_generator", "record_id": f"record{number}", "window_index": 0, "maybe_human": True}
    places = dict.fromkeys(f"{which}_{what}" for which in ("placed", "stated") for what in ("contig", "start", "end"))
    return {**row, "placement_how": how, **places, **more}


def corpus(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=part_of(CORPUS_WINDOWS.arrow, CORPUS_COLUMNS))


def genome(shares: dict[str, float] | None = None, contigs: ContigSet = CONTIGS) -> pa.Table:
    same = {"circular": False, "md5": "0" * 32, "acgt_runs": 1}
    rows = [
        {**same, "contig": contig.name, "length": contig.length, "acgt_bases": int(contig.length * share)}
        for contig in contigs
        for share in [(shares or {}).get(contig.name, 1.0)]
    ]
    return pa.Table.from_pylist(rows, schema=GENOME_CONTIGS.arrow)


def simulated_inputs(seed: int = 0, *, genes: int = 30, common: int = 1_200) -> HoldoutInputs:
    """Return a genome with genes on every contig, common alleles everywhere, two releases and some corpus windows."""
    rng = np.random.default_rng(seed)
    later: dict[str, list[Row]] = {}
    earlier: dict[str, list[Row]] = {}
    shards: dict[str, pa.Table] = {}
    for contig in CONTIGS:
        positions = sorted(set(rng.integers(1_000, contig.length - 1_000, common * contig.length // 640_000).tolist()))
        shards[contig.name] = gnomad([(pos, "A", "ACG"[pos % 3 :][:1] + "T") for pos in positions], contig.name)
        later[contig.name], earlier[contig.name] = [], []
        for number, start in enumerate(rng.integers(2_000, contig.length - 9_000, genes // 3).tolist()):
            name = f"G{contig.name[3:]}N{number}:{int(contig.name[3:]) * 1_000 + number}"
            for pos in sorted(set(rng.integers(start, start + 4_000, 12).tolist())):
                row = allele(
                    pos, [name], str(rng.choice(["P", "LB", "VUS"])), chrom=contig.name, stars=pos % 3, alt="G"
                )
                later[contig.name].append(row)
                if pos % 4:
                    earlier[contig.name].append({**row, "label": "VUS" if pos % 5 == 0 else row["label"]})
    rows = [
        corpus_row(n, placed_contig=name, placed_start=at, placed_end=at + 1_200)
        for n, (name, at) in enumerate((c.name, at) for c in CONTIGS for at in range(0, c.length - 1_200, 5_000))
    ]
    return HoldoutInputs(
        contigs=CONTIGS,
        genome=genome(),
        windows={contig.name: windows(contig) for contig in CONTIGS},
        gnomad=shards,
        clinvar={name: distinct(rows) for name, rows in later.items()},
        clinvar_earlier={name: distinct(rows) for name, rows in earlier.items()},
        corpus=[corpus(rows), corpus([corpus_row(999, "none", maybe_human=False)])],
        profile=SMALL,
    )


def distinct(rows: Iterable[Row]) -> pa.Table:
    return clinvar({tuple(row[name] for name in ALLELE_KEY): row for row in rows}.values())
