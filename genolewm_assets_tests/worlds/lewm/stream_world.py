"""A small reference with repeats, windows on both of its strands and beside it, and alleles to draw from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.edits.draws import DrawKey
from genolewm_assets.edits.rules import EDIT_SOURCE_CODES, EditSource
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.genome import Variant, normalise, reverse_complement
from genolewm_assets.packages.epoch_plan import WindowAlleles
from genolewm_assets.packages.schema import PACKAGE_WINDOWS
from genolewm_assets.training.schedule import EditCycle

WINDOW_BP, MARGIN_BP = 3_072, 256
CONTIG = "chr17"
HIDDEN = 5


def simulate_reference(seed: int = 3, length: int = 24_000) -> bytes:
    """Return bases of which a third are tandem repeats, where indels have far to roll."""
    rng, parts, size = np.random.default_rng(seed), [], 0
    while size < length:
        if rng.random() < 0.3:
            unit = rng.integers(0, 4, rng.integers(1, 6))
            part = np.tile(unit, rng.integers(3, 60))
        else:
            part = rng.integers(0, 4, 150)
        parts.append(part)
        size += len(part)
    return np.frombuffer(b"ACGT", np.uint8)[np.concatenate(parts)[:length]].tobytes()


def make_window(
    reference: bytes,
    start: int,
    *,
    strand: str = "+",
    placed: bool = True,
    window_bp: int = WINDOW_BP,
    origin: str = "reference",
    cache: tuple[str, int] | None = None,
) -> WindowRecord:
    """Cut a window with its flanks."""
    span = reference[start - MARGIN_BP : start + window_bp + MARGIN_BP].decode()
    span = reverse_complement(span) if strand == "-" else span
    return WindowRecord(
        window_id=f"{start:032x}",
        origin=origin,
        sequence=span[MARGIN_BP:-MARGIN_BP],
        left_flank=span[:MARGIN_BP],
        right_flank=span[-MARGIN_BP:],
        contig=CONTIG if placed else None,
        start=start if placed else None,
        strand=strand if placed else None,
        cache_key=cache[0] if cache else None,
        cache_row=cache[1] if cache else None,
    )


def draw_key(*parts: object) -> DrawKey:
    """Return a key that differs for other parts."""
    return DrawKey.of(0, 0, hashlib.sha256(repr(parts).encode()).hexdigest()[:32], 0)


def simulate_alleles(reference: bytes, n: int, seed: int = 5, contig: str = CONTIG) -> pa.Table:
    """Return n normalised alleles, SNVs and indels, with a class each."""
    rng, found = np.random.default_rng(seed), {}
    while len(found) < n:
        at, size = int(rng.integers(1, len(reference) - 40)), int(rng.integers(1, 12))
        ref = reference[at : at + (size if rng.random() < 0.3 else 1)].decode()
        alt = "".join(rng.choice(list("ACGT"), size if rng.random() < 0.3 else 1))
        if ref != alt:
            variant = normalise(Variant(contig, at + 1, ref, alt), reference)
            found[variant.pos, variant.ref, variant.alt] = ("P", "LP", "B", "VUS")[at % 4]
    rows = [(contig, *key, label) for key, label in sorted(found.items())]
    return pa.table(dict(zip(("chrom", "pos", "ref", "alt", "label"), map(list, zip(*rows, strict=True)), strict=True)))


def window_alleles(origins: Sequence[str], clinvar: NDArray[np.int64], gnomad: NDArray[np.int64]) -> WindowAlleles:
    """Return the numbers of alleles of windows with named origins."""
    names, code = np.unique(np.array(origins, dtype=np.str_), return_inverse=True)
    return WindowAlleles(tuple(names.tolist()), code.astype(np.int16), clinvar, gnomad)


def no_alleles() -> pa.Table:
    """Return an allele table without rows."""
    text = pa.array([], pa.string())
    return pa.table({"chrom": text, "pos": pa.array([], pa.int64()), "ref": text, "alt": text})


def as_batch(windows: Sequence[WindowRecord], *, placement_exact: bool = True) -> pa.RecordBatch:
    """Return windows as a package spells them, as far as a stream reads them."""
    rows = [
        {
            "window_id": one.window_id,
            "window_hash": bytes(32),
            "origin": one.origin,
            "contig": one.contig,
            "start": one.start,
            "end": None if one.start is None else one.start + len(one.sequence),
            "strand": one.strand,
            "placement_exact": placement_exact and one.contig is not None,
            "window_bp": len(one.sequence),
            "frame": 0,
            "gc": 0.5,
            "sequence": one.sequence,
            "left_flank": one.left_flank,
            "right_flank": one.right_flank,
            "role": "train",
            "frozen": True,
            "cache_key": one.cache_key,
            "cache_row": one.cache_row,
        }
        for one in windows
    ]
    return pa.RecordBatch.from_pylist(rows, schema=PACKAGE_WINDOWS.arrow)


class MemoryStates:
    """Block states of windows in memory, NaN behind the blocks of a short one."""

    def __init__(self, widths: Sequence[int], n_blocks: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.states = rng.normal(size=(len(widths), n_blocks, HIDDEN)).astype(np.float16)
        for row, width in enumerate(widths):
            self.states[row, width:] = np.nan

    def checked(self, indices: ArrayLike, array: str | None = None) -> NDArray[Any]:
        """Return all rows."""
        assert array == "states"
        assert np.asarray(indices).max(initial=0) < len(self.states)
        return self.states


def sources_of(mix: str = "exact", n_slots: int = 8) -> list[EditSource]:
    """Return the sources of the first slots of a named mix."""
    cycle = EditCycle.named(mix, 1).cycle
    return [cycle[slot % len(cycle)] for slot in range(n_slots)]


def plan_of(mix: str = "exact", n_slots: int = 8) -> NDArray[np.int8]:
    """Return the same as codes: int8, shape (n_slots,)."""
    return np.array([EDIT_SOURCE_CODES[source] for source in sources_of(mix, n_slots)], dtype=np.int8)
