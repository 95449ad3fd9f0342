"""Count the rows at fault of a corpus source, and refuse the source if they are too many."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from genolewm_assets.errors import InputError
from genolewm_assets.windows.corpus import FAULTS, RecordFault, SkipReason

#: Reasons, and rows of each, that a message names.
_REASONS_NAMED, _ROWS_NAMED = 3, 5


@dataclass(slots=True)
class FaultTally:
    """Faults of the first rows of a source."""

    total: int
    max_fraction: float
    counts: Counter[SkipReason] = field(default_factory=Counter)
    _shown: defaultdict[SkipReason, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, fault: RecordFault, path: Path, row: int) -> None:
        """Count a fault of a row, numbered from 0 in its file."""
        self.counts[fault.reason] += 1
        if len(self._shown[fault.reason]) < _ROWS_NAMED:
            self._shown[fault.reason].append(f"row {row} of {path.name}: {fault.got}")

    def check(self, path: Path, done: int) -> None:
        """Raise :class:`InputError` if too many of the first ``done`` rows, up to a row of ``path``, are at fault."""
        faulty = self.counts.total()
        if not faulty or faulty / self.total <= self.max_fraction:
            return
        reasons = (
            f"{n:,} {reason} (expected {FAULTS[reason]}; {'; '.join(self._shown[reason])}{'; ...' * (n > _ROWS_NAMED)})"
            for reason, n in self.counts.most_common(_REASONS_NAMED)
        )
        raise InputError(
            str(path),
            f"too many rows of this corpus source are at fault, {faulty:,} of the first {done:,} of {self.total:,}",
            expected=f"at most {self.max_fraction:g} of them",
            got=", ".join(reasons),
            remedy="Correct these rows (numbers count from 0), or raise corpus.max_faulty_fraction in the catalogue",
        )
