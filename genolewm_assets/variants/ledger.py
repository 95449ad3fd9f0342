"""Counts of a source's alleles: each allele read is kept, rejected with a reason, or filtered with a reason.

Not here: the rules for rejection (:mod:`.normal_form`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import pyarrow as pa

from genolewm_assets.store.tables import repeated_text, text_column
from genolewm_assets.variants.schema import REJECTS, RejectReason

#: First columns of every spooled row: the allele as the source spells it; ``raw_line`` and ``raw_pos`` are 1-based.
RAW_FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    ("raw_line", pa.int64()),
    ("raw_chrom", pa.string()),
    ("raw_pos", pa.int64()),
    ("raw_ref", pa.string()),
    ("raw_alt", pa.string()),
    ("raw_id", pa.string()),
)


#: Number of buffered rejects from which on they are converted into a table.
_GATHER_ROWS = 4_096


class FilterReason(StrEnum):
    """Why a valid allele is left out of the shard; such alleles are counted, not listed."""

    OTHER_CONTIG = "other_contig"
    FILTER = "filter"
    UNFILTERED = "unfiltered"
    NO_AF = "no_af"
    LOW_AF = "low_af"
    LOW_AN = "low_an"


class AlleleLedger:
    """Counts alleles as kept, rejected by reason or filtered by reason, and collects the rejected ones.

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
        # Rejects that are not yet in a table of ``_rejects``.
        self._raw: list[pa.Table] = []
        self._reasons: list[RejectReason] = []
        self._details: list[str | None] = []

    def read(self, alleles: int) -> None:
        """Count alleles read from the source."""
        self._read += alleles

    def keep(self, alleles: int) -> None:
        """Count alleles written to the shard."""
        self._kept += alleles

    def filter(self, reason: FilterReason, alleles: int = 1) -> None:
        """Count alleles left out because of the source's own values, such as AF or FILTER."""
        self._filtered[reason] += alleles

    def reject(self, raw: pa.Table, reasons: Sequence[RejectReason], details: Sequence[str | None]) -> None:
        """Count and list alleles that are not usable sequence variants.

        Parameters
        ----------
        raw
            Columns ``RAW_FIELDS``, one row per allele; ``raw_chrom`` may be dictionary-encoded.
        reasons, details
            One per row; a detail states what was found if the reason alone is not enough, else None.
        """
        self._rejected.update(reasons)
        self._raw.append(raw)
        self._reasons += reasons
        self._details += details
        if len(self._reasons) >= _GATHER_ROWS:
            self._gather()

    def note(self, name: str, number: int) -> None:
        """Add ``number`` to a count that is not part of the sum of alleles."""
        self._notes[name] = self._notes.get(name, 0) + number

    def counts(self) -> dict[str, int]:
        """Return ``alleles_in``, ``kept``, ``rejected``, ``filtered``, the counts by reason above 0, and the notes."""
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
        """Return the rejected alleles: schema ``REJECTS``, sorted by line, ALT and reason."""
        self._gather()
        table = pa.concat_tables([pa.Table.from_batches([], REJECTS.arrow), *self._rejects])
        return table.sort_by([("line", "ascending"), ("alt", "ascending"), ("reason", "ascending")])

    def _gather(self) -> None:
        """Convert the buffered rejects into a table."""
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
