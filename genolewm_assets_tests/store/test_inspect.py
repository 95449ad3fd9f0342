from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets.store.inspect import main
from genolewm_assets_tests.worlds.store.array_stores import finish
from genolewm_assets_tests.worlds.store.plans import flip


def test_as_a_module(tmp_path: Path) -> None:
    directory = finish(tmp_path / "s", 3)
    command = [sys.executable, "-W", "error", "-m", "genolewm_assets.store.inspect", str(directory)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stdout.startswith(f"=== {directory} ===\n  complete marker:  True\n")
    assert result.stderr == ""


def test_a_tree_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(tmp_path / "s", 3)
    finish(tmp_path / "t", 4)
    assert main([str(tmp_path), "--json"]) == 0
    assert [report["rows"] for report in json.loads(capsys.readouterr().out)] == [3, 4]
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("=== ") == 2


def test_nothing_there_and_damage_end_with_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 4
    assert "holds no array store. Check the path." in capsys.readouterr().err
    flip(finish(tmp_path / "s", 3) / "crc.json", 5)
    assert main([str(tmp_path)]) == 4
    assert "crc.json: content differs" in capsys.readouterr().err
