"""One injection as the instrument wrote it: a run's facts, and per dye the raw and the analysed trace."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import AbifError, PanelError
from genolewm_assets.forensic.abif.directory import read_directory
from genolewm_assets.forensic.abif.tags import AbifTags
from genolewm_assets.store.files import open_plain

#: Largest file that is read; a real one has 1 MB.
MAX_FILE_BYTES = 256 << 20
_MAX_DYES = 16
#: In the assay of a 3500, before name, wavelength and channel of each dye, in the order of ``DyeN``.
_ASSAY_DYES = b'name="Dyes">['
#: Longest text of which a fact is made, and longest list of settings; real ones have 52 and 1,800 characters.
_MAX_TEXT, _MAX_SETTINGS = 255, 20_000
_SATURATION = ("Satd", "OfSc")
#: Largest value of a trace; the detector of older instruments stops at it.
_FULL_SCALE = 32_767


@dataclass(frozen=True, slots=True)
class Dye:
    """One dye and its traces."""

    #: 1, 2, ...: place of its traces in the file; of the 3500's dyes 5 is orange and 6 purple.
    channel: int
    #: Name as the instrument knows it; empty if the file has none.
    name: str
    #: Emission; None if the file has none.
    wavelength_nm: int | None
    #: Fluorescence as collected, dyes separated: int16, shape (n_scans,), read-only.
    raw: npt.NDArray[np.int16] = field(repr=False)
    #: Fluorescence smoothed and without baseline, likewise; None if the file has none of the length of ``raw``.
    analysed: npt.NDArray[np.int16] | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about the instrument and the injection; None or empty where the file says nothing."""

    #: May name a person.
    sample: str = field(repr=False)
    instrument: str
    model: str
    serial: str
    software: str
    polymer: str
    well: str
    lane: int | None
    injection: str
    injection_voltage_v: int | None
    injection_s: int | None
    run_voltage_v: int | None
    started: datetime | None
    size_standard: str
    size_standard_sizes_bp: tuple[float, ...]
    size_standard_channel: int


@dataclass(frozen=True, slots=True, eq=False)
class HidFile:
    """One injection.

    Attributes
    ----------
    where
        Name of the file, for messages.
    version
        Version of the format, such as 300.
    dyes
        Dyes in order of their channels; all traces have one length.
    off_scale
        Scans at which the detector was saturated in any dye: int64, shape (n,), ascending.
    """

    where: str
    version: int
    tags: AbifTags
    dyes: tuple[Dye, ...]
    off_scale: npt.NDArray[np.int64] = field(repr=False)
    run: RunFacts

    @property
    def n_scans(self) -> int:
        """Number of scans of each trace."""
        return len(self.dyes[0].raw)

    def dye(self, channel: int, where: str) -> Dye:
        """Return the dye of a panel's channel; raise PanelError, which begins with ``where``, if the run lacks it."""
        if not 1 <= channel <= len(self.dyes):
            expected, remedy = f"1 to {len(self.dyes)}", "Check that the panel is that of the kit"
            raise PanelError(where, "the run lacks its channel", expected=expected, got=str(channel), remedy=remedy)
        return self.dyes[channel - 1]


def read_hid(path: str | Path) -> HidFile:
    """Read a ``.hid`` or ``.fsa`` file; a plain ABIF directory and a scrambled one are both understood.

    Raises
    ------
    AbifError
        If it is no such file, a Git LFS pointer, truncated, damaged or larger than 256 MiB.
    MissingResourceError, CorruptResourceError, ResourceError
        If there is no file, it is a folder or device, or it cannot be read.
    """
    path = Path(path)
    with open_plain(path, links=True, remedy="Name an instrument file") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > MAX_FILE_BYTES:
            raise AbifError(str(path), "is too large", expected=f"at most {MAX_FILE_BYTES:,} bytes", got=f"{size:,}")
        return parse_hid(stream.read(size), str(path))


def parse_hid(data: bytes, where: str) -> HidFile:
    """Return the injection that the bytes of a file hold; ``where`` names the file in messages.

    Raises
    ------
    AbifError
        As :func:`read_hid`.
    """
    entries, version = read_directory(data, where)
    tags = AbifTags(data, entries, where)
    dyes = _read_dyes(tags, where)
    return HidFile(where, version, tags, dyes, _off_scale(tags, dyes), _read_run(tags, len(dyes)))


