from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Variant
from genolewm_assets.sample.alleles.sites import Sites, simulate_sites
from genolewm_assets.sample.alleles.spelling import Plants, choose_heads, merge, pad, shift_right, spell_records
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets_tests.referees.census import normal_form, reject_reason

TEXT = "GATTACAGGGGGGCATCATCATCATTTTAGACCA"


def _apply(allele: Variant, text: str) -> str:
    start = allele.pos - 1
    assert text[start : start + len(allele.ref)] == allele.ref
    return text[:start] + allele.alt + text[start + len(allele.ref) :]


@given(st.text("AC", min_size=12, max_size=30), st.data())
def test_shifted_indel_is_the_same_haplotype_and_cannot_move_further(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, 5))
    size = data.draw(st.integers(1, 4))
    body = text[start + 1 : start + 1 + size]
    deletion = data.draw(st.booleans())
    ref, alt = (text[start] + body, text[start]) if deletion else (text[start], text[start] + body)
    allele = Variant("c", start + 1, ref, alt)
    shifted = shift_right(allele, text)
    assert _apply(shifted, text) == _apply(allele, text)
    assert shift_right(shifted, text) == shifted
    assert shifted.pos >= allele.pos


@pytest.mark.parametrize(("left", "right"), [(0, 0), (1, 0), (0, 1), (10, 10)])
def test_padding_changes_nothing_but_the_spelling(left: int, right: int) -> None:
    allele = Variant("c", 14, "C", "T")
    padded = pad(allele, TEXT, left, right)
    assert (padded.pos, len(padded.ref)) == (14 - left, 1 + left + right)
    assert _apply(padded, TEXT) == _apply(allele, TEXT)
    assert normal_form(padded.pos, padded.ref, padded.alt, TEXT) == (14, "C", "T")


def test_merging_keeps_each_haplotype() -> None:
    alleles = (Variant("c", 8, "G", "GG"), Variant("c", 10, "GGG", "G"), Variant("c", 14, "C", "A"))
    record = merge(alleles, (5, 6, 9), TEXT)
    assert (record.pos, record.ref, record.rows) == (8, TEXT[7:14], (5, 6, 9))
    for allele, alt in zip(alleles, record.alts, strict=True):
        assert _apply(Variant("c", record.pos, record.ref, alt), TEXT) == _apply(allele, TEXT)


@pytest.fixture(scope="module")
def planted(genome: Mapping[str, SimulatedContig]) -> Sites:
    return simulate_sites(genome["chr17"], clusters=300, rare=3_000, key=3)


def test_planted_records_are_as_many_as_asked_for(planted: Sites, genome: Mapping[str, SimulatedContig]) -> None:
    text = genome["chr17"].sequence.decode()
    plants = Plants(merged=7, right_shifted=5, padded=6, duplicates=2, mismatches=3, spanning=1)
    head = choose_heads(planted, plants, key=3)
    usable = planted.background < planted.n_common
    records = spell_records(planted, head, np.asarray(usable), text, plants, key=3)
    assert [r.pos for r in records] == sorted(r.pos for r in records)
    assert sum(len(r.alts) > 1 for r in records) == 7
    reasons = [reject_reason(r.pos, r.ref, alt, text) for r in records for alt in r.alts]
    assert (reasons.count("ref_mismatch"), reasons.count("spanning_deletion")) == (3, 1)
    good = [(r, alt) for r in records for alt in r.alts if reject_reason(r.pos, r.ref, alt, text) is None]
    keys = [normal_form(r.pos, r.ref, alt, text) for r, alt in good]
    assert len(keys) - len(set(keys)) == 2
    assert set(keys) == {(a.pos, a.ref, a.alt) for a in planted.alleles}
    irregular = sum(key != (r.pos, r.ref, alt) and len(r.alts) == 1 for key, (r, alt) in zip(keys, good, strict=True))
    assert irregular == 5 + 6 + 2


def test_partners_are_neighbours_and_in_one_record_only(planted: Sites) -> None:
    head = choose_heads(planted, Plants(merged=20), key=4)
    second = np.flatnonzero(head != np.arange(head.size))
    assert np.array_equal(head[second], second - 1)
    assert np.bincount(head).max() == 2
    assert (planted.pos[second] - planted.pos[second - 1] <= 8).all()
