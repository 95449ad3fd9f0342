"""PyTorch datasets over a split package; the only module of this folder that imports torch.

A batch depends on (package, parameters, epoch, position) alone. The number of workers and an interruption change
neither the batches nor their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, Unpack

from torch import Tensor, from_numpy, int64, tensor, zeros
from torch.utils.data import IterableDataset, get_worker_info

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import LengthPolicy, Split
from genolewm_assets.lewm.packages import Package, current_folder, open_package, open_tables
from genolewm_assets.lewm.states import PoolSide
from genolewm_assets.lewm.training.batches import TrainingBatch
from genolewm_assets.lewm.training.sampling import EditSampler, SamplingRules
from genolewm_assets.lewm.training.schedule import EditMix, FileOrder, Schedule, WindowSchedule, count_visits
from genolewm_assets.lewm.training.split import read_split
from genolewm_assets.lewm.training.stream import StreamSettings, TupleStream, Visit
from genolewm_assets.lewm.training.tuples import Pooling
from genolewm_assets.lewm.training.windows import SplitWindows
from genolewm_assets.store.arrays import ArrayStoreReader

#: Default ``min_left_context_bp`` of evaluation: 256 tokens of 6 bp, the radius of a local state, so that the pooled
#: neighbourhood of every edit is complete on its left.
EVALUATION_CONTEXT_BP = 1_536

_SETTINGS, _RULES = StreamSettings(), SamplingRules()


class StreamOptions(TypedDict, total=False):
    """Keyword parameters of every dataset; the defaults given are those of training.

    Attributes
    ----------
    seed
        Seed of every draw. Default 0.
    epoch, position
        First epoch, and the number of its batches that were already consumed. Defaults 0 and 0.
    n_edits
        Tuples per window. Default 8.
    mix
        Name of the edit mix: ``exact`` (default) or ``rotating``.
    kind, radius_tokens, side
        Blocks over which states are averaged; see :class:`~genolewm_assets.lewm.training.tuples.Pooling`. Defaults
        ``local``, 256 and ``both``.
    multi_edit_share, min_left_context_bp, length_policy
        See :class:`~genolewm_assets.lewm.training.sampling.SamplingRules`. Defaults 0.1, 0 (evaluation: 1,536) and
        ``right_flank``.
    windows_per_batch
        Windows per batch, default 32. A batch holds ``windows_per_batch * n_edits`` tuples; the last batch of an epoch
        may hold fewer.
    with_states
        Read the states of unedited windows from the caches. Default True.
    rank, world_size
        Index of this process, and number of processes that share the epoch. Defaults 0 and 1. Batches are dealt out in
        turn, so the processes differ by at most one batch.
    contents
        ``hash`` (default) verifies the SHA-256 of every file of the package on opening; ``sizes`` verifies file names
        and sizes only.
    """

    seed: int
    epoch: int
    position: int
    n_edits: int
    mix: str
    kind: str
    radius_tokens: int
    side: PoolSide
    multi_edit_share: float
    min_left_context_bp: int
    length_policy: LengthPolicy
    windows_per_batch: int
    with_states: bool
    rank: int
    world_size: int
    contents: Literal["hash", "sizes"]


class _PackageDataset(IterableDataset[TrainingBatch]):
    """Batches of one split of a package."""

    def __init__(
        self,
        package: Path | str | Package,
        cache_root: Path | str | None,
        split: Split,
        holdout: str | None,
        **options: Unpack[StreamOptions],
    ) -> None:
        super().__init__()
        _check_names(options)
        self._settings = StreamSettings(
            seed=options.get("seed", _SETTINGS.seed),
            n_edits=_at_least(1, "n_edits", options.get("n_edits", _SETTINGS.n_edits)),
            mix=EditMix.named(options.get("mix", _SETTINGS.mix.name)),
            pooling=Pooling.named(
                options.get("kind", _SETTINGS.pooling.kind),
                options.get("radius_tokens", _SETTINGS.pooling.radius_tokens),
                options.get("side", _SETTINGS.pooling.side),
            ),
        )
        self._rules = SamplingRules(
            min_left_context_bp=options.get("min_left_context_bp", _RULES.min_left_context_bp),
            multi_edit_share=options.get("multi_edit_share", _RULES.multi_edit_share),
            policy=options.get("length_policy", _RULES.policy),
        )
        self._windows_per_batch = _at_least(1, "windows_per_batch", options.get("windows_per_batch", 32))
        self._rank = _at_least(0, "rank", options.get("rank", 0))
        self._world_size = _at_least(self._rank + 1, "world_size", options.get("world_size", 1))
        self._split, self._holdout, self._with_states = split, holdout, options.get("with_states", True)
        self.package = _open(package, cache_root, options.get("contents", "hash"), with_states=self._with_states)
        # (epoch, position) in shared memory, so that persistent workers see the next epoch too.
        self._cursor: Tensor = zeros(2, dtype=int64).share_memory_()  # type: ignore[no-untyped-call]
        self.resume(options.get("epoch", 0), options.get("position", 0))
        self._opened: TupleStream | None = None
        windows = self._stream().windows
        self._order = self._schedule(windows)
        _check_room(windows.shortest_bp, self._rules)

    @property
    def n_batches(self) -> int:
        """Number of batches of a whole epoch, over all ranks."""
        return -(-len(self._order) // self._windows_per_batch)

    def __len__(self) -> int:
        """Return the number of batches of the epoch that this rank has still to read."""
        return len(self._positions())

    @property
    def epoch(self) -> int:
        """Epoch that the next iterator reads."""
        return int(self._cursor[0])

    @property
    def position(self) -> int:
        """Number of batches that the next iterator skips at the start of the epoch, over all ranks."""
        return int(self._cursor[1])

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch at its first batch; call this before the loader's iterator is created."""
        self.resume(epoch, 0)

    def resume(self, epoch: int, position: int) -> None:
        """Continue an epoch after its first ``position`` batches; call this before the loader's iterator is created.

        To resume after a batch, pass its ``position`` plus 1.

        Raises
        ------
        ConfigurationError
            If ``epoch`` or ``position`` is negative.
        """
        self._cursor[:] = tensor([_at_least(0, "epoch", epoch), _at_least(0, "position", position)])

    def __iter__(self) -> Iterator[TrainingBatch]:
        stream, worker = self._stream(), get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        epoch, size = self.epoch, self._windows_per_batch
        rows = self._order.rows(epoch)
        again = count_visits(stream.windows.window_ids[rows])
        # The loader reads from its workers in turn, so batches that are assigned in turn arrive in order.
        for position in self._positions()[first::step]:
            ordinals = range(position * size, min(len(rows), (position + 1) * size))
            visits = [Visit(ordinal, int(rows[ordinal]), int(again[ordinal])) for ordinal in ordinals]
            yield stream.batch(visits, epoch=epoch, position=position)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker reads the windows from the package, which is faster than pickling them through a pipe.
        return {**self.__dict__, "_opened": None}

    def _schedule(self, windows: SplitWindows) -> Schedule:
        return FileOrder(len(windows))

    def _positions(self) -> range:
        """Return the positions of the batches that this rank has still to read."""
        offset = (self._rank - self.position) % self._world_size
        return range(self.position + offset, self.n_batches, self._world_size)

    def _stream(self) -> TupleStream:
        if self._opened is None:
            sources = read_split(self.package, self._split, self._holdout)
            self._opened = TupleStream(
                sources.windows,
                EditSampler(sources.real, sources.held_out, self._rules),
                self._settings,
                _open_caches(self.package) if self._with_states else None,
            )
        return self._opened


