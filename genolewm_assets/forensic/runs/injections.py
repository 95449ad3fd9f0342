"""Injections of a run: files read once, ladders fitted, and the ladder that a sample's alleles are named by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from genolewm_assets.errors import AbifError, InputError, PanelError, SizingError
from genolewm_assets.forensic import HidFile, LadderFit, Panel, Sizing, fit_ladder, parse_hid, size_run
from genolewm_assets.forensic.runs.rules import Reason, RunFile, RunRules
from genolewm_assets.store.arrays import RowStamp, read_stamped


class LeftOutError(InputError):
    """A file cannot be used; ``reason`` says why, and the message what is wrong with it."""

    reason: Reason

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"reason": self.reason})


def left_out(reason: Reason, err: InputError) -> LeftOutError:
    """Return an error about a file as the reason to leave the file out."""
    found = LeftOutError(err.where, err.problem, expected=err.expected, got=err.got, remedy=err.remedy)
    found.reason = reason
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """A ladder of the run.

    Attributes
    ----------
    file
        Name of its file.
    run, sizing, fit
        The injection, its sizes, and the kit's panel moved by it.
    """

    file: str
    run: HidFile
    sizing: Sizing
    fit: LadderFit


def read_file(file: RunFile) -> tuple[bytes, RowStamp]:
    """Return the bytes of a file of the run and their stamp.

    Raises
    ------
    InputError
        If the file cannot be read, or is not the one that the build was planned with.
    """
    data, stamp = read_stamped(file.path)
    if stamp.sha256 != file.sha256:
        raise InputError(
            file.name,
            "was changed while the run is built",
            expected=f"SHA-256 {file.sha256[:12]}",
            got=stamp.sha256[:12],
            remedy="Wait until the folder is complete, and build again",
        )
    return data, stamp


def read_injection(file: RunFile) -> tuple[HidFile, RowStamp]:
    """Return the injection of a file and its stamp.

    Raises
    ------
    LeftOutError
        If it is damaged, truncated or no instrument file.
    InputError
        As :func:`read_file`.
    """
    data, stamp = read_file(file)
    try:
        return parse_hid(data, file.name), stamp
    except AbifError as err:
        raise left_out(Reason.UNREADABLE, err) from err


def size_injection(run: HidFile, rules: RunRules) -> Sizing:
    """Return the sizes of an injection; raise LeftOutError if its size standard is missing or does not fit."""
    try:
        return size_run(run, standard=rules.standard, rules=rules.sizing)
    except SizingError as err:
        raise left_out(Reason.NOT_SIZED, err) from err


def fit_run_ladder(file: str, run: HidFile, panel: Panel, rules: RunRules) -> Ladder:
    """Return a ladder of the run, which may lack alleles.

    Raises
    ------
    LeftOutError
        If it is not sized, or most alleles of a locus are missing.
    """
    sizing = size_injection(run, rules)
    try:
        return Ladder(file, run, sizing, fit_ladder(run, sizing, panel))
    except PanelError as err:
        raise left_out(Reason.LADDER_NOT_FITTED, err) from err


def choose_ladder(run: HidFile, ladders: Sequence[Ladder]) -> Ladder:
    """Return the ladder of the same injection, else the one that ran nearest in time; of equals the first by name."""

    def distance(ladder: Ladder) -> tuple[bool, timedelta, str]:
        other = ladder.run.run
        apart = _apart(run.run.started, other.started)
        return not (run.run.injection and run.run.injection == other.injection), apart, ladder.file

    return min(ladders, key=distance)


def first_scan(run: HidFile, sizing: Sizing, rules: RunRules, *, margin: int = 32) -> int:
    """Return the scan that a row begins with, ``margin`` before the first fragment.

    Raises
    ------
    LeftOutError
        If the row would end before the last fragment.
    """
    first = max(0, int(np.floor(sizing.scans[0])) - margin)
    needed = int(np.ceil(sizing.scans[-1])) + 1 - first
    if needed > rules.n_scanpoints:
        expected = f"at most {rules.n_scanpoints:,} scans from the first fragment to the last (forensic.n_scanpoints)"
        raise left_out(Reason.TOO_LONG, InputError(run.where, "is too long", expected=expected, got=f"{needed:,}"))
    return first


def _apart(one: datetime | None, other: datetime | None) -> timedelta:
    return timedelta.max if one is None or other is None else abs(one - other)
