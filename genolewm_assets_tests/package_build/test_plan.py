from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Split
from genolewm_assets.holdouts.index import HoldoutIndex
from genolewm_assets.package_build.plan import plan_package
from genolewm_assets.packages.schema import CacheRef
from genolewm_assets.windows.reference.schema import WINDOWS
from genolewm_assets_tests.worlds.lewm.package_world import (
    BLOCK_TEST,
    BLOCK_VALIDATION,
    PROFILE,
    SEQUENCES,
    UNBUFFERED,
    corpora,
    corpus,
    held_corpus,
    make_sources,
    reverse,
)


def plan(**changes: object):
    sources = make_sources(**changes)
    index = HoldoutIndex(sources.intervals, sources.alleles, sources.corpus_rows)
    return sources, plan_package(sources, index)


def test_every_window_goes_to_training_or_to_a_holdout():
    sources, found = plan(policy=UNBUFFERED)
    starts = sources.windows["chr17"]["start"].to_pylist()
    reach = PROFILE.window_bp + PROFILE.margin_bp
    free = [
        i
        for i, start in enumerate(starts)
        if not any(a < start + reach and b > start for a, b in (BLOCK_VALIDATION, BLOCK_TEST))
    ]
    assert found.train["chr17"].tolist() == free
    assert len(found.train["chr20"]) == len(found.train["chr21"]) == 0
    assert found.counts["windows.reference.in"] == sum(t.num_rows for t in sources.windows.values())
    assert found.counts["removed.holdout-chr.windows"] == sum(
        sources.windows[name].num_rows for name in ("chr20", "chr21")
    )
    assert found.counts["removed.holdout-haplotypes.windows"] == len(starts) - len(free)


def test_validation_is_narrowed_and_the_shortfall_is_counted():
    sources, found = plan()
    chosen = found.frozen["holdout-chr", Split.VALIDATION]
    assert list(chosen) == ["chr20"]
    assert len(chosen["chr20"]) == 10 < sources.windows["chr20"].num_rows
    shown = found.evaluation["holdout-chr", Split.VALIDATION]["chr20"]
    assert set(chosen["chr20"]) | set(found.bench.windows["holdout-chr", Split.VALIDATION]["chr20"]) == set(shown)
    assert found.counts["validation.holdout-chr.scoring_windows"] == len(shown) - 10 > 0
    assert len(found.evaluation["holdout-chr", Split.TEST]["chr21"]) == sources.windows["chr21"].num_rows
    assert len(found.controls["holdout-chr", Split.TEST]["chr21"]) == 10
    assert found.counts["validation.holdout-chr.shortfall"] == 0
    assert (
        found.counts["validation.holdout-haplotypes.shortfall"]
        == 10 - found.counts["validation.holdout-haplotypes.windows"]
    )
    assert found.counts["validation.holdout-clinvar.shortfall"] == 10  # it holds nothing out here


@pytest.mark.parametrize("turn", [lambda bases: bases.decode(), reverse], ids=["copy", "reverse complement"])
def test_a_corpus_copy_of_a_held_out_window_is_dropped_on_either_strand(turn):
    start = PROFILE.margin_bp + 2 * PROFILE.stride_bp
    copy = turn(SEQUENCES["chr21"][start : start + PROFILE.window_bp])
    shifted = turn(SEQUENCES["chr17"][100 : 100 + PROFILE.window_bp])
    _, found = plan(corpus=corpora() | {"prokaryote_evo2": corpus("prokaryote_evo2", [shifted, copy])})
    assert found.corpus["prokaryote_evo2"].tolist() == [True, False]
    assert found.counts["windows.prokaryote_evo2.equal_to_held_out"] == 1


def test_a_reference_copy_of_a_held_out_window_is_dropped():
    sources = make_sources()
    windows = sources.windows["chr17"]
    digests = windows["window_hash"].to_pylist()
    digests[0] = sources.windows["chr21"]["window_hash"][3].as_py()
    column = windows.schema.get_field_index("window_hash")
    changed = windows.set_column(column, WINDOWS.arrow.field("window_hash"), pa.array(digests, pa.binary(32)))
    _, found = plan(windows={**sources.windows, "chr17": changed})
    assert 0 not in found.train["chr17"]
    assert found.counts["windows.reference.equal_to_held_out"] == 1


def test_listed_corpus_windows_are_left_out():
    _, found = plan(corpus_rows=held_corpus(("mrna_evo2", "mrna_evo2.2"), ("prokaryote_evo2", "prokaryote_evo2.0")))
    left_out = {name: np.flatnonzero(~kept).tolist() for name, kept in found.corpus.items()}
    assert left_out == {name: [] for name in found.corpus} | {"mrna_evo2": [2], "prokaryote_evo2": [0]}


def test_a_corpus_may_stay_in_its_file(tmp_path):
    tables = corpora()
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2)
    files = {name: tmp_path / f"{name}.parquet" for name in tables}
    in_memory, from_files = plan()[1], plan(corpus=files)[1]
    assert {k: v.tolist() for k, v in in_memory.corpus.items()} == {k: v.tolist() for k, v in from_files.corpus.items()}
    assert in_memory.counts == from_files.counts


@pytest.mark.parametrize("named", [["chr1"], ["chr17", "chr17"]])
def test_a_cache_of_nothing_or_two_of_one_are_refused(named):
    caches = tuple(CacheRef(name, "k", 1, "0" * 64, "0" * 64, "embeddings/k") for name in named)
    with pytest.raises(ConfigurationError, match="a cache belongs to no contig or corpus source of the package"):
        make_sources(caches=caches)
