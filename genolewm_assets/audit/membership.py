"""Membership signal: whether an encoder finds held-out windows easier than training windows like them.

An encoder that was pretrained on held-out sequence, but not on other sequence, gives it a lower loss. The signal is
information: it has no verdict, since an encoder that has seen both, as one of the whole genome has, shows none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.layouts import Layout, open_layout
from genolewm_assets.audit.reading.package_files import EVALUATION, TRAIN, PackageFiles, rows_of
from genolewm_assets.audit.reading.reference import MASKED, OTHER, Reference, encode, unmasked
from genolewm_assets.progress import NO_PROGRESS, Progress

#: Loss of windows in nats per base: float64, shape (windows,).
Loss: TypeAlias = Callable[[Sequence[str]], npt.NDArray[np.float64]]
Floats: TypeAlias = npt.NDArray[np.float64]

#: Largest difference of the windows of a pair in GC content and in repeat share, each a share from 0 to 1.
MOST_GC, MOST_REPEATS = 0.02, 0.1
#: Draws of the bootstrap, and training windows that are candidates at most.
DRAWS, MOST_CANDIDATES = 10_000, 50_000

_COLUMNS = ("contig", "start", "end", "placement_exact", "sequence")


@dataclass(frozen=True, slots=True)
class Membership:
    """Paired difference of losses, held-out window minus training window, in nats per base.

    Attributes
    ----------
    wanted, pairs
        Pairs that were asked for, and those that could be matched and have a loss.
    held_out, training
        Mean loss of the windows of each kind; NaN without a pair.
    difference, low, high
        Mean paired difference, and its 95 % confidence interval by bootstrap over pairs; NaN without a pair.
    """

    wanted: int
    pairs: int
    held_out: float
    training: float
    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        if not self.pairs:
            return f"Membership signal: none of {self.wanted:,} held-out windows has a training window like it."
        return (
            f"Membership signal (information): held-out windows have {self.difference:+.4f} nats per base against "
            f"matched training windows (95 % CI {self.low:+.4f} to {self.high:+.4f}, {self.pairs:,} pairs of "
            f"{self.wanted:,} asked for; {self.held_out:.4f} and {self.training:.4f}). Below 0: the encoder finds "
            "held-out windows easier."
        )

    def as_dict(self) -> dict[str, object]:
        """Return the figures for ``--json``; what is not known is None."""
        return {name: value if np.isfinite(value) else None for name, value in asdict(self).items()}


class _Window(NamedTuple):
    sequence: str
    place: tuple[str, int]
    gc: float
    repeats: float


def measure_membership(
    package: Path,
    fasta: Path,
    loss: Loss,
    *,
    number: int,
    holdouts: Path | None = None,
    layout: Layout | None = None,
    progress: Progress = NO_PROGRESS,
) -> Membership:
    """Compare the losses of held-out windows with those of training windows of equal length, GC and repeats.

    Parameters
    ----------
    package, fasta, holdouts, layout
        As for ``audit_package``. Windows with an exact place on the FASTA are compared; its lower-case bases are
        repeats.
    number
        Held-out windows to draw, from all evaluation windows of holdouts of intervals.

    Raises
    ------
    FastaError, MissingResourceError, CorruptResourceError
        If a file is missing or cannot be read.
    """
    files, rng = open_layout(package, fasta, holdouts, layout), np.random.default_rng(0)
    with Reference(fasta) as reference:
        compared = files.compared_holdouts()
        held = {one.place: one for split in EVALUATION for one in _windows(files, reference, split, compared)}
        training = list(_windows(files, reference, TRAIN, None))
    chosen = _draw(rng, list(held.values()), number)
    pairs = list(match_windows(chosen, _draw(rng, training, MOST_CANDIDATES)))
    losses = np.full((len(pairs), 2), np.nan)
    for at, pair in enumerate(pairs):
        losses[at] = [loss([one.sequence])[0] for one in pair]
        progress.advance(at + 1, len(pairs), "pairs of windows whose loss is known")
    return summarise(losses, number, rng)


def match_windows(held: Sequence[_Window], training: Sequence[_Window]) -> Iterator[tuple[_Window, _Window]]:
    """Yield each held-out window with the free training window most like it, if one is near enough."""
    of_length: dict[int, list[_Window]] = {}
    for one in training:
        of_length.setdefault(len(one.sequence), []).append(one)
    features = {size: np.array([(one.gc, one.repeats) for one in rows]) for size, rows in of_length.items()}
    for one in held:
        size = len(one.sequence)
        if size not in features:
            continue
        apart = np.abs(features[size] - (one.gc, one.repeats)) / (MOST_GC, MOST_REPEATS)
        # A window in a pair has NaN as its features.
        distance = np.where((apart <= 1).all(axis=1), apart.sum(axis=1), np.inf)
        at = int(np.argmin(distance))
        if np.isfinite(distance[at]):
            features[size][at] = np.nan
            yield one, of_length[size][at]


def summarise(losses: Floats, wanted: int, rng: np.random.Generator) -> Membership:
    """Return the mean paired difference and its interval."""
    known = losses[np.isfinite(losses).all(axis=1)]
    if not len(known):
        return Membership(wanted, 0, *[float("nan")] * 5)
    differences = known[:, 0] - known[:, 1]
    means = [differences[rng.integers(len(known), size=len(known))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, [0.025, 0.975])
    held_out, training = known.mean(axis=0)
    return Membership(
        wanted, len(known), float(held_out), float(training), float(differences.mean()), float(low), float(high)
    )


def _windows(files: PackageFiles, reference: Reference, split: str, holdouts: set[str] | None) -> Iterator[_Window]:
    """Yield the placed windows of a split; of those holdouts, unless they are None."""
    columns = _COLUMNS if holdouts is None else (*_COLUMNS, "holdout")
    for row in rows_of(files.windows(split, columns)):
        is_placed = row["placement_exact"] and row["start"] is not None
        if is_placed and (holdouts is None or row["holdout"] in holdouts):
            yield _described(row, reference)


def _described(row: dict[str, Any], reference: Reference) -> _Window:
    contig, start = canonical_name(row["contig"]), row["start"]
    codes = unmasked(encode(row["sequence"]))
    known = max(1, int(np.count_nonzero(codes < OTHER)))
    gc = int(np.count_nonzero((codes == 1) | (codes == 2))) / known
    masked = np.count_nonzero(reference.fetch(contig, start, start + codes.size) >= MASKED)
    return _Window(row["sequence"], (contig, start), gc, float(masked) / max(1, codes.size))


def _draw(rng: np.random.Generator, windows: list[_Window], number: int) -> list[_Window]:
    return [windows[at] for at in rng.permutation(len(windows))[:number]]
