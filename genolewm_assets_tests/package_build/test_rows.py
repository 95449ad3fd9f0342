"""What training windows share with evaluation windows: counted as the audit counts it, and removed with the buffer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.duplicates import DuplicateSearch, Evaluated
from genolewm_assets.audit.places import PlaceSearch
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import open_files
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.reading.window_bases import WINDOW_COLUMNS
from genolewm_assets.audit.report import LeakKind
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Contig, Split
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.package_build.checks import check_disjoint
from genolewm_assets.package_build.rows import (
    control_rows,
    reference_rows,
    sort_variants,
    variant_rows,
)
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.reader import Package
from genolewm_assets.packages.schema import PACKAGE_CONTROLS, PACKAGE_VARIANTS, PACKAGE_WINDOWS, CacheRef, VariantSource
from genolewm_assets.packages.window_rows import Membership, package_rows
from genolewm_assets.windows.reference.table import build_window_table
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.package_world import PROFILE, SEQUENCES, clinvar, corpus, gnomad, simulate

CACHE = CacheRef("chr17", "k" * 16, 36, "0" * 64, "1" * 64, "embeddings/k")
TRAIN = Membership(Split.TRAIN)


def reference_table(rows, member=TRAIN, cache=CACHE):
    sequence = SEQUENCES["chr17"]
    windows = build_window_table(Contig("chr17", len(sequence)), sequence, PROFILE, {})
    return reference_rows(
        windows, np.array(rows, np.int64), sequence, margin_bp=PROFILE.margin_bp, member=member, cache=cache
    )


def test_reference_rows_hold_the_bases_of_the_window_and_of_both_flanks():
    table = reference_table([5, 2])
    PACKAGE_WINDOWS.check(table.schema, where="rows")
    for row, index in zip(table.to_pylist(), (5, 2), strict=True):
        start = PROFILE.margin_bp + index * PROFILE.stride_bp
        end = start + PROFILE.window_bp
        genome = SEQUENCES["chr17"].decode()
        assert (row["start"], row["end"], row["frame"]) == (start, end, start % 6)
        assert row["sequence"] == genome[start:end]
        assert row["left_flank"] == genome[start - 96 : start]
        assert row["right_flank"] == genome[end : end + 96]
        assert row["window_hash"] == hashlib.sha256(row["sequence"].encode()).digest()
        assert (row["origin"], row["strand"], row["placement_exact"]) == ("reference", "+", True)
        assert (row["holdout"], row["role"]) == (None, "train")
        assert (row["cache_key"], row["cache_row"]) == (CACHE.key, index)


def test_rows_without_a_cache_and_no_rows_at_all():
    table = reference_table([0], cache=None)
    assert table["cache_key"].to_pylist() == table["cache_row"].to_pylist() == [None]
    empty = reference_table([])
    assert empty.num_rows == 0
    PACKAGE_WINDOWS.check(empty.schema, where="rows")


def test_a_window_that_leaves_its_contig_is_refused():
    sequence = SEQUENCES["chr17"]
    windows = build_window_table(Contig("chr17", len(sequence)), sequence, PROFILE, {})
    with pytest.raises(CorruptResourceError, match=r"windows/index\[chr17\]: a window with its flanks extends beyond"):
        reference_rows(
            windows,
            np.array([windows.num_rows - 1]),
            sequence[:-2_000],
            margin_bp=PROFILE.margin_bp,
            member=Membership(Split.TRAIN),
            cache=None,
        )


def test_corpus_rows_keep_place_and_record():
    placed = {
        "placed_contig": "chr20",
        "placed_start": 10,
        "placed_end": 610,
        "strand": "-",
        "placement_exact": True,
        "start": 100,
    }
    batch = corpus("mrna_evo2", [simulate(1, 600).decode(), simulate(2, 600).decode()], **placed)
    table = package_rows(batch, np.array([7, 9]), "mrna_evo2", member=Membership(Split.TRAIN), cache=CACHE)
    PACKAGE_WINDOWS.check(table.schema, where="rows")
    row = table.to_pylist()[1]
    assert (row["origin"], row["record_id"], row["window_index"]) == ("mrna_evo2", "mrna_evo2.1", 0)
    assert (row["contig"], row["start"], row["end"], row["strand"]) == ("chr20", 10, 610, "-")
    assert (row["frame"], row["cache_row"], row["placement_exact"]) == (100 % 6, 9, True)
    assert row["segmental_duplication"] is None


def test_controls_are_the_reference_one_to_five_bases_further_on():
    windows = reference_table([3, 4], member=Membership(Split.TEST, "holdout-chr"))
    table = control_rows(windows)
    PACKAGE_CONTROLS.check(table.schema, where="rows")
    assert table["shift_bp"].to_pylist() == [1, 2, 3, 4, 5] * 2
    for row in table.to_pylist():
        assert row["sequence"] == SEQUENCES["chr17"][row["start"] : row["end"]].decode()
        assert row["window_id"] == hashlib.sha256(row["sequence"].encode()).hexdigest()[:32]
        assert (row["holdout"], row["role"], row["cache_key"]) == ("holdout-chr", "test", CACHE.key)
    sources = dict(zip(windows["window_id"].to_pylist(), windows["start"].to_pylist(), strict=True))
    assert [row["start"] - sources[row["source_window_id"]] for row in table.to_pylist()] == [1, 2, 3, 4, 5] * 2
    assert control_rows(windows.slice(0, 0)).num_rows == 0


def test_variant_rows_of_both_sources_in_one_order():
    member = Membership(Split.VALIDATION, "holdout-chr")
    rows = sort_variants(
        [
            variant_rows(VariantSource.GNOMAD, gnomad("chr17"), member),
            variant_rows(VariantSource.CLINVAR, clinvar("chr17"), member),
            variant_rows(VariantSource.CLINVAR, clinvar("chr17").slice(0, 1), Membership(Split.TRAIN)),
        ]
    )
    PACKAGE_VARIANTS.check(rows.schema, where="rows")
    assert rows.num_rows == gnomad("chr17").num_rows + clinvar("chr17").num_rows + 1
    held = [row for row in rows.to_pylist() if row["holdout"]]
    assert [row["pos"] for row in held] == sorted(row["pos"] for row in held)
    by_source = {row["source"]: row for row in held}
    assert (by_source["gnomad"]["af"], by_source["gnomad"]["label"], by_source["gnomad"]["gene_ids"]) == (
        0.25,
        None,
        [],
    )
    assert (by_source["clinvar"]["af"], by_source["clinvar"]["gene_ids"]) == (None, [7])
    assert by_source["clinvar"]["label"] in {"P", "LP", "B", "LB", "VUS", "OTHER"}


#: The block of validation ends ten bases into the left flank of the window at 6,496.
_BLOCK_END = 6_410


@dataclass(frozen=True)
class Built:
    """A package, its checks, and what the audit measures."""

    folder: Path
    failed: set[str]
    measured: dict[str, int]
    found: dict[LeakKind, int]


def corpora() -> dict[str, pa.Table]:
    """Return corpus windows of which three have places, exact and not, on both strands, beside the block of test."""
    # The left flanks of two of them, which end or begin 50 bases from the block, have 46 of its bases.
    start, end = world.BLOCK_TEST
    places = [(start - 650, "-", False), (end + 100, "+", True), (end + 50, "+", False), (end + 3_000, "-", True)]
    tables = []
    for n, (at, strand, exact) in enumerate(places):
        bases = world.SEQUENCES["chr17"][at : at + 600]
        text = world.reverse(bases) if strand == "-" else bases.decode()
        place = {"placed_contig": "chr17", "placed_start": at, "placed_end": at + 600, "strand": strand}
        how = {"record_id": f"placed.{n}", "placement_how": "coordinates", "placement_exact": exact}
        tables.append(world.corpus("eukaryote_generator", [text], **place, **how))
    given = world.corpora()
    return given | {"eukaryote_generator": pa.concat_tables([given["eukaryote_generator"], *tables])}


@pytest.fixture(scope="module", params=["none", "windows"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp(request.param)
    intervals = world.intervals(
        ("holdout-chr", "validation", "chr20", 0, world.LENGTHS["chr20"]),
        ("holdout-chr", "test", "chr21", 0, world.LENGTHS["chr21"]),
        ("holdout-haplotypes", "validation", "chr17", world.BLOCK_VALIDATION[0], _BLOCK_END),
        ("holdout-haplotypes", "test", "chr17", *world.BLOCK_TEST),
    )
    policy = HoldoutPolicy(validation_windows=10, buffer=request.param)
    sources = world.make_sources(policy=policy, intervals=intervals, corpus=corpora())
    report = write_package(folder / "package", sources)
    fasta = write_fasta(folder / "genome.fa", {name: text.decode() for name, text in world.SEQUENCES.items()})
    files = open_files(folder / "package")
    with Reference(fasta) as reference:
        places = PlaceSearch(files, reference, HeldSpans.of_package(files))
        evaluated = Evaluated(files, HeldAlleles.of_package(files, reference), places.compare_bases)
        duplicates = DuplicateSearch(evaluated)
        for batch in files.windows("train", WINDOW_COLUMNS):
            places.search(batch)
            duplicates.search(batch)
    results = (*places.results(), duplicates.result(), evaluated.search())
    found = {result.kind: len(result.found.keys) for result in results}
    return Built(folder / "package", world.failed(report.checks), {**places.measured, **duplicates.measured}, found)


def written(folder: Path) -> Package:
    """Return a package that is written and not published."""
    return Package(folder, read_package_info(folder), {})


def counted(built: Built) -> dict[str, int]:
    return dict(written(built.folder).info.counts)


def test_the_card_states_what_the_audit_measures(built: Built) -> None:
    counts, card = counted(built), (built.folder / "README.md").read_text()
    names = ("left_flank.windows", "left_flank.most_bp", "evaluation.windows", "evaluation.most_bp")
    figures = [counts[f"shared.{name}"] for name in names]
    assert figures == list(built.measured.values())
    assert f"{figures[2]:,} training windows share bases with an evaluation window" in card
    assert f"The left flanks of {figures[0]:,} have held-out bases (at most {figures[1]:,})" in card
    assert "`holdouts.buffer: windows`" in card


def test_the_buffer_removes_what_is_shared(built: Built) -> None:
    info = written(built.folder).info
    removed = info.counts["windows.reference.beside_evaluation"]
    assert built.failed == set()
    # A placed window that is a block's neighbour is no window of evaluation, whatever the buffer.
    assert built.found[LeakKind.HELD_INTERVAL] == built.found[LeakKind.SHARED_EVALUATION] == 0
    if info.policy["buffer"] == "windows":
        assert set(built.measured.values()) == {0}
        assert removed > 0
        assert info.counts["windows.eukaryote_generator.beside_evaluation"] > 0
        lost = alleles_of(built, near=True) - alleles_of(built, near=False)
        assert info.counts["alleles.gnomad.train_beside_evaluation"] == len(lost) > 0
        assert f"{len(lost):,} gnomad alleles" in (built.folder / "README.md").read_text()
    else:
        assert min(built.measured.values()) > 0
        assert info.counts["shared.left_flank.most_bp"] == 46
        assert removed == info.counts["windows.eukaryote_generator.beside_evaluation"] == 0


def alleles_of(built: Built, *, near: bool) -> set[int]:
    """Return the positions of training's gnomAD alleles in training windows, those that the buffer removes included."""
    package = written(built.folder)
    held = [(row["contig"], row["start"], row["end"]) for row in package.holdouts("intervals").to_pylist()]
    windows = {(row["contig"], row["start"]) for row in package.windows(Split.TRAIN, ["contig", "start"]).to_pylist()}
    if near:
        reach = world.PROFILE.window_bp + world.PROFILE.margin_bp
        table = world.make_sources().windows["chr17"]
        windows = {
            ("chr17", start)
            for start in table["start"].to_pylist()
            if not any(contig == "chr17" and a < start + reach and b > start for contig, a, b in held)
        }
    rows = package.variants(Split.TRAIN, ["source", "pos"]).to_pylist()
    return {
        row["pos"]
        for row in rows
        if row["source"] == "gnomad"
        and any(c == "chr17" and s < row["pos"] <= s + world.PROFILE.window_bp for c, s in windows)
    }


