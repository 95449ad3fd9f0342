"""Checks of the corpus tables, in one pass and by code that shares no tiling, slicing or placement with the builder."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import ContigSet
from genolewm_assets.store.artefacts import Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, TableSchema
from genolewm_assets.variants import RECORDS_ACCOUNTED_FOR
from genolewm_assets.windows.bases import BASES_RIGHT
from genolewm_assets.windows.corpus.keys import KeySet
from genolewm_assets.windows.corpus.placement_checks import PlacementAudit, Row, count_known
from genolewm_assets.windows.corpus.records import CorpusRecord
from genolewm_assets.windows.corpus.windows import CORPUS_SKIPPED, CORPUS_WINDOWS, SHORTEST_BP, CorpusParams
from genolewm_assets.windows.reference import WINDOW_HASHES_RIGHT, WINDOWS_HOLD_ONLY_ACGT

#: Checks of the tables, in the order of the results of :func:`check_corpus_windows`.
_TABLE_CHECKS = (
    SCHEMA_AS_DECLARED,
    Check("windows_follow_tiling", "Every record has exactly the windows that the tiling rules give."),
    Check(
        "windows_cut_from_records",
        "Every window and its flanks equal the same interval of the source record, and only a record that states "
        "another organism is called non-human.",
        "The corpus file changed while it was read, or the code is wrong. Materialise again; report rows that come "
        "back.",
    ),
    WINDOWS_HOLD_ONLY_ACGT,
    WINDOW_HASHES_RIGHT,
    Check(
        "placements_hold",
        "Every placement has the columns that its kind requires, rests on stated coordinates exactly where the bases "
        "of the reference agree with them, and is marked exact only if the reference has the same bases.",
        "Look up the records in the corpus file. If their coordinates are of another assembly, do not declare them as "
        "coordinates of this genome in the catalogue; otherwise report the rows.",
    ),
    RECORDS_ACCOUNTED_FOR,
)
#: Checks of ``corpus/windows``: those of its tables, and of the bases beside them.
CORPUS_CHECKS = (*_TABLE_CHECKS, BASES_RIGHT)

_BASES = ("sequence", "left_flank", "right_flank")
_RUN = re.compile(rb"[ACGT]+")
_WORD = re.compile(r"[a-z]{2,}|[0-9]+")
_HUMAN = {"homo", "human", "sapiens", "hominidae", "homininae", "9606"}
#: Words of the lineage of *Homo sapiens* (NCBI Taxonomy) above the family, and of texts that state nothing.
_NOT_AN_ORGANISM = set(
    _WORD.findall(
        "cellular organisms eukaryota eukaryote opisthokonta metazoa eumetazoa bilateria deuterostomia chordata "
        "craniata vertebrata vertebrate gnathostomata euteleostomi sarcopterygii tetrapoda amniota mammalia "
        "mammalian theria eutheria boreoeutheria euarchontoglires primates haplorrhini simiiformes catarrhini "
        "unknown unclassified none na"
    )
)


def check_corpus_windows(
    windows: Iterable[pa.Table],
    skipped: Iterable[pa.Table],
    records: Iterable[CorpusRecord],
    *,
    params: CorpusParams,
    counts: Mapping[str, int],
    contigs: ContigSet,
    bases: Callable[[str, int, int], bytes],
) -> tuple[CheckResult, ...]:
    """Run all content checks of ``corpus/windows``.

    Parameters
    ----------
    windows, skipped
        Both tables in pieces, in file order; at least one piece each.
    records
        The records of the source, read again in the same order.
    counts
        Counts as the builder reports them.
    contigs
        Contigs of the reference genome.
    bases
        Maps ``(contig, start, end)`` to upper-case bases of the reference, 0-based half-open.

    Returns
    -------
    tuple of CheckResult
        In the order of :data:`CORPUS_CHECKS`, but the last.
    """
    audit = _Audit(params, PlacementAudit.of(contigs, bases))
    audit.sweep(audit.rows(windows, CORPUS_WINDOWS), audit.rows(skipped, CORPUS_SKIPPED), records)
    return audit.results(counts)


class _Audit:
    """Findings of one pass over the records and both tables in parallel."""

    def __init__(self, params: CorpusParams, placements: PlacementAudit) -> None:
        self.params, self.placements = params, placements
        self.wrong: defaultdict[str, RowsAtFault] = defaultdict(RowsAtFault)
        self.recount: Counter[str] = Counter()
        self._seen = KeySet()

    def rows(self, tables: Iterable[pa.Table], schema: TableSchema) -> Iterator[Row]:
        """Yield the rows of a table; a piece with another schema is a finding, and its rows are left out."""
        for table in tables:
            try:
                schema.check(table.schema, where=schema.name)
                table.validate(full=True)
            except (CorruptResourceError, pa.ArrowInvalid) as error:
                differing = schema.differences(table.schema) or ({"table": schema.name},)
                for row in differing:
                    self.wrong["schema_as_declared"].add(**row, problem=str(error))
                continue
            names = table.column_names
            columns = [_bytes_of(table[name]) if name in _BASES else table[name].to_pylist() for name in names]
            yield from (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))

    def sweep(self, windows: Iterator[Row], skipped: Iterator[Row], records: Iterable[CorpusRecord]) -> None:
        """Compare every record with its rows; both tables must be in the order of the records."""
        groups = ((name, list(rows)) for name, rows in groupby(windows, key=itemgetter("record_id")))
        group, skip = next(groups, None), next(skipped, None)
        for record in records:
            self.recount["records_in"] += 1
            reason = None if record.fault is None else record.fault.reason
            # The builder compares integers, this code fractions.
            if reason is None and self._bits("slice", record.record_id) / 2**64 >= self.params.slice_fraction:
                self.recount["skipped.sliced_out"] += 1
                continue
            if reason is not None:
                self.recount[f"skipped.{reason}"] += 1
            name, unused = (record.record_id, True) if reason else self._name(record)
            n_known = count_known(record.sequence)
            expected = [] if unused else self._expected(record.sequence, name, n_known)
            if reason is None:
                self._recount_bases(record.sequence, expected, n_known, repeated=unused)
            if group is not None and group[0] == name and not unused:
                self._compare(record, group[1], expected, is_known=n_known == len(record.sequence))
                group = next(groups, None)
            elif expected:
                self._add_finding("windows_follow_tiling", name, f"{len(expected)} windows missing")
            if not expected:
                self.recount["records_skipped"] += 1
                listed = skip and (skip["record_id"], skip["length_bp"], reason and skip["reason"])
                if listed == (record.record_id, len(record.sequence), reason):
                    skip = next(skipped, None)
                else:
                    self._add_finding("every_record_accounted_for", name, "not among the skipped records")
        if group is not None:
            self._add_finding("windows_follow_tiling", group[0], "rows without a record, or out of order")
        if skip is not None:
            problem = "listed as skipped, but no such record, or out of order"
            self._add_finding("every_record_accounted_for", skip["record_id"], problem)

    def results(self, counts: Mapping[str, int]) -> tuple[CheckResult, ...]:
        """Compare the builder's ``counts`` with those of this pass, and return all results."""
        recount = dict(self.recount)
        skipped = sum(n for name, n in counts.items() if name.startswith("skipped."))
        recount["records_skipped"] = recount.get("records_skipped", 0)
        stated = {**counts, "records_skipped": skipped - counts["skipped.sliced_out"]}
        for name, n in recount.items():
            if stated.get(name, 0) != n:
                counted = stated.get(name, 0)
                self._add_finding(
                    "every_record_accounted_for", name, f"counted {counted}, found {n}", expected=n, got=counted
                )
        if counts["records_in"] != counts["records_used"] + skipped:
            self._add_finding("every_record_accounted_for", "records_in", "is not records_used + skipped")
        # Without windows, the account has shown each record among the skipped ones.
        listed = bool(self.recount["records_in"]) and not self.wrong["every_record_accounted_for"]
        nothing = "every record was skipped" if listed else "the source has no record"
        return tuple(self._result(name, nothing, listed=listed) for name in _TABLE_CHECKS)

    def _result(self, name: str, nothing: str, *, listed: bool) -> CheckResult:
        wrong = self.wrong[name]
        figures: dict[str, JsonValue] = {"wrong": len(wrong), "rows": self.recount["windows"]}
        check = CheckResult(name, passed=not wrong, figures=figures, rows=tuple(wrong))
        if name == "schema_as_declared":
            return check
        of_records = name in ("windows_follow_tiling", "every_record_accounted_for")
        return stating_compared(
            check, self.recount["records_in" if of_records else "windows"], nothing, declared=listed
        )

    def _add_finding(self, check: str, what: str, problem: str, **facts: object) -> None:
        """Count a finding about a record, or a count."""
        self.wrong[check].add(record=what, problem=problem, **facts)

    def _add_row(self, check: str, row: Row, problem: str, **facts: object) -> None:
        """Count a finding about a row of a window."""
        names = ("window_index", "start", "end")
        self.wrong[check].add(record=row["record_id"], **{n: row[n] for n in names}, problem=problem, **facts)

    def _bits(self, purpose: str, record_id: str) -> int:
        message = b"\0".join(part.encode() for part in (purpose, str(self.params.seed), record_id))
        return int(hashlib.blake2b(message, digest_size=8).hexdigest(), 16)

    def _name(self, record: CorpusRecord) -> tuple[str, bool]:
        """Return the unique id of the record's rows, and whether id and sequence equal those of an earlier record."""
        digest = hashlib.sha256(record.sequence).digest()[:4]
        key = hashlib.md5(record.record_id.encode(), usedforsecurity=False).digest()
        repeated = self._seen.add(key + digest)
        return f"{record.record_id}~{digest.hex()}" if self._seen.add(key) else record.record_id, repeated

    def _expected(self, sequence: bytes, name: str, n_known: int) -> list[tuple[int, int]]:
        """Return the windows ``[start, end)`` of each ACGT run, recomputed by the rules of ``tile_record``."""
        profile = self.params.profile
        margin, stride, full = profile.margin_bp, profile.stride_bp, profile.window_bp
        bits, windows = self._bits("phase", name), []
        whole = [(0, len(sequence))] if n_known else []
        for first, end in whole if n_known == len(sequence) else (run.span() for run in _RUN.finditer(sequence)):
            length = end - first
            if length >= full + 2 * margin:
                phases = min(stride, length - full - 2 * margin + 1)
                at = first + margin + bits % phases
                while at + full + margin <= end:
                    windows.append((at, at + full))
                    at += stride
            elif self.params.short_windows and length >= max(SHORTEST_BP, 2 * margin + 6):
                size = (length - 2 * margin) - (length - 2 * margin) % 6
                at = first + margin + bits % min(stride, length - size - 2 * margin + 1)
                windows.append((at, at + size))
        return windows

    def _recount_bases(self, sequence: bytes, expected: list[tuple[int, int]], n_known: int, *, repeated: bool) -> None:
        self.recount["bases_in"] += len(sequence)
        if repeated:
            self.recount["bases_duplicate"] += len(sequence)
            return
        covered = last = 0
        for start, end in sorted(expected):
            covered, last = covered + max(0, end - max(start, last)), max(last, end)
        self.recount["windows"] += len(expected)
        self.recount["bases_lost_non_acgt"] += len(sequence) - n_known
        self.recount["bases_in_windows"] += covered
        self.recount["bases_in_no_window"] += n_known - covered

    def _compare(
        self, record: CorpusRecord, rows: list[Row], expected: list[tuple[int, int]], *, is_known: bool
    ) -> None:
        found = [(row["window_index"], row["start"], row["end"], row["window_bp"]) for row in rows]
        if found != [(index, start, end, end - start) for index, (start, end) in enumerate(expected)]:
            spans = [(row["start"], row["end"]) for row in rows]
            self._add_finding(
                "windows_follow_tiling", rows[0]["record_id"], "other windows", expected=expected, got=spans
            )
        for row in rows:
            self._check_content(row, record, is_known=is_known)
            if not self.placements.holds(row, record):
                names = ("placement_how", "placed_contig", "placed_start", "placed_end", "strand", "placement_exact")
                self._add_row("placements_hold", row, "the placement does not hold", **{n: row[n] for n in names})

    def _check_content(self, row: Row, record: CorpusRecord, *, is_known: bool) -> None:
        """Compare a row with the bases, flanks, hash, GC share and annotations recomputed from its record."""
        margin, start, end = self.params.profile.margin_bp, row["start"], row["end"]
        cut = record.sequence[start - margin : start], record.sequence[start:end], record.sequence[end : end + margin]
        texts = row["left_flank"], row["sequence"], row["right_flank"]
        labels = row["source"], row["taxonomy"], row["note"], row["maybe_human"]
        stated = str(record.source), record.taxonomy, record.note, record.maybe_human
        if cut != texts:
            differing = next(n for n in range(3) if cut[n] != texts[n])
            what = ("left_flank", "sequence", "right_flank")[differing]
            self._add_row(
                "windows_cut_from_records",
                row,
                f"{what} differs from the record",
                expected=cut[differing].decode(),
                got=texts[differing].decode(),
            )
        elif labels != stated:
            self._add_row(
                "windows_cut_from_records", row, "annotations differ from the record", expected=stated, got=labels
            )
        if not row["maybe_human"] and _names_no_other_organism(record.taxonomy):
            problem = "called non-human, although its record states no other organism"
            self._add_row("windows_cut_from_records", row, problem, taxonomy=record.taxonomy)
        flanks_fit = len(texts[0]) == len(texts[2]) == margin
        is_known = (is_known and cut == texts) or all(count_known(text) == len(text) for text in texts)
        if not flanks_fit or len(texts[1]) % 6 or not is_known:
            sizes = [len(text) for text in texts]
            self._add_row("windows_hold_only_acgt", row, "other symbols, or sizes that do not fit", sizes=sizes)
        fresh = hashlib.sha256(texts[1])
        letters = np.frombuffer(texts[1], np.uint8)
        gc = np.count_nonzero((letters == ord("G")) | (letters == ord("C"))) / max(1, len(letters))
        same = (fresh.digest(), fresh.hexdigest()[:32]) == (row["window_hash"], row["window_id"])
        if not (same and abs(gc - row["gc"]) <= 1e-6):
            self._add_row(
                "window_hashes_right",
                row,
                "hash, id or GC share differ",
                expected=(fresh.hexdigest()[:32], f"GC {gc:.6f}"),
                got=(row["window_id"], f"GC {row['gc']:.6f}"),
            )


@lru_cache(1024)
def _names_no_other_organism(taxonomy: str | None) -> bool:
    """Return whether a text states nothing, humans, or no more than an ancestor of theirs."""
    words = set(_WORD.findall((taxonomy or "").lower()))
    return bool(words & _HUMAN) or not words - _NOT_AN_ORGANISM


def _bytes_of(column: pa.ChunkedArray) -> list[bytes]:
    """Return texts without nulls as bytes, cut from the column's buffer by its offsets."""
    texts: list[bytes] = []
    for chunk in column.chunks:
        offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :][: len(chunk) + 1]
        view = memoryview(chunk.buffers()[2] or b"")
        texts += [bytes(view[start:end]) for start, end in pairwise(offsets.tolist())]
    return texts
