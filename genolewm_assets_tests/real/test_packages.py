"""Packages of the real data: nothing of what is held out is in training, whichever way one looks for it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import Split
from genolewm_assets.packages.reader import open_package, verify_package
from genolewm_assets_tests.real.conftest import PACKAGED, RealRoot

#: chr17:43,044,295-43,125,364 (1-based) on GRCh38; every ClinVar record of the data is this gene's (NCBI GeneID 672).
BRCA1 = (43_044_294, 43_125_364)
MARGIN_BP = 256


def train_windows(package: Path, *columns: str) -> pa.Table:
    return open_package(package).windows(Split.TRAIN, list(columns))


@pytest.mark.parametrize("release", PACKAGED)
def test_no_chr21_window_allele_or_corpus_row_trains(real: RealRoot, release: str) -> None:
    for package in (real.without_brca1[release], real.with_brca1[release]):
        windows = train_windows(package, "origin", "contig", "record_id")
        assert "chr21" not in set(windows["contig"].to_pylist())
        assert "chr21" not in set(open_package(package).variants(Split.TRAIN)["chrom"].to_pylist())
        corpus = windows.filter(pc.not_equal(windows["origin"], "reference"))
        assert "mrna_evo2" not in set(corpus["origin"].to_pylist()), "all 584 transcripts are chr21's"
        trained = set(zip(corpus["origin"].to_pylist(), corpus["record_id"].to_pylist(), strict=True))
        assert not trained & chr21_records(real.path)


def chr21_records(root: Path) -> set[tuple[str, str]]:
    """Return the records that the corpus itself puts on chr21, read from its own columns and notes."""
    found = set()
    for source in ("eukaryote_generator", "mrna_evo2", "mrna_splice_evo2"):
        table = pq.read_table(root / f"corpus/{source}/windows.parquet", columns=["record_id", "note", "placed_contig"])
        for row in table.to_pylist():
            if "chr21" in (row["note"] or "") or row["placed_contig"] == "chr21":
                found.add((source, row["record_id"]))
    return found


def test_the_corpus_has_chr21_records_to_leave_out(real: RealRoot) -> None:
    by_source = Counter(source for source, _ in chr21_records(real.path))
    assert by_source["eukaryote_generator"] <= 4
    assert by_source["mrna_splice_evo2"] <= 4
    assert by_source["mrna_evo2"] > 100
    skipped = pq.read_metadata(real.path / "corpus/mrna_evo2/skipped.parquet").num_rows
    used = len(set(pq.read_table(real.path / "corpus/mrna_evo2/windows.parquet")["record_id"].to_pylist()))
    assert skipped + used == 584


@pytest.mark.parametrize("release", PACKAGED)
def test_held_out_gene_leaves_no_allele_and_no_window(real: RealRoot, release: str) -> None:
    package = real.without_brca1[release]
    variants = open_package(package).variants(Split.TRAIN)
    inside = [
        (source, pos)
        for source, chrom, pos, ref in zip(
            *(variants[name].to_pylist() for name in ("source", "chrom", "pos", "ref")), strict=True
        )
        if chrom == "chr17" and pos - 1 < BRCA1[1] and pos - 1 + len(ref) > BRCA1[0]
    ]
    assert inside == []
    assert not [ids for ids in variants["gene_ids"].to_pylist() if 672 in ids]
    windows = train_windows(package, "contig", "start", "end")
    meeting = [
        start
        for contig, start, end in zip(*(windows[name].to_pylist() for name in ("contig", "start", "end")), strict=True)
        if contig == "chr17" and start < BRCA1[1] and end + MARGIN_BP > BRCA1[0]
    ]
    assert meeting == []


@pytest.mark.parametrize("release", PACKAGED)
def test_without_a_held_out_gene_training_has_its_anchors(real: RealRoot, release: str) -> None:
    labels = Counter(open_package(real.with_brca1[release]).variants(Split.TRAIN)["label"].to_pylist())
    assert labels["P"] > 500
    assert labels["LP"] > 20


def test_temporal_counts(real: RealRoot) -> None:
    counts = json.loads((real.path / "holdouts/2026-02-26/manifest.json").read_text())["counts"]
    newly = {name: counts[f"new_labels.{name}"] for name in ("became_labelled.pathogenic", "became_labelled.benign")}
    assert newly == {"became_labelled.pathogenic": 159, "became_labelled.benign": 451}
    # 950 in the text of the release; 13 of them have an IUPAC or missing ALT and are rejects.
    assert counts["new_labels.new.pathogenic"] == 937
    assert counts["new_labels.new.benign"] == 1_109


def test_one_flipped_byte_in_any_file_is_found_by_name(real: RealRoot) -> None:
    package = real.with_brca1["2026-02-26"].resolve()
    assert verify_package(package) == []
    files = [path for path in sorted(package.rglob("*")) if path.is_file() and path.name != "provenance.json"]
    caches = [path for path in sorted((real.path / "embeddings").glob("[!.]*/*")) if path.is_file()]
    for path in [*files, *(path for path in caches if path.name != "provenance.json")]:
        intact = path.read_bytes()
        flipped = bytearray(intact)
        flipped[len(flipped) // 2] ^= 1
        path.write_bytes(flipped)
        try:
            assert path.name in " ".join(map(str, verify_package(package)))
        finally:
            path.write_bytes(intact)


def test_the_package_in_use_is_the_newest(real: RealRoot) -> None:
    current = json.loads((real.path / "packages/current.json").read_bytes())
    assert current["release"] == "2026-02-26"
    assert real.path / current["path"] == real.with_brca1["2026-02-26"]
