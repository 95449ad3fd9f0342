"""Alleles settled while they are read: the rows of the thorough way, or a refusal to go on, never other rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.sources.vcf import bgzf
from genolewm_assets.variants import settle as alleles
from genolewm_assets.variants.ledger import AlleleLedger
from genolewm_assets.variants.normal_form import AlleleNormaliser
from genolewm_assets.variants.order import OutOfOrderError
from genolewm_assets.variants.settle import settle_sorted_alleles
from genolewm_assets_tests.referees.plain_alleles import settle_plainly
from genolewm_assets_tests.worlds.sources import clinvar_records
from genolewm_assets_tests.worlds.sources.index_files import bgzip
from genolewm_assets_tests.worlds.sources.spelled_alleles import (
    LONG,
    REPETITIVE,
    Spelling,
    batches_of,
    best_score,
    rows_of,
    spellings,
)
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

TOLD: Counter[bool] = Counter()


# Enough that files in order and out of order both come about.
@settings(max_examples=max(100, settings.default.max_examples))
@given(
    drawn=st.lists(spellings(), min_size=8, max_size=40),
    sort=st.booleans(),
    cuts=st.lists(st.integers(1, 20), min_size=1, max_size=12),
    reach=st.sampled_from([0, 2, 20_000]),
)
def test_equal_to_the_plain_way_or_refused(*, drawn: list[Spelling], sort: bool, cuts: list[int], reach: int) -> None:
    if sort:
        drawn.sort(key=lambda spelling: spelling[0])
    normaliser, ledger = AlleleNormaliser(lambda _: REPETITIVE, max_allele_bp=20), AlleleLedger("a.vcf")
    expected, rejects = settle_plainly(rows_of(drawn), LONG, normaliser, best_score, file="a.vcf")
    batches = batches_of(rows_of(drawn), [cut for cut in cuts if cut <= len(drawn)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alleles, "_REACH_BP", reach)
        try:
            tables = list(settle_sorted_alleles(batches, LONG, normaliser, ledger, best_score))
        except OutOfOrderError:
            TOLD[False] += 1
            return
    TOLD[True] += 1
    assert [row for table in tables for row in table.to_pylist()] == expected
    assert ledger.rejects().to_pylist() == rejects


@pytest.mark.property
def test_both_came_about() -> None:
    assert min(TOLD[True], TOLD[False]) > 5, TOLD


MANY = [
    *(clinvar_records.record(chrom="17", pos=at, name=at, ref=chr(base), alt="ACGT"["CGTA".index(chr(base))])
      for at, base in enumerate(clinvar_records.SEQUENCE, 1)),
    # Both roll to the left, to before what was read long ago.
    clinvar_records.record(chrom="17", pos=9, name=90, ref="T", alt="TT"),
    clinvar_records.record(chrom="MT", pos=16, name=91, ref="AC", alt="A"),
]  # fmt: skip


@pytest.mark.parametrize("single_file", [True, False])
@pytest.mark.parametrize("order", ["sorted", "backwards", "contigs swapped", "a contig twice"])
def test_the_order_of_a_clinvar_file_never_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, single_file: bool
) -> None:
    for place in ("whole", "cut"):
        (tmp_path / place).mkdir()
    expected = clinvar_records.build(tmp_path / "whole", MANY, single_file=single_file)
    records = list(MANY)
    match order:
        case "backwards":
            records.reverse()
        case "contigs swapped":
            records = [MANY[-1], *MANY[:-1]]
        case "a contig twice":
            records = [*MANY[:5], MANY[-1], *MANY[5:-1]]
    monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", 1)
    monkeypatch.setattr(alleles, "_REACH_BP", 2)
    text = vcf_text(records, info=clinvar_records.INFO).encode()
    path = write_text(tmp_path / "in.vcf", bgzip(text, block_bytes=100))
    monkeypatch.setattr(clinvar_records, "write_text", lambda *_: path)
    rows, counts, rejects = clinvar_records.build(tmp_path / "cut", records, single_file=single_file)
    assert rows == expected[0]
    assert counts == expected[1]
    assert [{**reject, "line": 0} for reject in rejects] == [{**reject, "line": 0} for reject in expected[2]]
