"""``forensic/profiles``: electropherograms of a run folder as an array store, with an account of every file."""

import hashlib
import time
from collections import Counter
from pathlib import Path

import dagster as dg

from genolewm_assets.defs.assets.observations import forensic_source
from genolewm_assets.defs.display import describe_published, plotted
from genolewm_assets.defs.runtime import AUTOMATED, BY_RUN_FOLDER, GatedAsset, Plan, Workspace, on_same_key
from genolewm_assets.errors import InputError
from genolewm_assets.forensic import Panel, read_panel
from genolewm_assets.forensic.runs import (
    FILES_FILE,
    FORENSIC_FILES,
    FORENSIC_LADDER_ALLELES,
    FORENSIC_LADDER_TRACES,
    LADDER_ALLELES_FILE,
    LADDER_TRACES_FILE,
    RUN_CHECKS,
    Fate,
    RunFile,
    check_run,
    write_profiles,
)
from genolewm_assets.progress import Progress
from genolewm_assets.sources.run_folders import Settling, list_run_files, run_folder, why_unfinished
from genolewm_assets.store.artefacts import BuildReport, Published
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import read_table


def plan_profiles(workspace: Workspace, run: str, progress: Progress) -> Plan:
    """Plan the profiles of one run folder; a folder that is still being written is refused."""
    settings = workspace.catalog.forensic
    if settings.runs is None:
        raise InputError(f"{workspace.catalog.file} (forensic.runs)", "names no folder of runs", got="none")
    rules, config = settings.policy, {"rules": settings.policy.as_recipe(), "panel": settings.panel}
    panels = [workspace.local_path(url) for url in settings.panels]
    sources = {f"panels/{path.name}": workspace.sha256_of(path) for path in panels}
    folder = run_folder(workspace.local_path(settings.runs), run)
    found = list_run_files(folder)
    unfinished = None if workspace.surveyed else why_unfinished(folder, found, settling(workspace), time.time())
    if unfinished is not None:
        remedy = f"Wait, or put a file {settings.complete_marker} into the folder"
        raise InputError(f"run folder {run}", "is not complete", got=unfinished, remedy=remedy)
    files = [RunFile(file.name, file.path, workspace.sha256_of(file.path)) for file in found]

    def write(work: Path) -> BuildReport:
        panel = read_kit(panels, settings.panel, sources)
        report = write_profiles(run, files, panel, work, rules=rules, config=config, sources=sources, progress=progress)
        listed = {file.name: file.path for file in list_run_files(folder)}
        checks = check_run(work, run, listed, read_kit(panels, settings.panel, sources), rules)
        return BuildReport(report.counts, report.rows, checks)

    digests: dict[str, JsonValue] = {file.name: file.sha256 for file in files}
    return Plan(recipe={**config, "files": digests, "panels": {**sources}}, write=write)


def settling(workspace: Workspace) -> Settling:
    """Return the catalogue's rule by which a run folder is complete."""
    settings = workspace.catalog.forensic
    return Settling(settings.complete_marker, 60 * settings.settle_minutes)


def read_kit(panels: list[Path], name: str | None, expected: dict[str, str]) -> Panel:
    """Return the kit's panel; raise InputError if a file is another than the build was planned with."""
    panel = read_panel(*panels, panel_name=name)
    for path in panels:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != expected[f"panels/{path.name}"]:
            raise InputError(str(path), "was changed while profiles were made", remedy="Build again")
    return panel


def describe_profiles(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a run: files by fate, the size standard, peaks by flag, and pictures without a donor."""
    from genolewm_assets.defs.display import draw_ladder, draw_run_quality

    files = read_table(published.file(FILES_FILE)).to_pylist()
    stored = [row for row in files if row["fate"] == Fate.STORED]
    left_out = Counter(row["reason"] for row in files if row["fate"] == Fate.LEFT_OUT)
    alleles = read_table(published.file(LADDER_ALLELES_FILE)).to_pylist()
    traces = read_table(published.file(LADDER_TRACES_FILE))
    rules = published.manifest.recipe["rules"]
    assert isinstance(rules, dict), "the recipe is that of plan_profiles"
    run, listed = (
        str(published.artefact.partition),
        "\n".join(f"| {why} | {n:,} |" for why, n in sorted(left_out.items())),
    )
    return {
        **describe_published(published, rows=len(stored), stated=("fate.stored", "fate.left_out", "annotated_samples")),
        **plotted(
            annotated=sum(bool(row["annotated"]) for row in stored),
            left_out=sum(left_out.values()),
            saturated=sum(row["saturated_scans"] > 0 for row in stored),
            max_residual_bp=max((row["max_residual_bp"] for row in stored), default=None),
        ),
        "files_left_out": dg.MetadataValue.md(f"| reason | files |\n|---|---:|\n{listed}"),
        "ladder": draw_ladder(traces.to_pylist(), alleles, threshold_rfu=float(str(rules["analytical_rfu"])), run=run),
        "quality": draw_run_quality(stored, limit_bp=float(str(rules["max_residual_bp"])), run=run),
    }


forensic_profiles = GatedAsset(
    key="forensic/profiles",
    description="""
    One row per sample or control of a run folder: its fluorescence, the size in base pairs of each scan, its alleles.

    `MemmapCacheReader` opens it as it opens a cache of `MemmapCacheWriter`. Every file of the folder is a profile, the
    ladder, an allele report, or left out with a reason. STR profiles are personal data: pages, logs and checks show
    the kit's ladder and counts, and no allele of a sample.
    """,
    kinds={"numpy", "abif"},
    code_version="2",
    place=lambda _, run: f"forensic/{run}",
    deps=(on_same_key(forensic_source),),
    partitions=BY_RUN_FOLDER,
    automation=AUTOMATED,
    table=FORENSIC_FILES,
    tables={"ladder_alleles": FORENSIC_LADDER_ALLELES, "ladder_traces": FORENSIC_LADDER_TRACES},
    checks=RUN_CHECKS,
    plan=plan_profiles,
    entries={
        "left_out": "files that were left out",
        "annotated": "profiles that an allele report of the folder names",
        "saturated": "profiles in which the detector was saturated",
        "max_residual_bp": "largest distance of a fragment of the size standard from the smooth curve, in base pairs",
        "files_left_out": "files that were left out, by reason",
        "ladder": "the run's ladder over base pairs, with its alleles, the size standard and the threshold of calls",
        "quality": "fit of the size standard and numbers of peaks of each profile",
    },
    describe=describe_profiles,
    private=True,
    array_store=True,
)
