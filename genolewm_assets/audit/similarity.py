"""Search for held-out sequence in training windows, wherever they are said to come from, by exact 31-mers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from genolewm_assets.audit.held_kmers import MOST_COPIES, REPEAT_K, KmerTable, held_tables
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import TRAIN, PackageFiles, window_key
from genolewm_assets.audit.reading.reference import OTHER, Reference, encode, unmasked
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.errors import counted
from genolewm_assets.progress import Progress

#: 31-mers one after another that decide alone: 62 equal bases.
LONGEST_RUN = 32
#: Of the 31-mers of a stretch of STRETCH_BP, or of a shorter sequence, the share that a copy of 88 % identity keeps
#: (0.88 to the 31st power), which a 90 % copy (3.8 %) passes and an 85 % copy (0.6 %) does not.
LEAST_SHARE, STRETCH_BP = 0.019, 1_000
#: Places, 31 bp apart or more, that the shared 31-mers of a stretch have at least.
LEAST_PLACES = 2
#: Smallest share of a held-out contig's assembled bases in the FASTA with which finding nothing is conclusive.
CONCLUSIVE_SHARE = 0.95
#: Smallest share of a contig's known held-out bases outside the soft mask, with which finding nothing is conclusive.
LEAST_UNMASKED = 0.1
#: Share of a training window's 31-mers without an unknown base, with which the window counts as searched.
LEAST_KNOWN = 0.5

_THREADS, _ROWS = 2, 64
_SPAN_BP = 1 << 23
_Item = TypeVar("_Item")


class Similarity(NamedTuple):
    """What a sequence shares with held-out sequence, in 31-mers; see ``kmer_kernels.densest_stretch``."""

    shared: int
    longest_run: int
    stretch_start: int
    in_stretch: int
    places: int
    stretch_size: int
    is_known: bool

    @property
    def is_leak(self) -> bool:
        """Tell whether this is held-out sequence, or a copy of about 90 % identity."""
        dense = self.in_stretch >= max(2, LEAST_SHARE * self.stretch_size) and self.places >= LEAST_PLACES
        return self.longest_run >= LONGEST_RUN or dense


def compare(sequence: str, table: KmerTable) -> Similarity:
    """Compare a sequence with held-out sequence, both strands."""
    from genolewm_assets.audit.kmer_kernels import K, densest_stretch

    codes = encode(sequence)
    held, unknown = table.held(codes), np.flatnonzero(unmasked(codes) == OTHER)
    known = int((np.diff(unknown, prepend=-1, append=codes.size) - K).clip(min=0).sum())
    size = max(1, min(STRETCH_BP, len(sequence)) - K + 1)
    shared, longest_run, start, in_stretch, places = densest_stretch(held, size)
    return Similarity(shared, longest_run, start, in_stretch, places, size, known >= LEAST_KNOWN * held.size)


def search_similarity(
    files: PackageFiles, reference: Reference, held: HeldSpans, *, soft_masked: bool, progress: Progress
) -> SearchResult:
    """Compare every training window, with the flank behind it, with all held-out sequence."""
    found, n_windows, n_kmers, n_unknown = Found(), 0, 0, 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for table in held_tables(reference, list(held), soft_masked=soft_masked):
            n_windows = n_unknown = 0
            n_kmers += table.keys.size
            for key, similarity in _compare_all(files, table, pool):
                n_windows += 1
                n_unknown += not similarity.is_known
                if similarity.is_leak:
                    found.add(
                        key,
                        shared_31mers=similarity.shared,
                        longest_exact_bp=similarity.longest_run + 30 if similarity.longest_run else 0,
                        densest_from=similarity.stretch_start,
                        densest_share=round(similarity.in_stretch / similarity.stretch_size, 4),
                    )
                if n_windows % 1_000 == 0:
                    progress.advance(n_windows, None, "windows compared with held-out sequence")
    repeats = "soft-masked bases" if soft_masked else f"{REPEAT_K}-mers that the FASTA holds over {MOST_COPIES} times"
    return SearchResult(
        LeakKind.HELD_SEQUENCE,
        f"exact 31-mers, both strands, without {repeats} and simple sequence; {LONGEST_RUN} in a row, or "
        f"{LEAST_SHARE:.1%} of {STRETCH_BP:,} bp (a copy of 88 % identity)",
        {"windows": n_windows, "held-out 31-mers": n_kmers},
        found,
        tuple(_gaps(reference, held, n_unknown, soft_masked=soft_masked)),
    )


def _compare_all(files: PackageFiles, table: KmerTable, pool: ThreadPoolExecutor) -> Iterator[tuple[str, Similarity]]:
    columns = ("origin", "contig", "start", "record_id", "window_index", "sequence", "right_flank")
    rows = ((window_key(row), row["sequence"] + row["right_flank"]) for row in files.windows(TRAIN, columns))

    def compare_part(part: Sequence[tuple[str, str]]) -> list[tuple[str, Similarity]]:
        return [(key, compare(sequence, table)) for key, sequence in part]

    # Few parts wait at a time, so that not all windows are in memory.
    for parts in _batches(_batches(rows, _ROWS), 4 * _THREADS):
        for results in pool.map(compare_part, parts):
            yield from results


def _batches(items: Iterable[_Item], size: int) -> Iterator[tuple[_Item, ...]]:
    left = iter(items)
    while part := tuple(islice(left, size)):
        yield part


def _gaps(reference: Reference, held: HeldSpans, n_unknown: int, *, soft_masked: bool) -> Iterator[str]:
    if not held.contigs:
        yield "no interval is held out"
    if n_unknown:
        yield f"most 31-mers of {counted(n_unknown, 'training window')} have an unknown base"
    for contig in held.contigs:
        share = reference.assembled_share(contig)
        if share < CONCLUSIVE_SHARE:
            yield f"the FASTA has {share:.1%} of the assembled bases of {contig}"
            continue
        if behind := sum(max(0, span.end - reference.length(contig)) for span in held if span.contig == contig):
            yield f"{behind:,} held-out bases lie behind the end of {contig} in the FASTA"
        if soft_masked and (outside := _unmasked_share(reference, held, contig)) < LEAST_UNMASKED:
            yield f"{outside:.1%} of the held-out bases of {contig} are outside the soft mask"


def _unmasked_share(reference: Reference, held: HeldSpans, contig: str) -> float:
    known = outside = 0
    for span in held:
        for start in range(span.start, span.end if span.contig == contig else span.start, _SPAN_BP):
            codes = reference.fetch(contig, start, min(span.end, start + _SPAN_BP))
            known += int(np.count_nonzero(unmasked(codes) < OTHER))
            outside += int(np.count_nonzero(codes < OTHER))
    return outside / known if known else 1.0
