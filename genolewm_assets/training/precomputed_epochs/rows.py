"""Rows of frozen epochs, one per visit of a window with all its tuples: arrays of a batch to rows, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.edits import Classification, PackedWindows, Redraw
from genolewm_assets.store.arrays import ArraySpec
from genolewm_assets.store.tables import TableSchema, column
from genolewm_assets.training.sampler import EditBatch, widen

Integers = NDArray[np.int64]

#: Columns of ``facts``: arrays of :class:`EditBatch`, then of :class:`Classification`.
_FACTS: Final = (
    "n_edits", "allele_row", "locus_bp", "length_change", "origin_shift", "block_start", "block_stop", "n_pooled",
    "n_changed", "n_changed_blocks",
)  # fmt: skip
_STATED: Final = ("clinvar_id", "n_genes")
#: Last columns of ``places``.
_PLACES: Final = ("edit_rel_pos", "edit_pos", "edit_ref_length", "edit_alt_length")
#: First columns of ``codes``; the types of three edits follow.
_CODES: Final = ("planned_source", "edit_source", "phased")
_STATED_CODES: Final = ("label", "stars")
_EDITS, _STORED_BP, _ID_BYTES = 3, 16, 32


def _list_of(kind: pa.DataType, depth: int) -> pa.DataType:
    return kind if depth == 0 else pa.list_(_list_of(kind, depth - 1))


#: Columns of a store of frozen epochs: ``row`` and ``key`` are in ``index.parquet``, each other one in ``<name>.bin``.
FROZEN_ROWS = TableSchema(
    "frozen_rows",
    "visit of a training window",
    pa.schema(
        [
            column("row", pa.int64(), "epoch times the visits of an epoch, plus the visit's place in its epoch"),
            column("key", pa.string(), "epoch:visit, each from 0"),
            column("window_id", _list_of(pa.uint8(), 1), "ASCII of the window's id, (32)"),
            column("redraws", _list_of(pa.int64(), 1), "rejected proposals by reason, (8)"),
            column("facts", _list_of(pa.int64(), 2), f"(n_edits, 12): {', '.join((*_FACTS, *_STATED))}"),
            column("places", _list_of(pa.int64(), 3), f"(n_edits, 3, 4): {', '.join(_PLACES)} of each edit"),
            column(
                "codes",
                _list_of(pa.int8(), 2),
                f"(n_edits, 8): {', '.join((*_CODES, *_STATED_CODES))}, three edit_type",
            ),
            column("bases", _list_of(pa.int8(), 4), "(n_edits, 2, 3, 16): first bases of ref and of alt of each edit"),
            column("alts", _list_of(pa.uint8(), 1), "bases of whole alts, one behind the other; 0 behind the last"),
            column("gene_ids", _list_of(pa.int64(), 1), "NCBI GeneIDs, one tuple's behind the other's; -1 behind them"),
            column("source_tokens", _list_of(pa.int16(), 1), "6-mers of the window; -1 past its end"),
            column("target_tokens", _list_of(pa.int16(), 2), "(n_edits, tokens): those of the edited windows"),
            column("source_states", _list_of(pa.float32(), 2), "(n_edits, hidden): pooled states of the window"),
            column("target_states", _list_of(pa.float32(), 2), "(n_edits, hidden): pooled states of edited windows"),
        ]
    ),
    ("row",),
)

TABLES: tuple[TableSchema, ...] = (FROZEN_ROWS,)


class RowSizes(NamedTuple):
    """Sizes that make the shape of a row."""

    #: Tuples of a visit.
    n_edits: int
    #: Tokens of the longest window.
    tokens: int
    #: Length of a state.
    hidden: int
    #: ``alts_bp``, ``genes``: most bases of alts, and most GeneIDs, of one visit; at least 1.
    alts_bp: int = 1
    genes: int = 1

    @property
    def arrays(self) -> list[ArraySpec]:
        """The arrays of the store."""
        n = self.n_edits
        return [
            ArraySpec("window_id", (_ID_BYTES,), "uint8"),
            ArraySpec("redraws", (len(Redraw),), "int64"),
            ArraySpec("facts", (n, len(_FACTS) + len(_STATED)), "int64"),
            ArraySpec("places", (n, _EDITS, len(_PLACES)), "int64"),
            ArraySpec("codes", (n, len(_CODES) + len(_STATED_CODES) + _EDITS), "int8"),
            ArraySpec("bases", (n, 2, _EDITS, _STORED_BP), "int8"),
            ArraySpec("alts", (self.alts_bp,), "uint8"),
            ArraySpec("gene_ids", (self.genes,), "int64"),
            ArraySpec("source_tokens", (self.tokens,), "int16"),
            ArraySpec("target_tokens", (n, self.tokens), "int16"),
            ArraySpec("source_states", (n, self.hidden), "float32"),
            ArraySpec("target_states", (n, self.hidden), "float32"),
        ]

    @property
    def row_bytes(self) -> int:
        """Size of a row in bytes."""
        return sum(spec.row_bytes for spec in self.arrays)


def measure_rows(batches: Iterable[tuple[EditBatch, Classification]], *, hidden: int) -> tuple[RowSizes, int]:
    """Return the sizes of rows that hold every visit of some batches, and the number of visits.

    ``batches``: edits of each and what ClinVar states of them; every window has as many tuples.
    """
    n_edits, tokens, alts, genes, n = 1, 1, 1, 1, 0
    for edits, stated in batches:
        n_edits, n = len(edits) // len(edits.redraws), n + len(edits.redraws)
        tokens = max(tokens, edits.target_tokens.shape[1])
        alts = max(alts, int(_alts_of_visits(edits, n_edits).max(initial=0)))
        genes = max(genes, int(np.diff(stated.gene_at[::n_edits]).max(initial=0)))
    return RowSizes(n_edits, tokens, hidden, alts, genes), n


def _alts_of_visits(edits: EditBatch, n_edits: int) -> Integers:
    """Return the bytes of ``pool`` that hold the alts of each visit: int64, shape (n_visits,)."""
    return np.diff(np.append(edits.alt_at[::n_edits, 0], len(edits.pool)))


def pack_rows(
    edits: EditBatch,
    stated: Classification,
    windows: PackedWindows,
    states: tuple[NDArray[np.float32], NDArray[np.float32]],
    sizes: RowSizes,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a batch, whose windows have ``sizes.n_edits`` tuples each, as rows: shape (n_windows, ...).

    ``states``: source and target states, each float32, shape (n, hidden).
    """
    visits = len(edits.redraws)
    columns = {
        "redraws": edits.redraws,
        "facts": np.stack(
            [*(getattr(edits, name) for name in _FACTS), stated.clinvar_id, np.diff(stated.gene_at)], axis=-1
        ),
        "places": np.stack([getattr(edits, name) for name in _PLACES], axis=-1),
        "codes": np.column_stack(
            [
                *(getattr(edits, name).astype(np.int8) for name in _CODES),
                *(getattr(stated, name) for name in _STATED_CODES),
                edits.edit_type,
            ]
        ),
        "bases": np.stack([edits.edit_ref, edits.edit_alt], axis=1),
        "alts": _parted(edits.pool, _alts_of_visits(edits, sizes.n_edits), sizes.alts_bp, 0),
        "gene_ids": _parted(stated.gene_ids, np.diff(stated.gene_at[:: sizes.n_edits]), sizes.genes, -1),
        "source_tokens": widen(edits.source_tokens, sizes.tokens),
        "target_tokens": widen(edits.target_tokens, sizes.tokens),
        "source_states": states[0],
        "target_states": states[1],
    }
    ids = np.ascontiguousarray(windows.window_ids).view(np.uint8).reshape(visits, _ID_BYTES)
    rows = {spec.name: columns[spec.name].reshape(visits, *spec.shape) for spec in sizes.arrays if spec.name in columns}
    return {"window_id": ids, **rows}


