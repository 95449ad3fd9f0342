"""Compiled sampling of the edits of a batch of windows, slot by slot. Import inside functions only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits import kernel
from genolewm_assets.training.sampler.draw_kernels import below, start_stream, start_visit, uniform
from genolewm_assets.training.sampler.edit_kernels import (
    ALT,
    AT,
    POS,
    REF,
    Bytes,
    Integers,
    Room,
    Site,
    align_left,
    write_reverse,
)
from genolewm_assets.training.sampler.held_kernels import Alleles, Held, rows_between
from genolewm_assets.training.sampler.proposal_kernels import Dice, propose_allele, propose_real, propose_synthetic
from genolewm_assets.training.sampler.rule_kernels import ALLOWED, CHANGE, LOCUS, SHIFT, Limits, pooled_blocks, reach
from genolewm_assets.training.sampler.token_kernels import Tokens, count_changes, encode_codes, write_tokens

_TOKEN_BP, _STORED_BP = 6, 16
#: Stream of the alleles of source 0; those of slots are their numbers.
_OF_SOURCES = np.int64(1 << 31)
#: Sources in the order of ``EditSource``.
SYNTHETIC_SNV, SYNTHETIC_INDEL = 1, 2
#: Rows of ``Drawn.facts``.
(N_EDITS, PLANNED, SERVED, ALLELE, LOCUS_BP, LENGTH_CHANGE, ORIGIN_SHIFT, BLOCK_START, BLOCK_STOP, N_POOLED, N_CHANGED,
 N_CHANGED_BLOCKS) = range(12)  # fmt: skip
N_FACTS = 12
#: Rows of ``Drawn.places``.
TYPE, REL_POS, REFERENCE_POS, REF_LENGTH, ALT_LENGTH, ALT_AT, ALLELE_ALT_AT = range(7)
N_PLACES = 7
# Typed values: a kernel is compiled once more for every literal that it is called with.
_ZERO, _ONE, _COMPANIONS, _FALSE, _TRUE = np.int64(0), np.int64(1), np.int64(2), np.bool_(False), np.bool_(True)
#: Codes of types of edits, in the order of ``EDIT_TYPE_CODES``.
_SNV, _INS, _DEL, _MNV, _DELINS = 0, 1, 2, 3, 4


class Windows(NamedTuple):
    """A batch of n windows; ``codes`` to ``spells_held`` are those of ``tables.WindowArrays``.

    ``ids``: int64, shape (n, 4), words of 32 bits of the window ids. ``again``: int64, shape (n,), see
    ``BatchSampler.sample``.
    """

    codes: Bytes
    at: Integers
    sizes: npt.NDArray[np.int32]
    ids: Integers
    contig: npt.NDArray[np.int32]
    start: Integers
    is_reverse: npt.NDArray[np.bool_]
    spells_held: npt.NDArray[np.bool_]
    again: Integers


class Sources(NamedTuple):
    """Alleles of the two real sources; ``table_of``, int64, shape (4,): 0 or 1 by code of the source, else -1."""

    first: Alleles
    second: Alleles
    table_of: Integers


class Drawn(NamedTuple):
    """What was drawn for n tuples; see ``tables.EditBatch``.

    ``facts``: int64, shape (12, n). ``places``: int64, shape (7, n, 3), -1 behind the last edit (lengths: 0).
    ``bases``: int8, shape (2, n, 3, 16), first bases of ref and alt, -1 behind the end. ``pool``: uint8, codes of whole
    alts. ``redraws``: int64, shape (n_windows, 8), refused proposals by reason. ``source_tokens``, ``tokens``: int16,
    shapes (n_windows, width) and (n, width), 6-mers of windows and edited windows; -1 behind the end.
    """

    facts: Integers
    places: Integers
    bases: npt.NDArray[np.int8]
    pool: Bytes
    redraws: Integers
    source_tokens: Tokens
    tokens: Tokens


@kernel
def count_alleles(windows: Windows, limits: Limits, alleles: Alleles) -> int:
    """Return the most alleles that one window may draw from."""
    most = 0
    for window in range(windows.contig.size):
        site = _site(windows, window, _ZERO, _ZERO)
        first, end = _allele_rows(site, limits, alleles, _ZERO, site.size)
        most = max(most, end - first)
    return most


@kernel
def sample_windows(
    windows: Windows, plan: npt.NDArray[np.int8], of_epoch: Integers, limits: Limits, sources: Sources, held: Held,
    room: Room, dice: Dice, drawn: Drawn,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill every slot of every window; write the tuples window by window, slot by slot.

    ``plan`` is int8, shape (n_windows, n_slots), the code of the source of every slot; ``of_epoch`` is ``epoch_key``,
    int64, shape (2,). Returns the window without a further edit and how many of its slots were filled, -1 and -1 if all
    are, and the bytes of ``drawn.pool`` in use.
    """
    n_slots, used = plan.shape[1], _ZERO
    for window in range(plan.shape[0]):
        site = _site(windows, window, *_held_rows(windows, window, held.alleles))
        start_visit(dice.key, windows.ids[window], of_epoch, windows.again[window])
        dice.left[0], dice.left[1] = -1, -1
        _write_source(site, drawn.source_tokens[window])
        source = drawn.source_tokens[window, : site.size // _TOKEN_BP]
        redraws = drawn.redraws[window]
        for slot in range(n_slots):
            planned = np.int64(plan[window, slot])
            served, allele = _fill(site, limits, sources, held, room, dice, redraws, slot, planned)
            if served < 0:
                return window, slot, used
            at = window * n_slots + slot
            drawn.facts[PLANNED, at], drawn.facts[SERVED, at], drawn.facts[ALLELE, at] = planned, served, allele
            used = _write_tuple(site, limits, room, drawn, slot, at, source, used)
    return -1, -1, used


@kernel
def show_alleles(
    windows: Windows, begins: Integers, rows: Integers, limits: Limits, alleles: Alleles, held: Held, room: Room,
    drawn: Drawn, refused: npt.NDArray[np.int8],
) -> int:  # fmt: skip
    """Make alleles the only edits of windows, a tuple each; return the bytes of ``drawn.pool`` in use.

    ``rows``, int64, shape (n,): rows of ``alleles``; of window w those from ``begins[w]`` to ``begins[w + 1]``, int64,
    shape (n_windows + 1,). ``refused``, shape (n,): -1, or the reason why the allele cannot be shown; its tuple is not
    written. The sources of the tuples are not written either.
    """
    used = _ZERO
    for window in range(begins.size - 1):
        site = _site(windows, window, *_held_rows(windows, window, held.alleles))
        _write_source(site, drawn.source_tokens[window])
        source = drawn.source_tokens[window, : site.size // _TOKEN_BP]
        room.counts[0] = 1
        for at in range(begins[window], begins[window + 1]):
            refused[at] = propose_allele(site, limits, held, room, alleles, rows[at])
            if refused[at] == ALLOWED:
                drawn.facts[ALLELE, at] = rows[at]
                used = _write_tuple(site, limits, room, drawn, _ZERO, at, source, used)
    return used


@kernel
def _write_source(site: Site, source: Tokens) -> None:
    """Write the tokens of an unedited window, and -1 behind them."""
    n_tokens = site.size // _TOKEN_BP
    encode_codes(site.codes, site.at, n_tokens, source, _ZERO)
    for k in range(n_tokens, source.size):
        source[k] = -1


@kernel
def _write_tuple(
    site: Site, limits: Limits, room: Room, drawn: Drawn, slot: int, at: int, source: Tokens, used: int
) -> int:
    """Write the tuple of a slot but its sources; return the bytes of the pool in use."""
    target = drawn.tokens[at]
    write_tokens(site, room, slot, source, target[: source.size])
    for k in range(source.size, target.size):
        target[k] = -1
    _write_facts(limits, room, drawn, slot, at, source, target[: source.size])
    return _write_edits(site, room, drawn, slot, at, used)


@kernel
def _held_rows(windows: Windows, window: int, alleles: Alleles) -> tuple[int, int]:
    """Return the rows ``[first, end)`` of the alleles that begin in the bases of a window or its flanks."""
    contig, start = np.int64(windows.contig[window]), windows.start[window]
    if contig < 0 or alleles.rows[contig, 0] == alleles.rows[contig, 1]:
        return 0, 0
    left, size, right = windows.sizes[window]
    flank = np.int64(max(left, right))
    return rows_between(alleles, contig, start - flank + 1, start + size + flank + 1)


@kernel
def _site(windows: Windows, window: int, held_first: int, held_end: int) -> Site:
    left, size, right = windows.sizes[window]
    return Site(
        windows.codes,
        windows.at[window] + left,
        np.int64(left),
        np.int64(size),
        np.int64(right),
        np.int64(windows.contig[window]),
        windows.start[window],
        windows.is_reverse[window] and windows.contig[window] >= 0,
        held_first,
        held_end,
        windows.spells_held[window],
    )


@kernel
def _allele_rows(site: Site, limits: Limits, alleles: Alleles, low: int, high: int) -> tuple[int, int]:
    """Return the rows ``[first, end)`` of the alleles that begin in the bases ``[low, high)`` at which edits may be."""
    low, high = max(low, limits.first_bp), min(high, site.size - limits.inset_bp)
    if site.contig < 0 or low >= high:
        return 0, 0
    if site.is_reverse:
        low, high = site.size - high, site.size - low
    return rows_between(alleles, site.contig, site.start + low + 1, site.start + high + 1)


@kernel
def _fill(
    site: Site, limits: Limits, sources: Sources, held: Held, room: Room, dice: Dice, redraws: Integers, slot: int,
    planned: int,
) -> tuple[int, int]:  # fmt: skip
    """Fill a slot; return the source served, -1 if none has an edit, and the row of a single real allele, else -1."""
    start_stream(dice.streams, _ZERO, dice.key, slot)
    size = 1
    if uniform(dice.streams, _ZERO) < limits.multi_edit_share:
        size = 2 + below(dice.streams, 0, 2)
    table, served, allele = sources.table_of[planned], -1, -1
    if table >= 0:
        alleles = sources.first if table == 0 else sources.second
        if dice.left[table] < 0:
            _start_table(site, limits, alleles, dice, table, planned)
        dice.left[table], allele = propose_real(
            site, limits, held, room, dice, redraws, slot, _ZERO, alleles, dice.first[table], table, 1 + table,
            dice.left[table],
        )  # fmt: skip
        served = planned if allele >= 0 else -1
    elif propose_synthetic(
        site, limits, held, room, dice, redraws, slot, _ZERO, planned == SYNTHETIC_INDEL, _ZERO, site.size
    ):
        served = SYNTHETIC_INDEL if planned == SYNTHETIC_INDEL else SYNTHETIC_SNV
    if served < 0:
        if not propose_synthetic(site, limits, held, room, dice, redraws, slot, _ZERO, _FALSE, _ZERO, site.size):
            return -1, -1
        served = SYNTHETIC_SNV
    n = _ONE
    while n < size and _add_companion(site, limits, sources, held, room, dice, redraws, slot, n, served):
        n += 1
        allele = -1
    room.counts[slot] = n
    return served, allele


@kernel
def _start_table(site: Site, limits: Limits, alleles: Alleles, dice: Dice, table: int, source: int) -> None:
    """Begin the window's stream of a table of alleles."""
    dice.first[table], end = _allele_rows(site, limits, alleles, _ZERO, site.size)
    dice.left[table] = end - dice.first[table]
    for k in range(dice.left[table]):
        dice.order[table, k] = k
    start_stream(dice.streams, 1 + table, dice.key, _OF_SOURCES + source)


@kernel
def _add_companion(
    site: Site, limits: Limits, sources: Sources, held: Held, room: Room, dice: Dice, redraws: Integers, slot: int,
    n: int, source: int,
) -> bool:  # fmt: skip
    """Add an edit in the pooled span of the n edits of a slot: of the source, or else a synthetic SNV."""
    low, high = reach(site, limits, room, slot, n)
    table = sources.table_of[source]
    if table >= 0:
        alleles = sources.first if table == 0 else sources.second
        first, end = _allele_rows(site, limits, alleles, low, high)
        # More than in the whole window: the file is damaged.
        end = min(end, first + dice.order.shape[1])
        for k in range(end - first):
            dice.order[2, k] = k
        _, row = propose_real(
            site, limits, held, room, dice, redraws, slot, n, alleles, first, _COMPANIONS, _ZERO, end - first
        )
        if row >= 0:
            return True
    elif propose_synthetic(site, limits, held, room, dice, redraws, slot, n, source == SYNTHETIC_INDEL, low, high):
        return True
    if source == SYNTHETIC_SNV:
        return False
    return propose_synthetic(site, limits, held, room, dice, redraws, slot, n, _FALSE, low, high)


@kernel
def _write_facts(limits: Limits, room: Room, drawn: Drawn, slot: int, at: int, source: Tokens, target: Tokens) -> None:
    """Write what is known of a tuple, without its sources."""
    facts, own = drawn.facts, room.facts[slot]
    block_start, block_stop = pooled_blocks(limits, own[LOCUS] // _TOKEN_BP, source.size)
    pooled, changed, blocks = count_changes(source, target, block_start, block_stop, limits.block_tokens)
    facts[N_EDITS, at], facts[LOCUS_BP, at] = room.counts[slot], own[LOCUS]
    facts[LENGTH_CHANGE, at], facts[ORIGIN_SHIFT, at] = own[CHANGE], own[SHIFT]
    facts[BLOCK_START, at], facts[BLOCK_STOP, at] = block_start, block_stop
    facts[N_POOLED, at], facts[N_CHANGED, at], facts[N_CHANGED_BLOCKS, at] = pooled, changed, blocks


@kernel
def _write_edits(site: Site, room: Room, drawn: Drawn, slot: int, at: int, used: int) -> int:
    """Write the edits of a slot, and return the bytes of the pool in use."""
    edits, alt, places, bases, pool = room.edits, room.alt, drawn.places, drawn.bases, drawn.pool
    spare = edits.shape[0] - 5
    for place in range(room.counts[slot]):
        row = room.rows[slot, place]
        pos, ref_bp, alt_bp, alt_at = edits[row, POS], edits[row, REF], edits[row, ALT], edits[row, AT]
        places[TYPE, at, place] = _type_of(site, edits, alt, row)
        places[REL_POS, at, place] = pos
        places[REF_LENGTH, at, place], places[ALT_LENGTH, at, place] = ref_bp, alt_bp
        for k in range(min(ref_bp, _STORED_BP)):
            bases[0, at, place, k] = site.codes[site.at + pos + k]
        for k in range(min(alt_bp, _STORED_BP)):
            bases[1, at, place, k] = alt[alt_at + k]
        for k in range(alt_bp):
            pool[used + k] = alt[alt_at + k]
        places[ALT_AT, at, place], places[ALLELE_ALT_AT, at, place] = used, used
        used += alt_bp
        if site.contig < 0:
            continue
        if site.is_reverse:
            write_reverse(site, edits, alt, row, spare, spare * room.allele_bp)
            align_left(site, edits, alt, spare, _TRUE)
            pos, alt_at = edits[spare, POS], edits[spare, AT]
            for k in range(alt_bp):
                pool[used + k] = alt[alt_at + k]
            places[ALLELE_ALT_AT, at, place] = used
            used += alt_bp
        places[REFERENCE_POS, at, place] = site.start + pos + 1
    return used


@kernel
def _type_of(site: Site, edits: Integers, alt: Bytes, row: int) -> int:
    """Return the code of the type of an edit in normal form."""
    pos, ref_bp, alt_bp, at = edits[row, POS], edits[row, REF], edits[row, ALT], edits[row, AT]
    if ref_bp == alt_bp:
        return _SNV if ref_bp == 1 else _MNV
    if min(ref_bp, alt_bp) > 1:
        return _DELINS
    first = site.codes[site.at + pos] == alt[at]
    last = site.codes[site.at + pos + ref_bp - 1] == alt[at + alt_bp - 1]
    if first or last:
        return _INS if ref_bp < alt_bp else _DEL
    return _DELINS
