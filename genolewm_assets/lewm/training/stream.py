"""Make batches of tuples, with the states of the unedited windows, from rows of a split.

Not here: package files (``lewm.packages``), PyTorch and its workers (``dataset``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.edits import (
    DrawKey,
    EditSource,
    HaplotypeSource,
    SampledHaplotype,
    SplitWindows,
    WindowRecord,
)
from genolewm_assets.lewm.states import Pooling, block_count
from genolewm_assets.lewm.training.batches import TrainingBatch, make_batch, pool_states
from genolewm_assets.lewm.training.live_states import LiveEncoder
from genolewm_assets.lewm.training.schedule import count_visits
from genolewm_assets.lewm.training.tuples import TrainingTuple, build_tuples

#: Name of the array in a state cache.
_STATES = "states"


class StateReader(Protocol):
    """Interface of a reader of a state cache, such as :class:`~genolewm_assets.store.arrays.ArrayStoreReader`."""

    def get_rows(self, indices: ArrayLike, array: str | None = None) -> NDArray[Any]:
        """Return the block states of rows: floating, shape (n_rows, n_blocks, hidden); blocks past a row's end: NaN."""
        ...


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
    """

    seed: int = 0
    n_edits: int = 8
    pooling: Pooling = field(default_factory=Pooling)


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a window in an epoch.

    Attributes
    ----------
    row
        Row of the window in the split.
    plan
        Source of every slot.
    again
        Number of earlier visits of the same window in the epoch; each visit gets different random edits.
    """

    row: int
    plan: tuple[EditSource, ...]
    again: int = 0


class TupleStream:
    """Makes batches; a batch depends on the settings, its epoch and its visits alone.

    Parameters
    ----------
    windows
        Windows of the split.
    sampler
        Samples the haplotypes.
    settings
        Settings that determine the tuples.
    readers
        Reader of every state cache by key; None: batches have no source states.
    encoder
        Encoder of the windows that no reader holds; None: such a window is an error.
    """

    def __init__(
        self,
        windows: SplitWindows,
        sampler: HaplotypeSource,
        settings: StreamSettings,
        readers: Mapping[str, StateReader] | None = None,
        encoder: LiveEncoder | None = None,
    ) -> None:
        self.windows, self._sampler, self._settings = windows, sampler, settings
        self._readers, self._encoder = readers, encoder

    def __len__(self) -> int:
        """Return the number of rows that an epoch in file order visits: windows."""
        return len(self.windows)

    def count_visits(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how often the window of each row was visited before in ``rows``: int64, shape (n_rows,)."""
        return count_visits(self.windows.window_ids[rows])

    def batch(self, visits: Sequence[Visit], *, epoch: int, position: int) -> TrainingBatch:
        """Return the batch of visits: at most one tuple per slot, with the pooled states of the unedited windows.

        Raises
        ------
        CorruptResourceError
            If a window's states are missing, or their blocks do not match the window.
        EditError
            If a window has no further allowed edit, or an edit changes no pooled token.
        """
        filled: list[tuple[WindowRecord, Sequence[SampledHaplotype]]] = []
        redraws: Counter[str] = Counter()
        for visit in visits:
            record = self.windows.record(visit.row)
            key = DrawKey.of("edits", self._settings.seed, epoch, record.window_id, visit.again)
            haplotypes, redrawn = self._sampler.sample(record, visit.plan, key)
            filled.append((record, haplotypes))
            redraws.update(redrawn)
        n_slots = sum(len(visit.plan) for visit in visits)
        return self.make(filled, n_slots, epoch=epoch, position=position, redraws=redraws)

    def make(
        self,
        filled: Sequence[tuple[WindowRecord, Sequence[SampledHaplotype]]],
        n_slots: int,
        *,
        epoch: int,
        position: int,
        redraws: Mapping[str, int] | None = None,
    ) -> TrainingBatch:
        """Return the batch of windows and their haplotypes; windows may differ in their number of haplotypes.

        ``n_slots`` is the number of tuples asked for; those that are lacking are counted. Errors are those of
        :meth:`batch`.
        """
        made = [
            (record, *build_tuples(record, haplotypes, self._settings.pooling, epoch=epoch, position=position))
            for record, haplotypes in filled
        ]
        states = None if self._readers is None else self._pool([(record, own) for record, own, _ in made])
        tuples = [one for _, own, _ in made for one in own]
        return make_batch(
            tuples,
            [row for _, _, tokens in made for row in tokens],
            epoch=epoch,
            position=position,
            block_tokens=self._settings.pooling.block_tokens,
            source_states=states,
            redraws=redraws,
            unfilled=n_slots - len(tuples),
            kind=self._settings.pooling.kind,
            encoded_windows=0 if states is None else sum(not self._is_cached(record) for record, _, _ in made),
        )

    def _pool(self, made: Sequence[tuple[WindowRecord, Sequence[TrainingTuple]]]) -> NDArray[np.float32]:
        """Pool the cached states of windows: float32, shape (n_tuples, hidden), one row per tuple of each window."""
        block_tokens = self._settings.pooling.block_tokens
        pooled = []
        all_states = self._read([record for record, _ in made])
        for (record, own), states in zip(made, all_states, strict=True):
            _check_states(record, states, block_count(record.n_tokens, block_tokens))
            pooled.append(pool_states(own, np.broadcast_to(states, (len(own), *states.shape)), block_tokens))
        return np.concatenate(pooled)

    def _read(self, records: Sequence[WindowRecord]) -> list[NDArray[Any]]:
        """Return the block states of windows in the order of ``records``, with one read per cache.

        Windows in no cache are encoded, if there is an encoder.
        """
        by_cache: dict[str | None, list[int]] = {}
        for index, record in enumerate(records):
            by_cache.setdefault(record.cache_key if self._is_cached(record) else None, []).append(index)
        found: dict[int, NDArray[Any]] = {}
        for cache_key, indices in by_cache.items():
            if cache_key is None:
                found.update(zip(indices, self._encode([records[index] for index in indices]), strict=True))
                continue
            rows = [records[index].cache_row or 0 for index in indices]
            found.update(zip(indices, (self._readers or {})[cache_key].get_rows(rows, _STATES), strict=True))
        return [found[index] for index in range(len(records))]

    def _is_cached(self, record: WindowRecord) -> bool:
        return record.cache_key in (self._readers or {})

    def _encode(self, records: Sequence[WindowRecord]) -> NDArray[Any]:
        """Encode windows that no cache holds: floating, shape (n_windows, n_blocks, hidden)."""
        if self._encoder is not None:
            return self._encoder.encode_windows([record.sequence for record in records])
        raise CorruptResourceError(
            f"window {records[0].window_id}",
            "its states are in no cache of the package",
            expected=f"one of {sorted(self._readers or {})}",
            got=repr(records[0].cache_key),
            remedy="Build the package with caches for all of its windows, give an encoder, or open it without states",
        )


def _check_states(record: WindowRecord, states: NDArray[Any], n_blocks: int) -> None:
    """Raise unless exactly the first ``n_blocks`` blocks are finite and the others NaN.

    With another block size than the cache's, the wrong tokens would be pooled.
    """
    if len(states) < n_blocks or not np.isfinite(states[:n_blocks]).all() or not np.isnan(states[n_blocks:]).all():
        raise CorruptResourceError(
            f"window {record.window_id} (row {record.cache_row} of cache {record.cache_key})",
            "cached states are not this window's",
            expected=f"{n_blocks} blocks of finite numbers",
            got=f"{int(np.isfinite(states).all(axis=-1).sum())} of {len(states)}",
            remedy="Pool with the block size of the cache, or rebuild the cache",
        )
