"""Population variants of chrM in the layout of gnomAD v3.1, with counts of homoplasmic and heteroplasmic carriers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import Variant, normalise
from genolewm_assets.sample.alleles.gnomad_vcf import Field, Layout, gnomad_text, texts
from genolewm_assets.sample.alleles.population import spectrum
from genolewm_assets.sample.alleles.spelling import Record, pad
from genolewm_assets.sample.genome import UNKNOWN, Draws, SimulatedContig

I64 = NDArray[np.int64]
_SAMPLES = 56_434
_N_SITES = 2_400
_INDEL_SHARE = 0.05
_KEY = 25
_FILTERS = ("PASS", "npg", "artifact_prone_site", "indel_stack", "artifact_prone_site;npg")
_FILTER_WEIGHTS = (620, 340, 15, 15, 10)
_LAYOUT = Layout(
    "",
    "",
    "the layout of gnomAD v3.1 chrM",
    (
        ("artifact_prone_site", "Variant overlaps a site that is prone to artefacts"),
        ("indel_stack", "Every sample with the allele has two or more indels at the position"),
        ("npg", "No sample passes the genotype filters"),
        ("PASS", "Passed all variant filters"),
    ),
)


def simulate_mito_sites(contig: SimulatedContig) -> tuple[Variant, ...]:
    """Return the alleles of chrM, sorted and unique: 95 % substitutions, mostly transitions, and 5 % indels."""
    draws = Draws(_KEY, 10)
    clear = np.convolve(contig.codes == UNKNOWN, np.ones(41, dtype=np.int64), mode="same") == 0
    clear[:20] = clear[-20:] = False
    places = np.flatnonzero(clear)
    at = places[draws.below(places.size, _N_SITES)]
    change = np.where(draws.uniform(at.size) < 0.9, 2, 1 + 2 * draws.below(2, at.size))
    indel = draws.uniform(at.size) < _INDEL_SHARE
    shape = draws.below(4, at.size)
    sequence = contig.sequence
    text = sequence.decode("ascii")
    found: dict[tuple[int, str, str], Variant] = {}
    for i, start in enumerate(at.tolist()):
        anchor, following = text[start], text[start + 1 : start + 2 + int(shape[i]) // 2]
        if not indel[i]:
            ref, alt = anchor, "ACGT"[int(contig.codes[start]) ^ int(change[i])]
        else:
            ref, alt = (anchor + following, anchor) if shape[i] % 2 else (anchor, anchor + following)
        allele = Variant(contig.name, start + 1, ref, alt)
        if indel[i]:
            allele = normalise(allele, sequence)
        found[allele.pos, allele.ref, allele.alt] = allele
    return tuple(found[k] for k in sorted(found))


def mito_vcf(contig: SimulatedContig, sites: Sequence[Variant]) -> bytes:
    """Return the text of the gnomAD-style VCF of chrM, including the irregular records."""
    n = len(sites)
    draws = Draws(_KEY, 20)
    filters = [_FILTERS[k] for k in draws.choose(_FILTER_WEIGHTS, n).tolist()]
    seen = np.array(["npg" not in f for f in filters])
    common = draws.uniform(n) < 0.08
    copies = np.where(common, 564 + spectrum(564, 50_000, n, draws), spectrum(1, 560, n, draws))
    ac_hom = np.where(seen, copies, 0)
    ac_het = np.where(seen, spectrum(1, 80, n, draws), 0)
    an = _SAMPLES - draws.choose([50, 25, 12, 6, 3], n)
    level = np.where(ac_hom > 0, 0.95 + 0.05 * draws.uniform(n), 0.1 + 0.85 * draws.uniform(n))
    max_hl = np.where(ac_hom + ac_het > 0, level, 0.0)
    fields = _fields(ac_hom, ac_het, an, max_hl)
    records = [Record(a.pos, a.ref, (a.alt,), (i,)) for i, a in enumerate(sites)]
    records += _plant(contig, sites, filters)
    records.sort(key=lambda r: (r.pos, r.ref, r.alts))
    return gnomad_text(contig, _LAYOUT, records, filters, fields)


def _fields(ac_hom: I64, ac_het: I64, an: I64, max_hl: NDArray[np.float64]) -> list[Field]:
    return [
        Field("AN", "1", "Integer", "Samples with a call", texts("%d", an)),
        Field("AC_hom", "1", "Integer", "Samples with a heteroplasmy level >= 0.95", texts("%d", ac_hom)),
        Field("AC_het", "1", "Integer", "Samples with a level >= 0.10 and < 0.95", texts("%d", ac_het)),
        Field("AF_hom", "1", "Float", "AC_hom / AN", texts("%.5e", ac_hom / an)),
        Field("AF_het", "1", "Float", "AC_het / AN", texts("%.5e", ac_het / an)),
        Field("max_hl", "1", "Float", "Highest heteroplasmy level among all samples", texts("%.5e", max_hl)),
    ]


def _plant(contig: SimulatedContig, sites: Sequence[Variant], filters: list[str]) -> list[Record]:
    """Return records that no shard may contain: a wrong REF, a copy in another spelling, a deletion of the N."""
    passing = [i for i, a in enumerate(sites) if a.is_snv and filters[i] == "PASS"]
    text = contig.sequence.decode("ascii")
    wrong_at, copied_at = passing[len(passing) // 3], passing[len(passing) // 2]
    wrong, copied = sites[wrong_at], pad(sites[copied_at], text, 2, 3)
    base = next(b for b in "ACGT" if b not in (wrong.ref, wrong.alt))
    unknown = int(np.flatnonzero(contig.codes == UNKNOWN)[0])
    deleted = text[unknown - 1 : unknown + 1]
    return [
        Record(wrong.pos, base, (wrong.alt,), (wrong_at,)),
        Record(copied.pos, copied.ref, (copied.alt,), (copied_at,)),
        Record(unknown, deleted, (deleted[0],), (wrong_at,)),
    ]
