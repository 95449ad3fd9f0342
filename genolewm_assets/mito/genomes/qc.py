"""Quality control of mitochondrial genomes: checks of each record alone, and removal of duplicates.

Not here: reading files (``sources.mito``), alignment to the reference (``alignment``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.mito.genomes.records import GenomeRecord, GenomeReject
from genolewm_assets.mito.genomes.rotation import canonical_rotation

#: The IUPAC codes (NC-IUB 1984) without U, which the readers convert to T.
_ALPHABET = "ACGTRYSWKMBDHVN"
_BASES = str.maketrans("", "", _ALPHABET)
#: Longest repeat unit that counts as a tandem array. Human mitochondrial DNA has arrays of 9 bp at 8,272, of CA at 514
#: and of C.
_ARRAY_UNIT_BP = 10


@dataclass(frozen=True, slots=True)
class GenomeQcPolicy:
    """Limits that a genome must satisfy.

    Parameters
    ----------
    min_length_bp, max_length_bp
        Shortest and longest allowed sequence. The defaults allow large deletions and duplications that occur in single
        families, and reject a control region alone.
    max_n_fraction
        Largest allowed share of N, 0 to 1; the N at 3,107 of rCRS counts.
    max_ambiguous_fraction
        Largest allowed share of the other ambiguity codes, 0 to 1. They have a limit of their own, because they state a
        heteroplasmy and not a gap.
    min_junction_repeat_bp
        If at least this many last bases repeat the first ones, the record contains a part of the circle twice and is
        rejected.

    Raises
    ------
    ConfigurationError
        If a value is out of range.
    """

    min_length_bp: int = 15_400
    max_length_bp: int = 17_700
    max_n_fraction: float = 0.01
    max_ambiguous_fraction: float = 0.01
    min_junction_repeat_bp: int = 20

    def __post_init__(self) -> None:
        for name in ("min_length_bp", "min_junction_repeat_bp"):
            if (value := getattr(self, name)) < 1:
                raise ConfigurationError(name, "out of range", expected="at least 1", got=f"{value}")
        if self.min_length_bp > self.max_length_bp:
            expected = f"at most max_length_bp ({self.max_length_bp})"
            raise ConfigurationError(
                "min_length_bp", "no length is allowed", expected=expected, got=f"{self.min_length_bp}"
            )
        for name in ("max_n_fraction", "max_ambiguous_fraction"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ConfigurationError(name, "not a share", expected="0 to 1", got=f"{value}")


DEFAULT_POLICY = GenomeQcPolicy()


@dataclass(frozen=True, slots=True)
class KeptGenome:
    """A genome that passed quality control.

    Attributes
    ----------
    record
        The genome as read.
    n_bases, ambiguous_bases
        Number of N, and of other ambiguity codes, in its sequence.
    circle_sha256
        SHA-256, in hex, of its canonical rotation: the same for every cut and either strand.
    """

    record: GenomeRecord
    n_bases: int
    ambiguous_bases: int
    circle_sha256: str


@dataclass(frozen=True, slots=True)
class RejectedGenome:
    """A genome that is not used: name, file, record number (from 1), reason, and the details of the reason."""

    name: str
    file: str
    number: int
    reason: GenomeReject
    detail: str


@dataclass(frozen=True, slots=True)
class _KeptEntry:
    """Name, location and digest of a kept genome, for comparison with later records."""

    name: str
    where: str
    circle_sha256: str


#: Reason for rejection and its details.
Fault: TypeAlias = tuple[GenomeReject, str]


class GenomeJudge:
    """Quality control of all records of a build, in order; rejects duplicates of records that were kept.

    Of the records with one name, the first that passes is kept; the same holds for records of one circular sequence,
    whatever their rotation or strand. A repeated entry is not an error, because collections overlap. A later record
    with a kept name is rejected even if its sequence differs, because other tables, such as those of heteroplasmy,
    refer to genomes by name. A rejected record does not reserve its name or sequence.

    Parameters
    ----------
    policy
        Limits that a genome must satisfy.
    """

    def __init__(self, policy: GenomeQcPolicy = DEFAULT_POLICY) -> None:
        self._policy = policy
        self._by_name: dict[str, _KeptEntry] = {}
        self._by_circle: dict[str, _KeptEntry] = {}

    def judge(self, record: GenomeRecord) -> KeptGenome | RejectedGenome:
        """Return the genome with its counts and digest if it is kept, or the reason why it is rejected."""
        fault = find_fault(record, self._policy)
        if fault is None:
            digest = hashlib.sha256(canonical_rotation(record.sequence).encode("ascii")).hexdigest()
            fault = self._find_duplicate(record, digest)
        if fault is not None:
            return RejectedGenome(record.name, record.file, record.number, *fault)
        self._by_name[record.name] = self._by_circle[digest] = _KeptEntry(record.name, record.where, digest)
        n_bases, ambiguous_bases = _count_ambiguous(record.sequence)
        return KeptGenome(record, n_bases, ambiguous_bases, digest)

    def _find_duplicate(self, record: GenomeRecord, digest: str) -> Fault | None:
        """Return a fault if a kept genome has the same name or the same circular sequence, else None."""
        if namesake := self._by_name.get(record.name):
            circle = "the same circle" if namesake.circle_sha256 == digest else "another sequence"
            return GenomeReject.DUPLICATE_NAME, f"{namesake.where} has the name; {circle}"
        if twin := self._by_circle.get(digest):
            return GenomeReject.DUPLICATE_SEQUENCE, f"same circle as {twin.name!r} ({twin.where})"
        return None


def find_fault(record: GenomeRecord, policy: GenomeQcPolicy = DEFAULT_POLICY) -> Fault | None:
    """Return the first fault of a record, without comparison with other records; None if it has none.

    The order of the checks is: readable, name, sequence present, alphabet, length, share of N, share of other ambiguity
    codes, repeat at the junction.
    """
    sequence = record.sequence
    if record.problem:
        return GenomeReject.UNREADABLE, record.problem
    if not record.name:
        return GenomeReject.NO_NAME, "the record has no name"
    if not sequence:
        return GenomeReject.NO_SEQUENCE, "the record has no base"
    if foreign := sequence.translate(_BASES):
        at = sequence.index(foreign[0]) + 1
        return GenomeReject.ALPHABET, f"{len(foreign):,} no IUPAC codes, the first {foreign[0]!r} at base {at:,}"
    return _find_sequence_fault(sequence, policy)


def _find_sequence_fault(sequence: str, policy: GenomeQcPolicy) -> Fault | None:
    """Return the first fault in length, composition or junction of a sequence of IUPAC codes; None if it has none."""
    length = len(sequence)
    if length < policy.min_length_bp:
        return GenomeReject.TOO_SHORT, f"{length:,} bp, expected at least {policy.min_length_bp:,}"
    if length > policy.max_length_bp:
        return GenomeReject.TOO_LONG, f"{length:,} bp, expected at most {policy.max_length_bp:,}"
    n_bases, ambiguous = _count_ambiguous(sequence)
    if n_bases > policy.max_n_fraction * length:
        return GenomeReject.TOO_MANY_N, f"{n_bases:,} N of {length:,} bp, expected at most {policy.max_n_fraction:.2%}"
    if ambiguous > policy.max_ambiguous_fraction * length:
        share = f"expected at most {policy.max_ambiguous_fraction:.2%}"
        return GenomeReject.TOO_MANY_AMBIGUOUS, f"{ambiguous:,} ambiguity codes of {length:,} bp, {share}"
    if repeat := junction_repeat_bp(sequence, policy.min_junction_repeat_bp):
        return GenomeReject.JUNCTION_REPEAT, f"the last {repeat:,} bp repeat the first"
    return None


def _count_ambiguous(sequence: str) -> tuple[int, int]:
    """Return the number of N, and of other ambiguity codes."""
    n_bases = sequence.count("N")
    return n_bases, len(sequence) - n_bases - sum(map(sequence.count, "ACGT"))


def junction_repeat_bp(sequence: str, min_repeat_bp: int) -> int:
    """Return the number of last bases that repeat the first ones; 0 if fewer than ``min_repeat_bp``.

    An assembler that does not know that a contig is circular writes the bases at which its ends overlap twice. A cut
    inside a tandem array gives such a repeat too, so a repeat that is an array of units of up to 10 bp returns 0. Two
    copies of a longer unit across the cut count as an overlap, because the two cases cannot be distinguished; the
    longest unit in rCRS has 9 bp. An overlap with a mismatch is not found.

    Examples
    --------
    >>> junction_repeat_bp("GATTACACCTGATTA", 5), junction_repeat_bp("CACACAGGTCACACA", 5)
    (5, 0)
    """
    head = sequence[:min_repeat_bp]
    start = sequence.find(head, 1)
    while start > 0:
        end = sequence[start:]
        if sequence.startswith(end):
            return 0 if _is_array(end) else len(end)
        start = sequence.find(head, start + 1)
    return 0


def _is_array(sequence: str) -> bool:
    """Return whether a sequence is a tandem array: a unit of up to 10 bp, repeated at least twice."""
    longest = min(_ARRAY_UNIT_BP, len(sequence) // 2)
    return any(sequence[unit:] == sequence[:-unit] for unit in range(1, longest + 1))
