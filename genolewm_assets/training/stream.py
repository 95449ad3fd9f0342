"""Batches of tuples with the states of unedited windows, from rows of a split. Not here: PyTorch (``dataset``)."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.edits import Classification, DrawKey, HaplotypeSampler, PackedWindows
from genolewm_assets.genome import TOKEN_BP
from genolewm_assets.memory_mapped import MappedWindows
from genolewm_assets.packages import N_EDITS
from genolewm_assets.states import Pooling
from genolewm_assets.store.arrays import ArrayStoreReader
from genolewm_assets.training.batches import TrainingBatch, count_slots
from genolewm_assets.training.haplotype_edits import edits_of
from genolewm_assets.training.precomputed_epochs import FrozenEpochs
from genolewm_assets.training.sampler import BatchSampler, EditBatch, WindowArrays
from genolewm_assets.training.schedule import find_repeated
from genolewm_assets.training.window_states import LiveEncoder, WindowStates

Integers = NDArray[np.int64]
_SourceT = TypeVar("_SourceT")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings that determine the ``n_edits`` tuples of a window."""

    seed: int = 0
    n_edits: int = N_EDITS
    pooling: Pooling = field(default_factory=Pooling)
    #: Leave out the tuples whose slot was planned for another source. Saved states name it only where it is set.
    without_fallback: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits of windows in an epoch."""

    #: int64, shape (n_visits,): row of each window in the split.
    rows: Integers
    #: int8, shape (n_visits, n_slots): source of every slot, as a code of ``EDIT_SOURCE_CODES``.
    plan: NDArray[np.int8]
    #: int64, shape (n_visits,): visits of the same row in earlier rounds of the epoch; each visit gets other edits.
    again: Integers
    #: Place of the first visit in the epoch; the others follow it.
    first: int = 0

    @classmethod
    def of(cls, rows: ArrayLike, plan: NDArray[np.int8], again: ArrayLike | None = None) -> Visits:
        """Return visits of rows; with one plan for all, or one each; without ``again`` none was visited before."""
        numbers = np.asarray(rows, dtype=np.int64)
        earlier = np.zeros_like(numbers) if again is None else np.asarray(again, dtype=np.int64)
        return cls(numbers, np.broadcast_to(plan, (len(numbers), plan.shape[-1])), earlier)


class Drawn(NamedTuple):
    """Slots to fill, rows, windows, edits, what ClinVar states of them, and source and target states if known."""

    n_slots: int
    rows: Integers
    windows: PackedWindows
    edits: EditBatch
    stated: Classification
    states: tuple[NDArray[np.float32] | None, NDArray[np.float32] | None] = (None, None)

    def without_fallback(self) -> Drawn:
        """Return the tuples whose edit is of the source that was planned; the windows stay."""
        rows = np.flatnonzero(~self.edits.fell_back)
        source, target = (None if states is None else states[rows] for states in self.states)
        return self._replace(edits=self.edits.take(rows), stated=self.stated.take(rows), states=(source, target))


class TupleStream(ABC, Generic[_SourceT]):
    """Makes batches that depend on the source of the edits, settings, epoch and visits alone.

    Without ``readers`` of state caches batches have no source states; ``encoder`` encodes windows that no reader holds.
    """

    def __init__(
        self,
        windows: MappedWindows,
        source: _SourceT,
        settings: StreamSettings,
        readers: Mapping[str, ArrayStoreReader] | None = None,
        encoder: LiveEncoder | None = None,
    ) -> None:
        self.windows, self.settings, self._source = windows, settings, source
        self._states = None if readers is None else WindowStates(windows, readers, encoder)
        # Rows with the id of an earlier row, and how many of these there are.
        self._repeated: tuple[Integers, Integers] | None = None

    def __len__(self) -> int:
        """Return the number of rows that an epoch in file order visits: windows."""
        return len(self.windows)

    def without_states(self) -> Self:
        """Return a stream of the same batches without states."""
        other = copy.copy(self)
        other._states = None
        return other

    def batch(self, visits: Visits, *, epoch: int, position: int) -> TrainingBatch:
        """Return the batch of visits: at most one tuple per slot, with the pooled states of the unedited windows."""
        pooling, drawn = self.settings.pooling, self._draw(visits, epoch)
        kept = drawn.without_fallback() if self.settings.without_fallback else drawn
        n_slots, rows, windows, edits, stated, (pooled, targets) = kept
        encoded = 0
        if self._states is not None:
            n_tokens = windows.sizes[:, 1].astype(np.int64) // TOKEN_BP
            pooled, encoded = self._states.pool(rows, n_tokens, edits, pooling.block_tokens)
        return TrainingBatch(
            epoch=epoch,
            position=position,
            kind=pooling.kind,
            block_tokens=pooling.block_tokens,
            windows=windows,
            visits=np.tile(np.array([epoch, position], dtype=np.int64), (len(rows), 1)),
            edits=edits,
            stated=stated,
            source_states=pooled,
            target_states=targets,
            counts=count_slots(drawn.edits, kept=edits, unfilled=n_slots - len(drawn.edits), encoded_windows=encoded),
        )

    def _again(self, visits: Visits) -> Integers:
        """Return ``again`` with, in the upper 32 bits, how many rows before each have the same window id."""
        if self._repeated is None:
            self._repeated = find_repeated(self.windows.first_rows)
        rows, earlier = self._repeated
        if not len(rows):
            return visits.again
        at = np.minimum(np.searchsorted(rows, visits.rows), len(rows) - 1)
        return visits.again + (np.where(rows[at] == visits.rows, earlier[at], 0) << 32)

    @abstractmethod
    def _draw(self, visits: Visits, epoch: int) -> Drawn:
        """Return the windows of a batch with their edits."""


class RandomStream(TupleStream[BatchSampler]):
    """Makes batches of random edits: real alleles and synthetic ones."""

    def _draw(self, visits: Visits, epoch: int) -> Drawn:
        windows = self.windows.packed(visits.rows)
        edits = self._source.sample(
            WindowArrays.unpack(windows), visits.plan, seed=self.settings.seed, epoch=epoch, again=self._again(visits)
        )
        return Drawn(visits.plan.size, visits.rows, windows, edits, self._source.stated(edits))


class HaplotypeStream(TupleStream[HaplotypeSampler]):
    """Makes batches of haplotypes of two or three real alleles; a window has at most one tuple per slot."""

    def _draw(self, visits: Visits, epoch: int) -> Drawn:
        filled = []
        for row, again in zip(visits.rows.tolist(), self._again(visits).tolist(), strict=True):
            record = self.windows.record(row)
            key = DrawKey.of(self.settings.seed, epoch, record.window_id, again)
            filled.append((record, *self._source.sample(record, visits.plan.shape[1], key)))
        edits = edits_of(filled, self.settings.pooling)
        unknown = Classification.unknown(len(edits))
        return Drawn(visits.plan.size, visits.rows, self.windows.packed(visits.rows), edits, unknown)


class FrozenStream(TupleStream[FrozenEpochs]):
    """Reads batches of frozen epochs, which are of the same settings; nothing is drawn or encoded."""

    def _draw(self, visits: Visits, epoch: int) -> Drawn:
        windows = self.windows.packed(visits.rows)
        thawed = self._source.read(epoch, visits.first, windows)
        states = thawed.source_states, thawed.target_states
        return Drawn(visits.plan.size, visits.rows, windows, thawed.edits, thawed.stated, states)
