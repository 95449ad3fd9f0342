"""PyTorch datasets over a package; a batch depends on package, options, epoch and position, never on the workers."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np
from torch import Tensor, int64, tensor, zeros
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Split
from genolewm_assets.packages import Package, WindowAlleles, current_folder, plan_epoch, window_shares
from genolewm_assets.training.batches import TrainingBatch, merge_batches
from genolewm_assets.training.epoch_batches import EpochBatches, Ranks, restored_place, saved_state, unknown_place
from genolewm_assets.training.opening import (
    SplitSources,
    check_room,
    open_caches,
    open_for,
    open_stream,
    open_with_frozen,
    read_options,
    read_split,
    stated_options,
)
from genolewm_assets.training.options import Coverage, StreamOptions, at_least, check_names, evaluation_of
from genolewm_assets.training.precomputed_epochs import FrozenEpochs
from genolewm_assets.training.schedule import EditCycle, FileOrder, Schedule, WindowSchedule
from genolewm_assets.training.scoring import Bench, ScoringStream
from genolewm_assets.training.stream import FrozenStream, TupleStream, Visits
from genolewm_assets.training.tensors import process_of_group
from genolewm_assets.training.transport import TensorBatch, open_blocks, send_through, share


def _collate_batches(batches: Sequence[TrainingBatch], **_: object) -> TrainingBatch:
    """Merge batches, in the form that the registry of ``default_collate`` calls."""
    return merge_batches(batches)


# The extension point that default_collate documents: a loader without batch_size=None then merges items.
default_collate_fn_map[TrainingBatch] = _collate_batches
share(TrainingBatch)
share(TensorBatch)


class _PackageDataset(IterableDataset[TrainingBatch]):
    """Batches of one split of a package."""

    def __init__(
        self,
        package: Path | str | Package,
        cache_root: Path | str | None,
        split: Split,
        holdout: str | None,
        coverage: Coverage = Coverage.WINDOWS,
        **options: Unpack[StreamOptions],
    ) -> None:
        super().__init__()
        check_names(options)
        self._settings, self._rules = read_options(options)
        windows_per_batch = at_least(1, "windows_per_batch", options.get("windows_per_batch", 32))
        self._rows_per_batch = windows_per_batch * (self._settings.n_edits if coverage is Coverage.ALLELES else 1)
        self._ranks = Ranks.of(options, process_of_group(), even=split is Split.TRAIN)
        self._split, self._holdout, self._coverage = split, holdout, coverage
        self._with_states, self._encoder = options.get("with_states", True), options.get("encoder")
        self.package = self._open_package(package, cache_root, options)
        # (epoch, position) in shared memory, so that persistent workers see the next epoch too, and whether they read.
        self._cursor: Tensor = zeros(3, dtype=int64).share_memory_()  # type: ignore[no-untyped-call]
        self._blocks = open_blocks()
        self.resume(options.get("epoch", 0), options.get("position", 0))
        sources = self._read()
        self._opened: TupleStream[Any] | None = self._open_stream(sources)
        self._order = self._schedule(sources, options.get("mix"))
        self._ranks.check(self.n_batches)
        check_room(sources.windows.shortest_bp, self._rules)
        self._name = self._named(options.get("mix"), *["without_fallback"] * self._settings.without_fallback)

    @property
    def n_batches(self) -> int:
        """Number of batches of a whole epoch, over all ranks."""
        return -(-len(self._order) // self._rows_per_batch)

    def __len__(self) -> int:
        """Return the number of batches of the epoch that this rank has still to read."""
        return len(self._ranks.positions(self.n_batches, self.position))

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
            If ``epoch`` or ``position`` is negative, or ranks of a training would read unequal numbers from there.
        """
        place = self._ranks.check_place(at_least(0, "position", position))
        self._cursor[:] = tensor([at_least(0, "epoch", epoch), place, 0])
        self._newest: EpochBatches | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return where the newest iterator is, or the first one begins, as JSON values; raise if only workers know."""
        if self._newest is not None:
            return saved_state(self._name, *self._newest.place(self._ranks.world_size))
        if self._cursor[2] and get_worker_info() is None:
            raise unknown_place()
        return saved_state(self._name, self.epoch, self.position)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iterator begin at a saved place; raise ConfigurationError if its batches would be others."""
        self.resume(*restored_place(self._name, state_dict))

    def __iter__(self) -> EpochBatches:
        if (worker := get_worker_info()) is not None:
            send_through(self._blocks)
        processes = self._ranks.world_size * (1 if worker is None else worker.num_workers)
        at = {"epoch": self.epoch, "position": self.position}
        begun = EpochBatches(self._batches, **at, stream=self._name, processes=processes)
        if worker is None:
            self._newest = begun
        else:
            self._cursor[2] = 1
        return begun

    def _batches(self, epoch: int, position: int, taken: int) -> Iterator[TrainingBatch]:
        """Yield the batches of this worker from a position on, without the first ``taken`` of them."""
        stream, worker, size = self._stream(), get_worker_info(), self._rows_per_batch
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        # The loader reads from its workers in turn, so batches that are assigned in turn arrive in order.
        for number in self._ranks.positions(self.n_batches, position)[first + taken * step :: step]:
            # Past the end of the epoch, its first batches repeat.
            start = number % self.n_batches * size
            ordinals = np.arange(start, min(len(self._order), start + size))
            rows, again = self._order.visits(epoch, ordinals)
            visits = Visits(rows, self._order.slots.plans(ordinals, rows), again, start)
            yield stream.batch(visits, epoch=epoch, position=number)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker opens the package's files itself: alleles would be copied through a pipe.
        return {**self.__dict__, "_opened": None, "_newest": None}

    def _named(self, *parts: object) -> str:
        """Return a text that names the package and what its batches depend on."""
        of_package = hashlib.sha256(self.package.info.to_bytes()).hexdigest()
        of_stream = (self._split, self._holdout, self._coverage, self._rows_per_batch, self._settings, self._rules)
        return hashlib.sha256(repr((of_package, *of_stream, *parts)).encode()).hexdigest()

    def _schedule(self, sources: SplitSources, mix: str | None) -> Schedule:  # noqa: ARG002 - training needs them
        return FileOrder(len(self._stream()), EditCycle.named(mix or "exact", self._settings.n_edits))

    def without_states(self) -> Self:
        """Return a dataset of the same batches without states, with a place of its own; windows are shared."""
        other = copy.copy(self)
        other._with_states, other._opened = False, self._stream().without_states()
        other._cursor = self._cursor.clone().share_memory_()  # type: ignore[no-untyped-call]
        other._newest = None
        return other

    def _open_package(self, package: Path | str | Package, root: Path | str | None, options: StreamOptions) -> Package:
        return open_for(package, root, options)

    def _read(self) -> SplitSources:
        return read_split(self.package, self._split, self._holdout, self._coverage)

    def _stream(self) -> TupleStream[Any]:
        if self._opened is None:
            self._opened = self._open_stream(self._read())
        return self._opened

    def _open_stream(self, sources: SplitSources) -> TupleStream[Any]:
        caches = open_caches(self.package, self._encoder) if self._with_states else None
        if self._holdout is None or self._coverage is Coverage.WINDOWS:
            return open_stream(sources, self._rules, self._settings, caches, self._encoder)
        bench = Bench.read(self.package, self._split, self._holdout, sources, self._rules)
        return ScoringStream(sources.windows, bench, self._settings, caches, self._encoder)


