"""Complete decided windows: texts, hashes, and the answers of the aligner."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.store.tables import number_column, numbers_of
from genolewm_assets.windows.corpus.placement import CorpusPlacer, Placement, placed_columns, placements_of
from genolewm_assets.windows.corpus.windows import CORPUS_WINDOWS, CorpusLedger, CorpusParams

#: Returns the letters of stretches of kept bases, given by first base and size, int64, one after another as uint8.
KeptBases = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.uint8]]
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_ID_BYTES, _HASH_BYTES = 16, 32


def finish_windows(
    decided: pa.RecordBatch,
    kept: KeptBases,
    answer: Callable[[int], Placement | None],
    *,
    params: CorpusParams,
    placer: CorpusPlacer,
    ledger: CorpusLedger,
) -> pa.Table:
    """Return decided windows with all columns of ``CORPUS_WINDOWS``, and count their placements.

    Parameters
    ----------
    decided
        Rows of the schema ``DECIDED``.
    kept
        Reads the bases that ``decide_corpus_windows`` gave to ``keep``.
    answer
        Answers of the aligner, by number of the question.
    """
    firsts, sizes = (numbers_of(decided[name]).astype(np.int64) for name in ("first", "window_bp"))
    margins = np.full(len(firsts), params.profile.margin_bp, dtype=np.int64)
    text = kept(firsts, sizes)
    columns = {
        **_described(text, np.cumsum(sizes)),
        "sequence": _texts(text, sizes),
        "left_flank": _texts(kept(firsts - margins, margins), margins),
        "right_flank": _texts(kept(firsts + sizes, margins), margins),
        **_answered(decided, text, np.cumsum(sizes), answer, placer),
    }
    names = CORPUS_WINDOWS.columns
    table = pa.table([columns[name] if name in columns else decided[name] for name in names], names)
    for each in pc.value_counts(table["placement_how"]).to_pylist():
        ledger.figures[f"placed.{each['values']}"] += each["counts"]
    ledger.figures["placement_exact"] += pc.sum(table["placement_exact"]).as_py() or 0
    return table.cast(CORPUS_WINDOWS.arrow)


def _described(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the hashes, ids and GC shares of texts that follow one another."""
    from genolewm_assets.windows.corpus import kernels

    view, starts = text.data, [0, *ends.tolist()]
    hashes = b"".join(hashlib.sha256(view[a:b]).digest() for a, b in pairwise(starts))
    digests = np.frombuffer(hashes, np.uint8).reshape(len(ends), _HASH_BYTES)
    ids = np.ascontiguousarray(_HEX[digests[:, :_ID_BYTES]]).reshape(-1)
    counts = np.empty(len(ends), dtype=np.int64)
    kernels.count_gc(text, ends, counts)
    shares = counts / np.maximum(1, np.diff(ends, prepend=0))
    return {
        "window_hash": pa.Array.from_buffers(pa.binary(_HASH_BYTES), len(ends), [None, pa.py_buffer(hashes)]),
        "window_id": _texts(ids, np.full(len(ends), 2 * _ID_BYTES, dtype=np.int64)),
        "gc": number_column(shares.astype(np.float32)),
    }


def _texts(text: NDArray[np.uint8], sizes: NDArray[np.int64]) -> pa.StringArray:
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32)])
    return pa.StringArray.from_buffers(len(sizes), pa.py_buffer(offsets), pa.py_buffer(text))


def _answered(
    decided: pa.RecordBatch,
    text: NDArray[np.uint8],
    ends: NDArray[np.int64],
    answer: Callable[[int], Placement | None],
    placer: CorpusPlacer,
) -> dict[str, pa.Array]:
    """Return the columns of placements where an answer changes one of them; else none."""
    questions = numbers_of(decided["question"])
    found = {row: place for row in np.flatnonzero(questions >= 0).tolist() if (place := answer(int(questions[row])))}
    if not found:
        return {}
    placements, starts = placements_of(decided), [0, *ends.tolist()]
    for row, place in found.items():
        sequence = text[starts[row] : starts[row + 1]].tobytes()
        placements[row] = placer.with_answer(placements[row], place, sequence)
    return placed_columns(placements)
