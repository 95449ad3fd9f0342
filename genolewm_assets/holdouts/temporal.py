"""The earlier release T0 of the temporal holdout: the rule that chooses it, and the record that keeps it.

::

    <root>/holdouts/temporal.json   the T0 that ``months: N`` chose first, or that a person moved it to

The record is made once, for the newest packaged release, and used for every release that is late enough for it, so T0
does not move with each new release and does not depend on the order of builds.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path

from genolewm_assets.errors import (
    ConfigurationError,
    CorruptResourceError,
    InputError,
    MissingResourceError,
    ResourceError,
)
from genolewm_assets.store.artefacts import Root
from genolewm_assets.store.files import canonical_json, make_directories, read_document, write_atomic
from genolewm_assets.variants import ReleaseKey, in_order, is_before, is_release_key

#: Path of the record, relative to the root.
KEPT_FILE = "holdouts/temporal.json"

_SCHEMA, _SCHEMA_VERSION = "genolewm.temporal_holdout", "1.0"
#: Writers hold the record's lock only briefly.
_LOCK_WAIT_S = 10.0


class TemporalRule(StrEnum):
    """Why a release has its T0, or none.

    ``off``: the catalogue turns the temporal holdout off. ``named``: the catalogue names T0. ``months``: the newest
    release at least N months older, as the root keeps it. ``moved``: a person moved T0. ``not_before``: T0 is named,
    but is not before the release. ``none_old_enough``: no known release is N months older.
    """

    OFF = "off"
    NAMED = "named"
    MONTHS = "months"
    MOVED = "moved"
    NOT_BEFORE = "not_before"
    NONE_OLD_ENOUGH = "none_old_enough"


@dataclass(frozen=True, slots=True)
class TemporalSetting:
    """The catalogue's ``holdouts.temporal``: a named release, or an age in months, or neither (off).

    Raises
    ------
    ConfigurationError
        If both are given, or the age is less than one month.
    """

    release: str | None = None
    months: int | None = None

    def __post_init__(self) -> None:
        if self.release is not None and self.months is not None:
            raise ConfigurationError("holdouts.temporal", "names a release and an age", expected="one of the two")
        if self.months is not None and self.months < 1:
            raise ConfigurationError("holdouts.temporal", "too few months", expected="at least 1", got=f"{self.months}")

    def __str__(self) -> str:
        return f"{self.months} months" if self.months is not None else self.release or "off"


@dataclass(frozen=True, slots=True)
class TemporalChoice:
    """T0 of one release, or None, and the rule that decided."""

    earlier: str | None
    rule: TemporalRule


@dataclass(frozen=True, slots=True)
class KeptT0:
    """Record of a root's T0 for ``months`` of the catalogue; if a person ``moved`` it, it holds for any months."""

    months: int
    earlier: str
    moved: bool = False

    def serves(self, release: str) -> bool:
        """Tell whether the kept T0 is old enough for a release: before it if a person named it, else N months older."""
        if self.moved:
            return is_before(self.earlier, release)
        return ReleaseKey.parse(self.earlier).day <= _months_before(release, self.months)

    def belongs_to(self, setting: TemporalSetting) -> bool:
        """Tell whether a setting uses the record: any age if a person named T0, else the age it was made for."""
        return setting.months is not None and (self.moved or self.months == setting.months)


def newest_at_age(release: str, months: int, known: Iterable[str]) -> str | None:
    """Return the newest of the known releases that is at least ``months`` calendar months older than ``release``.

    Where the month has no such day, its last day counts:

    >>> newest_at_age("2026-05-31", 3, ["2026-02-21", "2026-02-28", "2026-03-07"])
    '2026-02-28'
    """
    limit = _months_before(release, months)
    return next((key for key in reversed(in_order(known)) if ReleaseKey.parse(key).day <= limit), None)


def choose_t0(
    release: str, setting: TemporalSetting, known: Iterable[str], kept: KeptT0 | None = None
) -> TemporalChoice:
    """Choose T0 of a release.

    Parameters
    ----------
    release, known
        Key of the package's release, T1, and keys of the releases of the root.
    kept
        The root's record; used if it belongs to the setting and is old enough for ``release``.

    Raises
    ------
    ConfigurationError
        If the kept T0 is none of the known releases.
    """
    if setting.release is not None:
        named = is_before(setting.release, release)
        return TemporalChoice(setting.release, TemporalRule.NAMED) if named else _NOT_BEFORE
    if setting.months is None:
        return TemporalChoice(None, TemporalRule.OFF)
    releases = tuple(known)
    if kept is not None and kept.belongs_to(setting) and kept.serves(release):
        if kept.earlier not in releases:
            raise ConfigurationError(
                f"T0 {kept.earlier}, kept in {KEPT_FILE}",
                "is not a release that the root knows and the catalogue admits",
                expected=f"one of {', '.join(in_order(releases))}",
                remedy="Admit the release (clinvar.releases), or forget it (genolewm holdouts t0 --clear): "
                "the next build then chooses T0 again",
            )
        return TemporalChoice(kept.earlier, TemporalRule.MOVED if kept.moved else TemporalRule.MONTHS)
    found = newest_at_age(release, setting.months, releases)
    return TemporalChoice(found, TemporalRule.NONE_OLD_ENOUGH if found is None else TemporalRule.MONTHS)


_NOT_BEFORE = TemporalChoice(None, TemporalRule.NOT_BEFORE)