class GenoLeWMDataset(_PackageDataset):
    """Batches of training tuples from a package.

    Parameters
    ----------
    package
        Folder of the package, an open package, or the URL of a published one: ``hf://datasets/OWNER/NAME`` or a folder
        of any fsspec URL, with ``@`` and a release, commit or digest after it. It is fetched, states included unless
        they are not read, into ``GENOLEWM_CACHE`` (``~/.cache/genolewm``); with a commit, name or digest once.
    cache_root
        Root that contains the state caches; None: the root that contains the package.
    source_mix
        Share of the tuples by corpus source and ``reference``, 0 to 1, as in ``packages.window_shares``; None: the
        mix of the package. Shares of origins without a window are divided among the others.
    windows_per_epoch
        Windows that an epoch visits; None: as many as visit each reference window once on average; ``all``: every
        window once, in file order, whatever their shares in the mix.
    frozen
        Store of ``tuples/frozen``, or the root that contains it: batches, states of both windows included, are read
        from it, and are those that would be drawn. Needs neither caches nor an encoder; an ``encoder`` given must be
        that of the store. None: batches are drawn.
    **options
        See :class:`StreamOptions`.

    Raises
    ------
    ConfigurationError
        If an option is invalid, or ``frozen`` is of another package, encoder or value of an option.
    RejectedResourceError
        If the audit of the package failed.
    MissingResourceError, CorruptResourceError, RootError
        If the package is not audited, or it, a cache or frozen epochs are missing, altered, or of another genome.
    InputError, FetchError
        If a URL names no release, or it cannot be fetched, or arrives changed (ChecksumError).

    Notes
    -----
    Load with ``DataLoader(dataset, batch_size=None, num_workers=...)``: an item is a whole batch, and the order of
    batches is the same for any number of workers. Workers, forked or spawned, open the same mapped files, whose pages
    all processes of a machine share. With ``collate_fn=as_tensors`` the workers send tensors in shared memory, and with
    ``pin_memory=True`` they arrive in pinned memory. ``DataLoader(dataset)`` gives the same batches;
    ``DataLoader(dataset, batch_size=k)`` merges each k batches of one worker into one, so its batches depend on the
    number of workers: prefer ``windows_per_batch``.

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
        windows_per_epoch: int | Literal["all"] | None = None,
        frozen: Path | str | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        self._source_mix, self._windows_per_epoch = source_mix, windows_per_epoch
        #: Every option that tuples depend on, as JSON values; frozen epochs are identified by them.
        self.options = stated_options(options, source_mix, windows_per_epoch)
        self._frozen_in = frozen
        self._frozen: FrozenEpochs | None = None
        super().__init__(package, cache_root, Split.TRAIN, None, **options)

    @classmethod
    def current(cls, root: Path | str, **options: Any) -> Self:
        """Open the current package of a root, such as ``data``; options and errors are those of the class."""
        return cls(current_folder(root), root, **{"allow_unaudited": True, **options})

    def resume(self, epoch: int, position: int) -> None:
        """Continue an epoch as every dataset does; frozen or not, an epoch has the same batches.

        Raises
        ------
        ConfigurationError
            If ``epoch`` or ``position`` is negative, or the epoch is not frozen.
        """
        if self._frozen is not None:
            self._frozen.check_epoch(epoch)
        super().resume(epoch, position)

    def _open_package(self, package: Path | str | Package, root: Path | str | None, options: StreamOptions) -> Package:
        if self._frozen_in is None:
            return super()._open_package(package, root, options)
        opened, self._frozen = open_with_frozen(self._frozen_in, package, options, self.options)
        return opened

    def _open_stream(self, sources: SplitSources) -> TupleStream[Any]:
        if self._frozen is None:
            return super()._open_stream(sources)
        return FrozenStream(sources.windows, self._frozen, self._settings)

    def _named(self, *parts: object) -> str:
        return super()._named(*parts, self._source_mix, self._windows_per_epoch)

    def _schedule(self, sources: SplitSources, mix: str | None) -> Schedule:
        rules, n_edits = self._rules, self._settings.n_edits
        alleles = WindowAlleles.count(sources.windows, sources.real, rules.first_bp, rules.inset_bp)
        wanted = self.package.info.mix
        if self._source_mix is not None:
            wanted = replace(wanted, wanted=replace(wanted.wanted, windows=window_shares(self._source_mix)))
        n_visits = None if self._windows_per_epoch == "all" else self._windows_per_epoch
        plan = plan_epoch(alleles, wanted, n_edits=n_edits, n_visits=n_visits)
        slots = plan.slots if mix is None else EditCycle.named(mix, n_edits)
        if self._windows_per_epoch == "all":
            return FileOrder(len(sources.windows), slots)
        return WindowSchedule.of(plan, slots, seed=self._settings.seed)


class _EvaluationDataset(_PackageDataset):
    """Batches of one holdout, of the split that a class states."""

    _of: ClassVar[Split]

    def __init__(
        self,
        package: Path | str | Package,
        holdout: str,
        *,
        cache_root: Path | str | None = None,
        coverage: Literal["windows", "alleles"] = "windows",
        **options: Unpack[StreamOptions],
    ) -> None:
        covers = evaluation_of(coverage, holdout, options)
        super().__init__(package, cache_root, self._of, holdout, covers, **options)

    @classmethod
    def current(cls, root: Path | str, holdout: str, **options: Any) -> Self:
        """Open the current package of a root, such as ``data``; options and errors are those of the class."""
        return cls(current_folder(root), holdout, cache_root=root, **{"allow_unaudited": True, **options})


class GenoLeWMValDataset(_EvaluationDataset):
    """Batches of validation tuples of one holdout: every window once, or every bench allele once.

    With ``coverage="windows"`` an epoch shows the windows in file order, with edits that depend on seed and epoch. A
    slot for a real allele or an indel that the window does not have is filled by a synthetic SNV and counted in
    ``counts`` of the batch (``fallback_SOURCE``); ``without_fallback=True`` leaves these tuples out. With
    ``coverage="alleles"`` it shows every bench allele (ClinVar P, LP, B or LB with the package's ``min_stars``) once,
    alone, in the window in which it is most central; the tuples depend on the package alone. Bench alleles that no
    window shows are counted by reason in ``package.json`` (``scoring.HOLDOUT.SPLIT.REASON``).

    Parameters
    ----------
    package, cache_root
        As for :class:`GenoLeWMDataset`.
    holdout
        Name of the holdout, such as ``holdout-chr``.
    role
        Only ``validation``. Test windows need :class:`GenoLeWMTestDataset`, so that they are not read by mistake.
    coverage
        ``windows`` or ``alleles``.
    **options
        See :class:`StreamOptions`; ``min_left_context_bp`` defaults to 1,536. With ``coverage="alleles"`` the options
        ``mix``, ``multi_edit_share`` and ``min_left_context_bp`` are refused.

    Raises
    ------
    ConfigurationError
        If the holdout has no validation window or, for ``coverage="alleles"``, no bench allele; if ``role`` is not
        ``validation``, or an option is invalid.
    MissingResourceError, CorruptResourceError, RootError
        If the package or a cache is missing, altered, or of another genome.
    """

    _of = Split.VALIDATION

    def __init__(
        self,
        package: Path | str | Package,
        holdout: str,
        role: Literal["validation"] = "validation",
        *,
        cache_root: Path | str | None = None,
        coverage: Literal["windows", "alleles"] = "windows",
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
        super().__init__(package, holdout, cache_root=cache_root, coverage=coverage, **options)


class GenoLeWMTestDataset(_EvaluationDataset):
    """Batches of test tuples of one holdout, for the final evaluation.

    Parameters and errors are those of :class:`GenoLeWMValDataset`, without ``role``.
    """

    _of = Split.TEST
