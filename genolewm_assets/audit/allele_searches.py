"""Searches for held-out alleles: in the allele table of training, and in what the training stream emits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.alleles.normal_alleles import (
    BCFTOOLS,
    KEY,
    alleles_of,
    are_normal,
    keys_of,
    known_forms,
    normalise_alleles,
)
from genolewm_assets.audit.emitted import Batch, EmittedCounts, EmittedEdits, draw_batches, name_of, read_edits
from genolewm_assets.audit.held_kmers import Keys, SievedTable
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import TRAIN, PackageFiles
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.errors import GenoLeWMError, counted
from genolewm_assets.progress import Progress

#: 31-mers of a held-out allele that an emitted window without a place has at least. An SNV makes 31; where fewer are
#: shared, the allele's neighbourhood is not the window's, as at the end of an exon.
LEAST_ALTERED = 8

#: Largest difference between an emitted and a declared share, beside that of chance; and tuples of one visit.
MIX_TOLERANCE, TUPLES_OF_VISIT = 0.02, 8

#: Bytes of emitted alleles that wait: one that joins edits far apart has thousands of bases.
_WAITING_BYTES = 1 << 23

_ID_BYTES = 32
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

#: Batches between two looks at whether enough is found, and further ones: a quarter of those drawn.
_LOOK_BATCHES = 8


def search_training_alleles(
    files: PackageFiles, reference: Reference, held: HeldSpans, held_alleles: HeldAlleles
) -> SearchResult:
    """Compare the alleles of ``variants/train.parquet``, of any source, with held-out alleles and intervals."""
    found, n, raw = Found(), 0, 0
    for batch in files.variants(TRAIN, (*KEY, "source")):
        alleles = alleles_of(batch)
        normal = normalise_alleles(alleles, reference)
        n, raw = n + batch.num_rows, raw + normal["pos"].null_count
        forms = known_forms(alleles, normal)
        within, is_leak = _is_held(forms, held, held_alleles)
        for row in np.flatnonzero(is_leak).tolist():
            source, stated = str(batch["source"][row].as_py()), str(keys_of(alleles.slice(row, 1))[0])
            key = str(keys_of(forms.slice(row, 1))[0])
            found.add(key, source=source, stated=stated, in_held_interval=bool(within[row]))
    gaps = (f"{counted(raw, 'training allele')} without normal form, not fitting the FASTA",) if raw else ()
    if not (len(held_alleles) or held.contigs):
        gaps = (*gaps, "no allele and no interval is held out")
    return SearchResult(
        LeakKind.HELD_ALLELE,
        f"alleles of training, whatever their source, by {BCFTOOLS}, against the alleles and intervals of holdouts "
        "and the alleles of evaluation",
        {"alleles": n, "held-out alleles": len(held_alleles)},
        found,
        (*held_alleles.gaps, *gaps, *files.unread_evaluation),
    )


def _is_held(
    alleles: pa.Table, held: HeldSpans, held_alleles: HeldAlleles
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Tell which alleles are on held-out intervals, and which are there or are held out themselves."""
    start = alleles["pos"].to_numpy() - 1
    end = start + pc.binary_length(alleles["ref"]).to_numpy()
    within = held.shared_bp(alleles["chrom"].combine_chunks(), start, end) > 0
    return within, within | held_alleles.have(alleles)


