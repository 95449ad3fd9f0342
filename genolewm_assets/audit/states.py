"""Search for target states that are not those of the edit: untouched blocks that differ, touched ones that do not.

Trainers compute target states from emitted tokens. A causal encoder gives a block before the first changed token the
same state in both windows, and the block of that token another; an encoder that reads from both sides gives nothing to
compare before the edit. Reference states are pooled over the very blocks that the tuple names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.audit.emitted import Batch, bases_of, draw_state_batches
from genolewm_assets.audit.reading.package_files import PackageFiles
from genolewm_assets.audit.reading.reference import Codes, decode, encode, unmasked
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.progress import Progress

#: Block states of windows: floating, shape (windows, blocks, hidden); NaN past the end of a shorter window.
Encode: TypeAlias = Callable[[Sequence[str]], npt.NDArray[Any]]

#: Tuples whose states are compared, and how many of one batch at most.
STATE_TUPLES, OF_BATCH = 24, 8
#: Largest difference between equal states, as a share of the largest number in a state of the window: of states that
#: one encoder computes of windows of one length, and of cached ones, which may be float16 and of another device.
TOLERANCE, CACHE_TOLERANCE = 1e-5, 1e-3

_NO_ENCODER = "no encoder was given (--encoder); a package holds no states of edited windows"
_NO_STATES = "the package was built without states, and no encoder was given (--encoder)"


class Pair(NamedTuple):
    """Block states of both windows, float64, shape (blocks, hidden), and the first DNA token that differs, or -1."""

    source: npt.NDArray[np.float64]
    target: npt.NDArray[np.float64]
    token: int
    n_tokens: int
    block_tokens: int

    @property
    def largest(self) -> float:
        """Largest number in a state of the unedited window."""
        return float(np.abs(self.source).max(initial=0.0))

    @property
    def touched(self) -> int:
        """Block of the first token that differs."""
        return self.token // self.block_tokens

    def pooled(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the mean state of the unedited window over the tokens of the blocks ``[start, stop)``."""
        sizes = np.minimum(self.block_tokens, self.n_tokens - self.block_tokens * np.arange(start, stop))
        mean: npt.NDArray[np.float64] = np.average(self.source[start:stop], axis=0, weights=sizes)
        return mean


def search_states(
    files: PackageFiles,
    encoder: Encode | None,
    *,
    progress: Progress,
    draw: Callable[[Path], Iterable[Batch]] = draw_state_batches,
    is_causal: bool = True,
) -> SearchResult:
    """Compare the states of both windows of tuples that a trainer gets."""
    before = f"equal before the edit (to {TOLERANCE:g} of the largest number)"
    before = before if is_causal else "not compared before the edit, since it reads from both sides"
    found, n, gaps = Found(), Counter[str](), list[str]()
    missing = _NO_ENCODER if files.record.get("caches") else _NO_STATES
    absent = files.without_stream or ("" if encoder else missing)
    if encoder is not None and not absent:
        try:
            batches = islice(draw(files.directory), -(-STATE_TUPLES // OF_BATCH))
            for at, (batch, row) in enumerate(_chosen(batches)):
                _compare(found, n, batch, row, encoder, is_causal=is_causal)
                progress.advance(at + 1, STATE_TUPLES, "tuples whose states are compared")
        except GenoLeWMError as err:
            gaps.append(f"states cannot be compared ({err})")
        if is_causal and n["tuples"] and not n["untouched blocks"]:
            gaps.append("no edit has a whole block before it")
    return SearchResult(
        LeakKind.STATE_MISMATCH,
        f"states of both windows by the given encoder: {before}, not equal at it; cached states that trainers get, "
        "against those of the blocks that the tuple names",
        {name: n[name] for name in ("tuples", "untouched blocks", "cached states")},
        found,
        tuple(gaps),
        absent=absent,
    )


def _chosen(batches: Iterable[Batch]) -> Iterable[tuple[Batch, int]]:
    """Yield at most OF_BATCH tuples of each batch, of windows that are apart in it."""
    for batch in batches:
        step = max(1, len(batch.tuples) // OF_BATCH)
        yield from ((batch, row) for row in range(0, len(batch.tuples), step)[:OF_BATCH])


def _compare(found: Found, n: Counter[str], batch: Batch, row: int, encoder: Encode, *, is_causal: bool) -> None:
    one = batch.tuples[row]
    place = "" if one.contig is None else f"{one.contig}:{one.window_start} "
    key = f"{one.origin} {place}{one.window_id[: 8 if place else None]}"
    pair = _encode(batch, row, encoder)
    source, target, touched = pair.source, pair.target, pair.touched
    n["tuples"] += 1
    if pair.token < 0 or np.array_equal(source[touched], target[touched]):
        found.add(f"{key}: the edit changes no state", token=pair.token)
        return
    if is_causal:
        n["untouched blocks"] += touched
        difference = float(np.abs(source[:touched] - target[:touched]).max(initial=0.0))
        if difference > TOLERANCE * pair.largest:
            found.add(f"{key}: states before the edit differ", token=pair.token, difference=f"{difference:.2g}")
    cached = batch.source_states
    if cached is not None:
        n["cached states"] += 1
        start, stop = int(one.block_start), int(one.block_stop)
        expected = pair.pooled(start, stop)
        alike = expected.shape == cached[row].shape
        if not (alike and bool(np.all(np.abs(expected - cached[row]) <= CACHE_TOLERANCE * pair.largest))):
            found.add(f"{key}: the cached state is another", blocks=f"[{start}, {stop})")


def _encode(batch: Batch, row: int, encoder: Encode) -> Pair:
    one = batch.tuples[row]
    source, (edited, sizes) = unmasked(encode(one.source_window)), bases_of(np.asarray(batch.target_tokens)[row, None])
    target = edited[0, : sizes[0]]
    # One after the other, so that the bits do not depend on the other window of a batch.
    first, second = (np.asarray(encoder([decode(codes)])[0], dtype=np.float64) for codes in (source, target))
    n_tokens, block_tokens = target.size // 6, int(batch.block_tokens)
    n_blocks = -(-n_tokens // block_tokens)
    return Pair(first[:n_blocks], second[:n_blocks], first_difference(source, target), n_tokens, block_tokens)


def first_difference(source: Codes, target: Codes) -> int:
    """Return the index of the first 6-mer that differs; -1 if none does."""
    differing = np.flatnonzero(source[: target.size] != target[: source.size])
    return int(differing[0]) // 6 if differing.size else -1