class GenoLeWMDataset(_PackageDataset):
    """Batches of training tuples from a package.

    Parameters
    ----------
    package
        Folder of the package, or an open package.
    cache_root
        Root that contains the state caches; None: the root that contains the package.
    source_mix
        Share of the tuples by corpus source, 0 to 1; None: the mix of the package. Shares of sources without a window
        are divided among the others.
    windows_per_epoch
        Windows that an epoch visits; None: the number of training windows.
    **options
        See :class:`StreamOptions`.

    Raises
    ------
    ConfigurationError
        If an option is invalid.
    MissingResourceError, CorruptResourceError, RootError
        If the package or a cache is missing, altered, or of another genome.

    Notes
    -----
    Load with ``DataLoader(dataset, batch_size=None, num_workers=...)``: an item is a whole batch, and the order of
    batches is the same for any number of workers. Forked workers share the windows in memory; spawned workers read the
    windows again.

    Examples
    --------
    >>> dataset = GenoLeWMDataset.current("data", seed=7)  # doctest: +SKIP
    >>> for batch in DataLoader(dataset, batch_size=None, num_workers=3):  # doctest: +SKIP
    ...     tensors = as_tensors(batch)
    """

    def __init__(
        self,
        package: Path | str | Package,
        cache_root: Path | str | None = None,
        *,
        source_mix: Mapping[str, float] | None = None,
        windows_per_epoch: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        self._source_mix, self._windows_per_epoch = source_mix, windows_per_epoch
        super().__init__(package, cache_root, Split.TRAIN, None, **options)

    @classmethod
    def current(cls, root: Path | str, **options: Any) -> Self:
        """Open the current package of a root, such as ``data``; options and errors are those of the class."""
        return cls(current_folder(root), root, **options)

    def _schedule(self, windows: SplitWindows) -> Schedule:
        mix = self.package.info.mix if self._source_mix is None else self._source_mix
        return WindowSchedule.plan(windows.origins, mix, self._windows_per_epoch, seed=self._settings.seed)


class GenoLeWMValDataset(_PackageDataset):
    """Batches of validation tuples of one holdout: every window once, in file order.

    The tuples depend on the seed and the epoch, so reading an epoch again gives the same tuples.

    Parameters
    ----------
    package, cache_root
        As for :class:`GenoLeWMDataset`.
    holdout
        Name of the holdout, such as ``holdout-chr``.
    role
        Only ``validation``. Test windows need :class:`GenoLeWMTestDataset`, so that they are not read by mistake.
    **options
        See :class:`StreamOptions`; ``min_left_context_bp`` defaults to 1,536.

    Raises
    ------
    ConfigurationError
        If the holdout has no validation window, ``role`` is not ``validation``, or an option is invalid.
    MissingResourceError, CorruptResourceError, RootError
        If the package or a cache is missing, altered, or of another genome.
    """

    def __init__(
        self,
        package: Path | str | Package,
        holdout: str,
        role: Literal["validation"] = "validation",
        *,
        cache_root: Path | str | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        if role != str(Split.VALIDATION):
            raise ConfigurationError(
                f"validation of {holdout!r}",
                "role is not available from this class",
                expected="'validation'",
                got=repr(role),
                remedy="Open a final test with GenoLeWMTestDataset",
            )
        options.setdefault("min_left_context_bp", EVALUATION_CONTEXT_BP)
        super().__init__(package, cache_root, Split.VALIDATION, holdout, **options)

    @classmethod
    def current(cls, root: Path | str, holdout: str, **options: Any) -> Self:
        """Open the current package of a root, such as ``data``; options and errors are those of the class."""
        return cls(current_folder(root), holdout, cache_root=root, **options)


class GenoLeWMTestDataset(_PackageDataset):
    """Batches of test tuples of one holdout, for the final evaluation.

    Parameters and errors are those of :class:`GenoLeWMValDataset`, without ``role``.
    """

    def __init__(
        self,
        package: Path | str | Package,
        holdout: str,
        *,
        cache_root: Path | str | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        options.setdefault("min_left_context_bp", EVALUATION_CONTEXT_BP)
        super().__init__(package, cache_root, Split.TEST, holdout, **options)

    @classmethod
    def current(cls, root: Path | str, holdout: str, **options: Any) -> Self:
        """Open the current package of a root, such as ``data``; options and errors are those of the class."""
        return cls(current_folder(root), holdout, cache_root=root, **options)


def as_tensors(batch: TrainingBatch) -> dict[str, Tensor]:
    """Return the arrays of a batch as tensors by field name; tensors share memory with the arrays.

    The keys are ``target_tokens``, ``n_tokens``, ``block_start``, ``block_stop``, ``locus_token`` and, if the batch has
    states, ``source_states``; shapes and dtypes are those of
    :class:`~genolewm_assets.lewm.training.batches.TrainingBatch`.
    """
    arrays = {
        "target_tokens": batch.target_tokens,
        "n_tokens": batch.n_tokens,
        "block_start": batch.block_start,
        "block_stop": batch.block_stop,
        "locus_token": batch.locus_token,
        "source_states": batch.source_states,
    }
    return {name: from_numpy(array) for name, array in arrays.items() if array is not None}


def _open(
    package: Path | str | Package,
    cache_root: Path | str | None,
    contents: Literal["hash", "sizes"],
    *,
    with_states: bool,
) -> Package:
    """Open a package unless it is open already; raise if states are needed and the package has no state cache."""
    if not isinstance(package, Package):
        if not with_states:
            return open_tables(package, contents=contents)
        package = open_package(package, cache_root=cache_root, contents=contents)
    if with_states and not package.caches:
        raise ConfigurationError(
            f"package {package.directory.name}",
            "has no state cache",
            remedy="Build the package with caches, or pass with_states=False and encode both windows",
        )
    return package


def _check_names(options: Mapping[str, object]) -> None:
    # Python does not check keywords against a TypedDict; without this check a misspelt option would be ignored.
    unknown = sorted(options.keys() - StreamOptions.__annotations__.keys())
    if unknown:
        raise ConfigurationError(
            unknown[0], "unknown dataset option", expected=f"one of {sorted(StreamOptions.__annotations__)}"
        )


def _check_room(shortest_bp: int, rules: SamplingRules) -> None:
    """Raise if the shortest window has no position for an edit, so that the error is not raised during an epoch."""
    if shortest_bp <= rules.first_bp + rules.inset_bp:
        raise ConfigurationError(
            "min_left_context_bp",
            "the shortest window has no room for an edit",
            expected=f"under {shortest_bp - rules.inset_bp}",
            got=f"{rules.first_bp}",
        )


def _open_caches(package: Package) -> dict[str, ArrayStoreReader]:
    """Open every state cache of a package, by key, with verification of checksums."""
    return {ref.key: ArrayStoreReader(package.caches[ref.source], check=True) for ref in package.info.caches}


def _at_least(least: int, name: str, value: int) -> int:
    if value < least:
        raise ConfigurationError(name, "out of range", expected=f"at least {least}", got=f"{value}")
    return value
