from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets import lewm
from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.packages.contexts import most_central_windows
from genolewm_assets.packages.files import write_package_table
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.reader import Package, open_package
from genolewm_assets.packages.schema import PACKAGE_VARIANTS
from genolewm_assets.states.pooling import pool_blocks
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package, states_of
from genolewm_assets_tests.worlds.lewm.package_world import PROFILE, SEQUENCES, clinvar, other_base, table

torch_data = Late("torch.utils.data")

# More workers than cores is what is tested; torch warns of it.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

DECIDED = {"P", "LP", "B", "LB"}
EDGE, MARGIN = 64, PROFILE.margin_bp
#: SNVs every 37 bases, so that few alleles lie in one of three chosen windows, and deletions of 2 and 300 bases.
EVERY = 37


def dense(contig: str) -> list[dict[str, object]]:
    """Return ClinVar rows of a contig: SNVs, each fifth one with a neighbouring deletion."""
    bases, rows = SEQUENCES[contig].decode(), []
    template = clinvar(contig).to_pylist()[0]
    for i, start in enumerate(range(30, len(bases) - 400, EVERY)):
        label, stars = ["P", "LP", "B", "LB", "VUS", "OTHER"][i % 6], i % 5
        rows.append(template | {"pos": start + 1, "ref": bases[start], "alt": other_base(bases[start], 2)})
        rows[-1] |= {"label": label, "stars": stars, "clinvar_id": i, "gene_ids": [7, i]}
        length = 300 if i % 50 == 0 else 2
        at = start + 5
        # A base that differs from the last one deleted cannot be rolled to the left.
        if i % 5 == 0 and bases[at] != bases[at + length]:
            rows.append(rows[-1] | {"pos": at + 1, "ref": bases[at : at + length + 1], "alt": bases[at]})
            rows[-1] |= {"label": "P", "stars": 2, "clinvar_id": 100_000 + i}
    return rows


