"""Annotations of profiles: files of them as text, their values, and masks made of them.

Nothing here prints what a cell of a file holds, not even of a header, because it may be an allele.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import InputError
from genolewm_assets.forensic.panels import CHANNELS, Panel
from genolewm_assets.store.files import JsonValue, decode_text
from genolewm_assets.store.tables import find_misspelt

#: Categories of spans by their numbers in masks, with the names of DNANet's label tool; 0 is no category.
SPAN_CATEGORIES = (
    "",
    "Allele",
    "Stutter",
    "PullUp",
    "BleedThrough",
    "Spike",
    "DyeBlob",
    "Artefact",
    "Unclear",
    "Shoulder",
    "ForeignDna",
    "OverloadingArtefact",
)
#: A peak that is lower is no reason for a label, and a labelled peak ends where the trace falls below it.
MIN_PEAK_RFU = 40

Mask = npt.NDArray[np.int8]
Adjustment = Literal["top", "complete"]
#: Row, first point, and point after the last one.
Place = tuple[int, int, int]
_DELIMITERS = "\t;,"
_SPAN_COLUMNS = ("user", "profile", "dye", "x0", "x1", "category")
#: Off-bin alleles in reports of GeneMarker: ``OB_15.1``.
_OFF_BIN = re.compile(r"OB[_ ]?")
#: What programs that read alleles as numbers write after a whole one: ``12.0``.
_NO_FRACTION = re.compile(r"\.0+$")
_ALLELE = "Allele"
_FIRST_WORD = re.compile(r"[^\W\d_]*")


@dataclass(frozen=True, slots=True, repr=False)
class AlleleAnnotation:
    """Names of the alleles that an analyst called, by locus, in the order of the report."""

    loci: Mapping[str, tuple[str, ...]]

    def __repr__(self) -> str:
        return f"AlleleAnnotation({len(self.loci)} loci)"

    def as_json(self) -> JsonValue:
        """Return the annotation as JSON values; :meth:`from_json` reads them."""
        return [{"locus": name, "alleles": list(alleles)} for name, alleles in self.loci.items()]

    @classmethod
    def from_json(cls, value: JsonValue) -> AlleleAnnotation:
        """Return the annotation that :meth:`as_json` wrote."""
        assert isinstance(value, list), "written by as_json"
        return cls({each["locus"]: tuple(each["alleles"]) for each in value})


@dataclass(frozen=True, slots=True)
class Span:
    """First and last point of a piece of one dye's trace, and its index in :data:`SPAN_CATEGORIES`."""

    channel: int
    first: int
    last: int
    category: int


@dataclass(frozen=True, slots=True, repr=False)
class SpanAnnotation:
    """Pieces of a profile's traces that an analyst marked, in the order of the file."""

    spans: tuple[Span, ...]

    def __repr__(self) -> str:
        return f"SpanAnnotation({len(self.spans)} spans)"


Annotation = AlleleAnnotation | SpanAnnotation


@dataclass(frozen=True, slots=True)
class Table:
    """A delimited text file: number of the line and as many cells as columns of each line that is not empty."""

    columns: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...] = field(repr=False)


def parse_table(data: bytes, where: str) -> Table:
    """Return the cells of a delimited text; of tabulators, semicolons and commas, the header tells the delimiter.

    Raises
    ------
    InputError
        If the bytes are no text, there is no header, or a line has more cells than the header.
    """
    text = decode_text(data, where)
    header = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=header.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        columns = tuple(name.strip() for name in next(lines, ()))
        rows = [(lines.line_num, cells) for cells in lines if any(map(str.strip, cells))]
    except csv.Error as err:
        raise InputError(where, f"is no table ({err})") from err
    if len(columns) < 2:
        raise InputError(where, "has no header", expected="at least two columns", got=str(len(columns)))
    for number, cells in rows:
        if any(map(str.strip, cells[len(columns) :])):
            raise InputError(
                f"{where} line {number}", "has too many cells", expected=f"at most {len(columns)}", got=str(len(cells))
            )
    padded = ((number, tuple(map(str.strip, cells)) + ("",) * len(columns)) for number, cells in rows)
    return Table(columns, tuple((number, cells[: len(columns)]) for number, cells in padded))


