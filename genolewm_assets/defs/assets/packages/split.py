"""``packages/split``: the training, validation and test splits of one release."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from genolewm_assets.defs.assets import (
    RELEASE_DEPS,
    ReleaseInputs,
    check_held_out_under,
    clinvar_shard,
    corpus_windows,
    embeddings_cache,
    embeddings_corpus,
    gnomad_shard,
    holdout_policy,
    holdouts_manifest,
    windows_index,
)
from genolewm_assets.defs.display import Sources, describe_published, made_here, of, plotted, same
from genolewm_assets.defs.runtime import (
    BY_PACKAGED_RELEASE,
    REBUILT,
    GatedAsset,
    Plan,
    Workspace,
    on_every_partition,
    on_same_key,
    reference_opener,
)
from genolewm_assets.genome import EVALUATION, Bases, Holdout, Split
from genolewm_assets.holdouts import describe_temporal
from genolewm_assets.package_build import PACKAGE_CHECKS, SHARD_COLUMNS, PackageSources, write_package
from genolewm_assets.packages import (
    CARD,
    PACKAGE_CONTEXTS,
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    PACKAGES,
    PRETRAINED_ON,
    SPECIFICATION,
    STRATA,
    CacheRef,
    Knowledge,
    PackageInfo,
    PackageRef,
    Shares,
    VariantSource,
    as_specified,
    read_latest,
    read_package_info,
    write_latest,
)
from genolewm_assets.progress import Progress
from genolewm_assets.sources.catalog import source_terms
from genolewm_assets.store.artefacts import BuildPlan, BuildReport, Published
from genolewm_assets.store.files import JsonValue, canonical_json, normal_json
from genolewm_assets.store.tables import map_parquet, memory_given_back, read_table
from genolewm_assets.variants import ALLELE_KEY
from genolewm_assets.windows.bases import WindowBases

#: Meaning of the entries of the dataset card.
CARD_ENTRIES = {"card": "the dataset card of the package", "card_yaml": "its head, which the Hugging Face Hub reads"}


def plan_package(workspace: Workspace, key: str, progress: Progress) -> Plan:
    """Plan the package of one release; the name of its folder is a digest of code version, inputs and recipe."""
    inputs = ReleaseInputs.open(workspace, key, progress=progress)
    holdouts = holdouts_manifest.open(workspace, key)
    caches = _open_caches(workspace, inputs)
    opened = (*inputs.published, holdouts, *caches.values())
    policy = holdout_policy(workspace, inputs)
    # A survey compares the recipe and the inputs of the package, and so finds it stale.
    if not workspace.surveyed:
        check_held_out_under(holdouts, policy)
    mix = workspace.catalog.packages.policy
    # Without a T0 there is nothing older to train on; the card says why.
    knows_t0 = workspace.catalog.packages.knowledge == Knowledge.T0 and policy.temporal is not None
    recipe: dict[str, JsonValue] = {
        "policy": policy.as_recipe(),
        "knowledge": str(Knowledge.T0 if knows_t0 else Knowledge.NEWEST),
        "mix": normal_json(asdict(mix), "mix"),
        "without_alleles": workspace.catalog.packages.without_alleles,
    }
    terms = source_terms(workspace.catalog, key)
    recipe["terms"] = {name: asdict(each) for name, each in terms.items()}
    pinned: list[JsonValue] = [[each.ref.asset, each.ref.partition, each.ref.manifest_sha256] for each in opened]
    made_from = {"code_version": packages_split.code_version, "inputs": pinned, "recipe": recipe}
    identity = canonical_json(made_from, f"package {key}")

    @memory_given_back()
    def write(work: Path) -> BuildReport:
        _open_caches(workspace, inputs, contents="hash", progress=progress)
        windows, margin_bp = inputs.window_tables(), workspace.catalog.window_profile.margin_bp
        sources = PackageSources(
            release=key,
            genome_digest=workspace.catalog.genome_digest,
            contigs=workspace.contigs,
            windows=windows,
            corpus=inputs.corpus_files(),
            gnomad=inputs.gnomad_on_demand(SHARD_COLUMNS[VariantSource.GNOMAD]),
            clinvar=inputs.clinvar_on_demand(SHARD_COLUMNS[VariantSource.CLINVAR]),
            clinvar_t0=inputs.earlier_on_demand(SHARD_COLUMNS[VariantSource.CLINVAR]) if knows_t0 else None,
            intervals=read_table(holdouts.file("intervals.parquet")),
            alleles=map_parquet(holdouts.file("alleles.parquet"), work.parent),
            corpus_rows=map_parquet(holdouts.file("corpus.parquet"), work.parent),
            similar=read_table(holdouts.file("similar.parquet")),
            haplotypes=read_table(holdouts.file("haplotypes.parquet")),
            holdout_counts=holdouts.manifest.counts,
            policy=policy,
            reference=_bases(workspace, inputs, windows, margin_bp),
            caches=[_cache_ref(workspace, name, cache, inputs) for name, cache in caches.items()],
            pieces={**inputs.windows, **inputs.corpus},
            mix=mix,
            without_alleles=workspace.catalog.packages.without_alleles,
            margin_bp=margin_bp,
            versions=_versions(workspace, key),
            terms=terms,
        )
        return write_package(work, sources, progress=progress)

    return Plan(
        location=f"{PACKAGES}/{key}/{hashlib.sha256(identity).hexdigest()[:12]}",
        recipe=recipe,
        inputs=opened,
        write=write,
    )


def _open_caches(workspace: Workspace, inputs: ReleaseInputs, **options: Any) -> dict[str, Published]:
    """Open the states of every contig and corpus source, if any are built; ``options`` as for ``GatedAsset.open``."""
    if not workspace.with_states:
        return {}
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


def _bases(
    workspace: Workspace, inputs: ReleaseInputs, windows: Mapping[str, pa.Table], margin_bp: int
) -> Callable[[str], Bases]:
    """Return a function from a contig's name to its bases, of which those of windows are not inflated."""
    read = reference_opener(inputs.genome, workspace.contigs)

    def open_contig(name: str) -> Bases:
        start, end = (windows[name][bound].to_numpy() for bound in ("start", "end"))
        packed = inputs.packed_bases(name)
        return WindowBases(packed, start - margin_bp, end + margin_bp, read(workspace.contigs[name]))

    return open_contig


