"""A root that was copied or restored: every file has another time, and the survey settles it by the contents."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from genolewm_assets.sources.files import digests
from genolewm_assets_tests.defs.conftest import CommandLine
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld


def restored(world: BuiltWorld, folder: Path) -> Path:
    """Return the catalogue of a copy of a world, with its history, in which every file has another time."""
    shutil.copytree(world.folder / "history", world.root / "dagster", dirs_exist_ok=True)
    shutil.copytree(world.folder, folder, symlinks=True, copy_function=shutil.copyfile)
    return folder / world.catalog.relative_to(world.folder)


def test_both_forms_of_a_restored_copy_agree_until_a_byte_of_a_source_is_another(
    copied: BuiltWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, genolewm: CommandLine
) -> None:
    catalog = restored(copied, tmp_path / "copy")
    where = ("status", "--catalog", catalog, "--root", tmp_path / "copy" / copied.root.relative_to(copied.folder))

    def told_by(*options: str) -> tuple[int, str]:
        return genolewm(*where, *options), "".join(genolewm.out.split()).replace("\\", "")

    read_once = told_by(), told_by("--partitions")
    with monkeypatch.context() as patch:
        patch.setattr(digests, "_read", lambda *_: pytest.fail("a file was read again"))
        assert (told_by()[0], told_by("--partitions")) == (0, read_once[1])
    (code, page), (same, lines) = read_once
    assert (code, same, "alliswell" in page, ":41current" in lines) == (0, 0, True, True), lines

    sources = (tmp_path / "copy").rglob("*chr17*.vcf*")
    (changed,) = (each for each in sources if each.suffix not in {".md5", ".tbi", ".csi"})
    content = changed.read_bytes()
    changed.write_bytes(content[:-40] + bytes([content[-40] ^ 1]) + content[-39:])
    difference = f'recipesourcemd5:builtfrom"{hashlib.md5(content).hexdigest()}",now'
    for options in ((), ("--partitions",), ("--json",), ("--partitions", "--json")):
        code, text = told_by(*options)
        assert code == 4
        assert "gnomad/shard" in text
        assert difference in text, text