def _read_dyes(tags: AbifTags, where: str) -> tuple[Dye, ...]:
    stated = tags.find("Dye#", 1, int)
    channels = range(1, 1 + (_MAX_DYES if stated is None else min(stated, _MAX_DYES)))
    order = _dye_order(tags, stated)
    dyes: list[Dye] = []
    for channel in channels:
        raw = tags.trace(channel if channel <= 4 else 100 + channel)
        if raw is None:
            break
        number = order.get(channel, channel)
        analysed = tags.trace(channel + 8 if channel <= 4 else 200 + channel)
        name = (tags.find("DyeN", number, str) or "")[:_MAX_TEXT].strip()
        if analysed is not None and len(analysed) != len(raw):
            analysed = None
        dyes.append(Dye(channel, name, tags.find("DyeW", number, int), raw, analysed))
    if not dyes or (stated is not None and len(dyes) != stated):
        expected = str(stated) if stated is not None and stated > 0 else "at least one"
        raise AbifError(where, "traces are missing", expected=expected, got=str(len(dyes)))
    if not len(dyes[0].raw):
        raise AbifError(where, "traces are empty", expected="at least one scan", got="0")
    lengths = {len(dye.raw) for dye in dyes}
    if len(lengths) > 1:
        raise AbifError(where, "traces differ in length", expected="one length", got=str(sorted(lengths)))
    return tuple(dyes)


def _dye_order(tags: AbifTags, n_dyes: int | None) -> dict[int, int]:
    """Return the number of ``DyeN`` by channel: the assay states it; else the last two of six dyes change places."""
    assay = tags.find("AsyC", 1, bytes) or b""
    at = assay.find(_ASSAY_DYES)
    listed = assay[at + len(_ASSAY_DYES) :][:_MAX_SETTINGS].partition(b"]")[0] if at >= 0 else b""
    order = {}
    for number, dye in enumerate(listed.split(b",")[:_MAX_DYES], 1):
        channel = dye.rpartition(b";")[2].strip()
        if channel.isdigit() and len(channel) < 3:
            order[int(channel)] = number
    if sorted(order) == sorted(order.values()) and order:
        return order
    return {5: 6, 6: 5} if n_dyes == 6 else {}


def _off_scale(tags: AbifTags, dyes: tuple[Dye, ...]) -> npt.NDArray[np.int64]:
    n_scans = len(dyes[0].raw)
    saturated = np.zeros(n_scans, bool)
    for name in _SATURATION:
        stated = tags.integers(name, 1)
        saturated[stated[(stated >= 0) & (stated < n_scans)]] = True
    for dye in dyes:
        saturated |= dye.raw == _FULL_SCALE
    return np.flatnonzero(saturated)


def _read_run(tags: AbifTags, n_dyes: int) -> RunFacts:
    def text(name: str, number: int = 1) -> str:
        return (tags.find(name, number, str) or "")[:_MAX_TEXT].strip()

    sizes, channel = _stated_standard((tags.find("ScPa", 1, str) or "")[:_MAX_SETTINGS])
    day, moment = tags.get(("RUND", 1)), tags.get(("RUNT", 1))
    return RunFacts(
        sample=text("SpNm") or text("SMPL"),
        instrument=text("MCHN"),
        model=text("HCFG", 3) or text("MODL"),
        serial=_value_of(text("HCFG", 4), "SerialNumber"),
        software=text("SVER"),
        polymer=text("GTyp"),
        well=text("TUBE"),
        lane=tags.find("LANE", 1, int),
        injection=text("InjN"),
        injection_voltage_v=tags.find("InVt", 1, int),
        injection_s=tags.find("InSc", 1, int),
        run_voltage_v=tags.find("EPVt", 1, int),
        started=datetime.combine(day, moment) if isinstance(day, date) and isinstance(moment, time) else None,
        size_standard=text("StdF"),
        size_standard_sizes_bp=sizes,
        size_standard_channel=channel if channel is not None and 1 <= channel <= n_dyes else min(n_dyes, 5),
    )


def _value_of(settings: str, key: str) -> str:
    """Return a value of a text like ``key=value;key=value``; empty if it lacks the key."""
    return next((part.partition("=")[2] for part in settings.split(";") if part.partition("=")[0] == key), "")


def _stated_standard(settings: str) -> tuple[tuple[float, ...], int | None]:
    number = r"\d{1,5}(\.\d{1,9})?"
    sizes = re.fullmatch(rf"{number}(,{number}){{1,199}}", _value_of(settings, "SizeStandardPeaks"))
    index = _value_of(settings, "SizeStandardDyeIndex")
    numbers = tuple(sorted({float(size) for size in sizes[0].split(",")})) if sizes else ()
    return numbers, int(index) if re.fullmatch(r"\d{1,2}", index, re.ASCII) else None
