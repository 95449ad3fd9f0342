"""Keyword options of the datasets, and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypedDict

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Holdout, LengthPolicy
from genolewm_assets.packages import EVALUATION_CONTEXT_BP, Contents
from genolewm_assets.states import BLOCK_TOKENS, RADIUS_TOKENS, PoolSide, TupleKind
from genolewm_assets.training.window_states import LiveEncoder

#: Options that choose edits by chance, which the stream of bench alleles does not.
_NOT_OF_ALLELES = ("mix", "multi_edit_share", "min_left_context_bp", "without_fallback")


class Coverage(StrEnum):
    """What an epoch of an evaluation covers: every window, with sampled edits, or every bench allele once, alone."""

    WINDOWS = "windows"
    ALLELES = "alleles"


class StreamOptions(TypedDict, total=False):
    """Keyword parameters of every dataset; the defaults given are those of training.

    Attributes
    ----------
    seed
        Seed of every draw, from 0 to 2**64 - 1. Default 0.
    epoch, position
        First epoch, and the number of its batches that were already consumed. Defaults 0 and 0.
    n_edits
        Tuples per window. Default 8.
    mix
        Name of a cycle of edit sources in the slots of a window: ``exact`` (3 gnomAD, 3 SNV, 1 indel, 1 ClinVar of 8)
        or ``rotating``. Default in training: slots are planned so that the epoch has the edit shares of the package; in
        evaluation: ``exact``.
    kind, radius_tokens, side
        What states are means of: the blocks with the tokens round the edit, on ``both`` sides, ``left`` or ``right``
        of it, or (``global``) the whole window. Defaults ``local``, 256 and ``both``.
    multi_edit_share
        Share of tuples with 2 or 3 edits, all of them in the pooled blocks, 0 to 1; ``holdout-haplotypes`` has only
        such tuples. Default 0.1.
    min_left_context_bp
        Bases of the window left of an edit. Default 0, in evaluation 1,536.
    length_policy
        Flank that a change of length takes bases from: see :func:`~genolewm_assets.genome.apply_edits`. Default
        ``right_flank``.
    without_fallback
        Evaluation only: leave out the tuples whose slot was planned for a real allele or an indel, and is filled by a
        synthetic SNV because the window has none left. A batch then holds fewer tuples. Default False. Either way
        ``fallback_SOURCE`` in ``counts`` of a batch counts these slots.
    windows_per_batch
        Windows per batch, default 32. A batch holds ``windows_per_batch * n_edits`` tuples; the last batch of an epoch
        may hold fewer. With ``coverage="alleles"`` the number of tuples of a window varies, and a batch holds at most
        as many.
    with_states
        Read the states of unedited windows from the caches. Default True.
    encoder
        Encoder of the unedited windows without cached states, such as ``encoders.CausalLMStateEncoder``: where a cache
        is missing, or the package refers to none. Default None: a missing cache is an error. It must be the encoder of
        the package's caches; windows encoded are counted as ``encoded_windows``. Every worker of a loader has a copy,
        so read with ``num_workers=0`` if it runs on a GPU.
    rank, world_size
        Index of this process, and number of processes that share the epoch. Defaults: those of ``torch.distributed``
        if it is initialised, else 0 and 1. Batches are dealt out in turn.
    last_batches
        How every rank of a training gets the same number of batches. ``repeat`` (default): the first batches of the
        epoch come again at its end, one at most for a rank. ``drop``: the last ones are left out. In an evaluation
        every batch comes once, and ranks may differ by one batch: do not wait for each other there.
    contents
        ``once`` (default) verifies the SHA-256 of every file of the package on opening, unless this machine did so and
        no file has changed since; ``hash`` verifies it always; ``sizes`` verifies file names and sizes only.
    allow_unaudited
        Open a package whose audit has not passed, or of which none is at hand: see
        ``genolewm_assets.packages.open_package``. Default False; the package in use has passed its audit.
    """

    seed: int
    epoch: int
    position: int
    n_edits: int
    mix: str
    kind: str
    radius_tokens: int
    side: PoolSide
    multi_edit_share: float
    min_left_context_bp: int
    length_policy: LengthPolicy
    without_fallback: bool
    windows_per_batch: int
    with_states: bool
    encoder: LiveEncoder | None
    rank: int
    world_size: int
    last_batches: Literal["repeat", "drop"]
    contents: Contents
    allow_unaudited: bool


def check_names(options: Mapping[str, object]) -> None:
    """Raise :class:`ConfigurationError` for the first option that no dataset has."""
    # Python does not check keywords against a TypedDict; without this check a misspelt option would be ignored.
    unknown = sorted(options.keys() - StreamOptions.__annotations__.keys())
    if unknown:
        raise ConfigurationError(
            unknown[0], "unknown dataset option", expected=f"one of {sorted(StreamOptions.__annotations__)}"
        )


def evaluation_of(coverage: str, holdout: str, options: StreamOptions) -> Coverage:
    """Return the coverage of an evaluation, and set the left context that its sampled edits have in ``options``."""
    if coverage not in set(Coverage):
        raise ConfigurationError("coverage", "unknown", expected=f"one of {sorted(Coverage)}", got=repr(coverage))
    if coverage == Coverage.ALLELES:
        if holdout == Holdout.HAPLOTYPES:
            raise ConfigurationError(
                f"coverage of {holdout!r}",
                "this holdout has no bench of ClinVar alleles",
                expected=f"{str(Coverage.WINDOWS)!r}",
                got=repr(coverage),
                remedy="Score alleles of another holdout",
            )
        given = [name for name in _NOT_OF_ALLELES if name in options]
        if given:
            raise ConfigurationError(
                given[0],
                "does not apply to coverage='alleles', which shows every bench allele once, alone, in its best window",
                remedy="Leave the option out",
            )
        _check_pooled(options)
    else:
        options.setdefault("min_left_context_bp", EVALUATION_CONTEXT_BP)
    return Coverage(coverage)


def _check_pooled(options: Mapping[str, object]) -> None:
    """Raise if a bench allele that takes bases of the left flank can change no pooled token."""
    # Such an allele changes tokens left of its locus, which may all lie in the block before.
    if options.get("length_policy", "right_flank") == "right_flank":
        return
    problem = "with bases of the left flank, the pooled tokens miss the change that some alleles make"
    got = f"length_policy={options['length_policy']!r}"
    if options.get("side") == "right":
        raise ConfigurationError(
            "side='right'", problem, expected="side='both', or length_policy='right_flank'", got=got
        )
    radius = int(str(options.get("radius_tokens", RADIUS_TOKENS)))
    if options.get("kind", TupleKind.LOCAL) == TupleKind.LOCAL and radius < BLOCK_TOKENS:
        raise ConfigurationError(
            f"radius_tokens={radius}",
            problem,
            expected=f"at least {BLOCK_TOKENS} tokens, one block, or length_policy='right_flank'",
            got=got,
        )


def at_least(least: int, name: str, value: int) -> int:
    """Return ``value``; raise :class:`ConfigurationError` if it is less than ``least``."""
    if value < least:
        raise ConfigurationError(name, "out of range", expected=f"at least {least}", got=f"{value}")
    return value
