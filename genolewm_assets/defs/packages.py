"""``packages/split`` and ``packages/current``: the training and holdout splits of a release, and the one in use."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq

from genolewm_assets.defs.automation import FOLLOWING, REBUILT
from genolewm_assets.defs.check_descriptions import CHECK_DESCRIPTIONS
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.freshness import RELEASE_FRESHNESS
from genolewm_assets.defs.gates import GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, asset_tags, definition_metadata, describe_published, plotted
from genolewm_assets.defs.partitions import clinvar_release_partitions, on_every_partition, on_same_key
from genolewm_assets.defs.release_inputs import ReleaseInputs, check_held_out_under, holdout_policy
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.workspace import Workspace, reference_reader
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.lewm.holdout_schema import Holdout
from genolewm_assets.lewm.package_checks import PACKAGE_CHECKS, realised_mix
from genolewm_assets.lewm.package_info import PackageInfo, read_package_info
from genolewm_assets.lewm.package_plan import PackageSources
from genolewm_assets.lewm.package_pointer import PACKAGES, PackageRef, move_current, write_latest
from genolewm_assets.lewm.package_schema import (
    CARD,
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    SOURCE_MIX,
    CacheRef,
    VariantSource,
)
from genolewm_assets.lewm.package_writer import write_package
from genolewm_assets.store import ArtefactId, BuildPlan, BuildReport, JsonValue, Progress, Published
from genolewm_assets.store.canonical_json import canonical_json

CODE_VERSION = "1"

#: ``current.json``.
_CURRENT_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("release", "string", description="ClinVar release of the package"),
        dg.TableColumn("path", "string", description="the package's folder, relative to the root"),
        dg.TableColumn("manifest_sha256", "string", description="SHA-256 of the package's manifest.json"),
    ]
)


def plan_package(workspace: Workspace, release: str | None, progress: Progress) -> BuildPlan:
    """Plan the package of one release; its folder is named by what it is made from."""
    key = str(release)
    inputs = ReleaseInputs.open(workspace, key, progress=progress)
    holdouts = workspace.open_input("holdouts/manifest", key)
    caches = _open_caches(workspace, inputs)
    refs = tuple(each.ref for each in (*inputs.published, holdouts, *caches.values()))
    policy = holdout_policy(workspace, inputs)
    check_held_out_under(holdouts, policy)
    settings = workspace.catalog.packages
    mix = settings.mix or SOURCE_MIX
    recipe: dict[str, JsonValue] = {
        "policy": policy.as_recipe(),
        "mix": dict(mix),
        "mix_declared": settings.mix_declared,
    }
    pinned = [[ref.asset, ref.partition, ref.manifest_sha256] for ref in refs]
    identity = canonical_json({"code_version": CODE_VERSION, "inputs": pinned, "recipe": recipe}, f"package {key}")

    def write(work: Path) -> BuildReport:
        for cache in caches.values():
            workspace.open_input(cache.artefact.asset, cache.artefact.partition, contents="hash", progress=progress)
        sources = PackageSources(
            release=key,
            genome_digest=workspace.catalog.genome_digest,
            contigs=workspace.contigs,
            windows=inputs.window_tables(),
            corpus=inputs.corpus_datasets(),
            gnomad=inputs.gnomad_tables(),
            clinvar=inputs.clinvar_tables(),
            clinvar_earlier=inputs.earlier_tables(),
            intervals=pq.read_table(holdouts.file("intervals.parquet")),
            alleles=pq.read_table(holdouts.file("alleles.parquet")),
            corpus_rows=pq.read_table(holdouts.file("corpus.parquet")),
            policy=policy,
            reference=_bases(workspace, inputs.genome),
            caches=[_cache_ref(workspace, name, cache, inputs) for name, cache in caches.items()],
            mix=mix,
            mix_declared=settings.mix_declared,
            margin_bp=workspace.catalog.window_profile.margin_bp,
            versions=_versions(workspace, key),
        )
        return write_package(work, sources, progress=progress)

    return BuildPlan(
        artefact=ArtefactId("packages/split", key),
        location=f"{PACKAGES}/{key}/{hashlib.sha256(identity).hexdigest()[:12]}",
        code_version=CODE_VERSION,
        recipe=recipe,
        inputs=refs,
        write=write,
    )


def _open_caches(workspace: Workspace, inputs: ReleaseInputs) -> dict[str, Published]:
    """Open the states of every contig and corpus source."""
    return {
        **{name: workspace.open_input("embeddings/cache", name) for name in inputs.windows},
        **{name: workspace.open_input("embeddings/corpus", name) for name in inputs.corpus},
    }


def _cache_ref(workspace: Workspace, source: str, cache: Published, inputs: ReleaseInputs) -> CacheRef:
    windows = {**inputs.windows, **inputs.corpus}[source]
    (table,) = (entry for entry in windows.manifest.files if entry.path == "windows.parquet")
    path = workspace.location(cache.artefact)
    return CacheRef(
        source=source,
        key=path.rpartition("/")[2],
        rows=cache.manifest.counts["windows"],
        windows_sha256=table.sha256,
        manifest_sha256=cache.manifest.sha256,
        path=path,
    )


def _bases(workspace: Workspace, genome: Published) -> Callable[[str], bytes]:
    read = reference_reader(genome, workspace.contigs)
    return lambda name: read(workspace.contigs[name])


def _versions(workspace: Workspace, release: str) -> dict[str, str]:
    """Return the release of each source, for the card."""
    catalog = workspace.catalog
    gnomad = {f"gnomad[{contig}]": entry.release for contig, entry in catalog.gnomad.sources.items()}
    encoder = workspace.encoder_identity
    return {"genome": catalog.genome.name, "clinvar": release, "encoder": encoder.model_id, **gnomad}


def describe_package(published: Published) -> dict[str, dg.MetadataValue]:
    """Show rows, the splits, the realised mix of sources, and the card."""
    from genolewm_assets.defs.pictures import draw_composition, draw_source_mix

    info = read_package_info(published.directory)
    realised = realised_mix(info)
    panels, parts = _splits(info)
    return {
        **describe_published(published, rows=sum(split.windows for split in info.splits.values())),
        **plotted(
            **{f"{name}_windows": split.windows for name, split in info.splits.items()},
            **{f"{name}_alleles": split.variants for name, split in info.splits.items()},
            largest_distance_from_mix=max(abs(realised.get(name, 0.0) - share) for name, share in info.mix.items()),
        ),
        "splits": draw_composition(panels, title=f"Splits of release {info.release}", parts=parts),
        "source_mix": draw_source_mix(info.mix, realised),
        "card": dg.MetadataValue.md(published.file(CARD).read_text()),
    }


def _splits(info: PackageInfo) -> tuple[Mapping[str, Mapping[str, Mapping[str, int]]], Mapping[str, str]]:
    """Return windows and alleles by split and holdout, as ``draw_composition`` takes them."""
    from genolewm_assets.defs.pictures import PART_COLOURS

    train, counts = info.splits[Split.TRAIN], info.counts
    windows: dict[str, Mapping[str, int]] = {str(Split.TRAIN): {Split.TRAIN: train.windows}}
    alleles: dict[str, Mapping[str, int]] = {str(Split.TRAIN): {Split.TRAIN: train.variants}}
    for holdout in Holdout:
        windows[holdout] = {split: counts[f"{split}.{holdout}.windows"] for split in EVALUATION}
        alleles[holdout] = {
            split: sum(counts.get(f"{split}.{holdout}.{source}_alleles", 0) for source in VariantSource)
            for split in EVALUATION
        }
    return {"windows": windows, "alleles": alleles}, {split: PART_COLOURS[split] for split in Split}


def record_latest(workspace: Workspace, plan: BuildPlan, published: Published) -> dict[str, dg.MetadataValue]:
    """Make the package the latest of its release."""
    release = str(plan.artefact.partition)
    write_latest(workspace.root.path, PackageRef(release, plan.location, published.manifest.sha256))
    return {}


SPLIT = GatedAsset(
    key="packages/split", checks=PACKAGE_CHECKS, plan=plan_package, describe=describe_package, after=record_latest
)


@dg.asset(
    key=["packages", "split"],
    deps=[
        on_every_partition("reference/genome"),
        on_every_partition("gnomad/shard"),
        on_same_key("clinvar/shard"),
        on_same_key("clinvar/changes"),
        on_every_partition("windows/index"),
        on_every_partition("corpus/windows"),
        on_every_partition("embeddings/cache"),
        on_every_partition("embeddings/corpus"),
        on_same_key("holdouts/manifest"),
    ],
    partitions_def=clinvar_release_partitions,
    automation_condition=REBUILT,
    group_name="packages",
    code_version=CODE_VERSION,
    check_specs=SPLIT.check_specs(clinvar_release_partitions),
    metadata=definition_metadata(
        "packages/split", PACKAGE_WINDOWS, variants=PACKAGE_VARIANTS, controls=PACKAGE_CONTROLS
    ),
    owners=OWNERS,
    tags=asset_tags("clinvar_release"),
    hooks={report_failure},
    kinds={"parquet", "huggingface"},
)
def packages_split(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per window of the training, validation or test split of a release, with its sequence.

    The package is what a trainer opens and what a paper cites: immutable, checked against its own holdouts by code that
    did not make them, with the alleles, the holdouts and a card beside the windows and the states by reference.
    """
    yield from SPLIT.run(context, workspace.open())


