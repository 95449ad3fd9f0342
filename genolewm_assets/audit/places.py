"""Searches by stated place: training windows on held-out intervals, with bases from elsewhere, of held-out records."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.normal_alleles import KEY, add_keys, alleles_of, canonical_names, keys_of
from genolewm_assets.audit.reading.contig_names import canonical_name, is_known
from genolewm_assets.audit.reading.intervals import HeldSpans, emitted_spans, left_flank_spans, rows_by_contig
from genolewm_assets.audit.reading.package_files import PackageFiles
from genolewm_assets.audit.reading.parquet_batches import read_batches
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.reading.window_bases import Bases, are_exact, differing_bp, window_keys
from genolewm_assets.audit.report import Found, LeakKind, SearchResult

#: Bases that a context has on either side of its allele.
_CONTEXT_BP = 30
_RECORD = ("source", "record_id", "window_index")
#: Windows of training whose records are searched at once among the held-out ones.
_WAITING_ROWS = 1 << 18


class PlaceSearch:
    """Compares the stated place of training windows with held-out intervals, and bases of windows with the FASTA."""

    def __init__(self, files: PackageFiles, reference: Reference, held: HeldSpans) -> None:
        self._reference, self._held = reference, held
        excluded = [_records(rows, "source").drop_null() for rows in files.holdout("corpus", _RECORD)]
        self._excluded, self._waiting, self._n_waiting = pa.chunked_array(excluded, pa.string()), list[pa.Array](), 0
        self._on_held, self._elsewhere, self._records = Found(), Found(), Found()
        self._n, self._unknown, self._nameless = Counter[str](), set[str](), set[str]()

    def search(self, windows: pa.RecordBatch) -> None:
        """Search windows of training; of those without texts the bases have been compared."""
        self._n["windows"] += windows.num_rows
        for own in windows["contig"].unique().drop_null().to_pylist():
            name = canonical_name(own)
            if not (name in self._reference or is_known(name) or name in self._held.contigs):
                self._nameless.add(own)
        if len(self._excluded):
            self._waiting.append(_records(windows, "origin").drop_null())
            self._n_waiting += windows.num_rows
        if self._n_waiting >= _WAITING_ROWS:
            self._search_records()
        self._search_intervals(windows, canonical_names(windows["contig"]))
        self.compare_bases(windows)

    def results(self) -> tuple[SearchResult, ...]:
        """Return what was found in the windows so far."""
        self._search_records()
        gaps = (f"the FASTA lacks {', '.join(sorted(self._unknown))}",) if self._unknown else ()
        not_named = (f"{_first(self._nameless)} is no contig of the FASTA or the holdouts",) if self._nameless else ()
        return (
            SearchResult(
                LeakKind.HELD_INTERVAL,
                "stated places of windows with the flank behind them, contig names resolved, against intervals",
                {"placed windows": self._n["placed"]},
                self._on_held,
                (*not_named, *(() if self._held.contigs else ("no interval is held out",))),
            ),
            SearchResult(
                LeakKind.FALSE_PLACE,
                "bases of windows against the FASTA",
                {"windows": self._n["exact"]},
                self._elsewhere,
                gaps,
            ),
            SearchResult(
                LeakKind.HELD_RECORD,
                "keys against holdouts/corpus.parquet",
                {"windows": self._n["windows"]},
                self._records,
                absent="" if len(self._excluded) else "no corpus record is held out",
            ),
        )

    @property
    def measured(self) -> dict[str, int]:
        """What left flanks share with held-out intervals."""
        return {
            "training windows whose left flank has held-out bases": self._n["left_flanks"],
            "most held-out bases of a left flank": self._n["left_flank_bp"],
        }

    def _search_records(self) -> None:
        """Note the windows that wait and are of held-out records."""
        waiting = pa.chunked_array(self._waiting, pa.string())
        for name in self._excluded.filter(pc.is_in(self._excluded, value_set=waiting)).to_pylist():
            self._records.add(name)
        self._waiting, self._n_waiting = [], 0

    def _search_intervals(self, windows: pa.RecordBatch, contigs: pa.Array) -> None:
        """Note windows whose place has a held-out base, or may have one; count those whose left flank has."""
        held, n = self._held, self._n
        is_placed = pc.and_(pc.is_valid(contigs), pc.is_valid(windows["start"])).to_numpy(zero_copy_only=False)
        n["placed"] += int(np.count_nonzero(is_placed))
        (start, end), flanks = emitted_spans(windows), left_flank_spans(windows)
        shared = np.where(is_placed, held.shared_bp(contigs, start, end), 0)
        flank_bp = np.where(is_placed, held.shared_bp(contigs, *flanks), 0)
        n["left_flanks"] += int(np.count_nonzero(flank_bp))
        n["left_flank_bp"] = max(n["left_flank_bp"], int(flank_bp.max(initial=0)))
        on_contig = pc.is_in(contigs, value_set=pa.array(held.contigs, pa.string())).to_numpy(zero_copy_only=False)
        # A window without a start may be anywhere on its contig.
        rows = np.flatnonzero((shared > 0) | (~is_placed & on_contig))
        for row, key in zip(rows.tolist(), window_keys(windows, rows), strict=True):
            if is_placed[row]:
                place = {"contig": contigs[row].as_py(), "start": int(start[row]), "end": int(end[row])}
                self._on_held.add(key, **place, held_out_bp=int(shared[row]))
            else:
                self._on_held.add(key, contig=windows["contig"][row].as_py(), start=None)

    def compare_bases(self, windows: pa.RecordBatch) -> None:
        """Note windows of any split with an exact place whose bases differ from the FASTA's there."""
        contigs = canonical_names(windows["contig"])
        is_exact = are_exact(windows, contigs)
        self._n["exact"] += int(np.count_nonzero(is_exact))
        if "sequence" not in windows.schema.names:
            return
        differing = differing_bp(windows, contigs, is_exact, self._reference)
        self._unknown |= set(contigs.filter(pa.array(differing < 0)).to_pylist())
        rows = np.flatnonzero(differing > 0)
        for row, key in zip(rows.tolist(), window_keys(windows, rows), strict=True):
            place = {"contig": contigs[row].as_py(), "start": windows["start"][row].as_py()}
            self._elsewhere.add(key, **place, differing_bp=int(differing[row]))


