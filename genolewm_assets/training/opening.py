"""Open what a dataset reads: its package, the state caches, and the stream of its batches.

Not here: reading windows and alleles of a split (``split``), PyTorch (``dataset``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from genolewm_assets.edits import EditSource, HaplotypeSampler, SamplingRules, seed_words
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.packages import Contents, Package, open_available, open_package, open_tables
from genolewm_assets.states import Pooling
from genolewm_assets.store.arrays import ArrayStoreReader
from genolewm_assets.store.files import JsonValue
from genolewm_assets.training.options import StreamOptions, at_least
from genolewm_assets.training.precomputed_epochs import FrozenEpochs, open_frozen
from genolewm_assets.training.sampler import BatchSampler
from genolewm_assets.training.split import SplitSources
from genolewm_assets.training.stream import HaplotypeStream, RandomStream, StreamSettings, TupleStream
from genolewm_assets.training.window_states import LiveEncoder, StateReader, check_same_encoder


class _HowOpened(TypedDict):
    contents: Contents
    allow_unaudited: bool


def open_for(package: Path | str | Package, cache_root: Path | str | None, options: StreamOptions) -> Package:
    """Open a package unless it is open already; raise if states are needed and can be neither read nor computed."""
    with_states, encoder = options.get("with_states", True), options.get("encoder")
    how: _HowOpened = {
        "contents": options.get("contents", "once"),
        "allow_unaudited": options.get("allow_unaudited", False),
    }
    if encoder is not None and not with_states:
        raise ConfigurationError(
            "encoder", "of no use with with_states=False", remedy="Leave one of the two out, or encode the batches"
        )
    if not isinstance(package, Package):
        if not with_states:
            return open_tables(package, cache_root=cache_root, **how)
        open_it = open_package if encoder is None else open_available
        package = open_it(package, cache_root=cache_root, **how)
    if with_states and encoder is None and not package.caches:
        raise ConfigurationError(
            f"package {package.directory.name}",
            "has no state cache",
            remedy="Build the package with caches, give its encoder (encoder=), or pass with_states=False and encode "
            "both windows",
        )
    return package


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
    """Return the settings and rules that options state.

    Raises
    ------
    ConfigurationError
        If an option is invalid.
    """
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
    options: StreamOptions, source_mix: Mapping[str, float] | None = None, windows_per_epoch: int | None = None
) -> dict[str, JsonValue]:
    """Return every option that the tuples of training depend on with its value, defaults included, as JSON values.

    Raises
    ------
    ConfigurationError
        If an option is invalid.
    """
    settings, rules = read_options(options)
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
    readers: Mapping[str, StateReader] | None = None,
    encoder: LiveEncoder | None = None,
) -> TupleStream:
    """Return the stream of a split: of haplotypes of real alleles only, where the holdout is one of haplotypes."""
    if sources.haplotypes is not None:
        chosen = HaplotypeSampler(sources.haplotypes, sources.held_out, rules)
        return HaplotypeStream(sources.windows, chosen, settings, readers, encoder)
    drawn = BatchSampler(sources.real, sources.held_out, rules, sources.held_sequences)
    clinvar = sources.real.get(EditSource.CLINVAR)
    return RandomStream(sources.windows, drawn, settings, readers, encoder, clinvar=clinvar)


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
