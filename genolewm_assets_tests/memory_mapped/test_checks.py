"""``package verify`` compares the mapped form with the tables, where every digest is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.store.artefacts.published import Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.packages.test_claims import reseal, unchanged


def test_a_changed_byte_under_digests_made_anew_is_a_fault(
    package: Published,
    package_root: Root,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = Path(shutil.copytree(package.directory, tmp_path / "copy"))
    command = ("package", "verify", copy, "--cache-root", package_root.path)
    assert run(monkeypatch, *command) == 0
    capsys.readouterr()
    file = copy / "arrays/train/windows/bases.npy"
    size = np.load(file).nbytes
    data = bytearray(file.read_bytes())
    data[-size] ^= 1
    file.write_bytes(data)
    reseal(copy, unchanged)
    assert run(monkeypatch, *command) == 4
    out = capsys.readouterr().out
    at = len(data) - size
    assert f"arrays/train/windows/bases.npy: is not what the tables make, from byte {at} on" in out
