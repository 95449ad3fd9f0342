"""Search for equal and reverse-complement sequences, and equal alleles, across splits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.alleles.normal_alleles import KEY, alleles_of, canonical_names
from genolewm_assets.audit.reading.intervals import HeldSpans, Integers, Span, emitted_spans, spans_by_role
from genolewm_assets.audit.reading.package_files import EVALUATION, TEST, TRAIN, VALIDATION, PackageFiles
from genolewm_assets.audit.reading.window_bases import WINDOW_COLUMNS, window_keys
from genolewm_assets.audit.report import Found, LeakKind, SearchResult

#: The symbols of NC-IUB 1984, and U, which counts as T.
_COMPLEMENT = str.maketrans("ACGTRYKMBDHV", "TGCAYRMKVHDB")
_ALLELE = ("holdout", "role", *KEY)
#: Type of a digest of :func:`either_strand`.
DIGEST = pa.binary(16)
_TEXTS = ((name, pa.string()) for name in ("split", "holdout", "begin"))
_WINDOWS = pa.schema([("digest", DIGEST), *_TEXTS])
#: Bases that are kept of the beginning of each window.
BEGIN_BP = 31
#: Bases at both ends by which sequences are compared first.
_END_BP = 16
#: Codes of letters as in :func:`either_strand`: A 0 to T 3, others 4, which are their own complement here.
_CODES = np.full(256, 4, np.uint64)
for _letters in (b"ACGT", b"acgt", b"ACGU", b"acgu"):
    _CODES[list(_letters)] = np.arange(4)


def either_strand(sequence: str) -> bytes:
    """Return a digest that a sequence and its reverse complement share."""
    upper = sequence.upper().replace("U", "T")
    other = upper.translate(_COMPLEMENT)[::-1]
    return hashlib.blake2b(min(upper, other).encode(), digest_size=16).digest()


def digests_of(windows: pa.RecordBatch) -> pa.Array:
    """Return the digest of each window's sequence, see :func:`either_strand`."""
    return pa.array([either_strand(text.as_py()) for text in windows["sequence"]], DIGEST)


