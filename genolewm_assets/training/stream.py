"""Make batches of tuples, with the states of the unedited windows, from rows of a split.

Not here: package files (``packages``), PyTorch and its workers (``dataset``).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.edits import (
    EDIT_SOURCE_CODES,
    AlleleIndex,
    Classification,
    DrawKey,
    EditSource,
    HaplotypeSampler,
    PackedWindows,
)
from genolewm_assets.genome import TOKEN_BP
from genolewm_assets.memory_mapped import MappedWindows
from genolewm_assets.packages import N_EDITS
from genolewm_assets.states import Pooling
from genolewm_assets.training.batches import TrainingBatch, count_slots
from genolewm_assets.training.haplotype_edits import edits_of
from genolewm_assets.training.precomputed_epochs import FrozenEpochs
from genolewm_assets.training.sampler import BatchSampler, EditBatch, WindowArrays
from genolewm_assets.training.schedule import count_visits
from genolewm_assets.training.window_states import LiveEncoder, StateReader, WindowStates

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings that determine the tuples of a window.

    Attributes
    ----------
    seed
        Seed of the run.
    n_edits
        Tuples per window.
    pooling
        Blocks over which states are averaged.
    without_fallback
        Leave out the tuples whose slot was planned for another source than the edit has.
    """

    seed: int = 0
    n_edits: int = N_EDITS
    pooling: Pooling = field(default_factory=Pooling)
    # Saved states name it only where it is set.
    without_fallback: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits of windows in an epoch.

    Attributes
    ----------
    rows
        int64, shape (n_visits,): row of each window in the split.
    plan
        int8, shape (n_visits, n_slots): source of every slot, as a code of ``EDIT_SOURCE_CODES``.
    again
        int64, shape (n_visits,): visits of the same row in earlier rounds of the epoch; each visit gets other edits.
    first
        Place of the first visit in the epoch; the others follow it.
    """

    rows: Integers
    plan: NDArray[np.int8]
    again: Integers
    first: int = 0

    @classmethod
    def of(cls, rows: ArrayLike, plan: NDArray[np.int8], again: ArrayLike | None = None) -> Visits:
        """Return visits of rows; with one plan for all, or one each; without ``again`` none was visited before."""
        numbers = np.asarray(rows, dtype=np.int64)
        earlier = np.zeros_like(numbers) if again is None else np.asarray(again, dtype=np.int64)
        return cls(numbers, np.broadcast_to(plan, (len(numbers), plan.shape[-1])), earlier)


class Drawn(NamedTuple):
    """Slots to fill, rows and windows of a batch, the edits of its tuples, and what ClinVar states of them.

    ``states`` are the source and the target states, where they are known already.
    """

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


class TupleStream(ABC):
    """Makes batches; a batch depends on the settings, its epoch and its visits alone.

    ``readers`` has a reader of every state cache by key; without it batches have no source states. ``encoder`` encodes
    the windows that no reader holds; without it such a window is an error.
    """

    def __init__(
        self,
        windows: MappedWindows,
        settings: StreamSettings,
        readers: Mapping[str, StateReader] | None = None,
        encoder: LiveEncoder | None = None,
    ) -> None:
        self.windows, self.settings = windows, settings
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
        """Return the batch of visits: at most one tuple per slot, with the pooled states of the unedited windows.

        Raises
        ------
        CorruptResourceError
            If a window's states are missing, or their blocks do not match the window.
        EditError
            If a window has no further allowed edit, or an edit changes no pooled token.
        """
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
            earlier = count_visits(self.windows.first_rows)
            rows = np.flatnonzero(earlier)
            self._repeated = rows, earlier[rows]
        rows, earlier = self._repeated
        if not len(rows):
            return visits.again
        at = np.minimum(np.searchsorted(rows, visits.rows), len(rows) - 1)
        return visits.again + (np.where(rows[at] == visits.rows, earlier[at], 0) << 32)

    @abstractmethod
    def _draw(self, visits: Visits, epoch: int) -> Drawn:
        """Return the windows of a batch with their edits."""


class RandomStream(TupleStream):
    """Makes batches of random edits: real alleles in a window and synthetic ones.

    ``clinvar`` are the alleles that ``sampler`` draws ClinVar's edits from; they state the labels. Without them no edit
    has one.
    """

    def __init__(
        self,
        windows: MappedWindows,
        sampler: BatchSampler,
        settings: StreamSettings,
        readers: Mapping[str, StateReader] | None = None,
        encoder: LiveEncoder | None = None,
        *,
        clinvar: AlleleIndex | None = None,
    ) -> None:
        super().__init__(windows, settings, readers, encoder)
        self._sampler, self._facts = sampler, None if clinvar is None else clinvar.classification

    def _draw(self, visits: Visits, epoch: int) -> Drawn:
        windows = self.windows.packed(visits.rows)
        edits = self._sampler.sample(
            WindowArrays.unpack(windows), visits.plan, seed=self.settings.seed, epoch=epoch, again=self._again(visits)
        )
        rows = np.where(edits.edit_source == EDIT_SOURCE_CODES[EditSource.CLINVAR], edits.allele_row, -1)
        stated = Classification.unknown(len(edits)) if self._facts is None else self._facts.take(rows)
        return Drawn(visits.plan.size, visits.rows, windows, edits, stated)


class HaplotypeStream(TupleStream):
    """Makes batches of haplotypes of two or three real alleles; a window has at most one tuple per slot."""

    def __init__(
        self,
        windows: MappedWindows,
        sampler: HaplotypeSampler,
        settings: StreamSettings,
        readers: Mapping[str, StateReader] | None = None,
        encoder: LiveEncoder | None = None,
    ) -> None:
        super().__init__(windows, settings, readers, encoder)
        self._sampler = sampler

    def _draw(self, visits: Visits, epoch: int) -> Drawn:
        filled = []
        for row, again in zip(visits.rows.tolist(), self._again(visits).tolist(), strict=True):
            record = self.windows.record(row)
            key = DrawKey.of(self.settings.seed, epoch, record.window_id, again)
            filled.append((record, *self._sampler.sample(record, visits.plan.shape[1], key)))
        edits = edits_of(filled, self.settings.pooling)
        unknown = Classification.unknown(len(edits))
        return Drawn(visits.plan.size, visits.rows, self.windows.packed(visits.rows), edits, unknown)


class FrozenStream(TupleStream):
    """Reads batches of frozen epochs, which are of the same settings; nothing is drawn or encoded."""

    def __init__(self, windows: MappedWindows, settings: StreamSettings, epochs: FrozenEpochs) -> None:
        super().__init__(windows, settings)
        self._epochs = epochs

    def _draw(self, visits: Visits, epoch: int) -> Drawn:
        windows = self.windows.packed(visits.rows)
        thawed = self._epochs.read(epoch, visits.first, windows)
        states = thawed.source_states, thawed.target_states
        return Drawn(visits.plan.size, visits.rows, windows, thawed.edits, thawed.stated, states)