def test_every_window_is_removed_that_shares_a_base_and_no_other(built: Built) -> None:
    """The places are compared base by base, with both flanks of both windows."""
    package, margin = written(built.folder), world.PROFILE.margin_bp
    near = {name: np.zeros(length + 2_000, dtype=bool) for name, length in world.LENGTHS.items()}
    intervals = package.holdouts("intervals").to_pylist()
    for row in intervals:
        near[row["contig"]][row["start"] : row["end"]] = True
    areas = {row["holdout"] for row in intervals}
    for split in (Split.VALIDATION, Split.TEST):
        for row in package.windows(split, ["holdout", "contig", "start", "end"]).to_pylist():
            if row["holdout"] in areas:
                near[row["contig"]][row["start"] - margin : row["end"] + margin] = True
    windows = package.windows(Split.TRAIN, ["origin", "contig", "start", "end"]).to_pylist()
    trained = {(row["contig"], row["start"]) for row in windows if row["origin"] == "reference"}
    shares = [
        bool(near[row["contig"]][max(0, row["start"] - margin) : row["end"] + margin].any())
        for row in windows
        if row["start"] is not None
    ]
    if package.info.policy["buffer"] == "none":
        assert any(shares)
        return
    assert not any(shares)
    table = world.make_sources().windows["chr17"].select(["start", "end"]).to_pylist()
    free = {
        ("chr17", row["start"]) for row in table if not near["chr17"][row["start"] - margin : row["end"] + margin].any()
    }
    assert trained == free


def test_a_window_that_the_buffer_forgot_is_found(built: Built) -> None:
    info = written(built.folder).info
    if info.policy["buffer"] == "none":
        return
    folder = built.folder
    path = folder / info.split_files(Split.TRAIN)[0].path
    table = pq.read_table(path)
    evaluated = written(folder).windows(Split.TEST, ["holdout", "contig", "start"]).to_pylist()
    place = next(row for row in evaluated if row["holdout"] == "holdout-haplotypes")
    # Behind its right flank, and behind the left flank of the training window, there is one base.
    starts = [place["start"] + 1_200 + 2 * world.PROFILE.margin_bp - 1, *table["start"].to_pylist()[1:]]
    ends = [starts[0] + 1_200, *table["end"].to_pylist()[1:]]
    before = path.read_bytes()
    for name, values in (("start", starts), ("end", ends)):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values, pa.int64()))
    try:
        pq.write_table(table, path)
        check = check_disjoint(written(folder))
    finally:
        path.write_bytes(before)
    assert check.figures["train_windows_beside_evaluation"] == 1
    assert check.rows[0]["fault"] == "train windows beside evaluation"
