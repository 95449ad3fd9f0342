"""From the spelling of a source to one normal form per allele, and an account of every allele that gets none.

Belongs here: REF check, trimming and left alignment, duplicates, and the ledger of what was kept,
rejected and filtered. Contig names are in :mod:`~genolewm_assets.sources.contig_names`; what a field means is in
:mod:`~genolewm_assets.sources.gnomad_layouts` and :mod:`~genolewm_assets.sources.clinvar_terms`; the sequence
arithmetic is in :mod:`genolewm_assets.genome`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ReferenceMismatchError
from genolewm_assets.genome import Contig, Variant, normalise, trim_alleles
from genolewm_assets.lewm.schema import REJECTS
from genolewm_assets.store.progress import NO_PROGRESS, Progress

#: ClinVar's VCF holds variants shorter than 10 kb; nothing longer is a short sequence variant.
MAX_ALLELE_BP = 10_000

_BASES = frozenset("ACGT")
_IUPAC = frozenset("ACGTRYSWKMBDHVN")


class RejectReason(StrEnum):
    """Why an allele is no usable sequence variant; one row each in ``rejects.parquet``."""

    MISSING_ALT = "missing_alt"
    IUPAC = "iupac"
    SYMBOLIC = "symbolic"
    SPANNING_DELETION = "spanning_deletion"
    NOT_A_SEQUENCE = "not_a_sequence"
    TOO_LONG = "too_long"
    OUT_OF_RANGE = "out_of_range"
    REF_NOT_ACGT = "ref_not_acgt"
    REF_MISMATCH = "ref_mismatch"
    NO_CHANGE = "no_change"
    DUPLICATE = "duplicate"


class FilterReason(StrEnum):
    """Why a sound allele does not belong into the shard; counted, not listed."""

    OTHER_CONTIG = "other_contig"
    FILTER = "filter"
    UNFILTERED = "unfiltered"
    NO_AF = "no_af"
    LOW_AF = "low_af"
    LOW_AN = "low_an"


class RawAllele(NamedTuple):
    """One ALT of one record as the source spells it; ``line`` and ``pos`` are 1-based."""

    line: int
    chrom: str
    pos: int
    ref: str
    alt: str
    record_id: str | None


class NormalAllele(NamedTuple):
    """Trimmed, left-aligned, upper-case; ``pos`` is 1-based."""

    pos: int
    ref: str
    alt: str


class Rejection(NamedTuple):
    """A reason of the closed set, with what was found where the reason alone does not say."""

    reason: RejectReason
    detail: str | None = None


#: Alleles between two words about progress.
_SAID_EVERY = 4_096

#: Columns that every spooled row begins with; ``settle_alleles`` reads them.
RAW_FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    ("raw_line", pa.int64()),
    ("raw_chrom", pa.string()),
    ("raw_pos", pa.int64()),
    ("raw_ref", pa.string()),
    ("raw_alt", pa.string()),
    ("raw_id", pa.string()),
)


class AlleleLedger:
    """Counts every allele once: kept, rejected by reason, or filtered by reason.

    Parameters
    ----------
    file
        Name of the source file, for the rows of ``rejects.parquet``.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._read = 0
        self._kept = 0
        self._rejected: Counter[RejectReason] = Counter()
        self._filtered: Counter[FilterReason] = Counter()
        self._notes: dict[str, int] = {}
        self._rejects: list[pa.RecordBatch] = []
        self._rows: list[tuple[object, ...]] = []

    def read(self, alleles: int) -> None:
        """Count alleles read from the source."""
        self._read += alleles

    def keep(self, alleles: int) -> None:
        """Count alleles that went into the shard."""
        self._kept += alleles

    def filter(self, reason: FilterReason, alleles: int = 1) -> None:
        """Count alleles that the source's own figures rule out."""
        self._filtered[reason] += alleles

    def reject(self, raw: RawAllele, rejection: Rejection) -> None:
        """Count and list one allele that is no usable sequence variant."""
        self._rejected[rejection.reason] += 1
        self._rows.append((self._file, *raw, str(rejection.reason), rejection.detail))
        if len(self._rows) >= 32_768:
            self._flush()

    def note(self, name: str, number: int) -> None:
        """Add to a further figure, outside the account of alleles."""
        self._notes[name] = self._notes.get(name, 0) + number

    @property
    def accounted(self) -> bool:
        """Whether every allele read has exactly one fate."""
        return self._read == self._kept + self._rejected.total() + self._filtered.total()

    def counts(self) -> dict[str, int]:
        """Return flat counts: ``alleles_in``, ``kept``, ``rejected``, ``rejected.<reason>``, ``filtered``, ..."""
        total = {
            "alleles_in": self._read,
            "kept": self._kept,
            "rejected": self._rejected.total(),
            "filtered": self._filtered.total(),
        }
        rejected = {f"rejected.{reason}": self._rejected[reason] for reason in RejectReason if self._rejected[reason]}
        filtered = {f"filtered.{reason}": self._filtered[reason] for reason in FilterReason if self._filtered[reason]}
        return {**total, **rejected, **filtered, **self._notes}

    def rejects(self) -> pa.Table:
        """Return the rejected alleles, sorted by line and spelling."""
        self._flush()
        table = pa.Table.from_batches(self._rejects, schema=REJECTS.arrow)
        return table.sort_by([("line", "ascending"), ("alt", "ascending"), ("reason", "ascending")])

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, REJECTS.arrow, strict=True)]
            self._rejects.append(pa.RecordBatch.from_arrays(arrays, schema=REJECTS.arrow))
            self._rows = []


