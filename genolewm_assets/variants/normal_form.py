"""Normal form of a single allele: REF compared with the reference, trimmed, left-aligned; or a reason for rejection.

Not here: whole columns (:mod:`.settle`) and the sequence arithmetic (``genome``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from genolewm_assets.errors import ReferenceMismatchError
from genolewm_assets.genome import Bases, Contig, Variant, normalise, trim_alleles
from genolewm_assets.variants.schema import RejectReason

#: Longest REF or ALT accepted: ClinVar's VCF holds variants shorter than 10 kb.
MAX_ALLELE_BP = 10_000

_BASES = frozenset("ACGT")
_IUPAC = frozenset("ACGTRYSWKMBDHVN")


class NormalAllele(NamedTuple):
    """An allele in normal form: trimmed, left-aligned, upper-case ACGT; ``pos`` is 1-based."""

    pos: int
    ref: str
    alt: str


class Rejection(NamedTuple):
    """Why an allele was rejected: a reason of the closed set, and a detail if the reason alone is not enough."""

    reason: RejectReason
    detail: str | None = None


class AlleleNormaliser:
    """Normalises alleles one at a time.

    Parameters
    ----------
    reference
        Returns a contig as upper-case ASCII. None: alleles are trimmed but not left-aligned, and REF is not checked.
    max_allele_bp
        Longest REF or ALT accepted, in bp.
    """

    def __init__(self, reference: Callable[[Contig], Bases] | None, *, max_allele_bp: int = MAX_ALLELE_BP) -> None:
        self._reference = reference
        self.max_allele_bp = max_allele_bp
        self._contig: Contig | None = None
        self._bases: Bases = b""

    def bases(self, contig: Contig) -> Bases | None:
        """Return the bases of a contig, or None without a reference; the last contig returned stays in memory."""
        if self._reference is None:
            return None
        if self._contig != contig:
            # Release the old contig before the next one is read: two chromosomes take half a gigabyte.
            self._bases, self._contig = b"", None
            self._bases, self._contig = self._reference(contig), contig
        return self._bases

    def normalise(self, contig: Contig, pos: int, ref: str, alt: str) -> NormalAllele | Rejection:
        """Return the normal form of a REF and an ALT, in either case, at a 1-based position, or why it is rejected."""
        ref, alt = ref.upper(), alt.upper()
        problem = self._problem(contig, pos, ref, alt)
        if problem is not None:
            return problem
        bases = self.bases(contig)
        if bases is None:
            return NormalAllele(*trim_alleles(pos, ref, alt))
        try:
            variant = normalise(Variant(contig.name, pos, ref, alt), bases)
        except ReferenceMismatchError:
            stated = bases[pos - 1 : pos - 1 + len(ref)][:40].decode("ascii", "replace")
            return Rejection(RejectReason.REF_MISMATCH, f"the reference has {stated}")
        allele = NormalAllele(variant.pos, variant.ref, variant.alt)
        if _BASES.issuperset(allele.ref) and _BASES.issuperset(allele.alt):
            return allele
        return Rejection(RejectReason.REF_NOT_ACGT, f"the normal form is {allele.pos}:{allele.ref}:{allele.alt}"[:120])

    def _problem(self, contig: Contig, pos: int, ref: str, alt: str) -> Rejection | None:
        reason = alt_problem(alt)
        if reason is not None:
            return Rejection(reason)
        if len(ref) > self.max_allele_bp or len(alt) > self.max_allele_bp:
            longest = max(len(ref), len(alt))
            return Rejection(RejectReason.TOO_LONG, f"{longest} bp; the limit is {self.max_allele_bp} bp")
        if not ref or not _BASES.issuperset(ref):
            return Rejection(RejectReason.REF_NOT_ACGT)
        if ref == alt:
            return Rejection(RejectReason.NO_CHANGE)
        if not 1 <= pos <= contig.length - len(ref) + 1:
            return Rejection(RejectReason.OUT_OF_RANGE, f"{contig.name} has {contig.length} bp")
        return None


def alt_problem(alt: str) -> RejectReason | None:
    """Return the reason to reject an upper-case ALT, or None if it is a sequence of ACGT (VCF 4.3, §1.6.1 and §5)."""
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
