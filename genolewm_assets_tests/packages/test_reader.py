"""Opening a package, and the schemas of its tables."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from fnmatch import fnmatch

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError
from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES
from genolewm_assets.packages.mix import SOURCE_MIX
from genolewm_assets.packages.reader import open_package, open_tables, verify_package
from genolewm_assets.packages.schema import (
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    STRATA,
    window_pattern,
    window_shard,
)
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import generations_in
from genolewm_assets.windows.corpus.records import CorpusSource
from genolewm_assets.windows.reference.schema import WINDOWS
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.package_world import GENOME_DIGEST, RELEASE, make_sources, publish
from genolewm_assets_tests.worlds.lewm.recorded_audits import record_audit


def test_a_package_opens_through_its_link_and_resolves_it_once(package_root, package):
    link = package_root.path / "packages" / RELEASE / "sample"
    opened = open_package(link)
    assert opened.directory == package.directory
    assert opened.info.release == RELEASE
    assert set(opened.caches) == {ref.source for ref in opened.info.caches}
    assert all(path.parent.name == ".gen" for path in opened.caches.values())
    assert verify_package(link) == []


def test_tables_have_their_schemas_and_the_rows_that_were_announced(package):
    opened = open_package(package.directory, contents="sizes")
    for split in Split:
        windows, variants = opened.windows(split), opened.variants(split)
        PACKAGE_WINDOWS.check(windows.schema, where="windows")
        PACKAGE_VARIANTS.check(variants.schema, where="variants")
        assert (windows.num_rows, variants.num_rows) == (
            opened.info.splits[split].windows,
            opened.info.splits[split].variants,
        )
        batches = list(opened.window_batches(split, ["window_id"]))
        assert [v for b in batches for v in b["window_id"].to_pylist()] == windows["window_id"].to_pylist()
    assert opened.windows(Split.TEST, ["contig"]).column_names == ["contig"]
    PACKAGE_CONTROLS.check(opened.controls(Split.TEST).schema, where="controls")
    HOLDOUT_ALLELES.check(opened.holdouts("alleles").schema, where="alleles")
    assert opened.holdouts("intervals").num_rows == 4
    assert opened.holdouts("corpus").num_rows == 1


def test_a_package_travels_to_a_worker(package):
    opened = open_package(package.directory)
    raw = pickle.dumps(opened)
    assert pickle.loads(raw) == opened
    assert len(raw) < 40_000


def test_sizes_are_compared_where_contents_are_not(package, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(package.directory, copy)
    path = copy / "variants/test.parquet"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CorruptResourceError, match=r"variants/test\.parquet: size differs"):
        open_tables(copy, contents="sizes", allow_unaudited=True)
    path.unlink()
    with pytest.raises(CorruptResourceError, match="file is missing"):
        open_tables(copy, contents="sizes", allow_unaudited=True)


def test_what_is_no_package_is_said_so(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(MissingResourceError, match="not a package"):
            open_package(path)
    with pytest.raises(MissingResourceError, match="no such package"):
        verify_package(tmp_path / "nowhere")
    (tmp_path / "latest.json").write_text("{}")
    with pytest.raises(MissingResourceError, match="not a package"):
        verify_package(tmp_path)


def test_verify_tells_how_far_it_is(package):
    steps = Heard()
    assert verify_package(package.directory, progress=steps) == []
    assert all(total is not None and done <= total for done, total, _ in steps)
    done, total, _ = steps[-1]
    assert done == total


def test_the_mix_covers_every_source_of_the_corpus():
    assert set(SOURCE_MIX) == set(CorpusSource)
    assert sum(SOURCE_MIX.values()) == pytest.approx(1)


def test_every_role_of_a_holdout_is_a_split_and_strata_are_columns_of_the_window_index():
    assert {str(role) for role in EVALUATION} | {"train"} == {str(split) for split in Split}
    assert set(STRATA) <= set(WINDOWS.columns)


@each_row("split", Split)
def test_the_pattern_of_a_split_finds_its_files_and_no_others(split):
    names = {other: window_shard(other, 3, 12) for other in Split}
    assert names[split] == f"data/{split}-00003-of-00012.parquet"
    assert [other for other, name in names.items() if fnmatch(name, window_pattern(split))] == [split]


def test_a_package_without_a_passed_audit_opens_with_a_flag_only(tmp_path):
    root = Root(tmp_path / "root")
    root.claim("tiny", GENOME_DIGEST)
    package = publish(root, replace(make_sources(), caches=())).directory
    assert open_package(package).directory == package
    # A superseded audit still counts.
    record_audit(root.path, RELEASE, "f" * 64)
    assert open_package(package).directory == package

    copy = shutil.copytree(package, tmp_path / "disk/models/copy")
    with pytest.raises(MissingResourceError, match=rf"no audit of the package is here.*copy audits/{RELEASE}"):
        open_tables(copy)
    assert open_tables(copy, allow_unaudited=True).info == open_tables(copy, cache_root=root.path).info
    shutil.copytree(root.path / "audits" / RELEASE, tmp_path / "disk/audits" / RELEASE)
    with pytest.raises(MissingResourceError, match="another build of the release is"):
        open_tables(copy)
    (passed,) = {path.resolve() for path in generations_in(root.path / "audits")} - {
        (root.path / "audits" / RELEASE).resolve()
    }
    shutil.rmtree(tmp_path / "disk/audits" / RELEASE)
    shutil.copytree(passed, tmp_path / "disk/audits" / RELEASE)
    assert open_tables(copy).directory == copy

    record_audit(root.path, RELEASE, read_manifest(package).sha256, passed=False)
    with pytest.raises(RejectedResourceError, match="the audit of the package failed: no_leak_found"):
        open_tables(package)
    assert open_tables(package, allow_unaudited=True).directory == package
