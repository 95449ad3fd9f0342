"""The stream that a trainer reads, drawn for real: emitted tokens, decoded to bases and compared with the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.audit.alleles.normal_alleles import KEY
from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.package_files import TEST
from genolewm_assets.audit.reading.reference import Codes, Reference, reverse_complement, unmasked
from genolewm_assets.audit.report import Found

_TOKEN_BP = 6
#: Bases of the reference behind a window that deletions may draw in.
_BEHIND_BP = 512
#: Bases of the 31-mers that have a base of an edit, before it and behind.
_AROUND_BP = 30

Integers = NDArray[np.int64]
#: How a package is verified when it is drawn from: ``sizes`` if its bytes are known to be right.
Contents: TypeAlias = Literal["once", "sizes"]


class Batch(Protocol):
    """What a trainer gets: tuples and their tokens, as ``docs/train.md`` describes them.

    ``epoch``: from 0. ``tuples``: the tuples one by one. ``windows``: the unedited windows: ``window_ids``,
    ``origins``, ``contigs``, ``contig``, ``start``, ``is_reverse``. ``edits``: ``window``, int64, shape (tuples,): the
    window of each; ``source_tokens``: int16, shape (windows, tokens): 6-mers of the unedited windows; -1 past the end
    of a shorter one. ``target_tokens``: shape (tuples, tokens): those of the edited windows. ``locus_token``: int64,
    shape (tuples,): token at which the windows first differ. ``block_start``, ``block_stop``: int64, shape (tuples,):
    blocks ``[start, stop)`` that both states are pooled over. ``block_tokens``: DNA tokens of a block. ``counts``:
    ``served_<source>``: tuples of each source. ``source_states``: float32, shape (tuples, hidden): pooled over the
    blocks that the tuple names; None without a cache.
    """

    epoch: int
    tuples: Sequence[Any]
    windows: Any
    edits: Any
    target_tokens: Any
    locus_token: Integers
    block_start: Integers
    block_stop: Integers
    block_tokens: int
    counts: Mapping[str, int]
    source_states: Any


@dataclass(frozen=True, slots=True)
class EmittedEdits:
    """The differences of the edited windows of a batch from the unedited bases.

    ``alleles``: columns :data:`KEY` and ``row``, the tuple; none where the window has no place on the reference.
    ``edited``, ``unedited``: bases of the windows, one after the other. ``bare``: int64: tuples without an allele that
    differ; ``changed``, ``unchanged``: their bases up to 30 from a difference, int64, shape (n, 3): number in ``bare``,
    first base, end.
    """

    alleles: pa.Table
    edited: Codes
    unedited: Codes
    bare: Integers
    changed: Integers
    unchanged: Integers


@dataclass(slots=True)
class EmittedCounts:
    """What was drawn so far: tuples, and different windows once drawing has ended.

    ``entangled``: tuples with more differences than are told apart. ``elsewhere``: windows with other bases than the
    reference at their place. ``origins``, ``sources``: tuples of epochs with default options.
    """

    tuples: int = 0
    windows: int = 0
    unplaced: int = 0
    entangled: int = 0
    elsewhere: set[str] = field(default_factory=set)
    false_edits: Found = field(default_factory=Found)
    origins: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)


def draw_batches(package: Path, least_tuples: int, contents: Contents = "once") -> Iterator[Batch]:
    """Yield batches of training: of epochs until there are ``least_tuples`` tuples, then of rare windows.

    Epochs with an even number have default options; others have several edits in each tuple, as many tuples of each
    origin, or every window in file order. No epoch gives more than half of the tuples.
    """
    from genolewm_assets.lewm import GenoLeWMDataset

    usual = GenoLeWMDataset(package, with_states=False, allow_unaudited=True, contents=contents)
    joined = GenoLeWMDataset(usual.package, with_states=False, multi_edit_share=1.0)
    epoch = tuples = 0
    batch: Any
    while tuples < least_tuples and (tuples or epoch < 2):
        dataset, before = joined if epoch % 2 else usual, tuples
        dataset.set_epoch(epoch)
        for batch in dataset:
            tuples += len(batch.edits)
            yield batch
            if 2 * (tuples - before) >= least_tuples:
                break
        epoch += 1
    origins = usual.package.info.mix.wanted.windows
    even = dict.fromkeys(origins, 1 / len(origins))
    yield from GenoLeWMDataset(usual.package, with_states=False, source_mix=even, epoch=epoch | 1)
    yield from GenoLeWMDataset(usual.package, with_states=False, windows_per_epoch="all", epoch=(epoch | 1) + 2)


def draw_bench(package: Path, holdout: str, split: str, contents: Contents = "once") -> Iterator[Any]:
    """Yield the batches of the bench alleles of a holdout and split."""
    from genolewm_assets.lewm import GenoLeWMTestDataset, GenoLeWMValDataset

    kind = GenoLeWMTestDataset if split == TEST else GenoLeWMValDataset
    yield from kind(package, holdout, coverage="alleles", with_states=False, allow_unaudited=True, contents=contents)


def draw_state_batches(package: Path, contents: Contents = "once") -> Iterator[Batch]:
    """Yield the batches of an epoch of training with seed 0, with source states if there are caches."""
    from genolewm_assets.lewm import GenoLeWMDataset

    dataset = GenoLeWMDataset(package, with_states=False, allow_unaudited=True, contents=contents)
    has_states = bool(dataset.package.info.caches)
    yield from GenoLeWMDataset(package, allow_unaudited=True, contents=contents) if has_states else dataset


def bases_of(tokens: NDArray[np.int16]) -> tuple[Codes, Integers]:
    """Return the bases that the tokens of windows, (n, n_tokens), spell: (n, n_bases); and how many each has."""
    from genolewm_assets.audit.difference_kernels import read_tokens

    bases, sizes = np.empty((len(tokens), _TOKEN_BP * tokens.shape[1]), np.uint8), np.empty(len(tokens), np.int64)
    # Little-endian, as every machine that numba compiles for.
    read_tokens(np.ascontiguousarray(tokens, dtype=np.int16), bases.view(np.uint16), sizes)
    return bases, sizes


def read_edits(batch: Batch, reference: Reference, counts: EmittedCounts) -> EmittedEdits:
    """Compare what each tuple of a batch emits with the reference."""
    from genolewm_assets.audit.difference_kernels import MOST_DIFFERENCES, compare_edited, find_ends

    window = np.asarray(batch.edits.window, dtype=np.int64)
    own, own_sizes = bases_of(np.asarray(batch.edits.source_tokens))
    edited, sizes = bases_of(np.asarray(batch.target_tokens))
    unedited = [bases[:size] for bases, size in zip(own, own_sizes.tolist(), strict=True)]
    expected, is_placed = _expected(batch.windows, unedited, reference, counts)
    found = np.empty((len(window), MOST_DIFFERENCES, 4), np.int64)
    n_found, at = np.empty(len(window), np.int64), _starts(expected)
    joined = np.concatenate([np.empty(0, np.uint8), *expected])
    compare_edited(edited, sizes, window, joined, at, found, n_found)
    _count(batch, window, is_placed[window], n_found, counts)
    _check_edits(batch, window, np.where(n_found == 0, -1, found[:, 0, 2]), counts.false_edits)
    is_told = is_placed[window] & (n_found > 0)
    alleles = _alleles(batch, (found, n_found, np.flatnonzero(is_told)), (edited, sizes), (joined, at), own_sizes)
    bare = np.flatnonzero(~is_told & (n_found != 0))
    ends, entangled = np.zeros((len(n_found), 2), np.int64), np.flatnonzero(n_found < 0)
    find_ends(edited, sizes, window, joined, at, entangled, ends)
    changed = _around(found[:, :, 2:], n_found, ends[:, 0], sizes, bare)
    unchanged = _around(found[:, :, :2], n_found, ends[:, 1], own_sizes[window], bare)
    changed[:, 1:] += edited.shape[1] * bare[changed[:, :1]]
    unchanged[:, 1:] += own.shape[1] * window[bare[unchanged[:, :1]]]
    return EmittedEdits(
        alleles,
        edited.reshape(-1),
        own.reshape(-1),
        bare,
        changed,
        unchanged,
    )


def _starts(texts: Sequence[Codes]) -> Integers:
    return np.concatenate([[0], np.cumsum([text.size for text in texts], dtype=np.int64)])


def _around(found: Integers, n_found: Integers, ends: Integers, sizes: Integers, rows: Integers) -> Integers:
    from genolewm_assets.audit.difference_kernels import write_around

    around = np.empty((int(np.maximum(n_found[rows], 1).sum()), 3), np.int64)
    return around[: write_around(found, n_found, ends, sizes, rows, _AROUND_BP, around)]


def _count(batch: Batch, window: Integers, is_placed: NDArray[np.bool_], n_found: Integers, n: EmittedCounts) -> None:
    n.tuples += len(window)
    n.unplaced += int(np.count_nonzero(~is_placed))
    n.entangled += int(np.count_nonzero(n_found < 0))
    if batch.epoch % 2 == 0:
        origins, tuples = np.unique(np.asarray(batch.windows.origins)[window], return_counts=True)
        n.origins.update(dict(zip(map(str, origins), tuples.tolist(), strict=True)))
        served = {
            name.removeprefix("served_"): each for name, each in batch.counts.items() if name.startswith("served_")
        }
        n.sources.update(served)


def _expected(
    windows: Any, unedited: Sequence[Codes], reference: Reference, counts: EmittedCounts
) -> tuple[list[Codes], NDArray[np.bool_]]:
    """Return the reference along each window's strand, else the window; and which have a place with their bases."""
    expected, is_placed = list(unedited), np.zeros(len(unedited), np.bool_)
    contigs = list(map(canonical_name, windows.contigs))
    for row, own in enumerate(unedited):
        if windows.contig[row] < 0:
            continue
        contig, start, end = contigs[windows.contig[row]], int(windows.start[row]), int(windows.start[row]) + own.size
        if windows.is_reverse[row]:
            found = reverse_complement(reference.fetch(contig, start - _BEHIND_BP, end))
        else:
            found = unmasked(reference.fetch(contig, start, end + _BEHIND_BP))
        if np.array_equal(own, found[: own.size]):
            expected[row], is_placed[row] = found, True
        else:
            counts.elsewhere.add(_text(windows.window_ids[row]))
    return expected, is_placed


