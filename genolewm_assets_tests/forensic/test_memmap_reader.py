"""Readers of the cache: what they copy, hold open, check and share."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path

import pytest

from genolewm_assets.errors import InputError, MissingResourceError
from genolewm_assets.forensic import MemmapCacheReader
from genolewm_assets_tests.faults.killing import outcome
from genolewm_assets_tests.worlds.store.profiles import panel_of


def test_rows_are_copies_unless_views_will_do(cache: Path) -> None:
    reader = MemmapCacheReader(cache)
    data, annotation, scaler = reader.get_row(3)
    before = int(data[0, 0])
    data[0, 0] += 1
    assert annotation.flags.writeable
    assert scaler.flags.writeable
    assert reader.get_row(3)[0][0, 0] == before
    for view in reader.get_row(3, copy=False):
        assert not view.flags.writeable
        assert not view.flags.owndata


def test_side_cars_are_read_when_asked_for_and_parsed_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = MemmapCacheReader(cache)
    (cache / "panels.json").rename(cache / "panels.aside")
    reader.get_row(0)
    reader.load_index()
    with pytest.raises(MissingResourceError, match=r"panels\.json"):
        reader.panel_json(0)
    (cache / "panels.aside").rename(cache / "panels.json")
    first = reader.panel(0)
    (cache / "panels.json").unlink()
    assert first == panel_of(0)
    assert reader.panel(0) is first
    assert reader.panel_json(0) == reader.panel_json(0) != reader.panel_json(1)
    assert reader.panel_json(None) is reader.allele_json(None) is reader.panel(None) is reader.alleles(None) is None
    with pytest.raises(InputError, match="no such key: expected 0 to 3, got 4"):
        reader.panel_json(4)
    with pytest.raises(InputError, match="no such row"):
        reader.get_row(10)


def files_in_use(cache: Path) -> list[str]:
    """Arrays of a cache that this process has mapped or open; earlier tests may have left it others."""
    names = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            names.append(str(link.readlink()))
    own = {path.resolve() for path in cache.resolve().glob("*.bin")}
    return sorted({Path(name).name for name in names if Path(name) in own})


def test_nothing_is_open_before_the_first_row_nor_in_a_pickle(cache: Path) -> None:
    def look() -> str:
        reader = MemmapCacheReader(cache, check=True)
        reader.load_index()
        before = files_in_use(cache)
        reader.get_row(0)
        reader.panel(0)
        after = files_in_use(cache)
        data = pickle.dumps(reader)
        copy = pickle.loads(data)
        same = all((a == b).all() for a, b in zip(copy.get_row(7), reader.get_row(7), strict=True))
        return f"{before} {after} {len(data) < 400} {same}"

    assert outcome(look) == "[] ['annotation.bin', 'data.bin', 'scaler.bin'] True True"
