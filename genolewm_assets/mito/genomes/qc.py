"""Which mitochondrial genomes are fit to be used, judged one by one and against those before them.

Not here: reading them (``sources``), whether they align to the reference (``alignment``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.mito.genomes.records import GenomeRecord, GenomeReject
from genolewm_assets.mito.genomes.rotation import canonical_rotation

#: The IUPAC codes (NC-IUB 1984); U has become T where the record was read.
_ALPHABET = "ACGTRYSWKMBDHVN"
_BASES = str.maketrans("", "", _ALPHABET)
#: Longest unit of the tandem arrays that human mitochondrial DNA has (the 9 bp at 8,272, CA at 514, runs of C).
_ARRAY_UNIT_BP = 10


@dataclass(frozen=True, slots=True)
class GenomeQcPolicy:
    """What a genome must be.

    Parameters
    ----------
    min_length_bp, max_length_bp
        Both still allowed. The default leaves room for the large deletions and duplications of single families, and
        none for a control region alone.
    max_n_fraction
        Share of N that is still allowed; the N at 3,107 of rCRS is one.
    max_ambiguous_fraction
        The same of the other ambiguity codes, which state a heteroplasmy: counted apart, because they are findings and
        no gaps.
    min_junction_repeat_bp
        A record whose last bases repeat its first ones over so many or more holds a part of the circle twice.

    Raises
    ------
    ConfigurationError
        If a value is impossible.
    """

    min_length_bp: int = 15_400
    max_length_bp: int = 17_700
    max_n_fraction: float = 0.01
    max_ambiguous_fraction: float = 0.01
    min_junction_repeat_bp: int = 20

    def __post_init__(self) -> None:
        for name in ("min_length_bp", "min_junction_repeat_bp"):
            if (value := getattr(self, name)) < 1:
                raise ConfigurationError(name, "impossible", expected="at least 1", got=f"{value}")
        if self.min_length_bp > self.max_length_bp:
            expected = f"at most max_length_bp ({self.max_length_bp})"
            raise ConfigurationError(
                "min_length_bp", "no length is allowed", expected=expected, got=f"{self.min_length_bp}"
            )
        for name in ("max_n_fraction", "max_ambiguous_fraction"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ConfigurationError(name, "no share", expected="0 to 1", got=f"{value}")


DEFAULT_POLICY = GenomeQcPolicy()


@dataclass(frozen=True, slots=True)
class KeptGenome:
    """A genome that is fit to be used.

    Attributes
    ----------
    n_bases, ambiguous_bases
        How many of its bases are N, and how many another ambiguity code.
    circle_sha256
        SHA-256, in hex, of its canonical rotation: the same for every cut and either strand.
    """

    record: GenomeRecord
    n_bases: int
    ambiguous_bases: int
    circle_sha256: str


@dataclass(frozen=True, slots=True)
class RejectedGenome:
    """A genome that is not used: where it stands, why, and the figure or the other genome that decided it."""

    name: str
    file: str
    number: int
    reason: GenomeReject
    detail: str


@dataclass(frozen=True, slots=True)
class _Place:
    """What is remembered of a kept genome."""

    name: str
    where: str
    circle_sha256: str


#: A reason and its detail.
Fault: TypeAlias = tuple[GenomeReject, str]


class GenomeJudge:
    """Judges the records of one collection, one after another, and remembers those that it keeps.

    Of two records with the same name the first that is fit stays, and so it is of two that are the same circle, be it
    rotated or reverse-complemented: collections overlap, and one repeated entry shall not stop a build. A record that
    is rejected takes up neither its name nor its circle. A second genome under a kept name could not be told from the
    first where tables name genomes (as those of heteroplasmy do), so it goes too, even if its sequence differs.

    Parameters
    ----------
    policy
        What a genome must be.
    """

    def __init__(self, policy: GenomeQcPolicy = DEFAULT_POLICY) -> None:
        self._policy = policy
        self._by_name: dict[str, _Place] = {}
        self._by_circle: dict[str, _Place] = {}

    def judge(self, record: GenomeRecord) -> KeptGenome | RejectedGenome:
        """Return the genome as kept, or why it is not."""
        fault = find_fault(record, self._policy)
        if fault is None:
            digest = hashlib.sha256(canonical_rotation(record.sequence).encode("ascii")).hexdigest()
            fault = self._find_twin(record, digest)
        if fault is not None:
            return RejectedGenome(record.name, record.file, record.number, *fault)
        self._by_name[record.name] = self._by_circle[digest] = _Place(record.name, record.where, digest)
        n_bases, ambiguous_bases = _count_ambiguous(record.sequence)
        return KeptGenome(record, n_bases, ambiguous_bases, digest)

    def _find_twin(self, record: GenomeRecord, digest: str) -> Fault | None:
        if namesake := self._by_name.get(record.name):
            circle = "the same circle" if namesake.circle_sha256 == digest else "another sequence"
            return GenomeReject.DUPLICATE_NAME, f"{namesake.where} has the name; {circle}"
        if twin := self._by_circle.get(digest):
            return GenomeReject.DUPLICATE_SEQUENCE, f"same circle as {twin.name!r} ({twin.where})"
        return None


def find_fault(record: GenomeRecord, policy: GenomeQcPolicy = DEFAULT_POLICY) -> Fault | None:
    """Return the first reason, with its detail, why a record taken alone is not used; None if it is fit.

    The alphabet comes before the length, the length before the shares of it, and the junction last.
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
    return _find_misfit(sequence, policy)


def _find_misfit(sequence: str, policy: GenomeQcPolicy) -> Fault | None:
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
    """Return how many bases are N, and how many another ambiguity code."""
    n_bases = sequence.count("N")
    return n_bases, len(sequence) - n_bases - sum(map(sequence.count, "ACGT"))


def junction_repeat_bp(sequence: str, min_repeat_bp: int) -> int:
    """Return how many of the last bases repeat the first ones; 0 if fewer than ``min_repeat_bp``.

    An assembler that does not know that a contig is circular writes the bases where its ends overlap twice. The
    circle can have such a repeat itself where it was cut inside a tandem array: so a repeat that is an array of units
    of up to 10 bp is not counted. A longer unit twice over the cut cannot be told from an overlap and counts as one;
    the longest that rCRS has anywhere is of 9 bp. An overlap in which the ends differ is not found.

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
    """Tell whether a sequence repeats a unit of up to 10 bp, at least twice."""
    longest = min(_ARRAY_UNIT_BP, len(sequence) // 2)
    return any(sequence[unit:] == sequence[:-unit] for unit in range(1, longest + 1))
