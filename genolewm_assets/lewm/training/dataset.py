"""PyTorch datasets over a split package. The only module of this folder that imports torch.

Every batch is a function of (package, parameters, epoch, position): the same for any number of workers, in the same
order, and after a resume.
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

#: Left context of evaluation: the radius of a local state, so that no state round an edit lacks its left half.
EVALUATION_CONTEXT_BP = 1_536

_SETTINGS, _RULES = StreamSettings(), SamplingRules()


class StreamOptions(TypedDict, total=False):
    """Keyword parameters of every dataset; the defaults are those of training.

    Attributes
    ----------
    seed
        Seed of every draw; 0.
    epoch, position
        Where to begin: ``position`` batches of the epoch were consumed already; 0, 0.
    n_edits
        Tuples per window; 8.
    mix
        Edit mix by name: ``exact`` (the default) or ``rotating``.
    kind, radius_tokens, side
        What the states are means of; ``local``, 256, ``both``.
        See :class:`~genolewm_assets.lewm.training.tuples.Pooling`.
    multi_edit_share, min_left_context_bp, length_policy
        See :class:`~genolewm_assets.lewm.training.sampling.SamplingRules`; 0.1, 0 (evaluation: 1,536), ``right_flank``.
    windows_per_batch
        A batch holds ``windows_per_batch * n_edits`` tuples, the last of an epoch perhaps fewer; 32.
    with_states
        Read the states of unedited windows from the caches; True.
    rank, world_size
        This process's place among those that share the epoch; one may get a batch more than another. 0, 1.
    contents
        ``hash`` (the default) re-hashes the whole package on opening; ``sizes`` looks at names and sizes.
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
        # In shared memory, so that persistent workers learn of the next epoch too.
        self._place: Tensor = zeros(2, dtype=int64).share_memory_()  # type: ignore[no-untyped-call]
        self.resume(options.get("epoch", 0), options.get("position", 0))
        self._opened: TupleStream | None = None
        windows = self._stream().windows
        self._order = self._schedule(windows)
        _check_room(windows.shortest_bp, self._rules)

    @property
    def n_batches(self) -> int:
        """Batches of a whole epoch, over all ranks."""
        return -(-len(self._order) // self._windows_per_batch)

    def __len__(self) -> int:
        return len(self._positions())

    @property
    def epoch(self) -> int:
        """Epoch that the next iterator shows."""
        return int(self._place[0])

    @property
    def position(self) -> int:
        """Batches of that epoch that it leaves out at the start."""
        return int(self._place[1])

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch at its first batch; call it before the loader's iterator is made."""
        self.resume(epoch, 0)

    def resume(self, epoch: int, position: int) -> None:
        """Go on after ``position`` batches of an epoch: one more than the ``position`` of the last batch consumed."""
        self._place[:] = tensor([_at_least(0, "epoch", epoch), _at_least(0, "position", position)])

    def __iter__(self) -> Iterator[TrainingBatch]:
        stream, worker = self._stream(), get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        epoch, size = self.epoch, self._windows_per_batch
        rows = self._order.rows(epoch)
        again = count_visits(stream.windows.window_ids[rows])
        # The loader takes turns among its workers, so batches dealt out in turn come back in order.
        for position in self._positions()[first::step]:
            ordinals = range(position * size, min(len(rows), (position + 1) * size))
            visits = [Visit(ordinal, int(rows[ordinal]), int(again[ordinal])) for ordinal in ordinals]
            yield stream.batch(visits, epoch=epoch, position=position)

    def __getstate__(self) -> dict[str, Any]:
        # A worker that was spawned reads the windows itself: sending them through a pipe takes longer.
        return {**self.__dict__, "_opened": None}

    def _schedule(self, windows: SplitWindows) -> Schedule:
        return FileOrder(len(windows))

    def _positions(self) -> range:
        """Return the positions of the batches still to come on this rank."""
        behind = (self._rank - self.position) % self._world_size
        return range(self.position + behind, self.n_batches, self._world_size)

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
        Folder of the package, or an open one.
    cache_root
        Root in which the caches lie; None: the one that encloses the package.
    source_mix
        Share of emitted tuples by corpus source, 0 to 1; None: the package's. Shares of sources without a window are
        divided among the others.
    windows_per_epoch
        Windows that an epoch visits; None: as many as the package trains on.
    **options
        See :class:`StreamOptions`.

    Raises
    ------
    ConfigurationError
        If an option is impossible.
    MissingResourceError, CorruptResourceError, RootError
        If the package or a cache is missing, altered, or of another genome.

    Notes
    -----
    Load with ``DataLoader(dataset, batch_size=None, num_workers=...)``: an item is a whole batch, and batches come in
    the same order for any number of workers. Forked workers share the windows in memory, spawned ones read them again.

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
        """Read the package in use of a root, such as ``data``; options and errors as for the class."""
        return cls(current_folder(root), root, **options)

    def _schedule(self, windows: SplitWindows) -> Schedule:
        mix = self.package.info.mix if self._source_mix is None else self._source_mix
        return WindowSchedule.plan(windows.origins, mix, self._windows_per_epoch, seed=self._settings.seed)


class GenoLeWMValDataset(_PackageDataset):
    """Batches of validation tuples of one holdout: every window once, the same tuples whenever it is read.

    Parameters
    ----------
    package, cache_root
        As for :class:`GenoLeWMDataset`.
    holdout
        Name of the holdout, such as ``holdout-chr``.
    role
        Only ``validation``; what is tested is opened by :class:`GenoLeWMTestDataset`, on purpose and by its name.
    **options
        See :class:`StreamOptions`; ``min_left_context_bp`` is 1,536 unless given.

    Raises
    ------
    ConfigurationError
        If the holdout has no validation window, or another role is asked for.
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
                "another role is not opened here",
                expected="'validation'",
                got=repr(role),
                remedy="Open a final test with GenoLeWMTestDataset",
            )
        options.setdefault("min_left_context_bp", EVALUATION_CONTEXT_BP)
        super().__init__(package, cache_root, Split.VALIDATION, holdout, **options)

    @classmethod
    def current(cls, root: Path | str, holdout: str, **options: Any) -> Self:
        """Read the package in use of a root, such as ``data``; options and errors as for the class."""
        return cls(current_folder(root), holdout, cache_root=root, **options)


class GenoLeWMTestDataset(_PackageDataset):
    """Batches of test tuples of one holdout, for a final figure; parameters and errors as for validation."""

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
        """Read the package in use of a root, such as ``data``; options and errors as for the class."""
        return cls(current_folder(root), holdout, cache_root=root, **options)


def as_tensors(batch: TrainingBatch) -> dict[str, Tensor]:
    """Return the arrays of a batch as tensors by field name, sharing memory; without states no ``source_states``."""
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
    if not isinstance(package, Package):
        if not with_states:
            return open_tables(package, contents=contents)
        package = open_package(package, cache_root=cache_root, contents=contents)
    if with_states and not package.caches:
        raise ConfigurationError(
            f"package {package.directory.name}",
            "points to no cache of states",
            remedy="Build the package with caches, or pass with_states=False and encode both sides",
        )
    return package


def _check_names(options: Mapping[str, object]) -> None:
    # Python lets any keyword through to a TypedDict; a misspelt one would silently be the default.
    unknown = sorted(options.keys() - StreamOptions.__annotations__.keys())
    if unknown:
        raise ConfigurationError(
            unknown[0], "no such option of a dataset", expected=f"one of {sorted(StreamOptions.__annotations__)}"
        )


def _check_room(shortest_bp: int, rules: SamplingRules) -> None:
    """Raise at once, rather than in the middle of an epoch, where a window can hold no edit."""
    if shortest_bp <= rules.first_bp + rules.inset_bp:
        raise ConfigurationError(
            "min_left_context_bp",
            "the shortest window has no room for an edit",
            expected=f"under {shortest_bp - rules.inset_bp}",
            got=f"{rules.first_bp}",
        )


def _open_caches(package: Package) -> dict[str, ArrayStoreReader]:
    return {ref.key: ArrayStoreReader(package.caches[ref.source], check=True) for ref in package.info.caches}


def _at_least(least: int, name: str, value: int) -> int:
    if value < least:
        raise ConfigurationError(name, "impossible", expected=f"at least {least}", got=f"{value}")
    return value
