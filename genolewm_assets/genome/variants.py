"""Variants in VCF terms, and their one normal form: trimmed, left-aligned, checked against the reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from genolewm_assets.errors import AlleleError, IntervalError, ReferenceMismatchError
from genolewm_assets.genome.intervals import Interval, start_from_pos
from genolewm_assets.genome.sequence import Bases

# An ambiguity code of the reference counts as its alphabetically first base (VCF 4.3 section 1.6.1; GRCh38 chr3 holds
# two). N stays N.
_CONCRETE = bytes.maketrans(b"RYSWKMBDHV", b"ACCAGACAAA")


class EditType(StrEnum):
    """What an allele does to the sequence, padding aside."""

    SNV = "snv"
    MNV = "mnv"
    INS = "ins"
    DEL = "del"
    DELINS = "delins"

    @classmethod
    def of(cls, ref: str, alt: str) -> EditType:
        """Classify a pair of upper-case alleles by what is left of them after trimming.

        Raises
        ------
        AlleleError
            If the alleles are equal.
        """
        _, ref, alt = trim_alleles(1, ref, alt)
        if ref == alt:
            raise AlleleError(f"{ref}>{alt}", "changes nothing")
        if len(ref) == len(alt):
            return cls.SNV if len(ref) == 1 else cls.MNV
        short, long, pure = (ref, alt, cls.INS) if len(ref) < len(alt) else (alt, ref, cls.DEL)
        return pure if len(short) == 1 and short in {long[0], long[-1]} else cls.DELINS


@dataclass(frozen=True, slots=True, order=True)
class Variant:
    """One alternate allele, as a VCF record writes it.

    Parameters
    ----------
    chrom
        Contig name.
    pos
        1-based position of the first base of ``ref``.
    ref, alt
        Alleles over ACGT, never empty; upper-cased here. N is accepted in ``ref``, and in ``alt`` where ``ref`` has it
        too (the anchor of an indel beside a gap).

    Raises
    ------
    AlleleError
        On an empty, symbolic, missing or ambiguous allele, or equal alleles.
    IntervalError
        If ``pos`` is under 1.
    """

    chrom: str
    pos: int
    ref: str
    alt: str

    def __post_init__(self) -> None:
        ref, alt = canonical_alleles(f"{self.chrom}:{self.pos}", self.ref, self.alt)
        start_from_pos(self.pos)
        if ref == alt:
            raise AlleleError(
                f"{self.chrom}:{self.pos}", "ref and alt are equal", expected="a change", got=f"{ref}>{alt}"
            )
        object.__setattr__(self, "ref", ref)
        object.__setattr__(self, "alt", alt)

    def __str__(self) -> str:
        return f"{self.chrom}:{self.pos}:{self.ref}>{self.alt}"

    @property
    def kind(self) -> EditType:
        """Type of the change, padding aside."""
        return EditType.of(self.ref, self.alt)

    @property
    def is_snv(self) -> bool:
        """Whether one base is replaced by another."""
        return self.kind is EditType.SNV

    @property
    def is_indel(self) -> bool:
        """Whether the sequence changes its length."""
        return len(self.ref) != len(self.alt)

    @property
    def interval(self) -> Interval:
        """Footprint of ``ref``, 0-based half-open."""
        return Interval.from_vcf(self.chrom, self.pos, self.ref)


def canonical_alleles(where: str, ref: str, alt: str) -> tuple[str, str]:
    """Return both alleles in upper case, or raise if one is not a sequence.

    Raises
    ------
    AlleleError
        If an allele is empty, ``ref`` holds anything but ACGTN, or ``alt`` anything but ACGT apart from an N
        that ``ref`` has too.
    """
    ref, alt = ref.upper(), alt.upper()
    # str.strip leaves nothing exactly when every character is in the set.
    if not ref or ref.strip("ACGTN"):
        raise AlleleError(where, "ref is not a sequence", expected="letters of ACGTN", got=repr(ref))
    if not alt or (alt.strip("ACGT") and _without_shared_n(ref, alt).strip("ACGT")):
        raise AlleleError(where, "alt is not a sequence", expected="letters of ACGT", got=repr(alt))
    return ref, alt


def trim_alleles(pos: int, ref: str, alt: str) -> tuple[int, str, str]:
    """Remove the bases that both alleles share, on the right first, keeping one base of each.

    Returns
    -------
    tuple[int, str, str]
        1-based position, ref, alt.

    Notes
    -----
    Right before left is what makes the result left-most within the alleles' own bases (Tan et al. 2015).
    """
    spare = min(len(ref), len(alt)) - 1
    tail = 0
    while tail < spare and ref[-1 - tail] == alt[-1 - tail]:
        tail += 1
    head = 0
    while head < spare - tail and ref[head] == alt[head]:
        head += 1
    return pos + head, ref[head : len(ref) - tail], alt[head : len(alt) - tail]


def left_align(pos: int, ref: str, alt: str, reference: Bases) -> tuple[int, str, str]:
    """Trim, then move an insertion or deletion to the left-most place that spells the same haplotype.

    Parameters
    ----------
    pos, ref, alt
        1-based position and upper-case alleles; ``ref`` agrees with the reference.
    reference
        The whole contig, upper-case ASCII.

    Returns
    -------
    tuple[int, str, str]
        1-based position, ref, alt; an indel keeps the base before it as anchor. At the contig's start, where there is
        none, the base after it stays (VCF 4.3 section 1.6.1).

    Notes
    -----
    Time is proportional to the shift. The same form as ``bcftools norm``.
    """
    pos, ref, alt = trim_alleles(pos, ref, alt)
    short, long = (ref, alt) if len(ref) < len(alt) else (alt, ref)
    # Only where the shorter allele is a suffix of the longer is there a pure insertion or deletion left to move.
    if len(ref) == len(alt) or len(short) > 1 or long[-1] != short or pos == 1:
        return pos, ref, alt
    event = long[:-1]
    anchor = _roll_left(event.encode("ascii"), pos - 2, reference)
    turn = (pos - 2 - anchor) % len(event)
    event = event[len(event) - turn :] + event[: len(event) - turn]
    base = _bases(reference, anchor, anchor + 1)
    return (anchor + 1, base, base + event) if short == ref else (anchor + 1, base + event, base)


def normalise(variant: Variant, reference: Bases) -> Variant:
    """Bring a variant into the normal form, as ``bcftools norm`` does.

    Parameters
    ----------
    reference
        The whole contig as upper-case ASCII.

    Returns
    -------
    Variant
        The same object where nothing had to change. Its alleles hold an N only beside or in a gap of the reference.

    Raises
    ------
    ReferenceMismatchError
        If ``ref`` differs from the reference.
    IntervalError
        If ``ref`` reaches beyond the contig.
    """
    start = variant.pos - 1
    end = start + len(variant.ref)
    if end > len(reference):
        raise IntervalError(
            f"{variant.chrom}:{variant.pos}",
            "ref allele reaches beyond the contig",
            expected=f"up to {len(reference)}",
            got=f"{end}",
        )
    bases = _bases(reference, start, end)
    if bases != variant.ref:
        raise ReferenceMismatchError(
            f"{variant.chrom}:{variant.pos}",
            "ref allele differs from the reference",
            expected=repr(bases),
            got=repr(variant.ref),
            remedy="Check that the file and the reference are of one assembly",
        )
    pos, ref, alt = left_align(variant.pos, variant.ref, variant.alt, reference)
    if len(ref) == len(variant.ref) and pos == variant.pos:
        return variant
    return Variant(variant.chrom, pos, ref, alt)


def decompose(pos: int, ref: str, alts: Iterable[str]) -> tuple[tuple[int, str, str], ...]:
    """Split a record into one (pos, ref, alt) per alternate allele, in the record's order, each trimmed.

    Alleles that are not sequences (``.``, ``*``, ``<DEL>``, breakends) come back as they are.
    """
    return tuple(
        (pos, ref, alt) if alt.upper().strip("ACGTN") else trim_alleles(pos, ref.upper(), alt.upper()) for alt in alts
    )


def _without_shared_n(ref: str, alt: str) -> str:
    """Return alt less what trimming removes and, on one side, an N that anchors both alleles."""
    _, ref, alt = trim_alleles(1, ref, alt)
    if ref[0] == alt[0] == "N":
        return alt[1:]
    return alt[:-1] if ref[-1] == alt[-1] == "N" else alt


def _roll_left(event: bytes, anchor: int, reference: Bases) -> int:
    """Return the 0-based anchor after moving an event that follows ``anchor`` as far left as it goes."""
    size, first = len(event), anchor
    # While the base left of the event equals the event's last base, the event may start one base earlier. The first
    # `size` comparisons read the event itself, later ones the reference bases that it has rolled over.
    while anchor > 0:
        last = event[anchor - first - 1] if first - anchor < size else _CONCRETE[reference[anchor + size]]
        if _CONCRETE[reference[anchor]] != last:
            break
        anchor -= 1
    return anchor


def _bases(reference: Bases, start: int, end: int) -> str:
    return reference[start:end].translate(_CONCRETE).decode("ascii")
