"""Build the cache of a folder of instrument files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from genolewm_assets.errors import CorruptResourceError, InputError
from genolewm_assets.forensic import MemmapCacheWriter, PreprocessedProfile
from genolewm_assets.forensic.dataset.annotations import AlleleAnnotation
from genolewm_assets.forensic.dataset.profiles import (
    BasePairGrid,
    LeftOutError,
    ProfileRules,
    RunPanel,
    fit_run_ladder,
    make_profile,
    read_run,
)
from genolewm_assets.forensic.dataset.scaling import ScalingStrategy
from genolewm_assets.forensic.dataset.strategies import DatasetEntry, DatasetStrategy
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store import read_stamped
from genolewm_assets.store.arrays import RowStamp, cache_key_dir, compute_key, is_complete, validate_sources
from genolewm_assets.store.files import JsonValue

#: Folder of the panel files among the root-relative names.
_PANEL = "@panel/"
#: Reasons to leave a sample out that are not in its file; the others are those of :class:`LeftOutError`.
NO_ANNOTATION, NO_LADDER = "no_annotation", "no_ladder"


@dataclass(slots=True)
class BuildReport:
    """What became of the samples of a folder, by root-relative name.

    ``omitted`` holds the reason of each sample that is not in the cache, ``unusable_ladders`` what is wrong with each
    ladder that cannot be used.
    """

    n_written: int = 0
    omitted: dict[str, str] = field(default_factory=dict, repr=False)
    unusable_ladders: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """Number of samples left out, by reason."""
        return dict(Counter(self.omitted.values()))


@dataclass(frozen=True, slots=True)
class CacheRecipe:
    """All that decides what is in a cache of a folder, besides the content of the files."""

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


def make_current(
    cache_dir: Path, recipe: CacheRecipe, *, strict: bool = False, progress: Progress = NO_PROGRESS
) -> tuple[Path, BuildReport | None]:
    """Build or continue the cache of a recipe unless it is current; return its folder and what became of the samples.

    The report is None if the cache was current. ``cache_dir`` holds the caches of all configurations; ``strict``
    compares files by content whatever their times are. InputError is raised if no sample can be stored, a table is
    malformed, or a file changed meanwhile.
    """
    config, files = recipe.config(), recipe.files()
    directory = cache_key_dir(cache_dir.absolute(), compute_key(config))
    try:
        if is_complete(directory) and validate_sources(directory, config, files, strict=strict):
            return directory, None
    except CorruptResourceError:
        pass
    grid = BasePairGrid(recipe.scaling, recipe.rules)
    n_rows = len(recipe.scaling.channels) + recipe.rules.include_size_standard
    with MemmapCacheWriter(
        cache_dir,
        config,
        shape=(n_rows, recipe.scaling.scanpoint_resolution),
        files=files,
        allow_missing_annotations=recipe.allow_missing_annotations,
        strict=strict,
    ) as writer:
        build = _Build(recipe, grid, files, writer)
        if not writer.is_finished:
            build.write_all(progress)
        build.report.n_written = len(writer.resume_paths())
        writer.finalize()
    return directory, build.report


class _Build:
    """One build of a cache: its panels, each ladder fitted once, and its report."""

    def __init__(
        self, recipe: CacheRecipe, grid: BasePairGrid, files: Mapping[str, Path], writer: MemmapCacheWriter
    ) -> None:
        self.recipe, self.grid, self.files, self.writer = recipe, grid, files, writer
        self.report = BuildReport()
        self._panels: dict[str, RunPanel | None] = {}

    def write_all(self, progress: Progress) -> None:
        """Write the profiles that the cache lacks."""
        recipe, writer = self.recipe, self.writer
        entries = list(recipe.dataset.collect_dataset_files(recipe.root, self.files))
        samples = {entry.name for entry in entries}
        panel = recipe.scaling.panel
        stamps = {name: each for name, each in writer.stamps.items() if name.startswith(_PANEL) and name not in samples}
        kit = RunPanel(None, panel, panel.as_json(), stamps)
        done = writer.resume_paths()
        for number, entry in enumerate(entries, 1):
            if entry.name not in done:
                try:
                    profile = self._profile_of(entry, kit)
                except LeftOutError as err:
                    self.report.omitted[entry.name] = err.reason.value
                else:
                    if profile is not None:
                        writer.write(profile)
            progress.advance(number, len(entries), "profiles")
        if not writer.resume_paths():
            raise InputError(
                str(recipe.root),
                "no profile can be stored",
                expected="at least one sample",
                got=f"{len(entries)} samples, left out: {self.report.counts}",
                remedy="Check the folder, the kit, and what the strategy takes for samples",
            )

    def _profile_of(self, entry: DatasetEntry, kit: RunPanel) -> PreprocessedProfile | None:
        """Return the profile of a sample; None if it has no annotation or ladder and must have one."""
        name, recipe = entry.name, self.recipe
        if entry.annotation is None and not recipe.allow_missing_annotations:
            self.report.omitted[name] = NO_ANNOTATION
            return None
        panel = next(filter(None, (self._panel_of(ladder, kit) for ladder in entry.ladders)), kit)
        if panel is kit and recipe.skip_if_invalid_ladder:
            self.report.omitted[name] = NO_LADDER
            return None
        data, stamp = read_stamped(self.files[name])
        run, stamps = read_run(data, name), {**entry.stamps, name: stamp}
        adjustment = recipe.rules.adjustment_of_annotations
        made = make_profile(name, run, panel, entry.annotation, self.grid, stamps=stamps, adjustment=adjustment)
        return replace(
            made.image,
            alleles=entry.annotation.as_json() if isinstance(entry.annotation, AlleleAnnotation) else None,
            meta={
                "ladder": panel.ladder,
                "instrument": run.run.model,
                "injection": run.run.injection,
                "size_standard": made.sizing.standard.name,
                "sized_from_bp": float(made.sizing.sizes_bp[0]),
                "sized_to_bp": float(made.sizing.sizes_bp[-1]),
                "max_residual_bp": round(float(np.abs(made.sizing.residuals_bp).max()), 4),
                "off_scale_scans": len(run.off_scale),
                "unplaced_alleles": made.unplaced,
            },
        )

    def _panel_of(self, ladder: str, kit: RunPanel) -> RunPanel | None:
        """Return the panel moved by a ladder; None if it cannot be used."""
        if ladder not in self._panels:
            data, stamp = read_stamped(self.files[ladder])
            stamps: Mapping[str, RowStamp] = {**kit.stamps, ladder: stamp}
            self._panels[ladder] = None
            try:
                fitted = fit_run_ladder(ladder, read_run(data, ladder), kit.panel, self.grid, stamps)
                self._panels[ladder] = fitted.moved
            except LeftOutError as err:
                self.report.unusable_ladders[ladder] = str(err)
        return self._panels[ladder]
