"""Variants in VCF terms and their normal form: trimmed, left-aligned, REF checked against the reference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from genolewm_assets.errors import AlleleError, IntervalError, ReferenceMismatchError
from genolewm_assets.genome.intervals import start_from_pos
from genolewm_assets.genome.sequence import Bases

# An ambiguity code in the reference is read as its alphabetically first base (VCF 4.3 section 1.6.1; GRCh38 chr3 has
# two such codes). N stays N.
_CONCRETE = bytes.maketrans(b"RYSWKMBDHV", b"ACCAGACAAA")


class EditType(StrEnum):
    """Type of change that an allele makes, after trimming; as string, the lower-case member name."""

    SNV = "snv"
    MNV = "mnv"
    INS = "ins"
    DEL = "del"
    DELINS = "delins"

    @classmethod
    def of(cls, ref: str, alt: str) -> EditType:
        """Classify a pair of upper-case alleles by the bases that remain after trimming.

        Returns
        -------
        EditType
            ``SNV`` or ``MNV`` for alleles of equal length; ``INS`` or ``DEL`` if the shorter allele is one base that
            the longer one starts or ends with; otherwise ``DELINS``.

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
    """One alternate allele of a VCF record.

    Parameters
    ----------
    pos
        1-based position of the first base of ``ref``.
    ref, alt
        Alleles over ACGT, never empty; converted to upper case. N is accepted in ``ref``, and in ``alt`` if ``ref`` has
        the same N (the anchor of an indel beside a gap of the reference).

    Raises
    ------
    AlleleError
        If an allele is empty, symbolic, missing (``.``) or ambiguous, or the alleles are equal.
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
        """Type of the change, after trimming."""
        return EditType.of(self.ref, self.alt)

    @property
    def is_snv(self) -> bool:
        """Whether the allele replaces a single base, after trimming."""
        return self.kind is EditType.SNV

    @property
    def is_indel(self) -> bool:
        """Whether ``ref`` and ``alt`` differ in length."""
        return len(self.ref) != len(self.alt)


def canonical_alleles(where: str, ref: str, alt: str) -> tuple[str, str]:
    """Validate a pair of alleles and return them in upper case."""
    ref, alt = ref.upper(), alt.upper()
    # str.strip returns an empty string exactly if every character is in the set.
    if not ref or ref.strip("ACGTN"):
        raise AlleleError(where, "ref is not a sequence", expected="letters of ACGTN", got=repr(ref))
    if not alt or (alt.strip("ACGT") and _without_shared_n(ref, alt).strip("ACGT")):
        raise AlleleError(where, "alt is not a sequence", expected="letters of ACGT", got=repr(alt))
    return ref, alt


def trim_alleles(pos: int, ref: str, alt: str) -> tuple[int, str, str]:
    """Return 1-based position, ref and alt without the bases that both share: right first, one base of each remains.

    Notes
    -----
    Both alleles are of the same case. Trimming right before left gives the left-most result possible within their own
    bases (Tan et al. 2015).
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
    """Trim alleles, then move an insertion or deletion to the left-most position that gives the same haplotype.

    Parameters
    ----------
    pos, ref, alt
        1-based position and upper-case alleles; ``ref`` equals the reference (this is not checked).
    reference
        The whole contig, upper-case ASCII.

    Returns
    -------
    tuple[int, str, str]
        1-based position, ref, alt. An indel keeps the base before it as anchor; at the start of the contig it keeps the
        base after it (VCF 4.3 section 1.6.1).

    Notes
    -----
    Time is proportional to the shift. The result is that of ``bcftools norm``.
    """
    pos, ref, alt = trim_alleles(pos, ref, alt)
    short, long = (ref, alt) if len(ref) < len(alt) else (alt, ref)
    # An insertion or deletion can move only if, after trimming, one allele is the last base of the other.
    if len(ref) == len(alt) or len(short) > 1 or long[-1] != short or pos == 1:
        return pos, ref, alt
    event = long[:-1]
    anchor = _roll_left(event.encode("ascii"), pos - 2, reference)
    turn = (pos - 2 - anchor) % len(event)
    event = event[len(event) - turn :] + event[: len(event) - turn]
    base = _bases(reference, anchor, anchor + 1)
    return (anchor + 1, base, base + event) if short == ref else (anchor + 1, base + event, base)


def normalise(variant: Variant, reference: Bases) -> Variant:
    """Return the normal form of a variant on a whole contig, upper-case ASCII, as ``bcftools norm`` does.

    Returns
    -------
    Variant
        The same object if it was in normal form. Its alleles have an N only inside or beside a gap of the reference.

    Raises
    ------
    ReferenceMismatchError, IntervalError
        If ``ref`` differs from the reference; if it reaches past the end of the contig.
    """
    start = variant.pos - 1
    end = start + len(variant.ref)
    if end > len(reference):
        raise IntervalError(
            f"{variant.chrom}:{variant.pos}",
            "ref allele reaches past the end of the contig",
            expected=f"an end of at most {len(reference)}",
            got=f"{end}",
        )
    bases = _bases(reference, start, end)
    if bases != variant.ref:
        raise ReferenceMismatchError(
            f"{variant.chrom}:{variant.pos}",
            "ref allele differs from the reference",
            expected=repr(bases),
            got=repr(variant.ref),
            remedy="Check that the file and the reference are of the same assembly",
        )
    pos, ref, alt = left_align(variant.pos, variant.ref, variant.alt, reference)
    if len(ref) == len(variant.ref) and pos == variant.pos:
        return variant
    return Variant(variant.chrom, pos, ref, alt)


def _without_shared_n(ref: str, alt: str) -> str:
    """Return alt without the bases that trimming removes and without one N that both alleles start or end with."""
    _, ref, alt = trim_alleles(1, ref, alt)
    if ref[0] == alt[0] == "N":
        return alt[1:]
    return alt[:-1] if ref[-1] == alt[-1] == "N" else alt


def _roll_left(event: bytes, anchor: int, reference: Bases) -> int:
    """Return the 0-based anchor, the base before an inserted or deleted sequence, moved left as far as possible."""
    size, first = len(event), anchor
    # If the base left of the event equals the event's last base, the event can start one base earlier. The first
    # `size` comparisons read the event, later ones the reference bases that the event has moved over.
    while anchor > 0:
        last = event[anchor - first - 1] if first - anchor < size else _CONCRETE[reference[anchor + size]]
        if _CONCRETE[reference[anchor]] != last:
            break
        anchor -= 1
    return anchor


def _bases(reference: Bases, start: int, end: int) -> str:
    return reference[start:end].translate(_CONCRETE).decode("ascii")
