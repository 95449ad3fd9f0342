"""``packages/split`` and ``packages/current``: the training, validation and test splits, and the package in use."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq

from genolewm_assets.defs.assets.clinvar import clinvar_shard
from genolewm_assets.defs.assets.corpus import corpus_windows
from genolewm_assets.defs.assets.embeddings import embeddings_cache, embeddings_corpus
from genolewm_assets.defs.assets.gnomad import gnomad_shard
from genolewm_assets.defs.assets.holdouts import holdouts_manifest
from genolewm_assets.defs.assets.release_inputs import RELEASE_DEPS, ReleaseInputs, check_held_out_under, holdout_policy
from genolewm_assets.defs.assets.windows import windows_index
from genolewm_assets.defs.display import Sources, describe_published, made_here, of, plotted, same
from genolewm_assets.defs.runtime import (
    BY_PACKAGED_RELEASE,
    FOLLOWING,
    REBUILT,
    RELEASE_FRESHNESS,
    Declaration,
    GatedAsset,
    GatedEvents,
    Plan,
    Workspace,
    WorkspaceResource,
    on_every_partition,
    on_same_key,
    reference_reader,
)
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.lewm.holdouts import Holdout
from genolewm_assets.lewm.package_build import PACKAGE_CHECKS, PackageSources, realised_mix, write_package
from genolewm_assets.lewm.packages import (
    CARD,
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    PACKAGES,
    SOURCE_MIX,
    STRATA,
    CacheRef,
    PackageInfo,
    PackageRef,
    VariantSource,
    move_current,
    read_latest,
    read_package_info,
    write_latest,
)
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import BuildPlan, BuildReport, Published
from genolewm_assets.store.files import JsonValue, canonical_json
from genolewm_assets.variants import ALLELE_KEY

#: Fields of ``packages/current.json``.
_CURRENT_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("release", "string", description="ClinVar release of the package"),
        dg.TableColumn("path", "string", description="folder of the package, relative to the root"),
        dg.TableColumn("manifest_sha256", "string", description="SHA-256 of the package's manifest.json"),
    ]
)


def plan_package(workspace: Workspace, key: str, progress: Progress) -> Plan:
    """Plan the package of one release; the name of its folder is a digest of code version, inputs and recipe."""
    inputs = ReleaseInputs.open(workspace, key, progress=progress)
    holdouts = holdouts_manifest.open(workspace, key)
    caches = _open_caches(workspace, inputs)
    opened = (*inputs.published, holdouts, *caches.values())
    policy = holdout_policy(workspace, inputs)
    check_held_out_under(holdouts, policy)
    settings = workspace.catalog.packages
    mix = settings.mix or SOURCE_MIX
    recipe: dict[str, JsonValue] = {
        "policy": policy.as_recipe(),
        "mix": dict(mix),
        "mix_declared": settings.mix_declared,
    }
    pinned: list[JsonValue] = [[each.ref.asset, each.ref.partition, each.ref.manifest_sha256] for each in opened]
    made_from = {"code_version": packages_split.code_version, "inputs": pinned, "recipe": recipe}
    identity = canonical_json(made_from, f"package {key}")

    def write(work: Path) -> BuildReport:
        _open_caches(workspace, inputs, contents="hash", progress=progress)
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

    return Plan(
        location=f"{PACKAGES}/{key}/{hashlib.sha256(identity).hexdigest()[:12]}",
        recipe=recipe,
        inputs=opened,
        write=write,
    )


def _open_caches(workspace: Workspace, inputs: ReleaseInputs, **options: Any) -> dict[str, Published]:
    """Open the states of every contig and corpus source; ``options`` as for :meth:`GatedAsset.open`."""
    return {
        **{name: embeddings_cache.open(workspace, name, **options) for name in inputs.windows},
        **{name: embeddings_corpus.open(workspace, name, **options) for name in inputs.corpus},
    }


def _cache_ref(workspace: Workspace, source: str, cache: Published, inputs: ReleaseInputs) -> CacheRef:
    windows = {**inputs.windows, **inputs.corpus}[source]
    (table,) = (entry for entry in windows.manifest.files if entry.path == "windows.parquet")
    states = embeddings_cache if source in inputs.windows else embeddings_corpus
    path = states.location(workspace, source)
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
    """Return the release of each source, for the package card."""
    catalog = workspace.catalog
    gnomad = {f"gnomad[{contig}]": entry.release for contig, entry in catalog.gnomad.sources.items()}
    encoder = workspace.encoder_identity
    return {"genome": catalog.genome.name, "clinvar": release, "encoder": encoder.model_id, **gnomad}


def describe_package(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a package: rows, splits, realised mix of corpus sources, card."""
    from genolewm_assets.defs.display import draw_composition, draw_source_mix

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
    """Return panels and colours for ``draw_composition``: windows and alleles by split and holdout."""
    from genolewm_assets.defs.display import PART_COLOURS

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
    """Record the package as the latest of its release; return no further metadata."""
    release = str(plan.artefact.partition)
    write_latest(workspace.root.path, PackageRef(release, plan.location, published.manifest.sha256))
    return {}