class AlleleNormaliser:
    """Brings alleles into normal form.

    Parameters
    ----------
    reference
        Returns a contig as upper-case ASCII. None: alleles are trimmed but not left-aligned, and REF is not checked.
    max_allele_bp
        Longest REF or ALT accepted.
    """

    def __init__(self, reference: Callable[[Contig], bytes] | None, *, max_allele_bp: int = MAX_ALLELE_BP) -> None:
        self._reference = reference
        self._max_allele_bp = max_allele_bp
        self._contig: Contig | None = None
        self._bases = b""

    def normalise(self, contig: Contig, pos: int, ref: str, alt: str) -> NormalAllele | Rejection:
        """Return the normal form of an allele, or why it has none; the contig last asked for stays in memory."""
        ref, alt = ref.upper(), alt.upper()
        problem = self._problem(contig, pos, ref, alt)
        if problem is not None:
            return problem
        if self._reference is None:
            return NormalAllele(*trim_alleles(pos, ref, alt))
        if self._contig != contig:
            self._bases, self._contig = self._reference(contig), contig
        if len(ref) == len(alt) == 1 and self._bases[pos - 1] == ord(ref):
            return NormalAllele(pos, ref, alt)
        try:
            variant = normalise(Variant(contig.name, pos, ref, alt), self._bases)
        except ReferenceMismatchError:
            stated = self._bases[pos - 1 : pos - 1 + len(ref)][:40].decode("ascii", "replace")
            return Rejection(RejectReason.REF_MISMATCH, f"the reference has {stated}")
        return self._checked(NormalAllele(variant.pos, variant.ref, variant.alt))

    def _problem(self, contig: Contig, pos: int, ref: str, alt: str) -> Rejection | None:
        reason = alt_problem(alt)
        if reason is not None:
            return Rejection(reason)
        if len(ref) > self._max_allele_bp or len(alt) > self._max_allele_bp:
            longest = max(len(ref), len(alt))
            return Rejection(RejectReason.TOO_LONG, f"{longest} bp; the limit is {self._max_allele_bp} bp")
        if not _BASES.issuperset(ref):
            return Rejection(RejectReason.REF_NOT_ACGT)
        if ref == alt:
            return Rejection(RejectReason.NO_CHANGE)
        if not 1 <= pos <= contig.length - len(ref) + 1:
            return Rejection(RejectReason.OUT_OF_RANGE, f"{contig.name} has {contig.length} bp")
        return None

    @staticmethod
    def _checked(allele: NormalAllele) -> NormalAllele | Rejection:
        """Reject an allele whose normal form is anchored on a base that is not ACGT."""
        if _BASES.issuperset(allele.ref) and _BASES.issuperset(allele.alt):
            return allele
        return Rejection(RejectReason.REF_NOT_ACGT, f"the normal form is {allele.pos}:{allele.ref}:{allele.alt}"[:120])


def alt_problem(alt: str) -> RejectReason | None:
    """Return why an upper-case ALT is no sequence of ACGT, or None (VCF 4.3, sections 1.6.1 and 5)."""
    if _BASES.issuperset(alt) and alt:
        return None
    if alt in {".", ""}:
        return RejectReason.MISSING_ALT
    if alt == "*":
        return RejectReason.SPANNING_DELETION
    # <DEL>, breakends such as G]17:198982], single breakends such as G.
    if alt[0] in "<." or alt[-1] in ">." or "[" in alt or "]" in alt:
        return RejectReason.SYMBOLIC
    return RejectReason.IUPAC if _IUPAC.issuperset(alt) else RejectReason.NOT_A_SEQUENCE