def _versions(workspace: Workspace, release: str) -> dict[str, str]:
    """Return the release of each source, for the package card."""
    catalog = workspace.catalog
    gnomad = {f"gnomad[{contig}]": entry.release for contig, entry in catalog.gnomad.sources.items()}
    phased = {f"haplotypes[{contig}]": entry.release for contig, entry in catalog.haplotypes.sources.items()}
    encoder = {"encoder": "none: built without states"}
    if workspace.with_states:
        encoder = {"encoder": workspace.encoder_identity.model_id, PRETRAINED_ON: workspace.encoder.pretraining}
    return {"genome": catalog.genome.name, "clinvar": release, **encoder, **gnomad, **phased}


def describe_package(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a package: rows, splits, what an epoch is planned to serve, card."""
    from genolewm_assets.defs.display import draw_composition, draw_shares

    info = read_package_info(published.directory)
    assert info.epoch is not None
    declared = info.mix.declared if isinstance(info.mix.declared, Shares) else info.mix.wanted
    planned = info.epoch.planned
    panels, parts = _splits(info)
    return {
        **describe_published(published, rows=sum(split.windows for split in info.splits.values())),
        **plotted(
            **{f"{name}_windows": split.windows for name, split in info.splits.items()},
            **{f"{name}_alleles": split.variants for name, split in info.splits.items()},
            distance_from_mix=declared.farthest(planned),
            distance_from_rfc_0006=SPECIFICATION.farthest(as_specified(planned)),
            unseen_windows=sum(one.unseen for one in info.epoch.visits.values()),
        ),
        "temporal": dg.MetadataValue.text(describe_temporal(info.policy, info.release)),
        "knowledge": dg.MetadataValue.text(str(info.knowledge)),
        "splits": draw_composition(panels, title=f"Splits of release {info.release}", parts=parts),
        "source_mix": draw_shares(declared.windows, planned.windows, what="Origins"),
        "edit_mix": draw_shares(declared.edits, planned.edits, what="Sources of edits"),
        **describe_card(published.file(CARD).read_text()),
    }


def describe_card(text: str) -> dict[str, dg.MetadataValue]:
    """Return the card, and after it the YAML at its head, which is for the Hugging Face Hub."""
    _, front, card = text.split("---\n", 2)
    return {"card": dg.MetadataValue.md(card.strip()), "card_yaml": dg.MetadataValue.md(f"```yaml\n{front}```")}


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

    Trainers open a package and papers cite it. A package is immutable and contains windows, alleles, holdouts, the
    mapped form that trainers read, and a card; it refers to the cached states, or to none if the encoder is off.
    `packages/audit` looks in it for anything held out.
    """,
    kinds={"parquet", "huggingface"},
    code_version="11",
    place=lambda workspace, release: read_latest(workspace.root.path, release).path,
    deps=(
        *RELEASE_DEPS,
        on_every_partition(embeddings_cache),
        on_every_partition(embeddings_corpus),
        on_same_key(holdouts_manifest),
    ),
    partitions=BY_PACKAGED_RELEASE,
    automation=REBUILT,
    follows_releases=True,
    table=PACKAGE_WINDOWS,
    tables={"variants": PACKAGE_VARIANTS, "controls": PACKAGE_CONTROLS, "contexts": PACKAGE_CONTEXTS},
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
        **made_here("frozen", "cache_key"),
        "cache_row": of(embeddings_cache, "row") + of(embeddings_corpus, "row"),
        **made_here("variants.source"),
        **same(ALLELE_KEY, clinvar_shard, gnomad_shard, noun="variants."),
        "variants.af": of(gnomad_shard, "af"),
        **same(("label", "stars", "clinvar_id", "gene_ids"), clinvar_shard, noun="variants."),
        **_membership("variants."),
        "variants.scoring": (
            of(clinvar_shard, "pos", "ref", "alt", "label", "stars") + of(windows_index, "start", "end")
        ),
        "controls.window_id": _BASES,
        "controls.source_window_id": of(windows_index, "window_id"),
        **same(("contig", "start", "end"), windows_index, noun="controls."),
        **made_here("controls.shift_bp", "controls.cache_key"),
        "controls.sequence": _BASES,
        **_membership("controls."),
        "controls.cache_row": of(embeddings_cache, "row"),
        **{f"contexts.{name}": of(holdouts_manifest, f"alleles.{name}") for name in ALLELE_KEY},
        **made_here("contexts.left_context", "contexts.right_context"),
    },
    checks=PACKAGE_CHECKS,
    plan=plan_package,
    entries={
        "*_windows, *_alleles": "rows of each split",
        "distance_from_mix": "greatest difference of a planned share of an epoch from the declared one, 0 to 1",
        "distance_from_rfc_0006": "the same from the shares of RFC-0006, 0 to 1",
        "unseen_windows": "training windows that the first epoch does not show",
        "temporal": "releases T0 and T1 of the temporal holdout, and why T0 is the one",
        "knowledge": "release whose ClinVar labels training uses: `newest` is the package's, `T0` the earlier one",
        "splits, source_mix, edit_mix": "the splits, and shares planned and declared of origins and of edits",
        **CARD_ENTRIES,
    },
    describe=describe_package,
    after=record_latest,
)