def _check_edits(batch: Batch, window: Integers, base: Integers, false_edits: Found) -> None:
    """Note tuples whose first differing base, -1 if there is none, is not where they and their pooled blocks say."""
    token, locus = base // _TOKEN_BP, np.asarray(batch.locus_token)
    block, start, stop = token // batch.block_tokens, np.asarray(batch.block_start), np.asarray(batch.block_stop)
    for row in np.flatnonzero((token != locus) | (block < start) | (block >= stop)).tolist():
        key = f"{name_of(batch.windows, int(window[row]))} token {locus[row]}"
        if base[row] < 0:
            false_edits.add(key, differs="nowhere")
        elif token[row] != locus[row]:
            false_edits.add(key, differs=f"at token {token[row]}")
        else:
            false_edits.add(key, pooled_blocks=f"[{start[row]}, {stop[row]})", block_of_edit=int(block[row]))


def name_of(windows: Any, row: int) -> str:
    """Return the text that names a window of a batch."""
    if windows.contig[row] < 0:
        return f"{windows.origins[row]} {_text(windows.window_ids[row])}"
    return f"{windows.origins[row]} {windows.contigs[windows.contig[row]]}:{windows.start[row]}"


def _text(window_id: bytes | str) -> str:
    return window_id.decode() if isinstance(window_id, bytes) else window_id


