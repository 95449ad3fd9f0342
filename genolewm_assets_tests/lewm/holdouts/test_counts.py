from __future__ import annotations

import numpy as np
import pyarrow as pa

from genolewm_assets.lewm.holdouts.counts import count_new_labels, count_rows, count_windows
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_INTERVALS
from genolewm_assets_tests.worlds.lewm.holdout_world import allele, clinvar


def intervals(*rows: tuple[str, str, str, int, int]) -> pa.Table:
    names = ("holdout", "role", "contig", "start", "end")
    records = [{**dict(zip(names, row, strict=True)), "unit": f"{row[3]}", "name": "", "reason": ""} for row in rows]
    return pa.Table.from_pylist(records, schema=HOLDOUT_INTERVALS.arrow)


FOOTPRINTS = {
    "chr17": (np.array([0, 100, 200]), np.array([150, 250, 350])),
    "chr21": (np.array([0, 100]), np.array([150, 250])),
}


def test_windows_by_holdout_and_role() -> None:
    table = intervals(
        ("holdout-chr", "test", "chr21", 0, 1_000),
        ("holdout-haplotypes", "test", "chr17", 240, 245),
        ("holdout-haplotypes", "validation", "chr17", 120, 130),
        ("holdout-haplotypes", "test", "chr5", 120, 130),
    )
    counts = count_windows(table, FOOTPRINTS)
    assert {name: n for name, n in counts.items() if n} == {
        "windows": 5,
        "windows.held_out": 5,
        "windows.holdout-chr": 2,
        "windows.holdout-chr.test": 2,
        "windows.holdout-haplotypes": 3,
        "windows.holdout-haplotypes.test": 2,
        "windows.holdout-haplotypes.validation": 2,
    }
    assert counts["windows.holdout-temporal.validation"] == 0
    assert "windows.holdout-temporal.validation" in counts


def test_nothing_held_out() -> None:
    counts = count_windows(HOLDOUT_INTERVALS.empty(), FOOTPRINTS)
    assert (counts["windows"], counts["windows.held_out"]) == (5, 0)
    rows = count_rows(HOLDOUT_INTERVALS.empty(), HOLDOUT_ALLELES.empty(), HOLDOUT_CORPUS.empty())
    assert set(rows.values()) == {0}
    assert "alleles.holdout-clinvar.bench" in rows


def test_rows_by_reason_and_a_corpus_window_once() -> None:
    key = {"source": "mrna_evo2", "window_index": 0}
    rows = [
        {**key, "record_id": "a", "holdout": "holdout-chr", "reason": "placed"},
        {**key, "record_id": "a", "holdout": "holdout-clinvar", "reason": "fail_closed"},
        {**key, "record_id": "b", "holdout": "holdout-chr", "reason": "placed"},
    ]
    held = intervals(("holdout-chr", "test", "chr21", 0, 9), ("holdout-chr", "test", "chr20", 0, 9))
    corpus = pa.Table.from_pylist(rows, schema=HOLDOUT_CORPUS.arrow)
    counts = count_rows(held, HOLDOUT_ALLELES.empty(), corpus)
    assert {name: n for name, n in counts.items() if n} == {
        # Both rows are of the unit "0".
        "units.holdout-chr.test": 1,
        "corpus_windows.holdout-chr.placed": 2,
        "corpus_windows.holdout-clinvar.fail_closed": 1,
        "corpus_windows.held_out": 2,
    }


def test_new_labels_whatever_their_stars() -> None:
    later = {
        "chr17": clinvar([allele(1, label="P", stars=0), allele(2, label="LB"), allele(3, label="VUS"), allele(4)]),
        "chr20": clinvar([allele(1, label="B", chrom="chr20")]),
    }
    earlier = {"chr17": clinvar([allele(1, label="VUS"), allele(4, label="B")])}
    counts = count_new_labels(later, earlier)
    assert {name: n for name, n in counts.items() if n} == {
        "new_labels.became_labelled.pathogenic": 1,
        "new_labels.new.benign": 2,
    }
