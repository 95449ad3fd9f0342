"""Search for held-out sequence in training windows, wherever they are said to come from, by exact 31-mers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.audit.held_kmers import MOST_COPIES, REPEAT_K, HeldSequence, SievedTable
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import TRAIN, PackageFiles
from genolewm_assets.audit.reading.reference import OTHER, Reference, unmasked
from genolewm_assets.audit.reading.window_bases import WINDOW_COLUMNS, Bases, Integers, window_keys
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.audit.searched_before import Searched
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

_THREADS = 2
_SPAN_BP = 1 << 23


def are_leaks(rows: Integers) -> npt.NDArray[np.bool_]:
    """Tell which of some comparisons, (n, 7), show held-out sequence, or a copy of about 90 % identity."""
    _, longest_run, _, in_stretch, places, size, _ = rows.T
    dense = (in_stretch >= np.maximum(2, LEAST_SHARE * size)) & (places >= LEAST_PLACES)
    leaks: npt.NDArray[np.bool_] = (longest_run >= LONGEST_RUN) | dense
    return leaks


def search_similarity(
    files: PackageFiles,
    reference: Reference,
    held: HeldSpans,
    sequence: HeldSequence,
    *,
    progress: Progress,
    along: Sequence[Callable[[pa.RecordBatch], None]] = (),
    searched: Searched | None = None,
    few: bool = False,
) -> SearchResult:
    """Compare every training window, with the flank behind it, with held-out sequence; ``along`` are given all too.

    ``searched``: windows that share nothing with it, and which ``along`` are given without their texts. ``few``:
    whether the other windows are few, and read twice.
    """

    def windows() -> Iterable[pa.RecordBatch]:
        return files.windows(TRAIN, WINDOW_COLUMNS) if searched is None else searched.others(WINDOW_COLUMNS)

    found, n_windows, n_unknown = Found(), 0, 0
    table = sequence.among(windows()) if few else sequence.table
    for batch in searched.places() if searched else ():
        for search in along:
            search(batch)
        n_windows += batch.num_rows if sequence.n_kmers else 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for batch in windows():
            for search in along:
                search(batch)
            if not sequence.n_kmers:
                continue
            rows = compare_all(batch, table, pool)
            n_windows, n_unknown = n_windows + len(rows), n_unknown + int(np.count_nonzero(rows[:, -1] == 0))
            _add_leaks(found, batch, rows)
            progress.advance(n_windows, None, "windows compared with held-out sequence")
    repeats = (
        "soft-masked bases"
        if sequence.soft_masked
        else f"{REPEAT_K}-mers that the FASTA holds over {MOST_COPIES} times"
    )
    return SearchResult(
        LeakKind.HELD_SEQUENCE,
        f"exact 31-mers, both strands, without {repeats} and simple sequence; {LONGEST_RUN} in a row, or "
        f"{LEAST_SHARE:.1%} of {STRETCH_BP:,} bp (a copy of 88 % identity)",
        {"windows": n_windows, "held-out 31-mers": sequence.n_kmers},
        found,
        tuple(_gaps(reference, held, n_unknown, soft_masked=sequence.soft_masked)),
    )


def compare_all(windows: pa.RecordBatch, table: SievedTable, pool: ThreadPoolExecutor) -> Integers:
    """Return what each window shares; see :func:`compare_rows`."""
    sequences, flanks = Bases.of(windows["sequence"]), Bases.of(windows["right_flank"])
    parts = np.array_split(np.arange(windows.num_rows), _THREADS)
    done = list(pool.map(lambda rows: compare_rows(sequences, flanks, rows, table)[rows], parts))
    return np.concatenate(done)


def compare_rows(sequences: Bases, flanks: Bases, rows: Integers, table: SievedTable) -> Integers:
    """Return what some windows share: int64, (n, 7): the columns of ``kmer_kernels.compare_windows``; others empty."""
    from genolewm_assets.audit.kmer_kernels import compare_windows

    found = np.empty((len(sequences.at) - 1, 7), dtype=np.int64)
    compare_windows(*sequences, *flanks, rows, table, STRETCH_BP, found)
    return found


def _add_leaks(found: Found, windows: pa.RecordBatch, rows: Integers) -> None:
    shared, longest_run, start, in_stretch, _, size, _ = rows.T
    leaks = np.flatnonzero(are_leaks(rows))
    for row, key in zip(leaks.tolist(), window_keys(windows, leaks), strict=True):
        found.add(
            key,
            shared_31mers=int(shared[row]),
            longest_exact_bp=int(longest_run[row]) + 30 if longest_run[row] else 0,
            densest_from=int(start[row]),
            densest_share=round(float(in_stretch[row] / size[row]), 4),
        )


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
