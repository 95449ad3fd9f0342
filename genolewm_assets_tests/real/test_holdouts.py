"""Holdouts of the real data: chr17, chr20 and chr21 of the shared slices; all ClinVar records are BRCA1's."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest

from genolewm_assets.genome import GRCH38, PROFILES, Contig, ContigSet, acgt_runs
from genolewm_assets.holdouts.build import HoldoutInputs, build_holdouts
from genolewm_assets.holdouts.checks import check_holdouts
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.windows.reference.table import build_window_table
from genolewm_assets_tests.referees.clinvar_side import plain_class
from genolewm_assets_tests.referees.holdout_lookup import footprints, index_of
from genolewm_assets_tests.worlds.lewm.holdout_world import corpus, corpus_row

RELEASES = {"2020-11-07": "clinvar_20201107.vcf.gz", "2026-02-26": "clinvar_20260226.vcf.gz"}
REAL = HoldoutPolicy(contigs_validation=(), contigs_test=("chr21",), clinvar_genes=())


@pytest.fixture(scope="session")
def real(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> HoldoutInputs:
    folder = tmp_path_factory.mktemp("shards")
    contigs = ContigSet([GRCH38[name] for name in ("chr17", "chr20", "chr21")])

    @lru_cache(maxsize=3)
    def bases(name: str) -> bytes:
        with pysam.FastaFile(str(shared_data / "reference" / "GRCh38.slices.fa.gz")) as fasta:
            return str(fasta.fetch(name)).upper().encode()

    def reference(contig: Contig) -> bytes:
        return bases(contig.name)

    releases = {}
    for release, file in RELEASES.items():
        vcf = shared_data / "clinvar" / "vcf_GRCh38" / file
        build_clinvar_shard(vcf, release=release, contigs=contigs, reference=reference, out_dir=folder / release)
        releases[release] = {c.name: pq.read_table(folder / release / f"{c.name}.parquet") for c in contigs}
    earlier, later = releases.values()
    return HoldoutInputs(
        contigs=contigs,
        genome=genome_table(contigs, bases),
        windows={c.name: build_window_table(c, bases(c.name), PROFILES["default"], {}) for c in contigs},
        gnomad=gnomad_tables(shared_data, contigs, reference, folder),
        clinvar=later,
        clinvar_earlier=earlier,
    )


def gnomad_tables(
    shared_data: Path, contigs: ContigSet, reference: Callable[[Contig], bytes], folder: Path
) -> dict[str, pa.Table]:
    tables = {}
    for contig, pattern in (("chr17", "4.1/vcf/joint/*.vcf.bgz"), ("chr21", "2.0.1-liftover/vcf/exomes/*.vcf.bgz")):
        (vcf,) = (shared_data / "gnomad" / "release").glob(pattern)
        build_gnomad_shard(
            vcf,
            contig=contigs[contig],
            contigs=contigs,
            reference=reference,
            params=GnomadParams(accept_unfiltered=contig == "chr21"),
            out_dir=folder / contig,
        )
        tables[contig] = pq.read_table(folder / contig / "variants.parquet")
    return tables


def genome_table(contigs: ContigSet, bases: Callable[[str], bytes]) -> pa.Table:
    runs = {contig.name: acgt_runs(bases(contig.name)) for contig in contigs}
    return pa.table(
        {
            "contig": list(runs),
            "length": [contigs[name].length for name in runs],
            "acgt_bases": [int(spans.merge().size.sum()) for spans in runs.values()],
        }
    )


@pytest.fixture(scope="session")
def raw_classes(shared_data: Path) -> list[dict[tuple[str, str, str], str]]:
    """Return the class of every record of both releases, rejects included, from the text of the files."""
    releases = []
    for file in RELEASES.values():
        classes = {}
        with gzip.open(shared_data / "clinvar" / "vcf_GRCh38" / file, "rt") as lines:
            for line in lines:
                if not line.startswith("#"):
                    _, pos, _, ref, alt, _, _, info = line.rstrip("\n").split("\t")
                    found = [entry[7:] for entry in info.split(";") if entry.startswith("CLNSIG=")]
                    classes[pos, ref, alt] = plain_class(found[0] if found else "")
        releases.append(classes)
    return releases


def test_new_labels_in_real_releases(real: HoldoutInputs, raw_classes: list[dict[tuple[str, str, str], str]]) -> None:
    before, after = raw_classes
    newly = {key: side for key, side in after.items() if side and not before.get(key)}
    raw = Counter((side, key in before) for key, side in newly.items())
    assert raw == {("P/LP", True): 159, ("B/LB", True): 451, ("P/LP", False): 950, ("B/LB", False): 1_109}
    # What is not a sequence has no allele to hold out.
    rejected = Counter((side, key in before) for key, side in newly.items() if set(key[2]) - set("ACGT"))
    assert rejected == {("P/LP", False): 13}
    counts = build_holdouts(real, replace(REAL, temporal=("2020-11-07", "2026-02-26"))).counts
    assert {name: n for name, n in counts.items() if name.startswith("new_labels.")} == {
        "new_labels.became_labelled.pathogenic": 159,
        "new_labels.became_labelled.benign": 451,
        "new_labels.new.pathogenic": 950 - 13,
        "new_labels.new.benign": 1_109,
    }


def test_temporal_holdout_of_the_real_releases_needs_a_star(real: HoldoutInputs) -> None:
    policy = replace(REAL, temporal=("2020-11-07", "2026-02-26"))
    held = build_holdouts(real, policy)
    stars = [row["stars"] for row in held.alleles.to_pylist() if row["holdout"] == "holdout-temporal"]
    assert min(stars) == 1
    without = build_holdouts(real, replace(policy, min_stars=0)).alleles
    assert len(stars) < without["holdout"].to_pylist().count("holdout-temporal") == 159 + 451 + 937 + 1_109
    assert [check for check in check_holdouts(held, real, policy) if not check.passed] == []


def test_brca1_leaves_training_whole(real: HoldoutInputs) -> None:
    policy = replace(REAL, clinvar_genes=("BRCA1",))
    held = build_holdouts(real, policy)
    assert [check for check in check_holdouts(held, real, policy) if not check.passed] == []
    index = index_of(held, real)
    # Every ClinVar allele, whatever its class, and every common allele of the gene.
    assert real.clinvar_earlier is not None
    assert index.allele_is_held_out(real.clinvar["chr17"]).all()
    assert index.allele_is_held_out(real.clinvar_earlier["chr17"]).all()
    assert real.gnomad["chr17"].num_rows == 21
    assert index.allele_is_held_out(real.gnomad["chr17"]).all()
    table = real.clinvar["chr17"]
    positions = table["pos"].to_pylist()
    first = min(positions) - 1
    last = max(pos - 1 + len(ref) for pos, ref in zip(positions, table["ref"].to_pylist(), strict=True))
    spans = footprints(real, "chr17")
    kept = ~index.window_is_held_out("chr17", spans)
    assert all(
        end <= first - 12_288 or start >= last + 12_288
        for start, end in zip(spans.start[kept], spans.end[kept], strict=True)
    )
    assert held.counts["windows.holdout-clinvar"] == 14
    bench = sum(
        row["label"] in {"P", "LP", "B", "LB"} and row["stars"] >= 1 for row in real.clinvar["chr17"].to_pylist()
    )
    assert held.counts["alleles.holdout-clinvar.bench"] == bench == 7_389
    assert sum(len(real.windows[contig]) for contig in real.windows) == held.counts["windows"] == 1_903


def test_chr21_leaves_training_whole(real: HoldoutInputs) -> None:
    held = build_holdouts(real, REAL)
    index = index_of(held, real)
    assert index.window_is_held_out("21", footprints(real, "chr21")).all()
    assert not index.window_is_held_out("20", footprints(real, "chr20")).any()
    assert held.counts["windows.holdout-chr.test"] == 549
    assert index.allele_is_held_out(real.gnomad["chr21"]).all()
    assert 0.1 < held.counts["assembled_per_million.chr21"] / 1e6 < 0.15


def test_real_corpus_fails_closed(real: HoldoutInputs, shared_data: Path) -> None:
    rows, expected = [], set()
    for source in ("eukaryote_generator", "mrna_evo2", "mrna_splice_evo2", "prokaryote_evo2"):
        table = pq.read_table(shared_data / "corpus" / source / "part-00000.parquet")
        for number, row in enumerate(table.to_pylist()):
            placed = corpus_place(source, row)
            rows.append(corpus_row(number, source=source, record_id=f"{number}", **placed))
            if placed["placed_contig"] == "chr21" or (placed["placement_how"] == "none" and placed["maybe_human"]):
                expected.add((source, f"{number}"))
    held = build_holdouts(replace(real, corpus=[corpus(rows)]), REAL)
    out = set(zip(held.corpus["source"].to_pylist(), held.corpus["record_id"].to_pylist(), strict=True))
    blocks = {(row["source"], row["record_id"]) for row in held.corpus.to_pylist() if row["holdout"] != "holdout-chr"}
    assert out - blocks <= expected <= out
    by_source = Counter(source for source, _ in expected)
    assert by_source["mrna_evo2"] == 584
    assert by_source["mrna_splice_evo2"] == 4
    # Four genes of chr21, and the two human ones without coordinates.
    assert by_source["eukaryote_generator"] == 4 + 2
    assert by_source["prokaryote_evo2"] == 0
    transcripts = [row for row in held.corpus.to_pylist() if row["source"] == "mrna_evo2"]
    assert {row["reason"] for row in transcripts} == {"fail_closed"}
    assert sum(row["holdout"] == "holdout-chr" for row in transcripts) == 584


def corpus_place(source: str, row: dict[str, object]) -> dict[str, object]:
    """Return what a record says of its place, without an aligner."""
    note = str(dict(row.get("metadata") or {}).get("note", ""))  # type: ignore[call-overload]
    if source == "prokaryote_evo2":
        return {"placement_how": "none", "placed_contig": None, "maybe_human": False}
    if source == "mrna_evo2":
        return {"placement_how": "contig_name", "placed_contig": note.rpartition(" ")[2]}
    if source == "mrna_splice_evo2":
        contig, _, rest = note.partition(":")
        start, _, end = rest.partition("(")[0].partition("-")
        return {
            "placement_how": "coordinates",
            "placed_contig": contig,
            "placed_start": int(start) - 1,
            "placed_end": int(end),
        }
    if row["start"] is None or row["chrom"] is None:
        human = row["taxonomy"] is None or "homo sapiens" in str(row["taxonomy"]).lower()
        return {"placement_how": "none", "placed_contig": None, "maybe_human": human}
    place = {"placed_contig": row["chrom"], "placed_start": row["start"], "placed_end": row["end"]}
    return {"placement_how": "coordinates", "maybe_human": "homo sapiens" in str(row["taxonomy"]).lower(), **place}