def search_contexts(files: PackageFiles, reference: Reference) -> SearchResult:
    """Compare the bases around held-out alleles, by which a trainer knows them, with the FASTA."""
    path, found, n, unknown = files.directory / "holdouts" / "contexts.parquet", Found(), 0, set[str]()
    if path.is_file():
        missing, stated = (defaultdict[str, list[pa.Array]](list) for _ in range(2))
        for batch in read_batches(path.with_name("alleles.parquet"), KEY):
            add_keys(missing, alleles_of(batch))
        for rows in read_batches(path, (*KEY, "left_context", "right_context")):
            alleles = alleles_of(rows)
            add_keys(stated, alleles)
            n += rows.num_rows
            is_wrong = _wrong_contexts(rows, alleles, reference, unknown)
            for key in keys_of(alleles.filter(pa.array(is_wrong))).to_pylist():
                found.add(key, problem="not the FASTA's bases")
        for contig in missing.keys() | stated.keys():
            _compare_keys(found, *(pa.chunked_array(keys[contig], pa.string()) for keys in (stated, missing)))
    return SearchResult(
        LeakKind.WRONG_CONTEXT,
        f"{_CONTEXT_BP} bases on either side of every held-out allele of the package, against the FASTA",
        {"held-out alleles": n},
        found,
        (f"the FASTA lacks {', '.join(sorted(unknown))}",) if unknown else (),
        absent="" if n else "the package states no bases around held-out alleles",
    )


def _compare_keys(found: Found, stated: pa.ChunkedArray, held: pa.ChunkedArray) -> None:
    """Note alleles of a contig with a context that are not held out, or twice there, and those without one."""
    counts = stated.value_counts()
    keys, rows_of = counts.field("values"), counts.field("counts")
    is_odd = pc.or_(pc.greater(rows_of, 1), pc.invert(pc.is_in(keys, value_set=held)))
    for key in keys.filter(is_odd).to_pylist():
        found.add(key, problem="not held out, or twice")
    for key in held.filter(pc.invert(pc.is_in(held, value_set=keys))).to_pylist():
        found.add(key, problem="held out, without a context")


def _wrong_contexts(
    rows: pa.RecordBatch, alleles: pa.Table, reference: Reference, unknown: set[str]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which alleles have other bases around them than the FASTA; of a contig that it lacks none is told."""
    from genolewm_assets.audit.difference_kernels import differing_bases

    left, right = (Bases.of(rows[name].cast(pa.string())) for name in ("left_context", "right_context"))
    inner = Bases.of(alleles["ref"].combine_chunks())
    start = alleles["pos"].to_numpy() - 1
    end, differing = start + np.diff(inner.at), np.zeros(len(start), np.int64)
    along, whole = np.zeros(len(start), np.bool_), np.ones(len(start), np.bool_)
    for contig, ours in rows_by_contig(alleles["chrom"].combine_chunks()):
        if contig not in reference:
            unknown.add(contig)
            continue
        bases, length = reference.codes(contig), reference.length(contig)
        differing_bases(*left, *inner, *right, ours, start, end, along, whole, bases, differing)
        sizes = np.minimum(_CONTEXT_BP, start), np.minimum(end + _CONTEXT_BP, length) - end
        differing[ours] += ((np.diff(left.at) != sizes[0]) | (np.diff(right.at) != sizes[1]))[ours]
    return differing > 0


def _records(rows: pa.RecordBatch, source: str) -> pa.Array:
    """Return what names each corpus window in findings; null for what is none."""
    record = pc.binary_join_element_wise(rows[source], rows["record_id"], " ")
    return pc.binary_join_element_wise(record, rows["window_index"].cast(pa.string()), ":")


def _first(names: set[str]) -> str:
    """Return three names, and how many there are besides."""
    shown = sorted(names)[:3]
    return ", ".join(shown) + (f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else "")