def parse_allele_report(data: bytes, where: str) -> dict[str, AlleleAnnotation]:
    """Return the alleles of each sample of a report.

    The first two columns are the sample and the locus. Columns that begin with ``Allele`` hold alleles; heights beside
    or behind them are not read. So reports of GeneMarker (``Allele#1``, ``Height#1``, ...) and GeneMapper
    (``Allele 1``, ..., ``Height 1``, ...) are understood. ``OB`` before an allele and ``.0`` after it are dropped.

    Raises
    ------
    InputError
        If it is no such table, a column's name nearly begins with ``Allele``, or a row has no sample or locus, or a
        sample has a locus twice.
    """
    table = parse_table(data, where)
    for number, name in enumerate(table.columns[2:], 3):
        if not name.startswith(_ALLELE) and find_misspelt(_FIRST_WORD.findall(name)[:1], (_ALLELE,)):
            expected, remedy = f"to begin with {_ALLELE!r}", "Rename the column, so that its alleles are read"
            problem = f"column {number} is misspelt"
            raise InputError(where, problem, expected=expected, got="nearly that", remedy=remedy)
    allele_columns = [at for at, name in enumerate(table.columns) if at > 1 and name.startswith(_ALLELE)]
    if not allele_columns:
        expected = "columns for sample and locus, then columns that begin with 'Allele'"
        raise InputError(where, "is no allele report", expected=expected, got=f"{len(table.columns)} columns")
    loci: dict[str, dict[str, tuple[str, ...]]] = {}
    for number, cells in table.rows:
        if not cells[0] or not cells[1]:
            raise InputError(f"{where} line {number}", "the row has no sample or no locus", expected="both")
        own = loci.setdefault(cells[0], {})
        if cells[1] in own:
            raise InputError(f"{where} line {number}", "the sample has the locus twice")
        names = (_NO_FRACTION.sub("", _OFF_BIN.sub("", cells[at], count=1).strip()) for at in allele_columns)
        own[cells[1]] = tuple(dict.fromkeys(name for name in names if name))
    return {sample: AlleleAnnotation(own) for sample, own in loci.items()}


def parse_spans(data: bytes, where: str, *, annotator: str | None = None) -> dict[str, SpanAnnotation]:
    """Return the spans of each profile of a label tool's table, of ``annotator`` or else of its only user."""
    table = parse_table(data, where)
    if not set(_SPAN_COLUMNS) <= set(table.columns):
        raise InputError(
            where, "is no table of spans", expected=", ".join(_SPAN_COLUMNS), got=f"{len(table.columns)} columns"
        )
    places = [table.columns.index(name) for name in _SPAN_COLUMNS]
    spans: dict[str, list[Span]] = {}
    users: dict[str, str] = {}
    for number, cells in table.rows:
        user, profile, dye, first, last, category = (cells[at] for at in places)
        if annotator is not None and user != annotator:
            continue
        if users.setdefault(profile, user) != user:
            problem = "the profile was annotated by several users"
            raise InputError(f"{where} line {number}", problem, expected="one user", remedy="Name the annotator")
        spans.setdefault(profile, []).append(_span(dye, first, last, category, f"{where} line {number}"))
    return {profile: SpanAnnotation(tuple(own)) for profile, own in spans.items()}


def _span(dye: str, first: str, last: str, category: str, where: str) -> Span:
    channel = CHANNELS.get(dye.lower())
    if channel is None:
        raise InputError(where, "the dye is unknown", expected=f"one of {', '.join(CHANNELS)}")
    if category not in SPAN_CATEGORIES:
        raise InputError(where, "the category is unknown", expected=f"one of {', '.join(map(repr, SPAN_CATEGORIES))}")
    first, last = _NO_FRACTION.sub("", first), _NO_FRACTION.sub("", last)
    if not (re.fullmatch(r"\d{1,6}", first, re.ASCII) and re.fullmatch(r"\d{1,6}", last, re.ASCII)):
        raise InputError(where, "the span has no points", expected="two whole numbers in x0 and x1")
    if int(first) > int(last):
        raise InputError(where, "the span ends before it begins", expected="x0 up to x1")
    return Span(channel, int(first), int(last), SPAN_CATEGORIES.index(category))


def parse_annotation_map(data: bytes, where: str, threshold: str) -> dict[str, str]:
    """Return the name of the annotation by the stem of the instrument file, from the column named by ``threshold``."""
    table = parse_table(data, where)
    fits = [at for at, name in enumerate(table.columns) if at and threshold in name]
    if len(fits) != 1:
        raise InputError(
            where, "has no column of the threshold", expected=f"one that contains {threshold!r}", got=str(len(fits))
        )
    pairs = [(number, stem_of(cells[0]), cells[fits[0]]) for number, cells in table.rows]
    return _one_each([pair for pair in pairs if pair[2]], where)


def parse_ladder_map(data: bytes, where: str) -> dict[str, str]:
    """Return the path of the ladder, as the table has it, by the stem of the instrument file."""
    table = parse_table(data, where)
    if not {"image_path", "ladder_path"} <= set(table.columns):
        raise InputError(
            where, "is no ladder table", expected="image_path, ladder_path", got=f"{len(table.columns)} columns"
        )
    image, ladder = (table.columns.index(name) for name in ("image_path", "ladder_path"))
    return _one_each([(number, stem_of(cells[image]), cells[ladder]) for number, cells in table.rows], where)