def end_keys(windows: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Return a number for each window, uint64, that windows with its sequence, or the reverse complement, have too."""
    _, offsets, data = windows["sequence"].buffers()
    at = np.frombuffer(offsets, np.int32)[windows["sequence"].offset :][: windows.num_rows + 1].astype(np.int64)
    letters = np.frombuffer(data or b"N", np.uint8)
    steps = np.minimum(np.arange(_END_BP), np.maximum(0, np.diff(at) - 1)[:, None])
    head, tail = at[:-1, None] + steps, np.maximum(0, at[1:, None] - 1 - steps)
    forward, behind = (_CODES[letters[np.minimum(each, len(letters) - 1)]] for each in (head, tail))
    powers = np.uint64(5) ** np.arange(_END_BP, dtype=np.uint64)
    ends = forward @ powers, np.where(behind < 4, 3 - behind, behind) @ powers
    keys: npt.NDArray[np.uint64] = np.where(np.diff(at), np.minimum(*ends) * powers[-1] ^ np.maximum(*ends), 0)
    return keys


class Evaluated:
    """What is evaluated: windows by digest, split and holdout, places of those of holdouts of intervals, alleles."""

    def __init__(
        self, files: PackageFiles, held_alleles: HeldAlleles, along: Callable[[pa.RecordBatch], None] | None = None
    ) -> None:
        """Read what is evaluated; ``along`` is given all of its windows too, so that they are read once."""
        compared, self.n = pa.array(sorted(files.compared_holdouts()), pa.string()), dict[str, int]()
        places, columns = list[Span](), [list[pa.Array]() for _ in range(4)]
        self._on_test, ends = list[tuple[str, int]](), [np.zeros(1, np.uint64)]
        self._intervals = spans_by_role(files)
        tested = HeldSpans(span for (_, role), of_role in self._intervals.items() if role == TEST for span in of_role)
        for split in EVALUATION:
            self.n[split] = 0
            for batch in files.windows(split, (*WINDOW_COLUMNS, "holdout")):
                self.n[split] += batch.num_rows
                if along is not None:
                    along(batch)
                contigs, (start, end) = canonical_names(batch["contig"]), emitted_spans(batch)
                if split == VALIDATION:
                    self._note_tested(batch, _shared(batch, tested.shared_bp(contigs, start, end)))
                is_ours = pc.is_in(batch["holdout"], value_set=compared)
                ours, placed = batch.filter(is_ours), pc.and_(is_ours, pc.is_valid(batch["start"]))
                ends.append(end_keys(ours))
                begins = pc.utf8_slice_codeunits(ours["sequence"], 0, BEGIN_BP)
                of_split = pa.array([split] * ours.num_rows, pa.string())
                for kept, each in zip(columns, (digests_of(ours), of_split, ours["holdout"], begins), strict=True):
                    kept.append(each)
                spans = (each.filter(placed).to_pylist() for each in (contigs, pa.array(start), pa.array(end)))
                places += map(Span, *spans)
        #: Sorted keys of the windows, see :func:`end_keys`; 0 is there always.
        self.spans, self.ends = HeldSpans(places), np.unique(np.concatenate(ends))
        rows = pa.table(
            [pa.chunked_array(*each) for each in zip(columns, _WINDOWS.types, strict=True)], schema=_WINDOWS
        )
        self.windows = rows.group_by(_WINDOWS.names[:3]).aggregate([]).combine_chunks()
        #: Digest and first bases of each window, see :data:`BEGIN_BP`.
        self.begins = rows.group_by(["digest", "begin"]).aggregate([])
        self._files, self._held_alleles = files, held_alleles
        #: What of evaluation is not among these.
        self.unread = files.unread_evaluation

    def _note_tested(self, windows: pa.RecordBatch, shared: Integers) -> None:
        rows = np.flatnonzero(shared)
        names = zip(windows["holdout"].take(pa.array(rows)).to_pylist(), window_keys(windows, rows), strict=True)
        self._on_test += [(f"{holdout} {key}", int(bp)) for (holdout, key), bp in zip(names, shared[rows], strict=True)]

    def search(self, added: pa.Table | None = None, held_alleles: HeldAlleles | None = None) -> SearchResult:
        """Compare validation with test; ``added`` are rows of further held-out alleles, which ``held_alleles`` have."""
        found, digests = Found(), self.windows
        both = [digests.filter(pc.equal(digests["split"], split)) for split in EVALUATION]
        equal = both[0].join(both[1], ["digest", "holdout"], join_type="inner", right_suffix=" of test")
        for row in equal.sort_by([("digest", "ascending"), ("holdout", "ascending")]).to_pylist():
            found.add(f"window {row['digest'].hex()}", holdout=row["holdout"])
        # Whole texts would take much memory: those of equal hashes are read a second time.
        alleles, nothing = partial(self._alleles_of, added, held_alleles or self._held_alleles), np.empty(0, np.int64)
        hashes = [np.unique(np.concatenate([nothing, *map(_hashes, alleles(split))])) for split in EVALUATION]
        in_both = np.intersect1d(hashes[0], hashes[1])
        texts = {split: set[str]() for split in EVALUATION}
        for split, kept in texts.items() if len(in_both) else ():
            for some in alleles(split):
                kept.update(some.filter(pa.array(np.isin(_hashes(some), in_both))).to_pylist())
        for allele in sorted(set.intersection(*texts.values())):
            found.add(allele)
        for holdout in [holdout for holdout, role in self._intervals if role == VALIDATION]:
            spans, of_test = self._intervals[holdout, VALIDATION], HeldSpans(self._intervals.get((holdout, TEST), ()))
            contigs, start, end = zip(*spans, strict=True)
            shared = of_test.shared_bp(pa.array(contigs), np.array(start), np.array(end))
            for row in np.flatnonzero(shared).tolist():
                found.add(f"{holdout} {contigs[row]}:{start[row]}-{end[row]}", shared_bp=int(shared[row]))
        for key, bp in self._on_test:
            found.add(key, shared_bp=bp)
        return SearchResult(
            LeakKind.SHARED_EVALUATION,
            "windows, alleles in normal form and intervals of one holdout that are in validation and in test; windows "
            "of validation on intervals of test of any holdout",
            {"windows": sum(self.n.values()), "alleles": sum(map(len, hashes))},
            found,
        )

    def _alleles_of(self, added: pa.Table | None, held_alleles: HeldAlleles, split: str) -> Iterator[Any]:
        """Yield the alleles that a split lists or evaluates, some at a time: their holdouts and normal forms."""
        listed = chain(self._files.holdout("alleles", _ALLELE), () if added is None else (added,))
        ours = (rows.filter(pc.equal(rows["role"], split)) for rows in listed)
        for rows in chain(ours, self._files.variants(split, _ALLELE)):
            holdouts, forms = rows["holdout"].cast(pa.string()), held_alleles.forms_of(alleles_of(rows))
            yield pc.drop_null(pc.binary_join_element_wise(holdouts, forms, " "))


class DuplicateSearch:
    """Compares the sequences of training with those of evaluation, but of holdouts of alleles; counts overlaps."""

    def __init__(self, evaluated: Evaluated) -> None:
        self._evaluated, self._known = evaluated, evaluated.windows["digest"].combine_chunks()
        self._found, self._n, self._overlapping, self._most = Found(), 0, 0, 0

    def search(self, windows: pa.RecordBatch) -> None:
        """Search windows of training; those without texts are known to equal none of evaluation."""
        self._n += windows.num_rows
        if "sequence" in windows.schema.names:
            self._search_sequences(windows)
        contigs, (start, end) = canonical_names(windows["contig"]), emitted_spans(windows)
        shared = _shared(windows, self._evaluated.spans.shared_bp(contigs, start, end))
        self._overlapping += int(np.count_nonzero(shared))
        self._most = max(self._most, int(shared.max(initial=0)))

    def _search_sequences(self, windows: pa.RecordBatch) -> None:
        # Few windows begin or end as one of evaluation does; only they are hashed.
        keys, ends = end_keys(windows), self._evaluated.ends
        alike = windows.filter(pa.array(ends[np.minimum(np.searchsorted(ends, keys), len(ends) - 1)] == keys))
        if not alike.num_rows:
            return
        digests = digests_of(alike)
        rows = np.flatnonzero(pc.is_in(digests, value_set=self._known).to_numpy(zero_copy_only=False))
        for row, key in zip(rows.tolist(), window_keys(alike, rows), strict=True):
            for split, holdouts in _holdouts_of(self._evaluated.windows, digests[row]):
                self._found.add(key, split=split, holdouts=", ".join(holdouts))

    def result(self) -> SearchResult:
        """Return what was found in the windows so far."""
        evaluated = self._evaluated
        return SearchResult(
            LeakKind.DUPLICATE,
            "digest of the sequence or of its reverse complement, whichever sorts first",
            {f"windows of {split}": rows for split, rows in ({TRAIN: self._n} | evaluated.n).items()},
            self._found,
            (
                *(() if len(self._known) else ("no window of evaluation is of a holdout of intervals",)),
                *evaluated.unread,
            ),
            absent="" if any(evaluated.n.values()) or evaluated.unread else "there is no window of evaluation",
        )

    @property
    def measured(self) -> dict[str, int]:
        """What training windows share with those of evaluation."""
        return {
            "training windows that overlap an evaluation window of a holdout of intervals": self._overlapping,
            "most bases of one shared so": self._most,
        }


def _hashes(texts: Any) -> Integers:
    return np.array([hash(text) for text in texts.to_pylist()], np.int64)


def _shared(windows: pa.RecordBatch, shared: Integers) -> Integers:
    """Return bases that windows share with others; 0 for one without a start."""
    return np.where(pc.is_valid(windows["start"]).to_numpy(zero_copy_only=False), shared, 0)


def _holdouts_of(windows: pa.Table, digest: pa.Scalar) -> Sequence[tuple[str, list[str]]]:
    rows = windows.filter(pc.equal(windows["digest"], digest)).to_pylist()
    found = [(split, sorted(row["holdout"] for row in rows if row["split"] == split)) for split in EVALUATION]
    return [(split, holdouts) for split, holdouts in found if holdouts]