def settle_alleles(
    spooled: pa.Table,
    contig: Contig,
    normaliser: AlleleNormaliser,
    ledger: AlleleLedger,
    preference: Callable[[Mapping[str, object]], tuple[object, ...]],
    *,
    progress: Progress = NO_PROGRESS,
) -> pa.Table:
    """Normalise, sort and de-duplicate the spooled rows of one contig.

    Parameters
    ----------
    spooled
        Columns ``RAW_FIELDS`` and the shard's own; one row per allele.
    preference
        Of several rows with one normal form the one with the smallest value is kept; what is still equal is decided
        by the rest of the row, never by the order of the file.

    Returns
    -------
    pa.Table
        The columns of ``spooled`` with ``chrom``, ``pos``, ``ref``, ``alt`` added, sorted by them, unique.
    """
    keep: list[int] = []
    normal: list[NormalAllele] = []
    for at, raw in enumerate(_raw_alleles(spooled)):
        outcome = normaliser.normalise(contig, raw.pos, raw.ref, raw.alt)
        if isinstance(outcome, Rejection):
            ledger.reject(raw, outcome)
        else:
            keep.append(at)
            normal.append(outcome)
        if (at + 1) % _SAID_EVERY == 0:
            progress.advance(at + 1, spooled.num_rows, f"alleles of {contig.name}")
    table = _sorted_with_keys(spooled, contig, keep, normal)
    table = _drop_duplicates(table, ledger, preference)
    ledger.keep(table.num_rows)
    return table


def _sorted_with_keys(spooled: pa.Table, contig: Contig, keep: list[int], normal: list[NormalAllele]) -> pa.Table:
    """Return the rows ``keep`` in the order of their normal forms, which become the columns of the key."""
    pos, ref, alt = zip(*normal, strict=True) if normal else ((), (), ())
    columns = {"pos": pa.array(pos, pa.int64()), "ref": pa.array(ref, pa.string()), "alt": pa.array(alt, pa.string())}
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    table = spooled.take(pa.array(keep, pa.int64()).take(order))
    table = table.append_column("chrom", pa.repeat(pa.scalar(contig.name), len(normal)))
    for name, values in columns.items():
        table = table.append_column(name, values.take(order))
    return table


def _raw_alleles(table: pa.Table) -> Iterator[RawAllele]:
    for batch in table.select([name for name, _ in RAW_FIELDS]).to_batches():
        yield from map(RawAllele, *(column.to_pylist() for column in batch.columns))


def _drop_duplicates(
    table: pa.Table, ledger: AlleleLedger, preference: Callable[[Mapping[str, object]], tuple[object, ...]]
) -> pa.Table:
    """Keep one row per normal form of a sorted table."""
    if table.num_rows < 2:
        return table
    same = np.ones(table.num_rows - 1, dtype=bool)
    for name in ("pos", "ref", "alt"):
        column = table[name].combine_chunks()
        same &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    if not same.any():
        return table
    repeated = np.flatnonzero(np.append(same, [False]) | np.insert(same, 0, [False]))
    keep = np.ones(table.num_rows, dtype=bool)
    rows = zip(repeated.tolist(), table.take(pa.array(repeated)).to_pylist(), strict=True)
    for _, group in groupby(rows, key=lambda item: (item[1]["pos"], item[1]["ref"], item[1]["alt"])):
        ranked = sorted(group, key=lambda item: (*preference(item[1]), _content(item[1]), item[1]["raw_line"]))
        winner = ranked[0][1]
        for at, row in ranked[1:]:
            keep[at] = False
            raw = RawAllele(*(row[name] for name, _ in RAW_FIELDS))
            kept = f"{winner['chrom']}:{winner['pos']} as {winner['raw_pos']}:{winner['raw_ref']}:{winner['raw_alt']}"
            ledger.reject(raw, Rejection(RejectReason.DUPLICATE, f"kept is {kept}"[:120]))
    return table.filter(pa.array(keep))


def _content(row: Mapping[str, object]) -> str:
    """Return a text that orders rows by what they say, not by where they stand."""
    return repr([(name, value) for name, value in row.items() if name != "raw_line"])