def _alleles(
    batch: Batch,
    differences: tuple[Integers, Integers, Integers],
    edited_sizes: tuple[Codes, Integers],
    expected_at: tuple[Codes, Integers],
    own_sizes: Integers,
) -> pa.Table:
    """Return every variant of some tuples, and all that neighbouring ones make together, as reference alleles."""
    from genolewm_assets.audit.difference_kernels import MOST_ALLELES, write_alleles

    (found, n_found, rows), (edited, sizes), (expected, at) = differences, edited_sizes, expected_at
    windows, window = batch.windows, np.asarray(batch.edits.window, np.int64)
    is_reverse = np.asarray(windows.is_reverse, np.bool_)[window]
    alleles = np.empty((MOST_ALLELES * len(rows), 5), np.int64)
    alleles = alleles[: write_alleles(edited, window, expected, at, found, n_found, rows, is_reverse, alleles)]
    row, ours, other = alleles[:, 0], window[alleles[:, 0]], is_reverse[alleles[:, 0]]
    lengths, width = own_sizes[ours], edited.shape[1]
    start = np.asarray(windows.start, np.int64)[ours]
    pos = np.where(other, start + lengths - alleles[:, 2], start + alleles[:, 1]) + 1
    contigs = pa.array([canonical_name(name) for name in windows.contigs], pa.string())
    limits = np.diff(at)[ours]
    return pa.table(
        [
            contigs.take(pa.array(np.asarray(windows.contig)[ours])),
            pa.array(pos),
            _spelt(expected, np.minimum(alleles[:, 1:3], limits[:, None]) + at[ours, None], other),
            _spelt(edited.reshape(-1), np.minimum(alleles[:, 3:5], sizes[row, None]) + width * row[:, None], other),
            pa.array(row),
        ],
        names=[*KEY, "row"],
    )


def _spelt(bases: Codes, spans: Integers, is_reverse: NDArray[np.bool_]) -> pa.Array:
    """Return stretches ``[start, end)`` of bases as upper-case text, of some the other strand."""
    from genolewm_assets.audit.difference_kernels import spell

    start, end = np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1])
    offsets = np.concatenate([[0], np.cumsum(end - start)]).astype(np.int32)
    text = np.empty(int(offsets[-1]), np.uint8)
    spell(bases, start, end, is_reverse, text)
    return pa.StringArray.from_buffers(len(start), pa.py_buffer(offsets), pa.py_buffer(text))
