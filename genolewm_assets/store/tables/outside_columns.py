"""Read columns of tables that others wrote: one place for the names and types that are accepted.

pandas writes integers with missing values as doubles: such a column is read as what it is. A column that cannot be
read is an error, never an absent one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import InputError

_INTEGER_TEXT = r"^-?[0-9]{1,18}$"
#: Largest double of which each smaller whole number is a double too.
_LARGEST_WHOLE = float(1 << 53)
_LARGEST = (1 << 63) - 1
_NO_LETTER = re.compile(r"[\W_]+")
#: Shortest part of a name that can stand for it, such as ``chr`` for ``chrom``.
_SHORTEST_PART = 3


class Wanted(StrEnum):
    """What a column holds: ``TEXT``; ``LABEL``, a name that may be a number; ``WHOLE``, whole numbers."""

    TEXT = "text"
    LABEL = "text or whole numbers"
    WHOLE = "whole numbers (integers, doubles without a fraction, or text)"


class Unreadable(NamedTuple):
    """A value that is not what its column holds, as text."""

    text: str


Value: TypeAlias = str | int | Unreadable | None


def column_faults(schema: pa.Schema, wanted: Mapping[str, Wanted], *, where: str) -> Iterator[InputError]:
    """Yield an error for each column that is misspelt, is there twice or has another type than its entry in ``wanted``.

    Any of the wanted columns may be missing, and other columns are not looked at.
    """
    for name, near in find_misspelt(schema.names, wanted).items():
        yield InputError(
            where,
            f"column {name!r} ({schema.field(schema.names.index(name)).type}) has nearly the name of another",
            expected=f"{near!r} ({wanted[near]}), or no such column",
            got=repr(name),
            remedy=f"Rename it to {near!r}, or, if it is something else, to what it is",
        )
    for name, kind in wanted.items():
        places = schema.get_all_field_indices(name)
        if len(places) > 1:
            yield InputError(where, f"column {name!r} is there {len(places)} times", expected="once")
        elif places and not _is_readable(schema.field(places[0]).type, kind):
            yield InputError(
                where,
                f"column {name!r} has another type",
                expected=str(kind),
                got=str(schema.field(places[0]).type),
                remedy="Write the column with the expected type, or leave it out",
            )


def read_column(column: pa.Array, wanted: Wanted) -> list[Value]:
    """Return the values of a column that :func:`column_faults` accepts; NaN and blank text are None among numbers."""
    column = _decoded(column)
    if wanted is Wanted.TEXT or (wanted is Wanted.LABEL and _is_text(column.type)):
        values: list[Value] = column.to_pylist()
        return values
    numbers, missing = _whole_numbers(column)
    values = (numbers.cast(pa.string()) if wanted is Wanted.LABEL else numbers).to_pylist()
    for row in pc.indices_nonzero(pc.and_not(pc.is_null(numbers), missing)).to_pylist():
        values[row] = Unreadable(str(column[row].as_py()))
    return values


def _whole_numbers(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the whole numbers of a column, int64 and null where there is none, and which values are missing."""
    missing = pc.is_null(column, nan_is_null=True)
    if _is_text(column.type):
        column = pc.utf8_trim_whitespace(column)
        missing = pc.or_(missing, pc.fill_null(pc.equal(column, ""), True))
        fit = pc.match_substring_regex(column, _INTEGER_TEXT)
    elif pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        fit = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), _LARGEST_WHOLE))
    elif column.type == pa.uint64():
        fit = pc.less_equal(column, pa.scalar(_LARGEST, pa.uint64()))
    else:
        fit = pc.is_valid(column)
    return pc.if_else(fit, column, pa.scalar(None, column.type)).cast(pa.int64()), missing


def _decoded(column: pa.Array) -> pa.Array:
    """Return a column without dictionary, and text of a type that all functions take."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column


def _is_readable(kind: pa.DataType, wanted: Wanted) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return _is_text(kind) or pa.types.is_null(kind) or (numeric and wanted is not Wanted.TEXT)


def _is_text(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def find_misspelt(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return the names that are nearly a known name which is missing, each with that name.

    Nearly: equal but for case and for characters that are no letters or digits, one slip of the pen away (a letter more
    or less, another letter, two neighbours exchanged), or the beginning of the other (``chr``, ``chromosome``).

    Examples
    --------
    >>> find_misspelt(["Start", "edn", "strand", "strain"], ("start", "end", "strand"))
    {'Start': 'start', 'edn': 'end'}
    """
    there = list(names)
    missing = {name: _plain(name) for name in known if name not in there}
    pairs = ((name, _nearest(_plain(name), missing)) for name in there if name not in known)
    return {name: near for name, near in pairs if near is not None}


def _plain(name: str) -> str:
    return _NO_LETTER.sub("", name).casefold()


def _nearest(name: str, missing: dict[str, str]) -> str | None:
    for is_near in (str.__eq__, _is_slip, _is_part):
        for known, plain in missing.items():
            if is_near(name, plain):
                return known
    return None


def _is_slip(one: str, other: str) -> bool:
    one, other = _without_shared(one, other)
    one, other = _without_shared(one[::-1], other[::-1])
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _without_shared(one: str, other: str) -> tuple[str, str]:
    """Return two words without the letters that both begin with."""
    differing = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    shared = next(differing, min(len(one), len(other)))
    return one[shared:], other[shared:]


def _is_part(one: str, other: str) -> bool:
    return min(len(one), len(other)) >= _SHORTEST_PART and (one.startswith(other) or other.startswith(one))
