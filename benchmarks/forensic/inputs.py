"""Folders of instrument files to measure on: the NIST runs beside the checkout, or simulated ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.forensic import HIDDataset, RunFolderStrategy, ScalingStrategy
from genolewm_assets_tests.places import SHARED_DATA
from genolewm_assets_tests.worlds.forensic.folders import write_folder, write_kit
from genolewm_assets_tests.worlds.forensic.runs import GENOTYPE

REAL = SHARED_DATA / "hid"
_PANEL_FILES = [f"osiris/PowerPlex_Fusion_6C_{kind}_IDX_v1.2.txt" for kind in ("Panels", "Bins")]


@dataclass(frozen=True, slots=True)
class Runs:
    """A folder of runs.

    Attributes
    ----------
    kind
        ``real`` or ``simulated``.
    root
        The folder.
    scaling
        The kit, on the grid of DNANet.
    """

    kind: str
    root: Path
    scaling: ScalingStrategy

    @property
    def paths(self) -> dict[str, Path]:
        """Paths of samples and ladder by name, in order."""
        strategy = RunFolderStrategy(control_words=())
        return {name: path for name, path in strategy.source_files(self.root).items() if path.suffix == ".hid"}

    def open(self, cache_dir: Path, **options: object) -> HIDDataset:
        """Open the data set of the folder, with samples that nobody annotated."""
        named: Mapping[str, object] = {"cache_dir": cache_dir, "allow_missing_annotations": True, **options}
        return HIDDataset(self.root, self.scaling, RunFolderStrategy(), **named)  # type: ignore[arg-type]


def find_runs(folder: Path, *, samples: int = 8) -> Runs:
    """Return the NIST runs (eight samples of 0.8 MB), or as many simulated ones (0.1 MB), written into a folder."""
    if REAL.is_dir():
        links = folder / "runs"
        links.mkdir(exist_ok=True)
        for path in REAL.glob("*.hid"):
            link = links / path.name
            if not link.exists():
                link.symlink_to(path)
        panels = tuple(REAL / name for name in _PANEL_FILES)
        return Runs("real", links, ScalingStrategy(panels, start_bp=65, end_bp=475))
    root, kit = folder / "simulated", folder / "kit"
    if not root.is_dir():
        write_folder(root, samples={f"a{number:02}": GENOTYPE for number in range(samples)})
        write_kit(kit)
    return Runs("simulated", root, ScalingStrategy(tuple(sorted(kit.iterdir())), start_bp=70, end_bp=400))
