"""Arrays of a batch become rows and arrays again: any lengths of alts, any strands, any number of genes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.edits import Classification, PackedWindows
from genolewm_assets.training.precomputed_epochs.rows import RowSizes, Thawed, measure_rows, pack_rows
from genolewm_assets.training.sampler import EditBatch


def make_windows(rng: np.random.Generator, n: int, tokens: int) -> PackedWindows:
    sizes = np.column_stack([rng.integers(0, 9, n), 6 * rng.integers(1, tokens + 1, n), rng.integers(0, 9, n)])
    contig = rng.integers(-1, 2, n).astype(np.int32)
    return PackedWindows(
        packed=np.zeros(0, np.uint8),
        first=np.zeros(n, np.int64),
        sizes=sizes.astype(np.int32),
        window_ids=np.array([rng.bytes(16).hex().encode() for _ in range(n)], dtype="S32").reshape(n),
        origins=np.full(n, "reference"),
        contigs=("chr1", "chr2"),
        contig=contig,
        start=np.where(contig < 0, -1, 5),
        is_reverse=(rng.random(n) < 0.5) & (contig >= 0),
        spells_held=rng.random(n) < 0.5,
    )


def make_edits(rng: np.random.Generator, windows: PackedWindows, n_edits: int, longest: int) -> EditBatch:
    """Return edits of random numbers, with alts laid out one behind the other as the sampler does."""
    visits, n = len(windows), len(windows) * n_edits
    width = int(windows.sizes[:, 1].max(initial=0)) // 6
    window = np.repeat(np.arange(visits), n_edits)
    counts = rng.integers(1, 4, n)
    present = np.arange(3) < counts[:, None]
    lengths = np.where(present, rng.integers(1, longest + 1, (n, 3)), 0)
    # On the reverse strand an alt is followed by that of the allele.
    behind = np.where(windows.is_reverse[window][:, None], lengths, 0)
    first = np.cumsum(lengths + behind).reshape(n, 3) - lengths - behind

    def integers(*shape: int) -> Any:
        return rng.integers(-1, 1 << 40, shape)

    def small(*shape: int) -> Any:
        return rng.integers(-1, 4, shape).astype(np.int8)

    return EditBatch(
        window=window,
        n_edits=counts,
        planned_source=small(n),
        edit_source=small(n),
        **{
            name: integers(n)
            for name in ("allele_row", "locus_bp", "length_change", "origin_shift", "block_start", "block_stop")
        },
        phased=rng.random(n) < 0.5,
        **{name: integers(n) for name in ("n_pooled", "n_changed", "n_changed_blocks")},
        edit_type=np.where(present, rng.integers(0, 5, (n, 3)), -1).astype(np.int8),
        edit_rel_pos=integers(n, 3),
        edit_pos=integers(n, 3),
        edit_ref_length=integers(n, 3),
        edit_alt_length=lengths,
        edit_ref=small(n, 3, 16),
        edit_alt=small(n, 3, 16),
        alt_at=np.where(present, first, -1),
        allele_alt_at=np.where(present, first + behind, -1),
        pool=rng.integers(0, 4, (lengths + behind).sum()).astype(np.uint8),
        redraws=integers(visits, 8),
        source_tokens=rng.integers(-1, 4096, (visits, width)).astype(np.int16),
        target_tokens=rng.integers(-1, 4096, (n, width)).astype(np.int16),
    )


def make_stated(rng: np.random.Generator, n: int) -> Classification:
    gene_at = np.concatenate(([0], np.cumsum(rng.integers(0, 4, n) * (rng.random(n) < 0.3))))
    codes = rng.integers(-1, 5, (2, n)).astype(np.int8)
    return Classification(codes[0], codes[1], rng.integers(-1, 99, n), gene_at, rng.integers(1, 1 << 40, gene_at[-1]))


@given(st.integers(0, 1 << 32), st.integers(1, 6), st.integers(1, 4), st.integers(1, 40), st.integers(0, 2))
def test_what_is_packed_is_thawed(seed: int, visits: int, n_edits: int, longest: int, wider: int) -> None:
    rng = np.random.default_rng(seed)
    windows = make_windows(rng, visits, tokens=7)
    edits, stated = make_edits(rng, windows, n_edits, longest), make_stated(rng, visits * n_edits)
    states = rng.random((2, visits * n_edits, 3)).astype(np.float32)
    sizes, n = measure_rows([(edits, stated)], hidden=3)
    assert (sizes.n_edits, n) == (n_edits, visits)
    roomy = RowSizes(n_edits, sizes.tokens + wider, 3, sizes.alts_bp + wider, sizes.genes + wider)
    rows = pack_rows(edits, stated, windows, (states[0], states[1]), roomy)
    assert {spec.name: (spec.dtype, spec.shape) for spec in roomy.arrays} == {
        name: (array.dtype.name, array.shape[1:]) for name, array in rows.items()
    }
    # Any consecutive rows are a batch of their own; of all of them it is the one that was packed.
    thawed = Thawed.of(rows, windows)
    for mine, theirs in ((edits, thawed.edits), (stated, thawed.stated)):
        for field in fields(mine):
            one, other = getattr(mine, field.name), getattr(theirs, field.name)
            assert one.dtype == other.dtype, field.name
            np.testing.assert_array_equal(one, other, err_msg=field.name)
    np.testing.assert_array_equal(thawed.source_states, states[0])
    np.testing.assert_array_equal(thawed.target_states, states[1])


def test_rows_hold_the_largest_visit_of_any_batch() -> None:
    rng, measured = np.random.default_rng(0), []
    for longest in (3, 90, 10):
        windows = make_windows(rng, 4, tokens=longest)
        measured.append((make_edits(rng, windows, 2, longest), make_stated(rng, 8)))
    sizes, visits = measure_rows(measured, hidden=5)
    each = [measure_rows([one], hidden=5)[0] for one in measured]
    assert visits == 12
    assert sizes == tuple(max(column) for column in zip(*each, strict=True))
    assert sizes.row_bytes == sum(spec.row_bytes for spec in sizes.arrays)
    # Nothing was drawn: arrays of a store have at least one value a row.
    assert measure_rows([], hidden=5) == (RowSizes(1, 1, 5, 1, 1), 0)