def describe_temporal(policy: Mapping[str, object], release: str) -> str:
    """Return one sentence on T0 and its reason, from a policy as a recipe states it, and the release T1."""
    pair, setting = policy.get("temporal"), policy.get("temporal_setting", "off")
    if isinstance(pair, list | tuple):
        return f"T0 {pair[0]}, T1 {pair[1]}: {_REASONS[TemporalRule(str(policy['temporal_rule']))].format(setting)}"
    rule = policy.get("temporal_rule", TemporalRule.OFF)
    return f"no temporal holdout for {release}: {_REASONS[TemporalRule(str(rule))].format(setting)}"


_REASONS: Mapping[TemporalRule, str] = {
    TemporalRule.OFF: "holdouts.temporal is off",
    TemporalRule.NAMED: "the catalogue names T0",
    TemporalRule.MONTHS: "the newest release at least {} older, kept until it is moved",
    TemporalRule.MOVED: "moved by `genolewm holdouts t0`; the catalogue asks for {}",
    TemporalRule.NOT_BEFORE: "the catalogue names {}, which is not before it",
    TemporalRule.NONE_OLD_ENOUGH: "no release is {} older",
}


def find_kept(root: Path, setting: TemporalSetting, newest: str, known: Iterable[str]) -> KeptT0 | None:
    """Return the root's record of T0, or the one that :func:`keep_t0`, with these arguments, would make."""
    if setting.months is None:
        return None
    kept = read_kept(root)
    if kept is not None and kept.belongs_to(setting):
        return kept
    earlier = newest_at_age(newest, setting.months, known)
    return None if earlier is None else KeptT0(setting.months, earlier)


def keep_t0(root: Root, setting: TemporalSetting, newest: str, known: Iterable[str]) -> KeptT0 | None:
    """Return the root's record of T0; make it for the newest packaged release if there is none for the setting.

    Parameters
    ----------
    newest, known
        Keys of the newest release that is packaged, whichever is being built, and of the releases of the root.

    Returns
    -------
    KeptT0 or None
        None if the setting is not ``months``, or no release is old enough to be kept.

    Raises
    ------
    CorruptResourceError
        If the record cannot be read.
    BusyError
        If another process holds the record's lock.
    """
    releases = tuple(known)
    kept = find_kept(root.path, setting, newest, releases)
    if kept is None or kept == read_kept(root.path):
        return kept
    owner = Root(root.path, lock_wait_s=_LOCK_WAIT_S)
    with owner.storage_errors(KEPT_FILE), owner.lock(KEPT_FILE) as lease:
        # Another process may have made the record meanwhile.
        kept = find_kept(root.path, setting, newest, releases)
        if kept is not None and kept != read_kept(root.path):
            with lease.fenced():
                _write(root.path / KEPT_FILE, kept)
    return kept


def move_t0(root: Root, setting: TemporalSetting, earlier: str | None, known: Iterable[str]) -> None:
    """Move the root's T0 to a release; with None remove the record, so that the next build chooses again.

    Raises
    ------
    ConfigurationError
        If the catalogue names T0 or turns the temporal holdout off, so that a record has no effect.
    InputError
        If the release is not known, or no known release is after it.
    BusyError
        If another process holds the record's lock.
    """
    if setting.months is None:
        raise ConfigurationError(
            "holdouts.temporal",
            "the catalogue decides T0, so it cannot be moved in the root",
            expected="{months: N}",
            got=str(setting),
            remedy="Change the catalogue",
        )
    releases = in_order(known)
    if earlier is not None and earlier not in releases[:-1]:
        raise InputError(
            "T0",
            "not a release with a later one",
            expected=f"one of {', '.join(releases[:-1]) or 'none: two releases are needed'}",
            got=repr(earlier),
        )
    owner = Root(root.path, lock_wait_s=_LOCK_WAIT_S)
    with owner.storage_errors(KEPT_FILE), owner.lock(KEPT_FILE) as lease, lease.fenced():
        if earlier is None:
            (root.path / KEPT_FILE).unlink(missing_ok=True)
        else:
            _write(root.path / KEPT_FILE, KeptT0(setting.months, earlier, moved=True))


def read_kept(root: Path) -> KeptT0 | None:
    """Return the root's record of T0, or None without one; CorruptResourceError if it cannot be read."""
    path = root / KEPT_FILE
    try:
        document = read_document(path, remedy="")
    except MissingResourceError:
        return None
    except ResourceError as err:
        raise _corrupt(path, err.problem) from err
    form = {"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION}
    if not isinstance(document, dict) or {name: document.pop(name, None) for name in form} != form:
        raise _corrupt(path, f"is not a record of {_SCHEMA} {_SCHEMA_VERSION}")
    try:
        kept = KeptT0(**document)
    except TypeError as err:
        raise _corrupt(path, "has other fields than months, earlier and moved") from err
    sound = type(kept.months) is int and kept.months > 0 and type(kept.moved) is bool
    if not sound or not isinstance(kept.earlier, str) or not is_release_key(kept.earlier):
        raise _corrupt(path, "does not name months and a release")
    return kept


def _months_before(release: str, months: int) -> date:
    """Return the day ``months`` calendar months before a release's day; year 1 at the earliest."""
    day = ReleaseKey.parse(release).day
    year, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    if year < 1:
        return date.min
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _write(path: Path, kept: KeptT0) -> None:
    make_directories(path.parent)
    document = {"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION, **asdict(kept)}
    write_atomic(path, canonical_json(document, str(path)))


def _corrupt(path: Path, problem: str) -> CorruptResourceError:
    remedy = "Forget it (genolewm holdouts t0 --clear), then name T0 again if it had been moved"
    return CorruptResourceError(str(path), problem, remedy=remedy)
