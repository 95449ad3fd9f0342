"""The stream that a trainer reads, drawn for real: emitted tokens, decoded to bases and compared with the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.audit.normal_alleles import Allele
from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.package_files import TEST
from genolewm_assets.audit.reading.reference import Codes, Reference, decode, encode, reverse_complement, unmasked
from genolewm_assets.audit.report import Found

_TOKEN_BP = 6
#: Bases of every token, from its index: base 4 digits, most significant first.
_BASES_OF_TOKEN = (np.arange(4**_TOKEN_BP)[:, None] // 4 ** np.arange(_TOKEN_BP - 1, -1, -1) % 4).astype(np.uint8)
#: Bases of the reference behind a window that deletions may draw in.
_BEHIND_BP = 512
#: Tuples that are drawn, if need be, until every window has been drawn.
MOST_FOR_WINDOWS = 100_000
#: Longest allele that neighbouring differences are joined to, in bases.
_LONGEST_JOINED = 600


class Batch(Protocol):
    """What a trainer gets: tuples and their tokens, as ``docs/api.md`` describes them."""

    @property
    def epoch(self) -> int:
        """Epoch of the batch, from 0."""

    @property
    def tuples(self) -> Sequence[Any]:
        """The tuples."""

    @property
    def target_tokens(self) -> Any:
        """int16, shape (tuples, tokens): 6-mers of the edited windows; -1 past the end of a shorter one."""

    @property
    def block_tokens(self) -> int:
        """DNA tokens of a block that states are pooled by."""


class StateBatch(Batch, Protocol):
    """A batch with the states of the unedited windows."""

    @property
    def source_states(self) -> Any:
        """float32, shape (tuples, hidden): pooled over the blocks that the tuple names; None without a cache."""


@dataclass(frozen=True, slots=True)
class EmittedEdit:
    """The differences of one emitted window from the unedited bases.

    ``alleles``: differences, less than a token apart taken as one, and what neighbouring ones make together; empty
    where the window has no place on the reference. ``changed``, ``unchanged``: the edited bases from 30 before the
    first difference to 30 behind the last, and the unedited ones there.
    """

    window: str
    alleles: tuple[Allele, ...]
    changed: Codes
    unchanged: Codes


@dataclass(slots=True)
class EmittedCounts:
    """What was drawn so far.

    ``entangled``: tuples with more differences than are told apart; only their bases are searched. ``elsewhere``:
    windows whose unedited bases are not those of the reference at their place. ``origins``, ``sources``: tuples of
    epochs with default options, by origin of the window and by source of the edit.
    """

    tuples: int = 0
    unplaced: int = 0
    entangled: int = 0
    elsewhere: set[str] = field(default_factory=set)
    windows: set[str] = field(default_factory=set)
    false_edits: Found = field(default_factory=Found)
    origins: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)


def draw_batches(package: Path) -> Iterator[Batch]:
    """Yield the batches of epoch after epoch of training, every second one with several edits in each tuple."""
    from genolewm_assets.lewm import GenoLeWMDataset

    usual = GenoLeWMDataset(package, with_states=False, allow_unaudited=True)
    joined = GenoLeWMDataset(usual.package, with_states=False, multi_edit_share=1.0)
    for epoch in count():
        dataset = joined if _is_joined(epoch) else usual
        dataset.set_epoch(epoch)
        yield from dataset


def _is_joined(epoch: int) -> bool:
    return epoch % 2 == 1


def draw_bench(package: Path, holdout: str, split: str) -> Iterator[Batch]:
    """Yield the batches of the bench alleles of a holdout and split."""
    from genolewm_assets.lewm import GenoLeWMTestDataset, GenoLeWMValDataset

    kind = GenoLeWMTestDataset if split == TEST else GenoLeWMValDataset
    yield from kind(package, holdout, coverage="alleles", with_states=False, allow_unaudited=True)


def draw_state_batches(package: Path) -> Iterator[StateBatch]:
    """Yield the batches of an epoch of training with seed 0, with source states if there are caches."""
    from genolewm_assets.lewm import GenoLeWMDataset

    dataset = GenoLeWMDataset(package, with_states=False, allow_unaudited=True)
    yield from GenoLeWMDataset(package, allow_unaudited=True) if dataset.package.info.caches else dataset


def bases_of(tokens: Any) -> Codes:
    """Return the bases that the tokens of a window spell."""
    bases: Codes = _BASES_OF_TOKEN[tokens[tokens >= 0]].reshape(-1)
    return bases


def read_edits(
    batches: Iterable[Batch], reference: Reference, counts: EmittedCounts, *, least_tuples: int, windows: set[str]
) -> Iterator[EmittedEdit]:
    """Yield what each tuple of a stream changes, until enough were drawn."""
    most = max(4 * least_tuples, MOST_FOR_WINDOWS)
    for batch in batches:
        yield from _edits_of(batch, reference, counts)
        seen_all = windows <= counts.windows
        if counts.tuples >= least_tuples and (seen_all or counts.tuples >= most):
            return


def _edits_of(batch: Batch, reference: Reference, counts: EmittedCounts) -> Iterator[EmittedEdit]:
    from genolewm_assets.audit.difference_kernels import MOST_DIFFERENCES, find_differences

    found = np.empty((MOST_DIFFERENCES, 4), dtype=np.int64)
    of_window: tuple[object, ...] = ()
    unedited, expected = np.empty(0, np.uint8), np.empty(0, np.uint8)
    for one, tokens in zip(batch.tuples, np.asarray(batch.target_tokens), strict=True):
        counts.tuples += 1
        if not _is_joined(batch.epoch):
            counts.origins[one.origin] += 1
            counts.sources[str(one.edit_source)] += 1
        counts.windows.add(one.window_id)
        this = (one.window_id, one.contig, one.window_start, one.strand)
        if this != of_window:
            of_window, unedited = this, unmasked(encode(one.source_window))
            expected = _expected(one, reference)
            if not np.array_equal(unedited, expected[: unedited.size]):
                counts.elsewhere.add(one.window_id)
                expected = unedited
        edited = bases_of(tokens)
        n = find_differences(edited, expected, found)
        placed = one.contig is not None and one.window_id not in counts.elsewhere
        counts.unplaced += not placed
        counts.entangled += n < 0
        _check_edit(one, int(found[0, 2]) if n else None, int(batch.block_tokens), counts.false_edits)
        alleles = tuple(_alleles(one, edited, expected, found[:n].tolist())) if placed and n > 0 else ()
        yield EmittedEdit(name_of(one), alleles, _around(edited, found[:, 2:], n), _around(unedited, found[:, :2], n))


def _around(bases: Codes, differences: NDArray[np.int64], n: int) -> Codes:
    """Return the bases from 30 before the first of ``n`` differences to 30 behind the last; all if ``n`` is -1."""
    if n <= 0:
        return bases if n else bases[:0]
    return bases[max(0, differences[0, 0] - 30) : differences[n - 1].sum() + 30]


def _expected(one: Any, reference: Reference) -> Codes:
    """Return the reference along a window's own strand, from its first base on; without a place, the window."""
    if one.contig is None:
        return unmasked(encode(one.source_window))
    contig, size = canonical_name(one.contig), len(one.source_window)
    start, end = one.window_start, one.window_start + size
    if one.strand == "-":
        return reverse_complement(reference.fetch(contig, start - _BEHIND_BP, end))
    return unmasked(reference.fetch(contig, start, end + _BEHIND_BP))