def _parted(values: NDArray[Any], lengths: Integers, room: int, empty: int) -> NDArray[Any]:
    """Return the values of each visit in a row of its own: shape (n_visits, room)."""
    rows = np.full((len(lengths), room), empty, dtype=values.dtype)
    rows[np.arange(room) < lengths[:, None]] = values
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class Thawed:
    """What rows hold of a batch of n tuples."""

    #: Edits, tokens and blocks of the tuples, as they were drawn.
    edits: EditBatch
    #: What ClinVar states of them.
    stated: Classification
    #: ``source_states``, ``target_states``: float32, shape (n, hidden): pooled states of the unedited and of the edited
    #: windows. Maps of the store that cannot be written.
    source_states: NDArray[np.float32]
    target_states: NDArray[np.float32]

    @classmethod
    def of(cls, rows: Mapping[str, NDArray[Any]], windows: PackedWindows) -> Thawed:
        """Return what consecutive rows hold; ``windows`` are those of the rows."""
        visits, n_edits = rows["facts"].shape[:2]
        n, width = visits * n_edits, int(windows.sizes[:, 1].max(initial=0)) // 6
        facts, codes = (np.ascontiguousarray(rows[name].reshape(n, -1).T) for name in ("facts", "codes"))
        places = np.ascontiguousarray(np.moveaxis(rows["places"].reshape(n, _EDITS, -1), -1, 0))
        bases = np.ascontiguousarray(np.moveaxis(rows["bases"].reshape(n, 2, _EDITS, _STORED_BP), 1, 0))
        named = dict(zip((*_FACTS, *_STATED), facts, strict=True)) | dict(zip(_PLACES, places, strict=True))
        named |= dict(zip((*_CODES, *_STATED_CODES), codes, strict=False))
        types = np.ascontiguousarray(codes[-_EDITS:].T)
        window = np.repeat(np.arange(visits), n_edits)
        alt_at, allele_alt_at, used = _alt_places(named["edit_alt_length"], types, windows.is_reverse[window])
        edits = EditBatch(
            window=window,
            **{name: named[name] for name in (*_FACTS, *_PLACES, "planned_source", "edit_source")},
            phased=named["phased"].astype(np.bool_),
            edit_type=types,
            edit_ref=bases[0],
            edit_alt=bases[1],
            alt_at=alt_at,
            allele_alt_at=allele_alt_at,
            pool=_joined(rows["alts"], used.reshape(visits, -1).sum(axis=1)),
            redraws=rows["redraws"],
            source_tokens=rows["source_tokens"][:, :width],
            target_tokens=rows["target_tokens"].reshape(n, -1)[:, :width],
        )
        gene_at = np.concatenate(([0], np.cumsum(named["n_genes"])))
        genes = _joined(rows["gene_ids"], np.diff(gene_at[::n_edits]))
        stated = Classification(named["label"], named["stars"], named["clinvar_id"], gene_at, genes)
        return cls(edits, stated, *(rows[name].reshape(n, -1) for name in ("source_states", "target_states")))


def _alt_places(
    lengths: Integers, types: NDArray[np.int8], is_reverse: NDArray[np.bool_]
) -> tuple[Integers, Integers, Integers]:
    """Return where each alt, and its form on the reference, begins in the pool, and their bytes: int64, (n, 3) each."""
    second = lengths * is_reverse[:, None]
    used = lengths + second
    ends = np.cumsum(used.reshape(-1)).reshape(used.shape)
    first, present = ends - used, types >= 0
    return np.where(present, first, -1), np.where(present, first + second, -1), used


def _joined(rows: NDArray[Any], lengths: Integers) -> NDArray[Any]:
    """Return the values at the front of each row, one row's behind the other's."""
    joined: NDArray[Any] = rows[np.arange(rows.shape[1]) < lengths[:, None]]
    return joined
