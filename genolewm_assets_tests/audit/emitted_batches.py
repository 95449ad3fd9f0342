"""A batch of one tuple as a trainer gets it, of any window and any edited window."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from numpy.typing import ArrayLike

#: Tokens past the end of the window, as those of a shorter window in a batch.
PADDING = 2


def emitted_batch(
    window: str,
    target: str,
    start: int | None,
    strand: str | None = "+",
    *,
    window_id: str = "w",
    origin: str = "reference",
    contig: str = "chr17",
    locus_token: int | None = None,
    blocks: tuple[int, int] = (0, 2),
    block_tokens: int = 64,
) -> SimpleNamespace:
    """Return the batch; ``start`` None: the window has no place; ``locus_token`` None: where the windows differ."""
    differing = [at for at, (old, new) in enumerate(zip(window, target, strict=True)) if old != new]
    locus = (differing[0] // 6 if differing else 0) if locus_token is None else locus_token
    windows = SimpleNamespace(
        window_ids=np.array([window_id.encode()], "S32"),
        origins=np.array([origin]),
        contigs=(contig,),
        contig=_one(-1 if start is None else 0),
        start=_one(-1 if start is None else start),
        is_reverse=np.array([strand == "-"]),
    )
    return SimpleNamespace(
        epoch=1,
        windows=windows,
        edits=SimpleNamespace(window=_one(0), source_tokens=_tokens(window)),
        target_tokens=_tokens(target),
        locus_token=_one(locus),
        block_start=_one(blocks[0]),
        block_stop=_one(blocks[1]),
        block_tokens=block_tokens,
        counts={},
    )


def _tokens(bases: str) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
    codes = np.array(["ACGT".index(base) for base in bases]).reshape(-1, 6)
    return np.append(codes @ 4 ** np.arange(5, -1, -1), [-1] * PADDING).astype(np.int16)[None]


def _one(value: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([value], dtype=np.int64)
