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
from genolewm_assets.lewm.states import block_count
from genolewm_assets.lewm.training.batches import TrainingBatch, make_batch, pool_states
from genolewm_assets.lewm.training.draws import DrawKey
from genolewm_assets.lewm.training.sampling import EditSampler
from genolewm_assets.lewm.training.schedule import EDIT_MIXES, EditMix
from genolewm_assets.lewm.training.tuples import Pooling, TrainingTuple, build_tuples
from genolewm_assets.lewm.training.windows import SplitWindows, WindowRecord

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
    mix
        Sources of the edits.
    pooling
        Blocks over which states are averaged.
    """

    seed: int = 0
    n_edits: int = 8
    mix: EditMix = field(default_factory=lambda: EDIT_MIXES["exact"])
    pooling: Pooling = field(default_factory=Pooling)


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a window in an epoch.

    Attributes
    ----------
    ordinal
        Number of the visit in its epoch, from 0.
    row
        Row of the window in the split.
    again
        Number of earlier visits of the same window in the epoch; each visit gets different random edits.
    """

    ordinal: int
    row: int
    again: int


class TupleStream:
    """Makes batches; a batch depends on the settings, its epoch and its visits alone.

    Parameters
    ----------
    windows
        Windows of the split.
    sampler
        Samples the edits.
    settings
        Settings that determine the tuples.
    readers
        Reader of every state cache by key; None: batches have no source states.
    """

    def __init__(
        self,
        windows: SplitWindows,
        sampler: EditSampler,
        settings: StreamSettings,
        readers: Mapping[str, StateReader] | None = None,
    ) -> None:
        self.windows, self._sampler, self._settings, self._readers = windows, sampler, settings, readers

    def batch(self, visits: Sequence[Visit], *, epoch: int, position: int) -> TrainingBatch:
        """Return the batch of visits: ``n_edits`` tuples per visit, with the pooled states of the unedited windows.

        Raises
        ------
        CorruptResourceError
            If a window's states are missing, or their blocks do not match the window.
        EditError
            If a window has no further allowed edit, or an edit changes no pooled token.
        """
        tuples: list[TrainingTuple] = []
        tokens: list[NDArray[np.int16]] = []
        redraws: Counter[str] = Counter()
        records = [self.windows.record(visit.row) for visit in visits]
        for visit, record in zip(visits, records, strict=True):
            key = DrawKey.of("edits", self._settings.seed, epoch, record.window_id, visit.again)
            plan = self._settings.mix.plan(visit.ordinal, self._settings.n_edits)
            haplotypes, redrawn = self._sampler.sample(record, plan, key)
            made, targets = build_tuples(record, haplotypes, self._settings.pooling, epoch=epoch, position=position)
            tuples.extend(made)
            tokens.extend(targets)
            redraws.update(redrawn)
        states = None if self._readers is None else self._pool(records, tuples)
        return make_batch(
            tuples,
            tokens,
            epoch=epoch,
            position=position,
            block_tokens=self._settings.pooling.block_tokens,
            source_states=states,
            redraws=redraws,
        )

    def _pool(self, records: Sequence[WindowRecord], tuples: Sequence[TrainingTuple]) -> NDArray[np.float32]:
        """Pool the cached states of windows: float32, shape (n_tuples, hidden), ``n_edits`` rows per window."""
        n_edits, block_tokens = self._settings.n_edits, self._settings.pooling.block_tokens
        pooled = []
        for index, (record, states) in enumerate(zip(records, self._read(records), strict=True)):
            own = tuples[index * n_edits : (index + 1) * n_edits]
            _check_states(record, states, block_count(record.n_tokens, block_tokens))
            pooled.append(pool_states(own, np.broadcast_to(states, (len(own), *states.shape)), block_tokens))
        return np.concatenate(pooled)

    def _read(self, records: Sequence[WindowRecord]) -> list[NDArray[Any]]:
        """Return the block states of windows in the order of ``records``, with one read per cache."""
        by_cache: dict[str | None, list[int]] = {}
        for index, record in enumerate(records):
            by_cache.setdefault(record.cache_key, []).append(index)
        found: dict[int, NDArray[Any]] = {}
        for cache_key, indices in by_cache.items():
            reader = (self._readers or {}).get(cache_key or "")
            if reader is None:
                raise CorruptResourceError(
                    f"window {records[indices[0]].window_id}",
                    "its states are in no cache of the package",
                    expected=f"one of {sorted(self._readers or {})}",
                    got=repr(cache_key),
                    remedy="Build the package with caches for all of its windows, or open it without states",
                )
            rows = [records[index].cache_row or 0 for index in indices]
            found.update(zip(indices, reader.get_rows(rows, _STATES), strict=True))
        return [found[index] for index in range(len(records))]


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
