"""The account of a source's alleles: every one read is kept, rejected for a reason, or filtered for a reason.

Belongs here: the closed sets of reasons and the counts. What makes an allele unusable is in
:mod:`~genolewm_assets.variants.normal_form`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import pyarrow as pa

from genolewm_assets.store.tables import repeated_text, text_column
from genolewm_assets.variants.schema import REJECTS

#: Columns that every spooled row begins with: the allele as the source spells it; ``raw_line`` and ``raw_pos`` are
#: 1-based.
RAW_FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    ("raw_line", pa.int64()),
    ("raw_chrom", pa.string()),
    ("raw_pos", pa.int64()),
    ("raw_ref", pa.string()),
    ("raw_alt", pa.string()),
    ("raw_id", pa.string()),
)


#: Rejects that become a table together.
_GATHER_ROWS = 4_096


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
        self._rejects: list[pa.Table] = []
        # Of rejects that are not in a table yet.
        self._raw: list[pa.Table] = []
        self._reasons: list[RejectReason] = []
        self._details: list[str | None] = []

    def read(self, alleles: int) -> None:
        """Count alleles read from the source."""
        self._read += alleles

    def keep(self, alleles: int) -> None:
        """Count alleles that went into the shard."""
        self._kept += alleles

    def filter(self, reason: FilterReason, alleles: int = 1) -> None:
        """Count alleles that the source's own figures rule out."""
        self._filtered[reason] += alleles

    def reject(self, raw: pa.Table, reasons: Sequence[RejectReason], details: Sequence[str | None]) -> None:
        """Count and list alleles that are no usable sequence variants.

        Parameters
        ----------
        raw
            Columns ``RAW_FIELDS``, one row per allele; ``raw_chrom`` may be dictionary-encoded.
        reasons, details
            One per row; a detail says what was found where the reason alone does not.
        """
        self._rejected.update(reasons)
        self._raw.append(raw)
        self._reasons += reasons
        self._details += details
        if len(self._reasons) >= _GATHER_ROWS:
            self._gather()

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
        self._gather()
        table = pa.concat_tables([pa.Table.from_batches([], REJECTS.arrow), *self._rejects])
        return table.sort_by([("line", "ascending"), ("alt", "ascending"), ("reason", "ascending")])

    def _gather(self) -> None:
        """Make a table of the rejects that are in none yet."""
        if not self._raw:
            return
        plain = pa.schema(RAW_FIELDS)
        raw = pa.concat_tables([each.select(plain.names).cast(plain) for each in self._raw])
        columns = [
            repeated_text(self._file, raw.num_rows),
            *raw.columns,
            text_column(self._reasons),
            text_column(self._details),
        ]
        self._rejects.append(pa.table(columns, names=REJECTS.columns).cast(REJECTS.arrow))
        self._raw, self._reasons, self._details = [], [], []
