"""Build the cache of a folder of instrument files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from genolewm_assets.errors import InputError
from genolewm_assets.forensic import MemmapCacheWriter
from genolewm_assets.forensic.dataset.panel_json import panel_as_json
from genolewm_assets.forensic.dataset.profiles import UNUSABLE, LadderPanel, ProfileRules, make_profile, read_ladder
from genolewm_assets.forensic.dataset.scaling import ScalingStrategy
from genolewm_assets.forensic.dataset.strategies import DatasetEntry, DatasetStrategy
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store import read_stamped
from genolewm_assets.store.arrays import RowStamp
from genolewm_assets.store.files import JsonValue

#: Folder of the panel files among the root-relative names.
_PANEL = "@panel/"


class Omission(StrEnum):
    """Why a sample is not in the cache."""

    NO_ANNOTATION = "no_annotation"
    NO_LADDER = "no_ladder"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class CacheRecipe:
    """All that decides what is in a cache, besides the content of the files.

    Attributes
    ----------
    root
        Folder of the files.
    scaling, dataset, rules
        Kit and grid, which files are what, and how profiles are made.
    allow_missing_annotations
        Whether samples without annotation are stored.
    skip_if_invalid_ladder
        Whether samples without a usable ladder are left out; else they have the kit's panel as its files say.
    """

    root: Path
    scaling: ScalingStrategy
    dataset: DatasetStrategy
    rules: ProfileRules
    allow_missing_annotations: bool
    skip_if_invalid_ladder: bool

    def config(self) -> dict[str, JsonValue]:
        """Return every parameter, JSON values only: the configuration that the key is computed from."""
        return {
            "scaling": self.scaling.cache_signature(),
            "dataset": self.dataset.cache_signature(),
            "rules": self.rules.cache_signature(),
            "allow_missing_annotations": self.allow_missing_annotations,
            "skip_if_invalid_ladder": self.skip_if_invalid_ladder,
        }

    def files(self) -> dict[str, Path]:
        """Return every file that the rows depend on, by root-relative name; panel files are under ``@panel``."""
        panels = {f"{_PANEL}{n}/{path.name}": path for n, path in enumerate(map(Path, self.scaling.panel_paths))}
        return {**self.dataset.source_files(self.root), **panels}

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and points of every profile; raises as :attr:`ScalingStrategy.panel`."""
        n_dyes = len(self.scaling.channels) + self.rules.include_size_standard
        return n_dyes, self.scaling.scanpoint_resolution


@dataclass(slots=True)
class BuildReport:
    """What became of the samples of a folder.

    Attributes
    ----------
    n_written
        Number of samples in the cache.
    omitted
        Reason of each sample that is not in the cache, by root-relative name.
    unusable_ladders
        What is wrong with each ladder that cannot be used, by root-relative name.
    """

    n_written: int = 0
    omitted: dict[str, Omission] = field(default_factory=dict, repr=False)
    unusable_ladders: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """Number of samples left out, by reason."""
        return dict(Counter(map(str, self.omitted.values())))


def build_cache(
    cache_dir: Path,
    recipe: CacheRecipe,
    files: Mapping[str, Path],
    *,
    strict: bool = False,
    progress: Progress = NO_PROGRESS,
) -> BuildReport:
    """Build or continue the cache of a recipe; return what became of the samples.

    Parameters
    ----------
    cache_dir
        Folder of the caches of all configurations.
    files
        The files of the recipe.
    strict
        Compare files by content at the end of the build.

    Raises
    ------
    InputError
        If no sample can be stored, a table is malformed, or a file changed meanwhile.
    BusyError, ResourceError
        As :class:`MemmapCacheWriter`.
    """
    report = BuildReport()
    with MemmapCacheWriter(
        cache_dir,
        recipe.config(),
        shape=recipe.shape,
        files=files,
        allow_missing_annotations=recipe.allow_missing_annotations,
        strict=strict,
    ) as writer:
        if not writer.is_finished:
            _write_all(writer, recipe, files, report, progress)
        report.n_written = len(writer.resume_paths())
        writer.finalize()
    return report


def _write_all(
    writer: MemmapCacheWriter,
    recipe: CacheRecipe,
    files: Mapping[str, Path],
    report: BuildReport,
    progress: Progress,
) -> None:
    entries = list(recipe.dataset.collect_dataset_files(recipe.root, files))
    samples = {entry.name for entry in entries}
    stamps = {name: stamp for name, stamp in writer.stamps.items() if name.startswith(_PANEL) and name not in samples}
    ladders = _Ladders(recipe.scaling, files, stamps, report)
    done = writer.resume_paths()
    for number, entry in enumerate(entries, 1):
        if entry.name not in done:
            _write(entry, writer, recipe, files, ladders)
        progress.advance(number, len(entries), "profiles")
    if not writer.resume_paths():
        raise InputError(
            str(recipe.root),
            "no profile can be stored",
            expected="at least one sample",
            got=f"{len(entries)} samples, left out: {report.counts}",
            remedy="Check the folder, the kit, and what the strategy takes for samples",
        )


def _write(
    entry: DatasetEntry, writer: MemmapCacheWriter, recipe: CacheRecipe, files: Mapping[str, Path], ladders: _Ladders
) -> None:
    report = ladders.report
    if entry.annotation is None and not recipe.allow_missing_annotations:
        report.omitted[entry.name] = Omission.NO_ANNOTATION
        return
    ladder = ladders.find(entry.ladders)
    if ladder.name is None and recipe.skip_if_invalid_ladder:
        report.omitted[entry.name] = Omission.NO_LADDER
        return
    data, stamp = read_stamped(files[entry.name])
    try:
        profile = make_profile(data, stamp, entry, ladder, scaling=recipe.scaling, rules=recipe.rules)
    except UNUSABLE:
        report.omitted[entry.name] = Omission.UNUSABLE
        return
    writer.write(profile)


class _Ladders:
    """Panels by ladder, each fitted once.

    Parameters
    ----------
    scaling
        The kit.
    files
        Files by root-relative name.
    stamps
        Stamps of the panel files.
    report
        Takes what is wrong with a ladder.
    """

    def __init__(
        self, scaling: ScalingStrategy, files: Mapping[str, Path], stamps: Mapping[str, RowStamp], report: BuildReport
    ) -> None:
        self._scaling, self._files, self._stamps, self.report = scaling, files, stamps, report
        self._fitted: dict[str, LadderPanel | None] = {}
        self._kit = LadderPanel(None, scaling.panel, panel_as_json(scaling.panel), stamps)

    def find(self, names: tuple[str, ...]) -> LadderPanel:
        """Return the panel of the first ladder that can be used, else the kit's."""
        for name in names:
            if name not in self._fitted:
                self._fitted[name] = self._fit(name)
            fitted = self._fitted[name]
            if fitted is not None:
                return fitted
        return self._kit

    def _fit(self, name: str) -> LadderPanel | None:
        data, stamp = read_stamped(self._files[name])
        try:
            return read_ladder(data, name, self._scaling, {**self._stamps, name: stamp})
        except UNUSABLE as err:
            self.report.unusable_ladders[name] = str(err)
            return None