def _check_edit(one: Any, base: int | None, block_tokens: int, false_edits: Found) -> None:
    """Note a tuple whose first differing base, None if there is none, is not where it and its pooled blocks say."""
    key = f"{name_of(one)} token {one.locus_token}"
    if base is None:
        false_edits.add(key, differs="nowhere")
        return
    token = base // _TOKEN_BP
    if token != one.locus_token:
        false_edits.add(key, differs=f"at token {token}")
    elif not one.block_start <= token // block_tokens < one.block_stop:
        blocks = f"[{one.block_start}, {one.block_stop})"
        false_edits.add(key, pooled_blocks=blocks, block_of_edit=token // block_tokens)


def name_of(one: Any) -> str:
    """Return the text that names the window of a tuple."""
    return f"{one.origin} {one.window_id}" if one.contig is None else f"{one.origin} {one.contig}:{one.window_start}"


def _alleles(one: Any, edited: Codes, expected: Codes, differences: list[list[int]]) -> Iterator[Allele]:
    """Yield every variant, and all that neighbouring ones make together, as alleles of the reference."""
    variants = _variants(differences)
    for first, ((start, _), (at, _)) in enumerate(variants):
        for (_, end), (_, stop) in variants[first:]:
            if end - start <= _LONGEST_JOINED:
                yield _allele(one, expected, edited, (start, end), (at, stop))


def _variants(differences: list[list[int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the bases lost and gained by each variant: differences less than a token apart are one.

    A multi-nucleotide variant is an allele of its own, not the single-base ones that it can be cut into; and where a
    deletion with an insertion is cut depends on the alignment.
    """
    merged: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for start, n_lost, at, n_gained in differences:
        lost, gained = (start, start + n_lost), (at, at + n_gained)
        if merged and start - merged[-1][0][1] < _TOKEN_BP:
            lost, gained = (merged[-1][0][0], lost[1]), (merged[-1][1][0], gained[1])
            merged.pop()
        merged.append((lost, gained))
    return merged


def _allele(one: Any, expected: Codes, edited: Codes, lost: tuple[int, int], gained: tuple[int, int]) -> Allele:
    (start, end), (at, stop) = lost, gained
    if start == end or at == stop:
        # VCF repeats a neighbouring base of an insertion or deletion: the one before, on the reference's strand.
        if one.strand == "-" or start == 0:
            end, stop = end + 1, stop + 1
        else:
            start, at = start - 1, at - 1
    ref, alt = expected[start:end], edited[at:stop]
    contig = canonical_name(one.contig)
    if one.strand == "-":
        pos = one.window_start + len(one.source_window) - end + 1
        return Allele(contig, pos, decode(reverse_complement(ref)), decode(reverse_complement(alt)))
    return Allele(contig, one.window_start + start + 1, decode(ref), decode(alt))
