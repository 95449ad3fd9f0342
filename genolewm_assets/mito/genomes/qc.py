"""Quality control of mitochondrial genomes: checks of each record alone, and removal of duplicates."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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

    Raises
    ------
    ConfigurationError
        If a value is out of range.
    """

    #: Shortest allowed sequence; the default allows large deletions, and rejects a control region alone.
    min_length_bp: int = 15_400
    #: Longest allowed sequence; the default allows duplications that occur in single families.
    max_length_bp: int = 17_700
    #: Largest allowed share of N, 0 to 1; the N at 3,107 of rCRS counts.
    max_n_fraction: float = 0.01
    #: Largest allowed share of the other ambiguity codes, 0 to 1. They have a limit of their own, because they state a
    #: heteroplasmy and not a gap.
    max_ambiguous_fraction: float = 0.01
    #: If at least this many last bases repeat the first ones, the record contains a part of the circle twice and is
    #: rejected.
    min_junction_repeat_bp: int = 20

    def __post_init__(self) -> None:
        for name in ("min_length_bp", "min_junction_repeat_bp"):
            if (value := getattr(self, name)) < 1:
                raise ConfigurationError(name, "out of range", expected="at least 1", got=f"{value}")
        if (least := self.min_length_bp) > self.max_length_bp:
            expected = f"at most max_length_bp ({self.max_length_bp})"
            raise ConfigurationError("min_length_bp", "no length is allowed", expected=expected, got=f"{least}")
        for name in ("max_n_fraction", "max_ambiguous_fraction"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ConfigurationError(name, "not a share", expected="0 to 1", got=f"{value}")


DEFAULT_POLICY = GenomeQcPolicy()


@dataclass(frozen=True, slots=True)
class KeptGenome:
    """A genome that passed quality control, with its number of N and of other ambiguity codes."""

    record: GenomeRecord
    n_bases: int
    ambiguous_bases: int
    #: SHA-256 of its canonical rotation, hex: the same for every cut and either strand.
    circle_sha256: str


@dataclass(frozen=True, slots=True)
class RejectedGenome:
    """A genome that is not used: name, file, record number (from 1), reason, and the details of the reason."""

    name: str
    file: str
    number: int
    reason: GenomeReject
    detail: str


#: Reason for rejection and its details.
Fault: TypeAlias = tuple[GenomeReject, str]


def judge_record(record: GenomeRecord, policy: GenomeQcPolicy = DEFAULT_POLICY) -> KeptGenome | RejectedGenome:
    """Return the genome of a record with its counts and digest, or the fault that the record has by itself."""
    if (fault := find_fault(record, policy)) is not None:
        return reject(record, fault)
    digest = hashlib.sha256(canonical_rotation(record.sequence).encode("ascii")).hexdigest()
    return KeptGenome(record, *_count_ambiguous(record.sequence), digest)


def reject(record: GenomeRecord, fault: Fault) -> RejectedGenome:
    """Return a record as rejected for a fault."""
    return RejectedGenome(record.name, record.file, record.number, *fault)


def find_duplicates(genomes: Sequence[tuple[GenomeRecord, str]]) -> dict[int, Fault]:
    """Return the faults of genomes that other genomes have the name or the circle of, by their numbers in the sequence.

    Records of one name with different circles or haplogroups are all rejected, because other tables refer to genomes by
    name. Of other records of one name and circle, one with a haplogroup is kept; of records of one circle, the first.
    """
    by_name: dict[str, list[int]] = defaultdict(list)
    for number, (record, _) in enumerate(genomes):
        by_name[record.name].append(number)
    faults: dict[int, Fault] = {}
    for namesakes in by_name.values():
        faults |= _find_namesakes({number: genomes[number] for number in namesakes})
    by_circle: dict[str, GenomeRecord] = {}
    for number, (record, circle) in enumerate(genomes):
        if number not in faults and (twin := by_circle.setdefault(circle, record)) is not record:
            detail = f"same circle as {twin.name!r} ({twin.where})"
            faults[number] = GenomeReject.DUPLICATE_SEQUENCE, detail
    return faults


def _find_namesakes(genomes: Mapping[int, tuple[GenomeRecord, str]]) -> dict[int, Fault]:
    """Return the faults of genomes that have one name: all if they differ, else all but one."""
    kept = next((number for number, (record, _) in genomes.items() if record.haplogroup), next(iter(genomes)))
    stated = sorted({record.haplogroup for record, _ in genomes.values() if record.haplogroup})
    if len({circle for _, circle in genomes.values()}) == 1 and len(stated) < 2:
        detail = f"{genomes[kept][0].where} has the name; the same circle"
        return {number: (GenomeReject.DUPLICATE_NAME, detail) for number in genomes if number != kept}
    found = {}
    for number, (record, circle) in genomes.items():
        other, differing = next(
            (each, "another sequence" if its != circle else "another haplogroup")
            for each, its in genomes.values()
            if its != circle or (each.haplogroup or record.haplogroup) != record.haplogroup
        )
        found[number] = GenomeReject.CONFLICTING_NAME, f"{other.where} has the name; {differing}"
    return found


def find_fault(record: GenomeRecord, policy: GenomeQcPolicy = DEFAULT_POLICY) -> Fault | None:
    """Return the first fault of a record, without comparison with other records; None if it has none."""
    return next(_faults(record, policy), None)


def _faults(record: GenomeRecord, policy: GenomeQcPolicy) -> Iterator[Fault]:
    """Yield the faults of a record; those behind the first may follow from it."""
    sequence, length = record.sequence, len(record.sequence)
    if record.problem:
        yield GenomeReject.UNREADABLE, record.problem
    if not record.name:
        yield GenomeReject.NO_NAME, "the record has no name"
    if not sequence:
        yield GenomeReject.NO_SEQUENCE, "the record has no base"
    if foreign := sequence.translate(_BASES):
        at = sequence.index(foreign[0]) + 1
        yield GenomeReject.ALPHABET, f"{len(foreign):,} no IUPAC codes, the first {foreign[0]!r} at base {at:,}"
    if length < policy.min_length_bp:
        yield GenomeReject.TOO_SHORT, f"{length:,} bp, expected at least {policy.min_length_bp:,}"
    if length > policy.max_length_bp:
        yield GenomeReject.TOO_LONG, f"{length:,} bp, expected at most {policy.max_length_bp:,}"
    n_bases, ambiguous = _count_ambiguous(sequence)
    if n_bases > policy.max_n_fraction * length:
        yield GenomeReject.TOO_MANY_N, f"{n_bases:,} N of {length:,} bp, expected at most {policy.max_n_fraction:.2%}"
    if ambiguous > policy.max_ambiguous_fraction * length:
        share = f"expected at most {policy.max_ambiguous_fraction:.2%}"
        yield GenomeReject.TOO_MANY_AMBIGUOUS, f"{ambiguous:,} ambiguity codes of {length:,} bp, {share}"
    if repeat := junction_repeat_bp(sequence, policy.min_junction_repeat_bp):
        yield GenomeReject.JUNCTION_REPEAT, f"the last {repeat:,} bp repeat the first"


def _count_ambiguous(sequence: str) -> tuple[int, int]:
    """Return the number of N, and of other ambiguity codes."""
    n_bases = sequence.count("N")
    return n_bases, len(sequence) - n_bases - sum(map(sequence.count, "ACGT"))


def junction_repeat_bp(sequence: str, min_repeat_bp: int) -> int:
    """Return the number of last bases that repeat the first ones; 0 if fewer than ``min_repeat_bp``.

    A repeat that is an array of units of up to 10 bp returns 0, because a cut inside a tandem array gives one too.

    >>> junction_repeat_bp("GATTACACCTGATTA", 5), junction_repeat_bp("CACACAGGTCACACA", 5)
    (5, 0)
    """
    head = sequence[:min_repeat_bp]
    start = sequence.find(head, 1)
    while start > 0:
        end = sequence[start:]
        if sequence.startswith(end):
            # A tandem array: a unit of up to 10 bp, repeated at least twice.
            longest = min(_ARRAY_UNIT_BP, len(end) // 2)
            return 0 if any(end[unit:] == end[:-unit] for unit in range(1, longest + 1)) else len(end)
        start = sequence.find(head, start + 1)
    return 0