def expected(contig: str, n_windows: int) -> dict[tuple[int, str, str], tuple[object, ...]]:
    """Return what the bench of a whole contig must show, in plain arithmetic on its windows of 1,200 bp."""
    windows = [(MARGIN + 800 * i, MARGIN + 800 * i + 1_200) for i in range(n_windows)]
    found = {}
    for row in dense(contig):
        start, end = row["pos"] - 1, row["pos"] - 1 + len(row["ref"])
        inside = any(a + EDGE <= start and end <= b - EDGE for a, b in windows)
        if row["label"] in DECIDED and row["stars"] >= 1 and inside and len(row["ref"]) <= MARGIN:
            key = row["pos"], row["ref"], row["alt"]
            found[key] = row["label"], row["stars"], tuple(row["gene_ids"]), row["clinvar_id"]
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package with many ClinVar alleles and three validation windows for the running loss."""
    tables = {name: table(dense(name), clinvar(name).schema) for name in ("chr20", "chr21")}
    tables["chr17"] = clinvar("chr17")
    policy = HoldoutPolicy(validation_windows=3)
    return publish_package(tmp_path_factory.mktemp("bench"), clinvar=tables, policy=policy)


def facts(batches) -> list[tuple[tuple[int, str, str], tuple[object, ...]]]:
    found = []
    for one in (one for batch in batches for one in batch.tuples):
        (allele,) = one.alleles
        key = allele.pos, allele.ref, allele.alt
        found.append((key, (one.label, one.stars, one.gene_ids, one.clinvar_id)))
    return found


KINDS = {"validation": ("GenoLeWMValDataset", "chr20"), "test": ("GenoLeWMTestDataset", "chr21")}


def bench(package: Path, split: str = "validation", **options: object):
    return getattr(lewm, KINDS[split][0])(package, "holdout-chr", coverage="alleles", **options)


@pytest.mark.parametrize("split", list(KINDS))
@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_every_bench_allele_is_shown_once_for_any_number_of_workers(package, split, seed, workers):
    wanted = expected(KINDS[split][1], 14)
    dataset = bench(package, split, seed=seed, epoch=seed, windows_per_batch=2)
    batches = list(torch_data.DataLoader(dataset, batch_size=None, num_workers=workers))
    shown = facts(batches)
    assert len(shown) == len(wanted) > 100
    assert dict(shown) == wanted
    assert min(one.stars for batch in batches for one in batch.tuples) == 1
    assert [len(batch) for batch in batches[:-1]] == [16] * (len(dataset) - 1)
    assert shown == facts(bench(package, split))


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_the_bench_and_each_can_resume(package, world_size):
    alone = list(bench(package, windows_per_batch=1))
    parts = [list(bench(package, windows_per_batch=1, rank=r, world_size=world_size)) for r in range(world_size)]
    merged = sorted((batch for part in parts for batch in part), key=lambda batch: batch.position)
    assert facts(merged) == facts(alone)
    resumed = bench(package, windows_per_batch=1)
    resumed.resume(4, 5)
    assert facts(resumed) == facts(alone[5:])


def test_labels_under_the_stars_of_the_policy_are_in_no_evaluation(package):
    for kind, contig in KINDS.values():
        few = {(row["pos"], row["ref"], row["alt"]) for row in dense(contig) if row["stars"] < 1}
        options = {"min_left_context_bp": 100, "multi_edit_share": 0, "n_edits": 16}
        for seed in range(3):
            for batch in getattr(lewm, kind)(package, "holdout-chr", seed=seed, **options):
                offered = [one for one in batch.tuples if one.edit_source == "clinvar"]
                assert offered
                assert min(one.stars for one in offered) >= 1
                assert not {(a.pos, a.ref, a.alt) for one in offered for a in one.alleles} & few


def test_the_stream_of_windows_keeps_to_its_windows(package):
    rows = open_package(package).windows(Split.VALIDATION, ["holdout", "contig", "start", "frozen"]).to_pylist()
    rows = [row for row in rows if row["holdout"] == "holdout-chr"]
    frozen = {row["start"] for row in rows if row["frozen"]}
    assert len(frozen) == 3 < len(rows)
    loss = lewm.GenoLeWMValDataset(package, "holdout-chr", min_left_context_bp=100)
    assert {one.window_start for batch in loss for one in batch.tuples} == frozen
    assert {one.window_start for batch in bench(package) for one in batch.tuples} == {row["start"] for row in rows}


def test_an_allele_is_shown_in_the_window_in_which_it_is_most_central(package):
    windows = [(MARGIN + 800 * i, MARGIN + 800 * i + 1_200) for i in range(14)]
    for one in (one for batch in bench(package) for one in batch.tuples):
        start = one.alleles[0].pos - 1
        end = start + len(one.alleles[0].ref)
        fitting = [(a, b) for a, b in windows if a + EDGE <= start and end <= b - EDGE]
        assert abs(2 * one.window_start + 1_200 - start - end) == min(abs(a + b - start - end) for a, b in fitting)
        assert one.source_window == SEQUENCES["chr20"][one.window_start : one.window_start + 1_200].decode()


def test_states_are_those_of_each_tuples_window(package):
    for batch in bench(package, radius_tokens=20, windows_per_batch=1):
        for row, one in zip(batch.source_states, batch.tuples, strict=True):
            wanted = pool_blocks(states_of(one.source_window), one.block_start, one.block_stop, one.n_tokens)
            assert np.array_equal(row, wanted)


def test_length_policy_changes_windows_but_not_the_bench(package):
    default = bench(package)
    targets = {one.target_window for batch in default for one in batch.tuples}
    for policy in ("left_flank", "opposite"):
        other = list(bench(package, length_policy=policy))
        assert facts(other) == facts(default)
        assert {one.target_window for batch in other for one in batch.tuples} != targets


def test_alleles_that_no_window_shows_are_counted_by_reason(package):
    counts = read_package_info(package).counts
    for split, (_, contig) in KINDS.items():
        qualify = [row for row in dense(contig) if row["label"] in DECIDED and row["stars"] >= 1]
        head = f"scoring.holdout-chr.{split}."
        found = {name[len(head) :]: n for name, n in counts.items() if name.startswith(head)}
        assert set(found) == {"scored", "in_no_window", "leaves_inset", "beyond_flank"}
        assert sum(found.values()) == len(qualify)
        assert found["scored"] == len(expected(contig, 14))
        assert found["in_no_window"] >= len([row for row in qualify if row["pos"] - 1 < MARGIN]) > 0


@each_row(
    ("holdout", "options", "message"),
    [
        ("holdout-haplotypes", {}, "this holdout has no bench of ClinVar alleles"),
        ("holdout-clinvar", {}, "the holdout has none"),
        ("holdout-chr", {"mix": "exact"}, "mix: does not apply to coverage='alleles'"),
        ("holdout-chr", {"multi_edit_share": 0.5}, "multi_edit_share: does not apply"),
        ("holdout-chr", {"side": "right", "length_policy": "opposite"}, "pooled tokens miss the change"),
        ("holdout-chr", {"coverage": "all"}, r"coverage: unknown: expected one of \[.*alleles.*\], got 'all'"),
    ],
)
def test_what_has_no_bench_is_refused(package, holdout, options, message):
    with pytest.raises(ConfigurationError, match=message):
        lewm.GenoLeWMValDataset(package, holdout, **({"coverage": "alleles"} | options))


@pytest.mark.parametrize("policy", ["left_flank", "opposite"])
def test_a_radius_that_can_miss_the_change_is_refused_at_opening(package, policy):
    options = {"length_policy": policy, "with_states": False}
    for radius in (0, 63):
        with pytest.raises(ConfigurationError, match=rf"radius_tokens={radius}: .*expected at least 64 tokens"):
            bench(package, radius_tokens=radius, **options)
    for allowed in ({"radius_tokens": 64}, {"radius_tokens": 0, "kind": "global"}):
        assert len(facts(bench(package, **allowed, **options))) == len(expected("chr20", 14))
    right = {"radius_tokens": 0, "with_states": False}
    assert len(facts(bench(package, **right))) == len(expected("chr20", 14))


def test_a_bench_without_an_allele_is_refused(tmp_path):
    empty = publish_package(tmp_path, encode=None, policy=HoldoutPolicy(min_stars=4, validation_windows=3))
    options = {"coverage": "alleles", "with_states": False}
    with pytest.raises(ConfigurationError, match="the bench is empty"):
        lewm.GenoLeWMTestDataset(empty, "holdout-temporal", **options)


def test_an_allele_stated_as_scored_that_its_window_does_not_show_is_an_error(package, tmp_path):
    rows = pq.read_table(package / "variants/validation.parquet").to_pylist()
    row = next(row for row in rows if (row["holdout"], row["scoring"]) == ("holdout-chr", "scored"))
    row["ref"] = other_base(row["ref"][0])
    (tmp_path / "variants").mkdir()
    rows = [table(rows, PACKAGE_VARIANTS.arrow)]
    write_package_table(tmp_path / "variants/validation.parquet", rows, PACKAGE_VARIANTS)
    for name in ("data", "holdouts", "arrays"):
        (tmp_path / name).symlink_to(package.resolve() / name)
    changed = Package(tmp_path, read_package_info(package), {})
    options = {"coverage": "alleles", "with_states": False}
    with pytest.raises(CorruptResourceError, match=r"stated as scored.*got other_reference"):
        list(lewm.GenoLeWMValDataset(changed, "holdout-chr", **options))


@given(
    st.lists(st.integers(0, 40), max_size=12, unique=True),
    st.lists(st.tuples(st.integers(0, 12_000), st.integers(1, 90)), max_size=12),
    st.data(),
)
def test_the_choice_is_the_best_of_all_windows_and_stable_under_fewer(numbers, alleles, data):
    starts = np.array(sorted(number * 170 for number in numbers), dtype=np.int64)
    ends = starts + 4_000
    first = np.array([start for start, _ in alleles], dtype=np.int64)
    last = first + np.array([size for _, size in alleles], dtype=np.int64)
    chosen = most_central_windows(starts, ends, first, last)
    for row, (a, b) in zip(chosen.tolist(), zip(first.tolist(), last.tolist(), strict=True), strict=True):
        fitting = [
            (min(a - s, e - b) < 64, a - s < 1_536, abs(s + e - a - b), s)
            for s, e in zip(starts.tolist(), ends.tolist(), strict=True)
            if s <= a and b <= e
        ]
        assert (row == -1) == (not fitting)
        if fitting:
            assert starts[row] == min(fitting)[3]
    others = data.draw(st.sets(st.integers(0, 11)))
    rows = np.array([row for row in range(len(starts)) if row in others or row in chosen], dtype=np.int64)
    again = most_central_windows(starts[rows], ends[rows], first, last)
    assert np.append(rows, -1)[again].tolist() == chosen.tolist()
