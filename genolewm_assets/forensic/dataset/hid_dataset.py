"""The PyTorch data set of profiles; imports torch."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, SupportsIndex

import numpy as np
from torch.utils.data import Dataset, Subset

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.forensic import MemmapCacheReader
from genolewm_assets.forensic.dataset.annotations import Adjustment
from genolewm_assets.forensic.dataset.build import CacheRecipe, make_current
from genolewm_assets.forensic.dataset.image import HIDImage
from genolewm_assets.forensic.dataset.profiles import ProfileRules
from genolewm_assets.forensic.dataset.scaling import DataLoadingStrategy, ScalingStrategy
from genolewm_assets.forensic.dataset.strategies import DatasetStrategy
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays import IndexEntry, MemoryLimitError

Transform = Callable[[HIDImage], Any]


class HIDDataset(Dataset[Any]):
    """Profiles of a folder of instrument files, read from a cache that is built when it is missing or out of date.

    Parameters
    ----------
    root
        Folder of instrument files and annotations, searched with its subfolders.
    scaling_strategy
        Kit and grid.
    dataset_strategy
        Which files are samples and ladders, and which annotation belongs to which.
    cache_dir
        Folder of the caches of all configurations of this ``root``, outside of the asset graph's root. Two folders of
        runs with one ``cache_dir`` would replace each other's caches.
    adjustment_of_annotations
        None: the bins of called alleles are labelled; ``top``: the highest point of the peak in each; ``complete``: all
        points of that peak from 40 RFU.
    limit, seed
        Take at most so many profiles, drawn with the seed; None: all. The cache holds all in any case.
    skip_if_invalid_ladder
        Leave out samples without a usable ladder; else they have the kit's panel, and ``meta["ladder"]`` is None.
    include_size_standard
        Whether the size standard's trace is the last row.
    data_loading_strategy
        ``raw``, ``analyzed`` (by the instrument) or ``superior`` (raw without the running 20th percentile).
    transform
        Made of each item when it is asked for, such as :func:`to_arrays`; None: items are :class:`HIDImage`.
    load_in_memory
        Copy the arrays into memory now; processes forked later share the copy, spawned ones read from disk.
    allow_missing_annotations
        Keep samples without annotation, whose ``annotation`` is None; False: leave them out.
    strict
        Compare every source file by content, whatever its size and time are.
    check
        Compare the checksum of a batch of rows before its first row is returned in a process.
    progress
        Told of profiles while a cache is built.

    Attributes
    ----------
    cache_directory
        ``<cache_dir>/<key>`` of this configuration.
    build_report
        What became of the samples; None if the cache was there already.

    Raises
    ------
    ConfigurationError
        If an option is unknown, the folder does not exist, or the cache's folder is inside a root.
    InputError
        If no sample can be stored, or a table of annotations is malformed.
    PanelError
        If the panel files cannot be used.
    RuntimeError
        With ``load_in_memory``, if the arrays would take more than half of the memory that this process may use.

    Notes
    -----
    The key covers every parameter but ``limit``, ``transform`` and where things lie; the fingerprint covers the content
    of every sample, ladder, annotation, mapping table and panel file. A change of either builds the cache again.
    """

    def __init__(
        self,
        root: Path | str,
        scaling_strategy: ScalingStrategy,
        dataset_strategy: DatasetStrategy,
        *,
        cache_dir: Path | str,
        adjustment_of_annotations: Adjustment | None = None,
        limit: int | None = None,
        seed: int = 0,
        skip_if_invalid_ladder: bool = False,
        include_size_standard: bool = False,
        data_loading_strategy: DataLoadingStrategy = "superior",
        transform: Transform | None = None,
        load_in_memory: bool = False,
        allow_missing_annotations: bool = False,
        strict: bool = False,
        check: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        super().__init__()
        rules = ProfileRules(data_loading_strategy, adjustment_of_annotations, include_size_standard)
        recipe = CacheRecipe(
            Path(root), scaling_strategy, dataset_strategy, rules, allow_missing_annotations, skip_if_invalid_ladder
        )
        self.transform, self.allow_missing_annotations = transform, allow_missing_annotations
        self.dataset_strategy, self.scaling_strategy = dataset_strategy, scaling_strategy
        self.cache_directory, self.build_report = make_current(
            Path(cache_dir), recipe, strict=strict, progress=progress
        )
        self._reader = _open(self.cache_directory, check=check, load_in_memory=load_in_memory)
        index = self._reader.load_index()
        self._entries = [index[row] for row in _drawn(len(index), limit, seed)]

    def __len__(self) -> int:
        """Return the number of profiles."""
        return len(self._entries)

    def __repr__(self) -> str:
        return f"HIDDataset({len(self)} profiles)"

    @property
    def index(self) -> list[IndexEntry]:
        """Rows of the index, in the order of the items."""
        return list(self._entries)

    @property
    def reader(self) -> MemmapCacheReader:
        """The reader of the cache."""
        return self._reader

    def split(self, fraction: float, *, seed: int = 0) -> tuple[Subset[Any], Subset[Any]]:
        """Divide the profiles into two non-empty parts that share no group, such as replicas or donors.

        Parameters
        ----------
        fraction
            Share of the profiles in the first part, above 0 and below 1. Whole groups are drawn with the seed until the
            share is reached, so a few large groups may exceed it.

        Raises
        ------
        ConfigurationError
            If the fraction is out of range, or all profiles are of one group.
        """
        if not 0 < fraction < 1:
            raise ConfigurationError("split", "no such fraction", expected="above 0 and below 1", got=f"{fraction:g}")
        groups: dict[str, list[int]] = {}
        for number, entry in enumerate(self._entries):
            groups.setdefault(self.dataset_strategy.get_split_group(PurePosixPath(entry.path).name), []).append(number)
        if len(groups) < 2:
            raise ConfigurationError(
                "split", "cannot divide one group", expected="at least 2 groups", got=str(len(groups))
            )
        drawn = sorted(groups, key=lambda group: hashlib.sha256(f"{seed}\0{group}".encode()).digest())
        first: list[int] = []
        while len(drawn) > 1 and (not first or len(first) < fraction * len(self)):
            first += groups[drawn.pop()]
        return Subset(self, sorted(first)), Subset(self, sorted(n for group in drawn for n in groups[group]))

    def __getitem__(self, index: SupportsIndex) -> Any:
        """Return one profile, with arrays of its own.

        Raises
        ------
        IndexError
            If there is no such item.
        CorruptResourceError
            With ``check``: if the row's batch differs from its checksum.
        """
        entry = self._entries[operator.index(index)]
        data, annotation, scaler = self._reader.get_row(entry.row)
        image = HIDImage(data, annotation if entry.has_annotation else None, scaler, entry, self._reader)
        return image if self.transform is None else self.transform(image)

    def __iter__(self) -> Iterator[Any]:
        """Yield the profiles in order; an IndexError of ``transform`` does not end the iteration."""
        return (self[number] for number in range(len(self)))


def _open(directory: Path, *, check: bool, load_in_memory: bool) -> MemmapCacheReader:
    reader = MemmapCacheReader(directory, check=check)
    if load_in_memory:
        try:
            reader.load_in_memory()
        except MemoryLimitError as err:
            sizes = err.problem.rpartition("refused: ")[2]
            problem = f"load_in_memory=True refused: {sizes}"
            raise MemoryLimitError(str(directory), problem, remedy="Set load_in_memory=False") from err
    return reader


def _drawn(n_rows: int, limit: int | None, seed: int) -> list[int]:
    """Return the rows that a limit keeps, ascending."""
    if limit is None:
        return list(range(n_rows))
    if limit < 1:
        raise ConfigurationError("limit", "keeps no profile", expected="at least 1, or None", got=str(limit))
    rows = np.random.default_rng(seed).permutation(n_rows)[:limit]
    return sorted(map(int, rows))
