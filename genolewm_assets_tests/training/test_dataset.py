from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from genolewm_assets import lewm
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.genome import Split
from genolewm_assets.packages.pointer import pin_release
from genolewm_assets.packages.reader import open_package
from genolewm_assets.packages.references import PackageRef, write_latest
from genolewm_assets.states.pooling import pool_blocks
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.store.artefacts.root import enclosing_root
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package, states_of
from genolewm_assets_tests.worlds.lewm.frozen_world import assert_same
from genolewm_assets_tests.worlds.lewm.package_world import SEQUENCES, held_alleles
from genolewm_assets_tests.worlds.lewm.recorded_audits import record_audit
from genolewm_assets_tests.worlds.store.plans import flip

torch = Late("torch")
torch_data = Late("torch.utils.data")
tensors_of = Late("genolewm_assets.training.tensors")

# More workers than cores is what is tested; torch warns of it.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package of 55 training windows, with its caches."""
    return publish_package(tmp_path_factory.mktemp("dataset"))


def load(dataset, workers: int, **options) -> list[object]:
    return list(torch_data.DataLoader(dataset, batch_size=None, num_workers=workers, **options))


@each_row("kind", ["GenoLeWMDataset", "GenoLeWMValDataset", "GenoLeWMTestDataset"])
def test_the_package_in_use_of_a_root_is_read(kind, package):
    root = enclosing_root(package)
    (link,) = (path for path in (root / "packages").rglob("*") if path.is_symlink())
    write_latest(root, PackageRef("2025-01-05", str(link.relative_to(root)), read_manifest(package).sha256))
    record_audit(root, "2025-01-05", read_manifest(package).sha256)
    pin_release(root, None)
    holdout = () if kind == "GenoLeWMDataset" else ("holdout-chr",)
    options = {"seed": 3, "min_left_context_bp": 100, "windows_per_batch": 2}
    opened = getattr(lewm, kind)
    current = opened.current(root, *holdout, **options)
    assert current.package == open_package(package)
    assert_same([next(iter(current))], [next(iter(opened(package, *holdout, **options)))])


@pytest.mark.parametrize("kind", ["GenoLeWMValDataset", "GenoLeWMTestDataset"])
def test_the_haplotype_holdout_emits_haplotypes_of_real_alleles_only(kind, package):
    rows = open_package(package).holdouts("haplotypes").to_pylist()
    role = "validation" if kind == "GenoLeWMValDataset" else "test"
    carried = [
        ({(one["pos"], one["ref"], one["alt"]) for one in row["alleles"]}, row["phased"])
        for row in rows
        if row["role"] == role
    ]
    seen, made = Counter(), 0
    for seed in range(6):
        dataset = getattr(lewm, kind)(package, "holdout-haplotypes", seed=seed, min_left_context_bp=0, mix="rotating")
        for batch in dataset:
            assert batch.counts["multi_edit"] == len(batch) == len(batch.source_states)
            assert batch.counts.get("unfilled", 0) == 8 * len({one.window_id for one in batch.tuples}) - len(batch)
            made += len(batch)
            for one in batch.tuples:
                keys = {(allele.pos, allele.ref, allele.alt) for allele in one.alleles}
                assert len(keys) == len(one.rel_edits) in {2, 3}
                assert (one.edit_source, one.label, one.pooled_edits) == ("gnomad", None, 1.0)
                (phased,) = {phased for alleles, phased in carried if keys <= alleles}
                assert one.phase == ("phased" if phased else "unphased")
                seen[len(keys)] += 1
    assert made > 20
    assert set(seen) == {2, 3}


def test_any_number_of_workers_gives_the_same_batches_in_the_same_order(package):
    dataset = lewm.GenoLeWMDataset(package, seed=3, windows_per_batch=4, windows_per_epoch=55)
    alone = list(dataset)
    assert [batch.position for batch in alone] == list(range(14)) == list(range(len(dataset)))
    assert sum(map(len, alone)) == 55 * 8
    for workers in (0, 1, 3):
        assert_same(load(dataset, workers), alone)


