from __future__ import annotations

import hashlib

import numpy as np
import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Contig, Split
from genolewm_assets.lewm.package_build.rows import (
    Membership,
    control_rows,
    corpus_rows,
    reference_rows,
    sort_variants,
    variant_rows,
)
from genolewm_assets.lewm.packages.schema import (
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    CacheRef,
    VariantSource,
)
from genolewm_assets.lewm.windows.table import build_window_table
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
    table = corpus_rows(batch, np.array([7, 9]), member=Membership(Split.TRAIN), cache=CACHE)
    PACKAGE_WINDOWS.check(table.schema, where="rows")
    row = table.to_pylist()[1]
    assert (row["origin"], row["record_id"], row["window_index"]) == ("mrna_evo2", "mrna_evo2.1", 0)
    assert (row["contig"], row["start"], row["end"], row["strand"]) == ("chr20", 10, 610, "-")
    assert (row["frame"], row["cache_row"], row["placement_exact"]) == (100 % 6, 9, True)
    assert row["segmental_duplication"] is None


def test_controls_are_the_reference_one_to_five_bases_further_on():
    member = Membership(Split.TEST, "holdout-chr")
    windows = reference_table([3, 4], member=member)
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
    found = rows.to_pylist()
    held = [row for row in found if row["holdout"]]
    assert [row["pos"] for row in held] == sorted(row["pos"] for row in held)
    by_source = {row["source"]: row for row in held}
    assert (by_source["gnomad"]["af"], by_source["gnomad"]["label"], by_source["gnomad"]["gene_ids"]) == (
        0.25,
        None,
        [],
    )
    assert (by_source["clinvar"]["af"], by_source["clinvar"]["gene_ids"]) == (None, [7])
    assert by_source["clinvar"]["label"] in {"P", "LP", "B", "LB", "VUS", "OTHER"}