def _one_each(pairs: Sequence[tuple[int, str, str]], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, name, value in pairs:
        if found.setdefault(name, value) != value:
            raise InputError(f"{where} line {number}", "the file is mapped twice", got=repr(name))
    return found


def stem_of(path: str) -> str:
    """Return the file name in a path of any system, without the suffix ``.hid`` or ``.fsa``."""
    name = PureWindowsPath(path.strip()).name
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and suffix.lower() in {"hid", "fsa"} else name


def same_path(path: str, names: Iterable[str]) -> str | None:
    """Return the first of the names that end with most of the same folders and file as a path; None without any."""
    parts = PureWindowsPath(path.strip()).parts[::-1]

    def depth(name: str) -> int:
        pairs = zip(parts, reversed(PurePosixPath(name).parts), strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))

    return max(filter(depth, sorted(names)), key=depth, default=None)


def place_alleles(
    annotation: AlleleAnnotation, panel: Panel, scaler: npt.ArrayLike, channels: Sequence[int]
) -> tuple[list[Place], int]:
    """Return the points nearest to the limits of each allele's bin, at least one, and the number of alleles without.

    ``scaler`` is the size in base pairs at each point; ``channels`` are those of the profile's rows. Alleles off the
    ladder, and of loci that the panel lacks, have no bin.
    """
    sizes = np.asarray(scaler, np.float64)
    bins = {(locus.name, each.allele): (locus.channel, each) for locus in panel.loci for each in locus.bins}
    places, unplaced = [], 0
    for name, alleles in annotation.loci.items():
        for allele in alleles:
            if (name, allele) not in bins:
                unplaced += 1
                continue
            channel, own = bins[name, allele]
            limits = own.size_bp - own.left_bp, own.size_bp + own.right_bp
            first, end = (int(np.abs(sizes - limit).argmin()) for limit in limits)
            places.append((channels.index(channel), first, max(end, first + 1)))
    return places, unplaced


def mask_of_bins(places: Sequence[Place], shape: tuple[int, int]) -> Mask:
    """Return 1 at every point of the bins and 0 elsewhere: int8, shape (n_rows, n_points)."""
    mask = np.zeros(shape, np.int8)
    for row, first, end in places:
        mask[row, first:end] = 1
    return mask


def mask_of_peaks(places: Sequence[Place], data: npt.NDArray[np.int16], adjustment: Adjustment) -> Mask:
    """Return 1 at the peak of each bin: its highest point (``top``), or all points round it from 40 RFU (``complete``).

    A bin that holds only the slope of a peak has its peak where the slope ends. int8, the shape of ``data``.
    """
    mask = np.zeros(data.shape, np.int8)
    for row, first, end in places:
        trace = data[row]
        top = _top_of(trace, first, end)
        if trace[top] < MIN_PEAK_RFU:
            continue
        low, high = (top, top) if adjustment == "top" else _peak_at(trace, top)
        mask[row, low : high + 1] = 1
    return mask


def _top_of(trace: npt.NDArray[np.int16], first: int, end: int) -> int:
    """Return the highest point of a bin, or the top of the slope that it lies on."""
    top = first + int(trace[first:end].argmax())
    while True:
        low, high = max(top - 1, 0), min(top + 1, len(trace) - 1)
        higher = low if trace[low] > trace[high] else high
        if trace[higher] <= trace[top]:
            return top
        top = higher


def _peak_at(trace: npt.NDArray[np.int16], top: int) -> tuple[int, int]:
    """Return the first and last point round a top that reach :data:`MIN_PEAK_RFU`."""
    below = np.flatnonzero(trace < MIN_PEAK_RFU)
    at = int(np.searchsorted(below, top))
    return (int(below[at - 1]) + 1 if at else 0), (int(below[at]) - 1 if at < len(below) else len(trace) - 1)


def mask_of_spans(annotation: SpanAnnotation, shape: tuple[int, int], channels: Sequence[int], where: str) -> Mask:
    """Return the category of each point, of two spans the later one's, else 0: int8, shape (n_rows, n_points)."""
    mask = np.zeros(shape, np.int8)
    for span in annotation.spans:
        if span.channel not in channels or not 0 <= span.first <= span.last < shape[1]:
            expected = f"channels {', '.join(map(str, channels))} and points 0 to {shape[1] - 1}"
            got = f"channel {span.channel}, points {span.first} to {span.last}"
            remedy = "Check that the annotation was made on the same grid"
            raise InputError(where, "a span lies outside of the profile", expected=expected, got=got, remedy=remedy)
        mask[channels.index(span.channel), span.first : span.last + 1] = span.category
    return mask
