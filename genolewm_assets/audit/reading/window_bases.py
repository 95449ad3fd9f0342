"""Bases of windows as codes in one array, and their comparison with the FASTA."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.reading.intervals import are_equal, rows_by_contig, stated_spans
from genolewm_assets.audit.reading.package_files import window_key
from genolewm_assets.audit.reading.parquet_batches import TEXTS
from genolewm_assets.audit.reading.reference import Codes, Reference, encode_bytes

Integers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: What searches read of each window: its name and place, and its bases.
PLACE_COLUMNS = ("origin", "contig", "start", "end", "strand", "placement_exact", "record_id", "window_index")
WINDOW_COLUMNS = (*PLACE_COLUMNS, *TEXTS)


class Bases(NamedTuple):
    """Codes of the texts of a column, one after the other, and where each begins and the last ends: (n + 1,)."""

    codes: Codes
    at: Integers

    @classmethod
    def of(cls, texts: pa.Array) -> Bases:
        """Encode a column of type ``string``; what is null has no base."""
        _, offsets, data = texts.buffers()
        at = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        letters = np.frombuffer(data, np.uint8)[at[0] : at[-1]] if data is not None else np.empty(0, np.uint8)
        return cls(encode_bytes(letters), at - at[0])


def window_keys(windows: pa.RecordBatch, rows: Integers) -> list[str]:
    """Return the texts that name windows in findings; see :func:`window_key`."""
    columns = ["origin", "contig", "start", "record_id", "window_index"]
    return [window_key(row) for row in windows.select(columns).take(pa.array(rows)).to_pylist()]


def are_exact(windows: pa.RecordBatch, contigs: pa.Array) -> Bools:
    """Tell which windows have an exact place; ``contigs``: their canonical names."""
    exact = pc.and_(windows["placement_exact"], pc.and_(pc.is_valid(windows["start"]), pc.is_valid(contigs)))
    told: Bools = exact.fill_null(False).to_numpy(zero_copy_only=False)
    return told


def differing_bp(windows: pa.RecordBatch, contigs: pa.Array, is_exact: Bools, reference: Reference) -> Integers:
    """Return how many bases of windows differ from the FASTA at their exact place; of reference windows, with flanks.

    ``contigs``, ``is_exact``: see :func:`are_exact`. int64, shape (n,): 0 also without an exact place; -1 if the FASTA
    lacks the contig.
    """
    from genolewm_assets.audit.difference_kernels import differing_bases

    left, sequence, right = (Bases.of(windows[name]) for name in TEXTS)
    span, masks = stated_spans(windows), (are_equal(windows["strand"], "-"), are_equal(windows["origin"], "reference"))
    differing = np.zeros(len(contigs), np.int64)
    for contig, ours in rows_by_contig(contigs):
        rows = ours[is_exact[ours]]
        if contig in reference:
            differing_bases(*left, *sequence, *right, rows, *span, *masks, reference.codes(contig), differing)
        else:
            differing[rows] = -1
    return differing
