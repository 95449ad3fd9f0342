"""Compiled loops over the bytes of VCF text. Each does one task and releases the GIL; none interprets a field.

Import this module inside functions only: importing numba takes half a second. Spans are offsets ``[at, to)`` in the
text, int32, shape (rows,); an absent value has ``at = -1``. A loop that cannot parse a value marks it or stops there;
the caller then parses the value with a plain Python function, which also reports errors.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: State of a number: parsed; missing (absent, ``.`` or empty); left for the caller to parse.
VALUE, MISSING, OTHER = 0, 1, 2

_TAB, _LINE, _RETURN, _HASH, _COMMA, _SEMICOLON, _EQUALS, _DOT, _ZERO, _NINE = 9, 10, 13, 35, 44, 59, 61, 46, 48, 57
_MAX_POS_DIGITS, _MAX_COUNT_DIGITS, _MAX_EXACT_DIGITS, _MAX_EXACT_POWER = 10, 18, 15, 22
# The powers of ten that a double represents exactly.
_POWERS = np.array([10.0**power for power in range(_MAX_EXACT_POWER + 1)])

_memchr: Any = numba.types.ExternalFunction(
    "memchr", numba.types.intp(numba.types.intp, numba.types.int32, numba.types.intp)
)
_memcpy: Any = numba.types.ExternalFunction(
    "memcpy", numba.types.intp(numba.types.intp, numba.types.intp, numba.types.intp)
)


@compiled(nogil=True)
def count_line_ends(text: Bytes) -> int:
    """Return the number of line feeds in a text, uint8."""
    base, size, at, count = text.ctypes.data, len(text), 0, 0
    while at < size:
        end = _memchr(base + at, _LINE, size - at)
        if end == 0:
            break
        count += 1
        at = end - base + 1
    return count


@compiled(nogil=True)
def split_lines(text: Bytes, columns: int, starts: Ints, pos: Longs, alts: Ints) -> int:
    """Find the columns of consecutive whole data lines, and return the number of lines parsed.

    ``starts``: out, int32, shape (9, lines): offsets in ``text`` where CHROM to INFO begin, and the end of INFO plus 1.
    ``pos``, ``alts``: out, shape (lines,): POS (1-based), and the number of ALT alleles (``.`` counts as one). Parsing
    stops at the first line that has another number of columns, begins with ``#``, has a POS that is not a number of at
    most 10 digits, or an empty column among the first eight.
    """
    base, size = text.ctypes.data, len(text)
    line, at = 0, 0
    while at < size:
        end = _memchr(base + at, _LINE, size - at) - base
        after = end + 1
        if end > at and text[end - 1] == _RETURN:
            end -= 1
        if text[at] == _HASH:
            return line
        starts[0, line] = at
        column, here = 1, at
        while column < 8 and here < end:
            if text[here] == _TAB:
                starts[column, line] = here + 1
                if here == starts[column - 1, line]:
                    return line
                column += 1
            here += 1
        if column < 8 or here >= end:
            return line
        if columns == 8:
            if _memchr(base + here, _TAB, end - here) != 0:
                return line
            starts[8, line] = end + 1
        else:
            tab = _memchr(base + here, _TAB, end - here)
            if tab == 0 or tab - base == here or tab - base + 1 == end:
                return line
            starts[8, line] = tab - base + 1
            found = 8
            while tab != 0:
                found += 1
                here = tab - base + 1
                tab = _memchr(base + here, _TAB, end - here)
            if found != columns:
                return line
        digits = starts[2, line] - 1 - starts[1, line]
        if digits > _MAX_POS_DIGITS:
            return line
        number = 0
        for place in range(starts[1, line], starts[2, line] - 1):
            if not _ZERO <= text[place] <= _NINE:
                return line
            number = number * 10 + text[place] - _ZERO
        pos[line] = number
        several = 1
        for place in range(starts[4, line], starts[5, line] - 1):
            several += text[place] == _COMMA
        alts[line] = several
        line += 1
        at = after
    return line


@compiled(nogil=True)
def find_runs(text: Bytes, at: Ints, to: Ints, first: Ints) -> int:
    """Write the index of the first span of each run of equal text into ``first``, and return the number of runs."""
    runs = 0
    for row in range(len(at)):
        size = to[row] - at[row]
        same = row > 0 and to[row - 1] - at[row - 1] == size
        if same:
            for place in range(size):
                if text[at[row] + place] != text[at[row - 1] + place]:
                    same = False
                    break
        if not same:
            first[runs] = row
            runs += 1
    return runs


@compiled(nogil=True)
def locate_keys(
    text: Bytes,
    info: Ints,
    info_end: Ints,
    names: Bytes,
    name_starts: Ints,
    head: Ints,
    chain: Ints,
    at: Ints,
    to: Ints,
) -> int:
    """Find the values of some keys in INFO columns; return the first row that has a key twice, -1 without one.

    ``names``, ``name_starts``: the concatenated keys, the offset where each begins, and the total length. ``head``,
    ``chain``: int32, shape (256,) and (keys,): first key that begins with a byte, and the next one; -1 if there is
    none. ``at``, ``to``: out, int32, shape (keys, rows): span of the value, empty for a key without ``=``. ``at`` is -1
    on entry.
    """
    base = text.ctypes.data
    for row in range(len(info)):
        item, end = info[row], info_end[row]
        while item < end:
            key = head[text[item]]
            after = _memchr(base + item, _SEMICOLON, end - item)
            item_end = end if after == 0 else after - base
            while key >= 0:
                size = name_starts[key + 1] - name_starts[key]
                stop = item + size
                same = stop == item_end or (stop < item_end and text[stop] == _EQUALS)
                if same:
                    for place in range(1, size):
                        if text[item + place] != names[name_starts[key] + place]:
                            same = False
                            break
                if same:
                    if at[key, row] >= 0:
                        return row
                    at[key, row] = min(stop + 1, item_end)
                    to[key, row] = item_end
                    break
                key = chain[key]
            item = item_end + 1
    return -1


@compiled(nogil=True)
def find_elements(text: Bytes, at: Ints, to: Ints, count: Ints, index: Ints, one_at: Ints, one_to: Ints) -> int:
    """Find element ``index`` of comma-separated lists; return the first row without ``count`` elements, else -1.

    ``one_at`` and ``one_to``, int32, shape (rows,), receive the element's span; it is missing if its list is.
    """
    element, here = 0, 0
    for row in range(len(at)):
        one_at[row] = -1
        one_to[row] = -1
        begin, end = at[row], to[row]
        if begin < 0 or begin == end or (end - begin == 1 and text[begin] == _DOT):
            continue
        if row == 0 or at[row - 1] != begin or index[row] <= index[row - 1]:
            elements = 1
            for place in range(begin, end):
                elements += text[place] == _COMMA
            if elements != count[row]:
                return row
            element, here = 0, begin
        # Consecutive rows are alleles of one record: continue in the list, so that a long list is read once.
        while element < index[row] and here < end:
            element += text[here] == _COMMA
            here += 1
        stop = end if index[row] == count[row] - 1 else here
        while stop < end and text[stop] != _COMMA:
            stop += 1
        one_at[row], one_to[row] = here, stop
    return -1


@compiled(nogil=True)
def parse_counts(text: Bytes, at: Ints, to: Ints, values: Longs, state: Bytes) -> None:
    """Parse counts of 1 to 18 digits into ``values``; any other text that is not missing gets the state ``OTHER``."""
    for row in range(len(at)):
        begin, end = at[row], to[row]
        values[row] = 0
        if begin < 0 or begin == end or (end - begin == 1 and text[begin] == _DOT):
            state[row] = MISSING
            continue
        state[row] = VALUE if end - begin <= _MAX_COUNT_DIGITS else OTHER
        number = 0
        if state[row] == VALUE:
            for place in range(begin, end):
                if not _ZERO <= text[place] <= _NINE:
                    state[row] = OTHER
                    break
                number = number * 10 + text[place] - _ZERO
        values[row] = number


@compiled(nogil=True)
def parse_shares(text: Bytes, at: Ints, to: Ints, values: Floats, state: Bytes) -> None:
    """Parse decimal numbers from 0 to 1 into ``values`` if one operation rounds them correctly; others are ``OTHER``.

    A mantissa of up to 15 digits and a power of ten up to 22 are exact doubles, so one division or multiplication of
    the two rounds once and gives the value of ``float()`` (Clinger 1990).
    """
    for row in range(len(at)):
        begin, end = at[row], to[row]
        values[row] = 0.0
        if begin < 0 or begin == end or (end - begin == 1 and text[begin] == _DOT):
            state[row] = MISSING
            continue
        state[row] = OTHER
        place, mantissa, digits, decimals, seen = begin, 0, 0, 0, 0
        fraction = False
        while place < end:
            byte = text[place]
            if byte == _DOT and not fraction:
                fraction = True
            elif _ZERO <= byte <= _NINE:
                seen += 1
                if mantissa > 0 or byte != _ZERO:
                    digits += 1
                if digits <= _MAX_EXACT_DIGITS:
                    mantissa = mantissa * 10 + byte - _ZERO
                decimals += fraction
            else:
                break
            place += 1
        power = 0
        if place < end and seen > 0 and (text[place] == 69 or text[place] == 101):
            place += 1
            negative = place < end and text[place] == 45
            place += place < end and (text[place] == 45 or text[place] == 43)
            exponent_at = place
            while place < end and place - exponent_at < 4 and _ZERO <= text[place] <= _NINE:
                power = power * 10 + text[place] - _ZERO
                place += 1
            if place == exponent_at:
                continue
            if negative:
                power = -power
        power -= decimals
        if place < end or seen == 0 or digits > _MAX_EXACT_DIGITS or not -_MAX_EXACT_POWER <= power <= _MAX_EXACT_POWER:
            continue
        value = mantissa / _POWERS[-power] if power < 0 else mantissa * _POWERS[power]
        if value <= 1.0:
            values[row] = value
            state[row] = VALUE


@compiled(nogil=True)
def measure(text: Bytes, at: Ints, to: Ints, dot_is_missing: bool, offsets: Ints, valid: Bytes) -> int:
    """Compute offsets and validity of the Arrow string array of the text of spans; return the number of nulls.

    An absent span is null; with ``dot_is_missing`` an empty one and ``.`` are too. ``offsets``, ``valid``: out: int32,
    shape (rows + 1,), and bitmap, uint8, shape (ceil(rows / 8),), zero on entry.
    """
    nulls, end = 0, 0
    offsets[0] = 0
    for row in range(len(at)):
        size = to[row] - at[row]
        if at[row] < 0 or (dot_is_missing and (size == 0 or (size == 1 and text[at[row]] == _DOT))):
            nulls += 1
        else:
            valid[row >> 3] |= 1 << (row & 7)
            end += size
        offsets[row + 1] = end
    return nulls


@compiled(nogil=True)
def gather(text: Bytes, at: Ints, offsets: Ints, out: Bytes) -> None:
    """Copy the text that begins at ``at[row]`` to ``out[offsets[row]:offsets[row + 1]]``, for each row."""
    source, target = text.ctypes.data, out.ctypes.data
    for row in range(len(at)):
        size = offsets[row + 1] - offsets[row]
        if size > 0:
            _memcpy(target + offsets[row], source + at[row], size)


@compiled(nogil=True)
def count_lines(text: Bytes, counts: Longs) -> None:
    """Count the records and ALT alleles in a piece of text, which may begin and end within a line.

    ``counts``, int64, shape (4,), is passed from piece to piece: number of records, number of alleles, and of the
    current line the column (0-based; -1 in a header line) and whether it has a byte yet (0: no; 1: yes; 2: no, and it
    is the first line of the file).
    """
    base, size = text.ctypes.data, len(text)
    records, alleles, column, begun = counts[0], counts[1], counts[2], counts[3]
    place = 0
    while place < size:
        byte = text[place]
        if byte == _LINE:
            column, begun = 0, 0
        elif begun != 1:
            # 239 is the first byte of a byte order mark. A contig name may begin with it too, but not in line 1.
            if byte == _HASH or (begun == 2 and byte == 239):
                column = -1
            begun = 1
            if byte == _RETURN:
                begun = 0
        elif byte == _TAB and column >= 0:
            column += 1
            if column == 4:
                records += 1
                alleles += 1
        elif byte == _COMMA and column == 4:
            alleles += 1
        place += 1
        if column < 0 or column > 4:
            found = _memchr(base + place, _LINE, size - place)
            place = size if found == 0 else found - base
    counts[0], counts[1], counts[2], counts[3] = records, alleles, column, begun