def _membership(noun: str = "") -> Sources:
    """Return the sources of the columns ``holdout`` and ``role``: the overlapping interval or the held-out allele."""
    return {
        f"{noun}{name}": of(holdouts_manifest, f"intervals.{name}", f"alleles.{name}") for name in ("holdout", "role")
    }


_BASES = of(windows_index, "start", "end")

packages_split = GatedAsset(
    key="packages/split",
    description="""
    One row per window of the training, validation or test split of a release, with its sequence.

    Trainers open a package and papers cite it. A package is immutable and contains windows, alleles, holdouts and a
    card; it refers to the cached states. Separate code checks that its training split contains nothing held out.
    """,
    kinds={"parquet", "huggingface"},
    place=lambda workspace, release: read_latest(workspace.root.path, release).path,
    deps=(
        *RELEASE_DEPS,
        on_every_partition(embeddings_cache),
        on_every_partition(embeddings_corpus),
        on_same_key(holdouts_manifest),
    ),
    partitions=BY_PACKAGED_RELEASE,
    automation=REBUILT,
    table=PACKAGE_WINDOWS,
    tables={"variants": PACKAGE_VARIANTS, "controls": PACKAGE_CONTROLS},
    sources={
        **same(("window_id", "window_hash", "gc", "strand"), windows_index, corpus_windows),
        "origin": of(corpus_windows, "source"),
        "contig": of(windows_index, "contig") + of(corpus_windows, "placed_contig"),
        "start": of(windows_index, "start") + of(corpus_windows, "placed_start"),
        "end": of(windows_index, "end") + of(corpus_windows, "placed_end"),
        **same(("placement_exact", "record_id", "window_index"), corpus_windows),
        "window_bp": _BASES + of(corpus_windows, "window_bp"),
        "frame": of(windows_index, "frame") + of(corpus_windows, "start"),
        **same(STRATA, windows_index),
        "sequence": _BASES + of(corpus_windows, "sequence"),
        "left_flank": of(windows_index, "start") + of(corpus_windows, "left_flank"),
        "right_flank": of(windows_index, "end") + of(corpus_windows, "right_flank"),
        **_membership(),
        **made_here("cache_key"),
        "cache_row": of(embeddings_cache, "row") + of(embeddings_corpus, "row"),
        **made_here("variants.source"),
        **same(ALLELE_KEY, clinvar_shard, gnomad_shard, noun="variants."),
        "variants.af": of(gnomad_shard, "af"),
        **same(("label", "stars", "clinvar_id", "gene_ids"), clinvar_shard, noun="variants."),
        **_membership("variants."),
        "controls.window_id": _BASES,
        "controls.source_window_id": of(windows_index, "window_id"),
        **same(("contig", "start", "end"), windows_index, noun="controls."),
        **made_here("controls.shift_bp", "controls.cache_key"),
        "controls.sequence": _BASES,
        **_membership("controls."),
        "controls.cache_row": of(embeddings_cache, "row"),
    },
    checks=PACKAGE_CHECKS,
    plan=plan_package,
    describe=describe_package,
    after=record_latest,
)


def _move_pointer(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    root = workspace.open().root.path
    try:
        ref = move_current(root)
    except GenoLeWMError as err:
        yield dg.AssetCheckResult(check_name=_VERIFIES, passed=False, metadata={"error": str(err)})
        raise dg.Failure(str(err), allow_retries=False) from err
    context.log.info("package in use: release %s, %s", ref.release, ref.path)
    yield dg.MaterializeResult(
        metadata={
            "release": ref.release,
            "dagster/uri": dg.MetadataValue.path(str(root / ref.path)),
            "dagster/row_count": 1,
        },
        data_version=dg.DataVersion(f"sha256:{ref.manifest_sha256}"),
        check_results=[dg.AssetCheckResult(check_name=_VERIFIES, passed=True)],
    )


_VERIFIES = "package_verifies"

packages_current = Declaration(
    key="packages/current",
    description="""
    One row per package in use: the package of the pinned release, or of the newest release whose package verifies.

    Trainers that name no release open this package. A release that is missing or damaged is skipped, unless it is
    pinned.
    """,
    kinds={"json"},
    deps=(on_every_partition(packages_split),),
    automation=FOLLOWING,
    freshness=RELEASE_FRESHNESS,
    columns=_CURRENT_COLUMNS,
    checks=(_VERIFIES,),
    body=_move_pointer,
)