class _Stream:
    """What the tuples drawn so far show: alleles wait until many are normalised and compared at once."""

    def __init__(self, reference: Reference, held: HeldSpans, held_alleles: HeldAlleles, altered: SievedTable) -> None:
        self._reference, self._held, self._held_alleles, self._altered = reference, held, held_alleles, altered
        self.found, self.counts, self.n_alleles = Found(), EmittedCounts(), 0
        self._waiting, self._waiting_bytes = list[pa.Table](), 0
        #: What names the windows of each batch whose alleles wait, after the number of the first, which alleles state.
        self._windows, self._n_windows = list[tuple[int, Any]](), 0

    def search(self, batch: Batch) -> None:
        """Search the tuples of a batch."""
        edits = read_edits(batch, self._reference, self.counts)
        self._search_bases(batch, edits)
        if not edits.alleles.num_rows:
            return
        self.n_alleles += edits.alleles.num_rows
        window = np.asarray(batch.edits.window)[edits.alleles["row"]]
        alleles = edits.alleles.select(KEY).append_column("window", pa.array(self._n_windows + window))
        names = {name: getattr(batch.windows, name) for name in ("origins", "contigs", "contig", "start", "window_ids")}
        self._windows.append((self._n_windows, SimpleNamespace(**names)))
        self._n_windows += len(batch.edits.source_tokens)
        self._waiting.append(alleles)
        self._waiting_bytes += alleles.nbytes
        if self._waiting_bytes >= _WAITING_BYTES:
            self.settle()

    def settle(self) -> None:
        """Search the different alleles that wait; those in normal form are not compared with the reference."""
        if not self._waiting:
            return
        waiting = pa.concat_tables(self._waiting).group_by(list(KEY), use_threads=False)
        firsts = waiting.aggregate([("window", "first")]).rename_columns([*KEY, "window"])
        self._waiting, self._waiting_bytes = [], 0
        is_normal = are_normal(firsts)
        self._note(firsts.filter(pa.array(is_normal)).combine_chunks())
        others = firsts.filter(pa.array(~is_normal)).combine_chunks()
        forms = known_forms(others, normalise_alleles(others.select(KEY), self._reference))
        self._note(forms.append_column("window", others["window"]))
        self._windows, self._n_windows = [], 0
        pa.default_memory_pool().release_unused()

    def _note(self, alleles: pa.Table) -> None:
        within, is_leak = _is_held(alleles, self._held, self._held_alleles)
        for row in np.flatnonzero(is_leak).tolist():
            key = str(keys_of(alleles.slice(row, 1))[0])
            number = alleles["window"][row].as_py()
            first, windows = self._windows[bisect_right(self._windows, number, key=itemgetter(0)) - 1]
            self.found.add(key, window=name_of(windows, number - first), in_held_interval=bool(within[row]))

    def _search_bases(self, batch: Batch, edits: EmittedEdits) -> None:
        """Look for 31-mers of held-out alleles, before and after an edit, where it cannot be told by its place."""
        from genolewm_assets.audit.kmer_kernels import shared_kmers

        shared = np.zeros((2, len(edits.bare)), np.int64)
        shared_kmers(edits.edited, edits.changed, self._altered, shared[0])
        shared_kmers(edits.unedited, edits.unchanged, self._altered, shared[1])
        for row in np.flatnonzero(shared.max(axis=0) >= LEAST_ALTERED).tolist():
            name = name_of(batch.windows, int(batch.edits.window[edits.bare[row]]))
            self.found.add(name, window=name, shared_31mers=int(shared[:, row].max()))


def id_keys(ids: Any) -> Keys:
    """Return 64 bits of the first 32 bytes of window ids: uint64, shape (n,)."""
    words = np.ascontiguousarray(np.asarray(ids).astype(f"S{_ID_BYTES}")).view(np.uint64).reshape(-1, 4)
    keys = np.zeros(len(words), dtype=np.uint64)
    for column in range(words.shape[1]):
        keys = (keys ^ (keys >> np.uint64(31)) ^ words[:, column]) * _FACTOR
    return keys ^ (keys >> np.uint64(29))


class DrawnWindows:
    """Which windows of training were drawn, by keys of their ids; those with one id count as one.

    Windows are looked up piece by piece when a number is asked for, so that the keys of all are never in memory.
    """

    def __init__(self, pieces: Callable[[], Iterable[Keys]]) -> None:
        """``pieces`` gives the keys of the windows of each piece, or of files beside pieces."""
        self._pieces, self._keys, self._noted = pieces, np.empty(0, np.uint64), list[Keys]()
        self._is_known = np.empty(0, np.bool_)
        self._left: list[Keys] | None = None

    @classmethod
    def of_package(cls, files: PackageFiles) -> Self:
        """Return those of a package of which none was drawn yet."""

        def pieces() -> Iterator[Keys]:
            for piece in files.train_pieces(("window_id",)):
                keys = [id_keys(batch["window_id"]) for batch in piece]
                yield np.concatenate([np.empty(0, np.uint64), *keys])

        return cls(pieces)

    def note(self, window_ids: Any) -> None:
        """Note windows that were drawn."""
        self._noted.append(np.unique(id_keys(window_ids)))
        if self._left:
            self._left = [piece for piece in self._left if not np.isin(piece, self._noted[-1]).any()]

    @property
    def pieces_left(self) -> int:
        """Number of pieces with windows of which none was drawn."""
        if self._left is None:
            self._look_up()
        return len(self._left or ())

    @property
    def n_windows(self) -> int:
        """Number of windows that were drawn."""
        self._look_up()
        return int(np.count_nonzero(self._is_known))

    @property
    def strangers(self) -> int:
        """Number of windows that were drawn and are in no file of training windows."""
        self._look_up()
        return int(np.count_nonzero(~self._is_known))

    def _look_up(self) -> None:
        """Look for what was noted since the last time in every piece."""
        if self._left is not None and not self._noted:
            return
        self._keys, self._noted = np.unique(np.concatenate([self._keys, *self._noted])), []
        self._is_known, self._left = np.zeros(len(self._keys), np.bool_), []
        for piece in self._pieces():
            found = np.searchsorted(self._keys, piece[np.isin(piece, self._keys)])
            self._is_known[found] = True
            if piece.size and not found.size:
                self._left.append(piece)


