from __future__ import annotations

from fnmatch import fnmatch

import pytest

from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.lewm.corpus.records import CorpusSource
from genolewm_assets.lewm.packages.mix import SOURCE_MIX
from genolewm_assets.lewm.packages.schema import STRATA, TABLES, window_pattern, window_shard
from genolewm_assets.lewm.windows.schema import WINDOWS


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_is_described_and_the_key_is_made_of_columns(table):
    assert all(table.describe(name) for name in table.columns)
    assert set(table.key) <= set(table.columns)
    assert len({table.name for table in TABLES}) == len(TABLES)


def test_the_mix_covers_every_source_of_the_corpus():
    assert set(SOURCE_MIX) == set(CorpusSource)
    assert sum(SOURCE_MIX.values()) == pytest.approx(1)


def test_every_role_of_a_holdout_is_a_split_and_strata_are_columns_of_the_window_index():
    assert {str(role) for role in EVALUATION} | {"train"} == {str(split) for split in Split}
    assert set(STRATA) <= set(WINDOWS.columns)


@pytest.mark.parametrize("split", Split)
def test_the_pattern_of_a_split_finds_its_files_and_no_others(split):
    names = {other: window_shard(other, 3, 12) for other in Split}
    assert names[split] == f"data/{split}-00003-of-00012.parquet"
    assert [other for other, name in names.items() if fnmatch(name, window_pattern(split))] == [split]
