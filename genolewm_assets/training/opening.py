"""Open what a dataset reads: its package, its split, the state caches, and the stream of its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.edits import AlleleIndex, EditSource, HaplotypeSampler, HeldSequences, SamplingRules, seed_words
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Holdout, Split
from genolewm_assets.memory_mapped import MappedWindows, open_mapped
from genolewm_assets.packages import Package, VariantSource, open_available, open_package, open_tables
from genolewm_assets.releases import open_fetched
from genolewm_assets.states import Pooling
from genolewm_assets.store.arrays import ArrayStoreReader
from genolewm_assets.store.files import JsonValue
from genolewm_assets.training.options import Coverage, StreamOptions, at_least
from genolewm_assets.training.precomputed_epochs import FrozenEpochs, open_frozen
from genolewm_assets.training.sampler import BatchSampler
from genolewm_assets.training.stream import HaplotypeStream, RandomStream, StreamSettings
from genolewm_assets.training.window_states import LiveEncoder, check_same_encoder


def open_for(package: Path | str | Package, cache_root: Path | str | None, options: StreamOptions) -> Package:
    """Open a package unless it is open already; raise if states are needed and can be neither read nor computed.

    The one of a URL is fetched, with its states if they are read.
    """
    with_states, encoder = options.get("with_states", True), options.get("encoder")
    if encoder is not None and not with_states:
        raise ConfigurationError(
            "encoder", "of no use with with_states=False", remedy="Leave one of the two out, or encode the batches"
        )
    if isinstance(package, str) and "://" in package:
        fetched = open_fetched(package, states=with_states and encoder is None)
        package, cache_root = fetched.package, cache_root or fetched.folder
    if not isinstance(package, Package):
        open_it = open_tables if not with_states else open_package if encoder is None else open_available
        contents, unaudited = options.get("contents", "once"), options.get("allow_unaudited", False)
        package = open_it(package, cache_root=cache_root, contents=contents, allow_unaudited=unaudited)
    if with_states and encoder is None and not package.caches:
        named = bool(package.info.caches)
        raise ConfigurationError(
            f"package {package.directory.name}",
            "was opened without its state caches" if named else "was built without states",
            remedy="Pass with_states=False to read tokens, give an encoder (encoder=), or "
            f"{'open it with open_package' if named else 'build it with states'}",
        )
    return package


@dataclass(frozen=True, slots=True)
class SplitSources:
    """Windows and alleles of one split."""

    windows: MappedWindows
    #: Alleles of the split to sample edits from, by source.
    real: Mapping[EditSource, AlleleIndex]
    #: Alleles that no edit may make.
    held_out: AlleleIndex
    #: Rows of ``HOLDOUT_HAPLOTYPES`` of the split; None unless the holdout is ``holdout-haplotypes``.
    haplotypes: pa.Table | None = None
    #: The bases that the alleles of ``held_out`` make; None unless a training window has no exact placement.
    held_sequences: HeldSequences | None = None


def read_split(
    package: Package, split: Split, holdout: str | None, coverage: Coverage = Coverage.WINDOWS
) -> SplitSources:
    """Open the windows and alleles of a split, of a holdout or (None) of training; none of them is read."""
    mapped, haplotypes = open_mapped(package, split), None
    if holdout == Holdout.HAPLOTYPES:
        haplotypes = package.holdouts("haplotypes").filter(pc.field("role") == str(split))
    sources = {EditSource.GNOMAD: VariantSource.GNOMAD, EditSource.CLINVAR: VariantSource.CLINVAR}
    return SplitSources(
        windows=MappedWindows(mapped, holdout, frozen_only=coverage is Coverage.WINDOWS),
        real={edits: mapped.real_alleles(source, holdout) for edits, source in sources.items()},
        held_out=mapped.held_out(),
        haplotypes=haplotypes,
        held_sequences=mapped.held_sequences(),
    )


def open_with_frozen(
    frozen: Path | str, package: Path | str | Package, options: StreamOptions, stated: Mapping[str, JsonValue]
) -> tuple[Package, FrozenEpochs]:
    """Open a package without its caches, and its frozen epochs; ``stated`` are those of :func:`stated_options`."""
    if not options.get("with_states", True):
        raise ConfigurationError(
            "frozen", "of no use with with_states=False", remedy="Leave one of the two out: drawing is as fast"
        )
    encoder = options.get("encoder")
    tables: StreamOptions = {**options, "with_states": False, "encoder": None}
    opened = open_for(package, None, tables)
    return opened, open_frozen(frozen, opened.info, stated, None if encoder is None else encoder.identity.as_recipe())


def read_options(options: StreamOptions) -> tuple[StreamSettings, SamplingRules]:
    """Return the settings and rules that options state."""
    settings, rules = StreamSettings(), SamplingRules()
    seed_words(seed := options.get("seed", settings.seed))
    pooling = Pooling.named(
        options.get("kind", settings.pooling.kind),
        options.get("radius_tokens", settings.pooling.radius_tokens),
        options.get("side", settings.pooling.side),
    )
    return (
        StreamSettings(
            seed=seed,
            n_edits=at_least(1, "n_edits", options.get("n_edits", settings.n_edits)),
            pooling=pooling,
            without_fallback=options.get("without_fallback", settings.without_fallback),
        ),
        SamplingRules(
            min_left_context_bp=options.get("min_left_context_bp", rules.min_left_context_bp),
            multi_edit_share=options.get("multi_edit_share", rules.multi_edit_share),
            policy=options.get("length_policy", rules.policy),
            pooling=pooling,
        ),
    )


def stated_options(
    options: StreamOptions,
    source_mix: Mapping[str, float] | None = None,
    windows_per_epoch: int | Literal["all"] | None = None,
) -> dict[str, JsonValue]:
    """Return every option that the tuples of training depend on with its value, defaults included, as JSON values.

    Raises
    ------
    ConfigurationError
        If an option is invalid.
    """
    settings, rules = read_options(options)
    if isinstance(windows_per_epoch, str) and windows_per_epoch != "all":
        raise ConfigurationError(
            "windows_per_epoch", "no such option", expected="a number of windows, or 'all'", got=repr(windows_per_epoch)
        )
    if settings.without_fallback:
        raise ConfigurationError(
            "without_fallback",
            "is an option of evaluation: training plans its slots by the alleles of each window",
            expected="False",
            got="True",
            remedy="Leave the option out",
        )
    return {
        "seed": settings.seed,
        "n_edits": settings.n_edits,
        "kind": str(settings.pooling.kind),
        "radius_tokens": settings.pooling.radius_tokens,
        "side": settings.pooling.side,
        "mix": options.get("mix"),
        "multi_edit_share": rules.multi_edit_share,
        "min_left_context_bp": rules.min_left_context_bp,
        "length_policy": rules.policy,
        "source_mix": None if source_mix is None else dict(source_mix),
        "windows_per_epoch": windows_per_epoch,
    }


def open_stream(
    sources: SplitSources,
    rules: SamplingRules,
    settings: StreamSettings,
    readers: Mapping[str, ArrayStoreReader] | None = None,
    encoder: LiveEncoder | None = None,
) -> HaplotypeStream | RandomStream:
    """Return the stream of a split: of haplotypes of real alleles only, where the holdout is one of haplotypes."""
    if sources.haplotypes is not None:
        chosen = HaplotypeSampler(sources.haplotypes, sources.held_out, rules)
        return HaplotypeStream(sources.windows, chosen, settings, readers, encoder)
    drawn = BatchSampler(sources.real, sources.held_out, rules, sources.held_sequences)
    return RandomStream(sources.windows, drawn, settings, readers, encoder)


def check_room(shortest_bp: int, rules: SamplingRules) -> None:
    """Raise if the shortest window has no position for an edit, so that the error is not raised during an epoch."""
    if shortest_bp <= rules.first_bp + rules.inset_bp:
        raise ConfigurationError(
            "min_left_context_bp",
            "the shortest window has no room for an edit",
            expected=f"under {shortest_bp - rules.inset_bp}",
            got=f"{rules.first_bp}",
        )


def open_caches(package: Package, encoder: LiveEncoder | None) -> dict[str, ArrayStoreReader]:
    """Open every state cache of a package, by key, with verification of checksums; compare a live encoder with them."""
    readers = {
        ref.key: ArrayStoreReader(package.caches[ref.source], check=True)
        for ref in package.info.caches
        if ref.source in package.caches
    }
    if encoder is not None:
        check_same_encoder(encoder, package, readers)
    return readers