def test_an_epoch_of_all_windows_visits_each_once_in_file_order(package):
    dataset = lewm.GenoLeWMDataset(package, source_mix={"reference": 1.0}, windows_per_epoch="all", windows_per_batch=7)
    ids = [one.decode() for batch in dataset for one in batch.windows.window_ids]
    assert ids == dataset.package.windows(Split.TRAIN, ["window_id"])["window_id"].to_pylist()
    assert len(dataset) == -(-len(ids) // 7)
    with pytest.raises(ConfigurationError, match="a number of windows, or 'all', got 'every'"):
        lewm.GenoLeWMDataset(package, windows_per_epoch="every")


def test_spawned_workers_give_the_same_batches(package):
    dataset = lewm.GenoLeWMDataset(package, seed=3, windows_per_batch=4)
    assert_same(load(dataset, 2, multiprocessing_context="spawn"), list(dataset))


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("position", [0, 1, 5, 13, 14])
def test_a_run_resumes_at_any_batch(package, position, workers):
    options = {"epoch": 2, "windows_per_batch": 4, "windows_per_epoch": 55}
    whole = list(lewm.GenoLeWMDataset(package, **options))
    rest = lewm.GenoLeWMDataset(package, position=position, **options)
    assert len(rest) == 14 - position
    assert_same(load(rest, workers), whole[position:])


def test_epochs_differ_and_begin_at_their_first_batch(package):
    dataset = lewm.GenoLeWMDataset(package, windows_per_batch=8, position=3, windows_per_epoch=55)
    first = list(dataset)
    dataset.set_epoch(1)
    second = list(dataset)
    assert [batch.position for batch in second] == list(range(7))
    assert {batch.epoch for batch in second} == {1}
    targets = [{one.target_window for batch in batches for one in batch.tuples} for batches in (first, second)]
    # A window has few real alleles, so some of them come again.
    assert len(targets[0] & targets[1]) < 0.1 * len(targets[1])


def test_persistent_workers_learn_of_the_next_epoch(package):
    dataset, wanted = (lewm.GenoLeWMDataset(package, windows_per_batch=8) for _ in range(2))
    loader = torch_data.DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    for epoch in range(3):
        dataset.set_epoch(epoch)
        wanted.set_epoch(epoch)
        assert_same(list(loader), list(wanted))


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_an_epoch(package, world_size):
    whole = list(lewm.GenoLeWMDataset(package, windows_per_batch=4, position=world_size))
    options = {"windows_per_batch": 4, "position": world_size, "world_size": world_size}
    parts = [
        load(lewm.GenoLeWMDataset(package, rank=rank, **options), workers)
        for rank, workers in zip(range(world_size), (0, 2, 1), strict=False)
    ]
    joined = sorted((batch for part in parts for batch in part), key=lambda batch: batch.position)
    assert_same(joined[: len(whole)], whole)
    assert len({len(part) for part in parts}) == 1


@pytest.mark.parametrize("kind", ["local", "global"])
def test_source_states_are_those_of_the_unedited_window(package, kind):
    for batch in lewm.GenoLeWMDataset(package, kind=kind, radius_tokens=30, windows_per_batch=16):
        for one, state in zip(batch.tuples, batch.source_states, strict=True):
            blocks = states_of(one.source_window)
            wanted = pool_blocks(blocks, one.block_start, one.block_stop, one.n_tokens)
            np.testing.assert_array_equal(state, wanted)


def test_an_epoch_serves_what_the_card_says(package):
    epoch = open_package(package).info.epoch
    dataset = lewm.GenoLeWMDataset(package)
    origins, edits, visits = Counter(), Counter(), Counter()
    for batch in dataset:
        origins.update(one.origin for one in batch.tuples)
        edits.update(str(one.edit_source) for one in batch.tuples)
        visits.update(one.window_id for one in batch.tuples if one.slot == 0)
    total = epoch.tuples
    assert origins.total() == edits.total() == total == 8 * visits.total()
    for counted, planned in ((origins, epoch.planned.windows), (edits, epoch.planned.edits)):
        assert counted.keys() <= planned.keys()
        assert {name: counted[name] / total for name in planned} == pytest.approx(dict(planned), abs=0.02)
    assert max(visits.values()) <= max(one.most for one in epoch.visits.values())
    assert sum(one.windows - one.unseen for one in epoch.visits.values()) == len(visits)
    only = lewm.GenoLeWMDataset(package, source_mix={"prokaryote_evo2": 1.0})
    assert {one.origin for batch in only for one in batch.tuples} == {"prokaryote_evo2"}
    assert {one.edit_source for batch in only for one in batch.tuples} == {"synthetic_snv", "synthetic_indel"}


def test_no_tuple_comes_from_what_is_held_out(package):
    opened = open_package(package)
    intervals = opened.holdouts("intervals").to_pylist()
    held = {(row["chrom"], row["pos"], row["ref"], row["alt"]) for row in opened.holdouts("alleles").to_pylist()}
    seen, hits = 0, Counter()
    for epoch in range(4):
        for batch in lewm.GenoLeWMDataset(opened, epoch=epoch, windows_per_epoch=200, mix="rotating"):
            hits.update(batch.counts)
            for one in batch.tuples:
                for allele in one.alleles:
                    assert (allele.chrom, allele.pos, allele.ref, allele.alt) not in held
                    seen += 1
                for row in intervals if one.contig else []:
                    end = one.window_start + len(one.source_window) + 96
                    assert one.contig != row["contig"] or end <= row["start"] or row["end"] <= one.window_start
    assert seen > 1_000


def test_a_synthetic_copy_of_a_held_out_allele_is_drawn_again_and_counted(tmp_path):
    """Every SNV of chr17 to A, C or G is held out by the temporal holdout: only those to T remain."""
    bases = SEQUENCES["chr17"].decode()
    rows = [
        ("holdout-temporal", "test", {"chrom": "chr17", "pos": at + 1, "ref": base, "alt": alt})
        for at, base in enumerate(bases)
        for alt in "ACG".replace(base, "")
    ]
    folder = publish_package(tmp_path, alleles=held_alleles(*rows), encode=None)
    dataset = lewm.GenoLeWMDataset(folder, with_states=False, source_mix={"reference": 1.0}, multi_edit_share=0)
    hits, made = 0, Counter()
    for batch in dataset:
        hits += batch.counts.get("redrawn_held_out", 0)
        for allele in (allele for one in batch.tuples for allele in one.alleles):
            if len(allele.ref) == len(allele.alt) == 1:
                made[allele.alt] += 1
    assert set(made) == {"T"}
    assert hits > made["T"]


def test_validation_shows_every_window_of_its_holdout_once(package):
    held = open_package(package).windows(Split.VALIDATION).filter(pc.field("holdout") == "holdout-chr")
    rows = held.filter(pc.field("frozen"))
    assert rows.num_rows == 10 < held.num_rows
    dataset = lewm.GenoLeWMValDataset(package, "holdout-chr", min_left_context_bp=100, windows_per_batch=3)
    batches = list(dataset)
    firsts = [batch.tuples[i] for batch in batches for i in range(0, len(batch), 8)]
    shown = [(one.contig, one.window_start) for one in firsts]
    assert shown == list(zip(rows["contig"].to_pylist(), rows["start"].to_pylist(), strict=True))
    assert_same(batches, load(dataset, 2))
    assert min(one.left_context_bp for batch in batches for one in batch.tuples) >= 100
    singles = [one for batch in batches for one in batch.tuples if one.label is not None]
    assert {one.label for one in singles} <= {"P", "LP", "B", "LB"}
    assert {one.stars for one in singles} <= {1, 2, 3, 4}
    assert {one.gene_ids for one in singles} == {(7,)}
    tested = lewm.GenoLeWMTestDataset(package, "holdout-chr", min_left_context_bp=100)
    assert {one.contig for batch in tested for one in batch.tuples} == {"chr21"}


def test_evaluation_asks_for_left_context(package):
    with pytest.raises(ConfigurationError, match="no room for an edit: expected under 1136, got 1536"):
        lewm.GenoLeWMValDataset(package, "holdout-chr")


def test_validation_opens_validation_only(package):
    assert len(lewm.GenoLeWMValDataset(package, "holdout-chr", "validation", min_left_context_bp=64)) == 1
    with pytest.raises(ConfigurationError, match=r"got 'test'\. Open a final test with GenoLeWMTestDataset"):
        lewm.GenoLeWMValDataset(package, "holdout-chr", "test")
    with pytest.raises(ConfigurationError, match=r"expected one of \['holdout-chr', .*got 'holdout-chr22'"):
        lewm.GenoLeWMValDataset(package, "holdout-chr22")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_plain_loader_gives_the_same_batches(package, workers):
    dataset = lewm.GenoLeWMDataset(package, windows_per_batch=4)
    plain = torch_data.DataLoader(dataset, num_workers=workers)
    assert len(plain) == len(dataset)
    assert_same(list(plain), list(dataset))
    merged = list(torch_data.DataLoader(lewm.GenoLeWMDataset(package, windows_per_batch=1), batch_size=4))
    for left, right in zip(merged, dataset, strict=True):
        assert [one.target_window for one in left.tuples] == [one.target_window for one in right.tuples]
        np.testing.assert_array_equal(left.source_states, right.source_states)


def test_tensors_share_the_arrays(package):
    batch = next(iter(lewm.GenoLeWMDataset(package, windows_per_batch=2)))
    tensors = tensors_of.as_tensors(batch)
    assert tensors["source_states"].shape == (16, 6)
    assert tensors["source_states"].dtype == torch.float32
    assert tensors["target_tokens"].dtype == torch.int16
    tensors["block_start"][0] = -7
    assert batch.block_start[0] == -7
    bare = tensors_of.as_tensors(next(iter(lewm.GenoLeWMDataset(package, with_states=False))))
    assert "source_states" not in bare


def test_a_package_without_caches_is_read_without_states(tmp_path):
    folder = publish_package(tmp_path, encode=None)
    assert next(iter(lewm.GenoLeWMDataset(folder, with_states=False))).source_states is None
    with pytest.raises(ConfigurationError, match=r"was built without states\. Pass with_states=False"):
        lewm.GenoLeWMDataset(folder)


def test_a_flipped_bit_in_a_cache_is_found_and_a_missing_cache_named(tmp_path):
    folder = publish_package(tmp_path)
    states = next((tmp_path / "root" / "embeddings").glob(".gen/*/states.bin"))
    states.chmod(0o644)
    flip(states, 100, bit=2)
    # The cache of chr20, chr21, or of what is trained on.
    datasets = (
        lewm.GenoLeWMDataset(folder, windows_per_epoch=400),
        lewm.GenoLeWMValDataset(folder, "holdout-chr", min_left_context_bp=64),
        lewm.GenoLeWMTestDataset(folder, "holdout-chr", min_left_context_bp=64),
    )
    with pytest.raises(CorruptResourceError, match=r"states\.bin: rows 0 to \d+ differ from what was written"):
        for dataset in datasets:
            list(dataset)
    shutil.rmtree(tmp_path / "root" / "embeddings")
    with pytest.raises(MissingResourceError, match="cache that the package refers to is missing"):
        lewm.GenoLeWMDataset(folder)
    assert len(lewm.GenoLeWMDataset(folder, with_states=False, windows_per_epoch=55)) == 2


@each_row(
    "options",
    [
        *({"n_edits": 0}, {"windows_per_batch": 0}, {"rank": 2, "world_size": 2}, {"rank": -1}, {"epoch": -1}),
        *({"position": -1}, {"mix": "even"}, {"kind": "regional"}, {"source_mix": {"fungi": 1.0}}, {"sead": 3}),
    ],
)
def test_impossible_options_are_named(package, options):
    with pytest.raises(ConfigurationError):
        lewm.GenoLeWMDataset(package, **options)


def test_the_trainers_side_imports_neither_dagster_nor_pysam_and_torch_in_one_module():
    code = (
        "import sys; import genolewm_assets.training.stream, genolewm_assets.training.opening;"
        "print('torch' in sys.modules); import genolewm_assets.training.dataset;"
        "print(sorted({'dagster', 'pysam', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["False", "['torch']"]


@each_row("kind", ["GenoLeWMValDataset", "GenoLeWMTestDataset"])
def test_an_evaluation_leaves_out_slots_that_fell_back(kind, package):
    options = {"min_left_context_bp": 100, "windows_per_batch": 3, "with_states": False}
    whole = getattr(lewm, kind)(package, "holdout-chr", **options)
    tuples = [one for batch in whole for one in batch.tuples]
    fell = sum(one.planned_source != one.edit_source for one in tuples)
    counts = sum((Counter(batch.counts) for batch in whole), Counter())
    assert 0 < fell == sum(n for name, n in counts.items() if name.startswith("fallback_"))
    short = getattr(lewm, kind)(package, "holdout-chr", without_fallback=True, **options)
    left = [one for batch in short for one in batch.tuples]
    assert len(left) == len(tuples) - fell
    assert all(one.planned_source == one.edit_source for one in left)
    assert len(short) == len(whole)
    with pytest.raises(ConfigurationError):
        short.load_state_dict(whole.state_dict())
