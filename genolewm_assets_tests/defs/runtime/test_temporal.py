"""T0 of a root: what its listing and catalogue give, in which order it is asked for, and the command that moves it."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.holdouts.temporal import KEPT_FILE, TemporalChoice, TemporalRule
from genolewm_assets.sources.clinvar.listing import read_listing
from genolewm_assets.sources.clinvar.releases import register_releases
from genolewm_assets_tests.defs.conftest import CommandLine
from genolewm_assets_tests.worlds.sources.minimal_catalog import changed, write
from genolewm_assets_tests.worlds.sources.release_files import publish

WEEKLY = [str(date(2024, 1, 7) + timedelta(weeks=n)) for n in range(100)]


def offer(folder: Path, releases: list[str]) -> None:
    for release in releases:
        publish(folder / "clinvar", f"clinvar_{release.replace('-', '')}.vcf.gz")


def workspace(folder: Path, temporal: object = None, **clinvar: object) -> Workspace:
    """Return a root over the listing in a folder; all of its releases are registered."""
    data = changed("clinvar", {"listing": "clinvar", **clinvar})
    data |= {} if temporal is None else {"holdouts": {"temporal": temporal}}
    opened = Workspace.open(folder / "root", str(write(folder, data)))
    register_releases(opened.root.path, read_listing(str(folder / "clinvar")))
    return opened


def test_the_order_of_the_builds_changes_no_t0(tmp_path: Path) -> None:
    chosen = []
    for name, order in (("up", WEEKLY), ("down", WEEKLY[::-1]), ("middle", [*WEEKLY[70:], *WEEKLY[:70]])):
        offer(tmp_path / name, WEEKLY)
        opened = workspace(tmp_path / name)
        chosen.append({release: opened.temporal(release) for release in order})
        assert dict(sorted(chosen[-1].items())) == opened.temporal_of_all()
    assert chosen[0] == chosen[1] == chosen[2]
    assert len({(tmp_path / name / "root" / KEPT_FILE).read_bytes() for name in ("up", "down", "middle")}) == 1


def test_weekly_releases_keep_t0(tmp_path: Path) -> None:
    offer(tmp_path, WEEKLY[:60])
    first = workspace(tmp_path).temporal(WEEKLY[59])
    assert first == TemporalChoice(WEEKLY[6], TemporalRule.MONTHS)
    for n in range(60, 100, 5):
        offer(tmp_path, WEEKLY[n : n + 5])
        assert workspace(tmp_path).temporal(WEEKLY[n]) == first


def test_the_record_is_that_of_the_newest_packaged_release(tmp_path: Path) -> None:
    offer(tmp_path, WEEKLY)
    opened = workspace(tmp_path, packaged=[WEEKLY[60]])
    assert opened.temporal(WEEKLY[99]) == TemporalChoice(WEEKLY[7], TemporalRule.MONTHS)


def test_releases_that_the_catalogue_does_not_admit_are_no_t0(tmp_path: Path) -> None:
    offer(tmp_path, WEEKLY)
    opened = workspace(tmp_path, releases=[WEEKLY[0], WEEKLY[99]])
    assert opened.temporal(WEEKLY[99]) == TemporalChoice(WEEKLY[0], TemporalRule.MONTHS)


@pytest.mark.parametrize(
    ("temporal", "release", "expected"),
    [
        (False, 99, TemporalChoice(None, TemporalRule.OFF)),
        (WEEKLY[50], 99, TemporalChoice(WEEKLY[50], TemporalRule.NAMED)),
        (WEEKLY[50], 50, TemporalChoice(None, TemporalRule.NOT_BEFORE)),
        ({"months": 24}, 99, TemporalChoice(None, TemporalRule.NONE_OLD_ENOUGH)),
    ],
)
def test_no_record_where_none_is_needed(tmp_path: Path, temporal: object, release: int, expected: object) -> None:
    offer(tmp_path, WEEKLY)
    opened = workspace(tmp_path, temporal)
    assert opened.temporal(WEEKLY[release]) == expected
    assert not (opened.root.path / KEPT_FILE).exists()


def command(folder: Path, *more: object) -> tuple[object, ...]:
    return ("holdouts", "t0", *more, "--root", folder / "root", "--catalog", folder / "catalog.yaml")


def test_the_command_shows_moves_and_forgets_t0(tmp_path: Path, genolewm: CommandLine) -> None:
    few = [WEEKLY[0], WEEKLY[30], WEEKLY[60], WEEKLY[99]]
    offer(tmp_path, few)
    opened = workspace(tmp_path)
    assert genolewm(*command(tmp_path)) == 0
    shown = genolewm.out.splitlines()
    assert shown == [
        *(f"{release}: T0 none (none_old_enough)" for release in few[:2]),
        *(f"{later}: T0 {earlier} (months)" for later, earlier in zip(few[2:], few[:2], strict=True)),
        "holdouts.temporal: 12 months",
    ]
    assert not (opened.root.path / KEPT_FILE).exists(), "looking records nothing"

    assert genolewm(*command(tmp_path, few[2])) == 0
    again = "moved: build its holdouts and package again"
    assert genolewm.out.splitlines() == [*shown[:3], f"{few[3]}: T0 {few[2]} (moved), {again}", shown[4]]
    assert opened.temporal(few[3]) == TemporalChoice(few[2], TemporalRule.MOVED)
    assert genolewm(*command(tmp_path, "--json")) == 0
    stated = json.loads(genolewm.out)
    assert (stated["setting"], stated["kept"]) == ("12 months", {"months": 12, "earlier": few[2], "moved": True})
    assert stated["releases"][few[3]] == {"earlier": few[2], "rule": "moved"}

    assert genolewm(*command(tmp_path, "--clear")) == 0
    assert genolewm.out.splitlines() == [*shown[:3], f"{shown[3]}, {again}", shown[4]]
    assert genolewm(*command(tmp_path, "--clear")) == 0
    assert genolewm.out.splitlines() == shown, "nothing moved"


def test_the_command_refuses(tmp_path: Path, genolewm: CommandLine) -> None:
    offer(tmp_path, WEEKLY[:80])
    assert genolewm(*command(tmp_path)) == 4
    assert "is not a root" in genolewm.err
    assert not (tmp_path / "root").exists()
    opened = workspace(tmp_path)
    for wrong in (WEEKLY[79], WEEKLY[80], "yesterday"):
        assert genolewm(*command(tmp_path, wrong)) == 2
        assert "T0: not a release with a later one" in genolewm.err
    assert genolewm(*command(tmp_path, WEEKLY[3], "--clear")) == 2
    workspace(tmp_path, WEEKLY[5])
    assert genolewm(*command(tmp_path, WEEKLY[3])) == 3
    assert "holdouts.temporal: the catalogue decides T0" in genolewm.err
    (tmp_path / "root" / "holdouts").mkdir(exist_ok=True)
    (opened.root.path / KEPT_FILE).write_text("{}")
    workspace(tmp_path)
    assert genolewm(*command(tmp_path)) == 4
    assert "--clear" in genolewm.err
    assert genolewm(*command(tmp_path, "--clear")) == 0
