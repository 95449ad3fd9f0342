from __future__ import annotations

import pyarrow as pa

from genolewm_assets.variants.spans import allele_keys, allele_spans, as_bools
from genolewm_assets_tests.worlds.lewm.holdout_world import gnomad


def test_spans_and_keys_of_alleles() -> None:
    table = gnomad([(1, "ACG", "A"), (2, "C", "CTT")])
    start, end = allele_spans(table)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [(0, 3), (1, 2)]
    assert allele_keys(table).to_pylist() == ["chr17\t1\tACG\tA", "chr17\t2\tC\tCTT"]
    assert allele_keys(pa.concat_tables([table, table])).to_pylist() == allele_keys(table).to_pylist() * 2


def test_null_is_false() -> None:
    assert as_bools(pa.array([True, None, False])).tolist() == [True, False, False]
