"""Array stores in roots that are moved, copied or reached by another path, and read while others are published."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.store import ArrayStoreReader, compute_fingerprint
from genolewm_assets.store.arrays.report import verify_array_store
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults import file_layer
from genolewm_assets_tests.faults.file_layer import Call
from genolewm_assets_tests.faults.killing import start
from genolewm_assets_tests.worlds.store.array_stores import (
    CONFIG,
    FINGERPRINT,
    key,
    meta,
    open_writer,
    values,
    write_rows,
)
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, LOCATION, make_plan, new_root

pytestmark = [pytest.mark.usefixtures("no_syncs"), pytest.mark.disk]

ROWS = 19


def plan(stop_at: int, resumed: list[int], *, location: str = LOCATION) -> BuildPlan:
    """Build all rows, unless stopped before one."""

    def write(directory: Path) -> BuildReport:
        with open_writer(directory) as writer:
            resumed.append(writer.n_rows)
            for row in range(writer.n_rows, ROWS):
                if row == stop_at:
                    raise KeyboardInterrupt
                write_rows(writer, row, row + 1)
            writer.finalize(FINGERPRINT)
        return BuildReport({"rows": ROWS}, {"index.parquet": ROWS})

    return replace(make_plan(location=location), write=write, resumable=True)


OTHER = "gnomad/4.1/chr20"


def move(old: Path, new: Path) -> Path:
    return old.rename(new)


def copy(old: Path, new: Path) -> Path:
    subprocess.run(["cp", "-r", old, new], check=True)
    shutil.rmtree(old)
    return new


def copy_without_times_of_links(old: Path, new: Path) -> Path:
    shutil.copytree(old, new, symlinks=True, copy_function=shutil.copyfile)
    shutil.rmtree(old)
    return new


def link_to(old: Path, new: Path) -> Path:
    new.symlink_to(old.name)
    return new


def go_round(old: Path, new: Path) -> Path:
    new.mkdir()
    return new / ".." / old.name


@pytest.mark.parametrize("bring", [move, copy, copy_without_times_of_links, link_to, go_round])
def test_a_root_elsewhere_is_read_verified_and_gone_on_with(
    tmp_path: Path, bring: Callable[[Path, Path], Path]
) -> None:
    old = new_root(tmp_path / "old", lock_wait_s=0)
    build(old, plan(ROWS, []))
    with pytest.raises(KeyboardInterrupt):
        build(old, plan(11, [], location=OTHER))
    root = Root(bring(old.path, tmp_path / "new"), lock_wait_s=0)
    resumed: list[int] = []
    assert not any(finding.is_fault for finding in verify_root(root))
    directory = open_input(root, ARTEFACT, LOCATION).directory
    assert verify_array_store(directory) == []
    reader = ArrayStoreReader(directory, check=True)
    np.testing.assert_array_equal(reader.get_rows(range(ROWS), "states"), values(0, ROWS)["states"])
    assert build(root, plan(ROWS, resumed)).reused
    again = build(root, plan(ROWS, resumed, location=OTHER))
    assert resumed == [8]
    assert verify_root(root) == []
    assert [entry.sha256 for entry in again.manifest.files] == [
        entry.sha256 for entry in build(root, plan(ROWS, [])).manifest.files
    ]


def version_plan(version: int) -> BuildPlan:
    """A store whose rows, keys, fingerprint and even row count tell its version."""
    first, stop = version * 100, version * 100 + 30 + version

    def write(directory: Path) -> BuildReport:
        with open_writer(directory) as writer:
            rows = range(first + writer.n_rows, stop)
            writer.write_batch(values(rows.start, stop), keys=[key(r) for r in rows], metas=[meta(r) for r in rows])
            writer.finalize(compute_fingerprint(CONFIG, {"version": f"{version:064x}"}))
        return BuildReport()

    return replace(make_plan(code_version=str(version)), write=write)


def check_whole(reader: ArrayStoreReader) -> int:
    """See that all a reader shows is of one version, and return that."""
    version = reader.n_rows - 30
    wanted = values(version * 100, version * 100 + reader.n_rows)
    for name, array in wanted.items():
        np.testing.assert_array_equal(reader.get_rows(range(reader.n_rows), name), array)
    assert reader.keys() == [key(version * 100 + row) for row in range(reader.n_rows)]
    assert reader.fingerprint["sources"] == {"version": f"{version:064x}"}
    assert reader.verify() == []
    return version


def test_a_reader_at_any_call_of_a_rebuild_sees_the_old_or_the_new_store(tmp_path: Path) -> None:
    root = new_root(tmp_path / "root")
    build(root, version_plan(1))
    before = ArrayStoreReader(root.path / LOCATION)
    seen: list[int] = []
    at_work: list[bool] = []

    def at_call(_: Call) -> bool:
        # A reader opens files too.
        if not at_work:
            at_work.append(True)
            seen.append(check_whole(ArrayStoreReader(root.path / LOCATION, check=True)))
            at_work.clear()
        return False

    with pytest.MonkeyPatch.context() as patch:
        file_layer.install(patch, at_call)
        build(root, version_plan(2))
    assert seen == sorted(seen)
    assert set(seen) == {1, 2}
    assert len(seen) > 100
    assert check_whole(before) == 1


def test_readers_see_the_old_or_the_new_store_while_builders_publish_and_are_killed(tmp_path: Path) -> None:
    root = new_root(tmp_path / "root")
    link, plans, draw = root.path / LOCATION, [version_plan(version) for version in (1, 2)], random.Random(3)
    for made in plans:
        build(root, made)

    def publish_for_ever() -> None:
        while True:
            for made in plans:
                build(root, made)

    seen, before = set(), ArrayStoreReader(link)
    for attempt in range(200):
        child = start(publish_for_ever)
        deadline = time.monotonic() + draw.uniform(0.01, 0.08)
        while time.monotonic() < deadline:
            reader = ArrayStoreReader(link, check=draw.random() < 0.5)
            # Opened now, mapped when the link may lead elsewhere.
            time.sleep(draw.uniform(0, 0.01))
            seen.add(check_whole(reader))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if seen == {1, 2} and attempt >= 20:
            break
    assert seen == {1, 2}
    assert check_whole(before) == 2
