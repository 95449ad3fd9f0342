"""Human reference assemblies: the lengths of their chromosomes, and the names by which files refer to them.

Lengths are those of the assembly reports (NCBI36.3, GRCh37.p13, GRCh38.p14, T2T-CHM13v2.0). chrM has a length only in
the two assemblies that contain rCRS (NC_012920.1), GRCh37 and GRCh38.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from genolewm_assets.genome.contigs import GRCH38, Contig

#: Assembly that a genome with contigs of unknown lengths, such as a simulated one, is a miniature of.
USUAL_ASSEMBLY = "GRCh38"

_LENGTHS = {
    "NCBI36": "247249719 242951149 199501827 191273063 180857866 170899992 158821424 146274826 140273252 135374737 "
    "134452384 132349534 114142980 106368585 100338915 88827254 78774742 76117153 63811651 62435964 46944323 49691432 "
    "154913754 57772954",
    "GRCh37": "249250621 243199373 198022430 191154276 180915260 171115067 159138663 146364022 141213431 135534747 "
    "135006516 133851895 115169878 107349540 102531392 90354753 81195210 78077248 59128983 63025520 48129895 51304566 "
    "155270560 59373566 16569",
    "T2T-CHM13": "248387328 242696752 201105948 193574945 182045439 172126628 160567428 146259331 150617247 134758134 "
    "135127769 133324548 113566686 101161492 99753195 96330374 84276897 80542538 61707364 66210255 45090682 51324926 "
    "154259566 62460029",
}
#: Length in bp of each chromosome (``chr1``) by assembly.
ASSEMBLIES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        **{name: dict(zip(GRCH38.names, map(int, text.split()), strict=False)) for name, text in _LENGTHS.items()},
        "GRCh38": {contig.name: contig.length for contig in GRCH38},
    }
)
_CHROMOSOMES = {spelling: contig.name for contig in GRCH38 for spelling in (contig.name, *contig.aliases)}
# A name stands alone or between the separators of paths and file names; accessions are those of the assembly reports.
_NAMES = {
    "NCBI36": r"ncbi[ _]?(?:build[ _]?)?36|hg18|b36|hs36|assembly18|gcf_000001405\.12",
    "GRCh37": r"grch[ _]?37(?:\.?p[0-9]+)?|ncbi[ _]?(?:build[ _]?)?37|hg19|b37|hs37(?:d5)?|g1k_v37|assembly19"
    r"|gca_000001405\.(?:[1-9]|1[0-4])|gcf_000001405\.(?:1[3-9]|2[0-5])",
    "GRCh38": r"grch[ _]?38(?:\.?p[0-9]+)?|hg38|b38|hs38(?:dh|d1)?|assembly38"
    r"|gca_000001405\.(?:1[5-9]|[2-9][0-9])|gcf_000001405\.(?:2[6-9]|[3-9][0-9])",
    "T2T-CHM13": r"(?:t2t[-_ ]?)?chm13(?:[-_ ]?v?[0-9.]*)|hs1(?=\.(?:fa|fasta|2bit)\b|$)|gc[af]_009914755\.[0-9]+",
}
_PATTERNS = {
    name: re.compile(rf"(?<![a-z0-9])(?:{names})(?![a-z0-9])", re.IGNORECASE) for name, names in _NAMES.items()
}


def name_chromosome(spelling: str) -> str | None:
    """Return the canonical name of a human chromosome (``chr1`` for ``1``); None for any other contig."""
    return _CHROMOSOMES.get(spelling)


def find_assemblies(text: str) -> frozenset[str]:
    """Return the assemblies that a text names, such as a header line or the path of a FASTA.

    Examples
    --------
    >>> sorted(find_assemblies("file:///refs/Homo_sapiens_assembly19.fasta"))
    ['GRCh37']
    >>> sorted(find_assemblies("GRCh38 (lifted from b37)"))
    ['GRCh37', 'GRCh38']
    """
    return frozenset(name for name, pattern in _PATTERNS.items() if pattern.search(text))


def assemblies_of_length(chromosome: str, length: int) -> frozenset[str]:
    """Return the assemblies in which a chromosome, by its canonical name, has a length in bp."""
    return frozenset(name for name, lengths in ASSEMBLIES.items() if lengths.get(chromosome) == length)


def assemblies_of_genome(contigs: Iterable[Contig]) -> frozenset[str]:
    """Return the assemblies that a genome may be, by the lengths of its contigs; never empty.

    chrM alone does not tell GRCh37 from GRCh38, which are both returned then. A genome that shares no length with a
    known assembly is taken for :data:`USUAL_ASSEMBLY`.
    """
    lengths = {contig.name: contig.length for contig in contigs}
    nuclear = {name: length for name, length in lengths.items() if name != "chrM"} or lengths
    found = [assemblies_of_length(name, length) for name, length in nuclear.items()]
    votes = {name: sum(name in each for each in found) for name in ASSEMBLIES}
    most = max(votes.values())
    return frozenset(name for name, count in votes.items() if count == most) if most else frozenset({USUAL_ASSEMBLY})