def search_stream(
    files: PackageFiles,
    reference: Reference,
    held: HeldSpans,
    held_alleles: HeldAlleles,
    *,
    least_tuples: int,
    progress: Progress,
    altered: SievedTable | None = None,
    draw: Callable[[Path, int], Iterable[Batch]] = draw_batches,
    enough: int = 0,
) -> tuple[SearchResult, SearchResult, SearchResult]:
    """Draw the training stream, each piece of windows too; return ``recreated_allele``, ``false_edit``, ``wrong_mix``.

    ``least_tuples``: 0: none is drawn, and the results are inconclusive. ``altered``: 31-mers that held-out alleles
    make; None: those of ``held_alleles``. ``enough``: findings with which drawing ends; 0: whatever their number.
    """
    if files.without_stream or not least_tuples:
        gaps = [files.without_stream or "the stream was not drawn"]
        return _stream_result(files, Found(), EmittedCounts(), 0, gaps)
    stream = _Stream(reference, held, held_alleles, altered or held_alleles.altered_kmers(reference))
    drawn, counts, gaps, look = DrawnWindows.of_package(files), stream.counts, list(held_alleles.gaps), 0
    try:
        for number, batch in enumerate(draw(files.directory, least_tuples)):
            stream.search(batch)
            drawn.note(batch.windows.window_ids)
            progress.advance(counts.tuples, least_tuples, "tuples drawn")
            if enough and number >= look:
                stream.settle()
                look += _LOOK_BATCHES + number // 4
            if 0 < enough <= len(stream.found.keys) or (counts.tuples >= least_tuples and not drawn.pieces_left):
                break
        stream.settle()
    except GenoLeWMError as err:
        gaps.append(f"the stream cannot be drawn ({err})")
    counts.windows = drawn.n_windows
    gaps += _stream_gaps(counts, drawn, stream.n_alleles)
    return _stream_result(files, stream.found, counts, stream.n_alleles, gaps)


def _stream_gaps(counts: EmittedCounts, drawn: DrawnWindows, n_alleles: int) -> Iterator[str]:
    if drawn.pieces_left:
        yield f"no window of {counted(drawn.pieces_left, 'piece')} drawn in {counted(counts.tuples, 'tuple')}"
    if drawn.strangers:
        yield f"{counted(drawn.strangers, 'drawn window')} in no file of training windows"
    if counts.tuples > counts.unplaced and not n_alleles:
        yield "no tuple with a place changes a base"
    if counts.elsewhere:
        yield f"{counted(len(counts.elsewhere), 'drawn window')} unlike the FASTA's bases at the place"


def _stream_result(
    files: PackageFiles, found: Found, counts: EmittedCounts, n_alleles: int, gaps: list[str]
) -> tuple[SearchResult, SearchResult, SearchResult]:
    edits = SearchResult(
        LeakKind.FALSE_EDIT,
        "first token in which the edited window differs from the unedited one, against the stated token and blocks",
        {"tuples": counts.tuples},
        counts.false_edits,
        tuple(gaps) if not counts.tuples else (),
    )
    return (
        SearchResult(
            LeakKind.RECREATED_ALLELE,
            "emitted tokens decoded and compared with the FASTA, each difference and neighbouring ones joined, by "
            f"{BCFTOOLS}; in windows without a place by the 31-mers that held-out alleles make, before and after the "
            "edit",
            {
                "tuples": counts.tuples,
                "alleles": n_alleles,
                "tuples without a place": counts.unplaced,
                "windows drawn": counts.windows,
            },
            found,
            tuple(gaps),
        ),
        edits,
        _search_mix(files, counts, gaps),
    )


def _search_mix(files: PackageFiles, counts: EmittedCounts, gaps: list[str]) -> SearchResult:
    """Compare the shares of origins and sources in the tuples drawn with the declared ones."""
    mix, found, n = files.record.get("mix", {}), Found(), counts.origins.total()
    declared = mix["declared"] if isinstance(mix.get("declared"), dict) else mix.get("wanted", {})
    for group, drawn in (("windows", counts.origins), ("edits", counts.sources)) if n else ():
        expected = declared.get(group, {})
        for name in sorted({*expected, *drawn}):
            share, got = expected.get(name, 0.0), drawn[name] / n
            # The tuples of a visit are of one window, so that as many are drawn by chance as there are visits.
            by_chance = 4 * (share * (1 - share) * TUPLES_OF_VISIT / n) ** 0.5
            if abs(got - share) > MIX_TOLERANCE + by_chance:
                found.add(f"{group} {name}", expected=round(share, 4), got=round(got, 4))
    return SearchResult(
        LeakKind.WRONG_MIX,
        f"shares of origins and of edit sources in the tuples drawn with default options, to {MIX_TOLERANCE:.0%} and "
        "four standard errors",
        {"tuples": n},
        found,
        tuple(gaps) if not n else (),
        absent=files.without_stream,
    )
