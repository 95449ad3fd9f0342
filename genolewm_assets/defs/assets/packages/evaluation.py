"""``packages/evaluation``: how well the package of a release teaches a linear and a small residual probe."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg

from genolewm_assets.defs.assets import embeddings_cache, embeddings_corpus
from genolewm_assets.defs.assets.packages.split import packages_split
from genolewm_assets.defs.display import describe_published, of, plotted
from genolewm_assets.defs.runtime import (
    BY_EVALUATED_RELEASE,
    RECOMPUTED,
    GatedAsset,
    Plan,
    Workspace,
    configured_batch,
    configured_device,
    on_every_partition,
    on_key_of,
)
from genolewm_assets.errors import ConfigurationError, GenoLeWMError
from genolewm_assets.evaluation import EVALUATION
from genolewm_assets.packages import open_package, read_package_info
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import BuildPlan, BuildReport, Check, CheckResult, Published, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, check_schema, read_table, write_table
from genolewm_assets.variants import in_order, is_before

_TABLE, _FOLDER = "evaluation.parquet", "evaluations"

SCORES_WITHIN_INTERVALS = Check(
    "scores_within_earlier_intervals",
    "The AUROC of every model and holdout lies in the 95 % interval that it had in the newest earlier release that was "
    "evaluated. Blocks nothing.",
    "Look at the picture, and at what the release changed: the report of the move of packages/current, clinvar/changes "
    "and packages/audit. A score that rises without a reason can be a leak, one that falls may come of other labels.",
)


def plan_evaluation(workspace: Workspace, key: str, progress: Progress) -> Plan:
    """Plan the evaluation of a release's latest package."""
    asked = workspace.catalog.packages.evaluation
    if asked is None:
        raise ConfigurationError(
            f"{workspace.catalog.file} (packages.evaluation)",
            "no evaluation is asked for",
            expected="{tuples: 4096}",
            got="no such key",
            remedy="Write it, and load the definitions again",
        )
    split, identity = packages_split.open(workspace, key), workspace.encoder_identity
    contigs = {contig.name for contig in workspace.contigs}
    states = tuple(
        (embeddings_cache if ref.source in contigs else embeddings_corpus).open(workspace, ref.source)
        for ref in read_package_info(split.directory).caches
    )

    def write(work: Path) -> BuildReport:
        from genolewm_assets.evaluation import evaluate

        package = open_package(split.directory, cache_root=workspace.root.path, allow_unaudited=True)
        encoder = workspace.load_encoder(configured_device(), **configured_batch())
        table = evaluate(package, encoder, tuples=asked.tuples, progress=progress)
        write_table([table], work / _TABLE, EVALUATION)
        counts = {"models": table.num_rows, "training_tuples": asked.tuples}
        return BuildReport(counts, {_TABLE: table.num_rows}, (check_schema(table, EVALUATION),))

    recipe: dict[str, JsonValue] = {"tuples": asked.tuples, "encoder": {**identity.as_recipe()}}
    return Plan(recipe=recipe, inputs=(split, *states), write=write)


def _read(published: Published) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(published.file(_TABLE)).to_pylist()
    return rows


def _earlier(workspace: Workspace, release: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the evaluations of earlier releases that can be read, oldest first."""
    found = {}
    links = workspace.root.link_of(_FOLDER)
    for name in in_order({link.name for link in links.glob("*")} if links.is_dir() else ()):
        if is_before(name, release):
            with suppress(GenoLeWMError):
                found[name] = _read(packages_evaluation.open(workspace, name))
    return found


def picture_of_releases(workspace: Workspace, _: BuildPlan, published: Published) -> dict[str, dg.MetadataValue]:
    """Return the picture of the scores of this release and those before it."""
    from genolewm_assets.defs.display import draw_scores

    release = str(published.artefact.partition)
    return {"scores_by_release": draw_scores({**_earlier(workspace, release), release: _read(published)})}


def advise_on_scores(workspace: Workspace, published: Published) -> Iterable[CheckResult]:
    """Yield the check that no score left the interval that it had in the release before."""
    earlier = _earlier(workspace, str(published.artefact.partition))
    release, rows = next(reversed(earlier.items()), ("", []))
    before = {(row["holdout"], row["model"]): row for row in rows if row["auroc_low"] is not None}
    pairs = [
        (row, before[at])
        for row in _read(published)
        if (at := (row["holdout"], row["model"])) in before and row["auroc"] is not None
    ]
    outside = [
        {
            "holdout": row["holdout"],
            "model": row["model"],
            "auroc": row["auroc"],
            f"low_{release}": old["auroc_low"],
            f"high_{release}": old["auroc_high"],
        }
        for row, old in pairs
        if not old["auroc_low"] <= row["auroc"] <= old["auroc_high"]
    ]
    check = CheckResult(SCORES_WITHIN_INTERVALS, not outside, {"earlier": release or "none"}, outside)
    yield stating_compared(check, len(pairs), "no earlier release has such scores", declared=True)


def describe_evaluation(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of an evaluation: rows, and the scores of the linear probe by holdout."""
    rows = _read(published)
    scores = {
        f"{name}_{row['holdout'].removeprefix('holdout-')}": row[name]
        for row in rows
        for name in ("auroc", "latent_error")
        if row["model"] == "linear" and row[name] is not None
    }
    return {**describe_published(published, rows=len(rows), stated=("training_tuples",)), **plotted(**scores)}


_TUPLES = of(packages_split, "sequence", "contig", "start", "holdout", "cache_key", "cache_row")
_LABELS = of(packages_split, "variants.label", "variants.gene_ids", "variants.scoring")

packages_evaluation: GatedAsset = GatedAsset(
    key="packages/evaluation",
    description="""
    One row per holdout and model: how well a probe that was trained on the package of a release scores there.

    A package can be free of leaks and still teach nothing. A linear and a small residual probe learn the change of the
    state and, from the labels of training alleles, which changes are harmful; the encoder alone, no change and the mean
    change of the edit's type are what they are compared with. They are probes, no world model: the scores compare
    packages. Has no partitions, and is never built, unless `packages.evaluation` in the catalogue asks for it.
    """,
    kinds={"pytorch", "parquet", "h100"},
    place=lambda _, release: f"{_FOLDER}/{release}",
    deps=(
        on_key_of(BY_EVALUATED_RELEASE, packages_split),
        on_every_partition(embeddings_cache),
        on_every_partition(embeddings_corpus),
    ),
    partitions=BY_EVALUATED_RELEASE,
    automation=RECOMPUTED,
    table=EVALUATION,
    sources={
        "holdout": of(packages_split, "holdout"),
        **dict.fromkeys(("model", "tuples", "n_tuples", "latent_error"), _TUPLES),
        **dict.fromkeys(("n_harmful", "n_benign", "n_genes", "score"), _LABELS),
        **dict.fromkeys(
            ("auroc", "auroc_low", "auroc_high", "auroc_of_size", "gain", "gain_low", "gain_high"), _TUPLES + _LABELS
        ),
    },
    checks=(SCHEMA_AS_DECLARED,),
    advisories=(SCORES_WITHIN_INTERVALS,),
    advise=advise_on_scores,
    plan=plan_evaluation,
    entries={
        "training_tuples": "tuples that the probes were trained on",
        "auroc_*": "AUROC of the linear probe on a holdout, P and LP against B and LB",
        "latent_error_*": "squared error of the linear probe on a holdout, as a share of that of predicting no change",
        "scores_by_release": "AUROC with its 95 % interval by holdout, in this release and those before it",
    },
    describe=describe_evaluation,
    after=picture_of_releases,
    h100=True,
)