@dg.asset(
    key=["packages", "current"],
    deps=[on_every_partition("packages/split")],
    automation_condition=FOLLOWING,
    freshness_policy=RELEASE_FRESHNESS,
    group_name="packages",
    code_version=CODE_VERSION,
    check_specs=[
        dg.AssetCheckSpec(
            "package_verifies",
            asset=["packages", "current"],
            description=CHECK_DESCRIPTIONS["package_verifies"],
            blocking=True,
        )
    ],
    metadata={"dagster/column_schema": _CURRENT_COLUMNS},
    owners=OWNERS,
    tags=asset_tags(None),
    hooks={report_failure},
    kinds={"json"},
)
def packages_current(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per package in use: the newest release whose package verifies, or the one that is pinned.

    Trainers follow this pointer; a missing or bad release never moves or blocks it.
    """
    root = workspace.open().root.path
    try:
        ref = move_current(root)
    except GenoLeWMError as err:
        yield dg.AssetCheckResult(check_name="package_verifies", passed=False, metadata={"error": str(err)})
        raise dg.Failure(str(err), allow_retries=False) from err
    context.log.info("in use: release %s, %s", ref.release, ref.path)
    yield dg.MaterializeResult(
        metadata={
            "release": ref.release,
            "dagster/uri": dg.MetadataValue.path(str(root / ref.path)),
            "dagster/row_count": 1,
        },
        data_version=dg.DataVersion(f"sha256:{ref.manifest_sha256}"),
        check_results=[dg.AssetCheckResult(check_name="package_verifies", passed=True)],
    )
