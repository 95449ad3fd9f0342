"""T0: the rule in months, the record that keeps it, and what moves it."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, InputError
from genolewm_assets.holdouts.temporal import (
    KEPT_FILE,
    KeptT0,
    TemporalChoice,
    TemporalRule,
    TemporalSetting,
    choose_t0,
    find_kept,
    keep_t0,
    move_t0,
    newest_at_age,
    read_kept,
)
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.rows import each_row

YEAR = TemporalSetting(months=12)
WEEKLY = [str(date(2024, 1, 7) + timedelta(weeks=n)) for n in range(120)]


@each_row(
    ("release", "months", "known", "expected"),
    [
        ("2026-02-26", 12, ["2025-02-26", "2025-02-27"], "2025-02-26"),
        ("2026-02-26", 12, ["2025-02-27"], None),
        ("2025-01-05", 12, ["2024-01-07"], None),  # 364 days
        ("2025-05-31", 3, ["2025-02-28", "2025-03-01"], "2025-02-28"),
        ("2024-05-31", 3, ["2024-02-29", "2024-03-01"], "2024-02-29"),
        ("2024-02-29", 12, ["2023-02-28", "2023-03-01"], "2023-02-28"),
        ("2025-01-31", 1, ["2024-12-31", "2025-01-01"], "2024-12-31"),
        ("2026-02-26.2", 12, ["2025-02-26.9", "2025-02-26.10", "2025-02-26"], "2025-02-26.10"),
        ("2026-02-26", 12, ["2026-02-26", "2026-03-05"], None),
        ("2026-02-26", 1_200, ["1926-02-26", "1926-02-27"], "1926-02-26"),
        ("2026-02-26", 12, [], None),
    ],
)
def test_the_newest_release_of_such_an_age(release: str, months: int, known: list[str], expected: str | None) -> None:
    assert newest_at_age(release, months, known) == expected
    assert newest_at_age(release, months, known[::-1]) == expected


@given(st.dates(date(2000, 1, 1), date(2030, 12, 31)), st.integers(1, 60))
def test_the_limit_is_as_many_months_away_and_never_in_a_later_month(day: date, months: int) -> None:
    every = [str(day - timedelta(days=n)) for n in range(31 * months + 40)]
    found = newest_at_age(str(day), months, every)
    assert found is not None
    limit = date.fromisoformat(found)
    assert (day.year - limit.year) * 12 + day.month - limit.month == months
    # The same day of the month, or the month's last day where it is shorter.
    assert limit.day == day.day or (limit.day < day.day and (limit + timedelta(days=1)).day == 1)


@each_row(
    ("setting", "expected"),
    [
        (TemporalSetting(), TemporalChoice(None, TemporalRule.OFF)),
        (TemporalSetting(release="2025-01-05"), TemporalChoice("2025-01-05", TemporalRule.NAMED)),
        (TemporalSetting(release="2026-02-26"), TemporalChoice(None, TemporalRule.NOT_BEFORE)),
        (TemporalSetting(release="2026-02-26.2"), TemporalChoice(None, TemporalRule.NOT_BEFORE)),
        (YEAR, TemporalChoice("2025-01-05", TemporalRule.MONTHS)),
        (TemporalSetting(months=14), TemporalChoice(None, TemporalRule.NONE_OLD_ENOUGH)),
    ],
)
def test_each_setting_has_its_rule(setting: TemporalSetting, expected: TemporalChoice) -> None:
    assert choose_t0("2026-02-26", setting, ["2025-01-05", "2025-12-28", "2026-02-26"]) == expected


def test_t0_stays_while_weekly_releases_arrive(tmp_path: Path) -> None:
    root, found = Root(tmp_path), set()
    for n in range(60, 120):
        kept = keep_t0(root, YEAR, WEEKLY[n], WEEKLY[: n + 1])
        found.add(choose_t0(WEEKLY[n], YEAR, WEEKLY[: n + 1], kept))
    assert found == {TemporalChoice(newest_at_age(WEEKLY[60], 12, WEEKLY), TemporalRule.MONTHS)}
    # Without the record it would have moved with nearly every release.
    assert len({newest_at_age(WEEKLY[n], 12, WEEKLY) for n in range(60, 120)}) > 55


def test_t0_of_a_release_does_not_depend_on_which_was_asked_first(tmp_path: Path) -> None:
    """An old release first, or the newest: the record is that of the newest packaged release."""
    chosen = []
    for name, order in (("up", WEEKLY), ("down", WEEKLY[::-1])):
        root = Root(tmp_path / name)
        chosen.append(
            {release: choose_t0(release, YEAR, WEEKLY, keep_t0(root, YEAR, WEEKLY[-1], WEEKLY)) for release in order}
        )
    assert chosen[0] == chosen[1]
    kept = newest_at_age(WEEKLY[-1], 12, WEEKLY)
    for release, choice in chosen[0].items():
        if choice.earlier is not None:
            assert choice.earlier == min(kept or "", newest_at_age(release, 12, WEEKLY) or "")
        else:
            assert choice.rule is TemporalRule.NONE_OLD_ENOUGH
            assert newest_at_age(release, 12, WEEKLY) is None
    assert sum(choice.earlier == kept for choice in chosen[0].values()) == 1


def test_a_changed_age_in_the_catalogue_moves_t0(tmp_path: Path) -> None:
    root = Root(tmp_path)
    keep_t0(root, YEAR, WEEKLY[60], WEEKLY[:61])
    half = TemporalSetting(months=6)
    assert find_kept(tmp_path, half, WEEKLY[60], WEEKLY[:61]) == KeptT0(6, newest_at_age(WEEKLY[60], 6, WEEKLY) or "")
    assert read_kept(tmp_path) == KeptT0(12, WEEKLY[7]), "looking changes nothing"
    kept = keep_t0(root, half, WEEKLY[60], WEEKLY[:61])
    assert kept == read_kept(tmp_path)
    assert kept is not None
    assert kept.months == 6


def test_a_person_moves_t0_and_forgets_it(tmp_path: Path) -> None:
    root, known = Root(tmp_path), WEEKLY[:80]
    first = keep_t0(root, YEAR, known[-1], known)
    move_t0(root, YEAR, WEEKLY[70], known)
    kept = keep_t0(root, YEAR, known[-1], known)
    assert kept == KeptT0(12, WEEKLY[70], moved=True)
    # A named T0 needs no age; releases that are not after it follow the rule of months.
    assert choose_t0(WEEKLY[71], YEAR, known, kept) == TemporalChoice(WEEKLY[70], TemporalRule.MOVED)
    assert choose_t0(WEEKLY[70], YEAR, known, kept) == TemporalChoice(WEEKLY[17], TemporalRule.MONTHS)
    move_t0(root, YEAR, None, known)
    assert not (tmp_path / KEPT_FILE).exists()
    assert keep_t0(root, YEAR, known[-1], known) == first


def test_a_t0_that_a_person_moved_stays_under_another_age(tmp_path: Path) -> None:
    root, known, half = Root(tmp_path), WEEKLY[:80], TemporalSetting(months=6)
    move_t0(root, YEAR, WEEKLY[70], known)
    moved = (tmp_path / KEPT_FILE).read_bytes()
    kept = keep_t0(root, half, known[-1], known)
    assert kept == find_kept(tmp_path, half, known[-1], known) == KeptT0(12, WEEKLY[70], moved=True)
    assert (tmp_path / KEPT_FILE).read_bytes() == moved
    assert choose_t0(WEEKLY[79], half, known, kept) == TemporalChoice(WEEKLY[70], TemporalRule.MOVED)
    # A release that is not after it follows the age that the catalogue asks for now.
    older = TemporalChoice(newest_at_age(WEEKLY[60], 6, known), TemporalRule.MONTHS)
    assert choose_t0(WEEKLY[60], half, known, kept) == older


@pytest.mark.parametrize("moved", [False, True])
def test_a_kept_t0_that_is_no_longer_known_is_refused(tmp_path: Path, *, moved: bool) -> None:
    root, known = Root(tmp_path), WEEKLY[:80]
    if moved:
        move_t0(root, YEAR, WEEKLY[20], known)
    kept = keep_t0(root, YEAR, known[-1], known)
    assert kept is not None
    fewer = [release for release in known if release != kept.earlier]
    with pytest.raises(ConfigurationError, match=rf"T0 {kept.earlier}, kept in .*genolewm holdouts t0 --clear"):
        choose_t0(known[-1], YEAR, fewer, keep_t0(root, YEAR, fewer[-1], fewer))
    assert read_kept(tmp_path) == kept
    # Neither a catalogue that names T0 nor a release too old for the kept one asks for it.
    assert choose_t0(known[-1], TemporalSetting(release=WEEKLY[0]), fewer, kept).earlier == WEEKLY[0]
    assert choose_t0(WEEKLY[19], YEAR, fewer, kept).rule is TemporalRule.NONE_OLD_ENOUGH
    move_t0(root, YEAR, None, fewer)
    chosen = choose_t0(known[-1], YEAR, fewer, keep_t0(root, YEAR, fewer[-1], fewer))
    assert chosen == TemporalChoice(newest_at_age(known[-1], 12, fewer), TemporalRule.MONTHS)


@pytest.mark.parametrize("release", [WEEKLY[79], WEEKLY[80], "yesterday", "2024-01-08"])
def test_t0_moves_to_a_known_release_with_a_later_one(tmp_path: Path, release: str) -> None:
    with pytest.raises(InputError, match="T0: not a release with a later one"):
        move_t0(Root(tmp_path), YEAR, release, WEEKLY[:80])
    assert not (tmp_path / KEPT_FILE).exists()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b"{",
        b'{"schema": "genolewm.temporal_holdout", "schema_version": "2.0", "months": 12, "earlier": "2024-01-07"}',
        *(
            json.dumps({"schema": "genolewm.temporal_holdout", "schema_version": "1.0", **fields}).encode()
            for fields in (
                {"months": 12},
                {"months": 12, "earlier": "2024-01-07", "moved": False, "by": "me"},
                {"months": "12", "earlier": "2024-01-07", "moved": False},
                {"months": True, "earlier": "2024-01-07", "moved": False},
                {"months": 0, "earlier": "2024-01-07", "moved": False},
                {"months": 12, "earlier": "../x", "moved": False},
                {"months": 12, "earlier": None, "moved": False},
                {"months": 12, "earlier": "2024-01-07", "moved": 0},
            )
        ),
    ],
)
def test_a_damaged_record_is_refused_and_never_replaced_by_itself(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / KEPT_FILE).parent.mkdir()
    (tmp_path / KEPT_FILE).write_bytes(damage)
    with pytest.raises(CorruptResourceError, match=r"temporal\.json"):
        keep_t0(Root(tmp_path), YEAR, WEEKLY[-1], WEEKLY)
    assert (tmp_path / KEPT_FILE).read_bytes() == damage
    move_t0(Root(tmp_path), YEAR, None, WEEKLY)
    assert keep_t0(Root(tmp_path), YEAR, WEEKLY[-1], WEEKLY) is not None
