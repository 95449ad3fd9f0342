"""Folders of simulated injections with annotations, as laboratories keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genolewm_assets import forensic
from genolewm_assets.forensic import RunFolderStrategy, ScalingStrategy
from genolewm_assets_tests.worlds.forensic.runs import (
    GENOTYPE,
    KIT,
    Genotype,
    MadeLocus,
    ladder_traces,
    run_bytes,
    traces,
    write_panel_files,
)

#: Genotypes of the samples; the second has no annotation.
SAMPLES: Mapping[str, Genotype] = {
    "a01": GENOTYPE,
    "a02": {**GENOTYPE, "M1": ("9", "14.2"), "M7": ("10",)},
    "a03": {**GENOTYPE, "M3": ("5",), "M6": ("11", "12")},
}
ANNOTATED = ("a01", "a03")
REPORT = "Set 1 DTH_AlleleReport.txt"


def allele_report(genotypes: Mapping[str, Genotype], *, delimiter: str = "\t", extra: str = "") -> str:
    """Return an allele report with heights beside the alleles, as GeneMarker writes it."""
    most = max(len(alleles) for own in genotypes.values() for alleles in own.values()) + 1
    header = ["Sample Name", "Marker", *(cell for n in range(1, most + 1) for cell in (f"Allele#{n}", f"Height#{n}"))]
    lines = [header]
    for sample, own in genotypes.items():
        for locus, alleles in own.items():
            names: Sequence[str] = (*alleles, extra) if extra else alleles
            cells = [cell for name in names for cell in (name, "1000")]
            lines.append([sample, locus, *cells, *[""] * (2 * most - len(cells))])
    return "".join(delimiter.join(line) + "\r\n" for line in lines)


def write_folder(
    root: Path, *, kit: Mapping[str, MadeLocus] = KIT, samples: Mapping[str, Genotype] = SAMPLES, n_dyes: int = 5
) -> Path:
    """Write a run with a ladder, a negative control, samples and a report of some of them; return the folder."""
    run = root / "run 1"
    run.mkdir(parents=True)
    (run / "b01_Ladder.hid").write_bytes(run_bytes(ladder_traces(kit, n_dyes), scrambled=True))
    (run / "b02_neg.hid").write_bytes(run_bytes(traces({}, kit=kit, n_dyes=n_dyes)))
    for seed, (name, genotype) in enumerate(samples.items()):
        signal = traces(genotype, seed=seed, kit=kit, n_dyes=n_dyes)
        (run / f"{name}.hid").write_bytes(run_bytes(signal, scrambled=True))
    (root / REPORT).write_text(allele_report({name: samples[name] for name in samples if name in ANNOTATED}))
    return root


def write_kit(folder: Path, kit: Mapping[str, MadeLocus] = KIT) -> tuple[Path, Path]:
    """Write the kit's panel files into a new folder and return their paths."""
    folder.mkdir(parents=True)
    return write_panel_files(folder, kit)


def scaling_of(panel_paths: tuple[Path, ...], **changes: Any) -> ScalingStrategy:
    return ScalingStrategy(panel_paths, **{"start_bp": 70, "end_bp": 400, "scanpoint_resolution": 1_024, **changes})


def open_dataset(root: Path, panel_paths: tuple[Path, ...], cache_dir: Path, **changes: Any) -> forensic.HIDDataset:
    """Open the data set of a folder; named arguments replace the usual ones."""
    settings: dict[str, Any] = {
        "scaling_strategy": scaling_of(panel_paths),
        "dataset_strategy": RunFolderStrategy(),
        "cache_dir": cache_dir,
        **changes,
    }
    return forensic.HIDDataset(root, **settings)
