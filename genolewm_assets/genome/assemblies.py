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
# MD5 of the upper-case sequences of GRCh37, with both forms of chr3 and chrY that are in use; chrM is that of GRCh38.
_GRCH37_DIGESTS = """
1b22b98cdeb4a9304cb5d48026a85128 a0d9851da00400dec1098a9255ac712e fdfd811849cc2fadebc929bb925902e5
23dccd106897542ad87d2765d28a19a1 0740173db9ffd264d728f32784845cd7 1d3a93a248d92a729ee764823acbbc6b
618366e953d6aaad97dbe4777c29375e 96f514a9929e410c6651697bded59aec 3e273117f15e0a400f01055d9f393768
988c28e000e84c26d552359af1ea2e1d 98c59049a2df285c76ffb1c6db8f8b96 51851ac0e1a115847ad36449b0015864
283f8d7892baa81b510a015719ca7b0b 98f3cae32b2a2e9524bc19813927542e e5645a794a8238215b2cd77acb95a078
fc9b1a7b42b97a864f56b348b06095e6 351f64d4f4f9ddd45b35336ad97aa6de b15d4b2d29dde9d3e4f93d1d0f2cbc9c
1aacd71f30db8e561810913e0b72636d 0dec9660ec1efaaf33281c0d5ea2560f 2979a6085bfe28e3ad6f552f361ed74d
a718acaa6135fdca8357d5bfe94211dd 7e0e2e580297b7764e31dbc80c2540dd 1fa3474750af0948bdf97d5a0ee52e51
641e4338fa8d52a5b781bd2a2c08d3c3 1e86411d73e6f00a10590f976be01623
"""
_DIGESTS = dict.fromkeys(_GRCH37_DIGESTS.split(), "GRCh37") | {
    contig.md5: "GRCh38" for contig in GRCH38 if contig.md5 and contig.name != "chrM"
}
#: No path is longer; the limit bounds the time of matching patterns.
_LONGEST = 4_096
_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def _names_of(number: int, ucsc: int) -> str:
    """Return a pattern of the names that contain the number of a build, by NCBI or by UCSC, such as 37 and 19."""
    words = r"(?:ncbi[-_ ]?)?build|ncbi|grch|hg|hs|assembly|reference|genome"
    return (
        rf"(?:{words})[-_ =]*{number}(?![0-9])|(?:hg|assembly)[-_ =]*{ucsc}(?![0-9])"
        rf"|b{number}(?![a-z0-9])|(?:human[-_]?)?(?:g1k|1kg)[-_]?v{number}(?![0-9])"
    )


# A name begins behind a separator of paths and file names, or in one such as hg19ToHg38; accessions are those of the
# assembly reports.
_PATTERNS = {
    name: re.compile(rf"(?:(?<![a-z0-9])|(?<=to))(?:{names})", re.IGNORECASE)
    for name, names in {
        "NCBI36": rf"{_names_of(36, 18)}|gcf_000001405\.12(?![0-9])",
        "GRCh37": rf"{_names_of(37, 19)}|(?:gca_000001405\.(?:[1-9]|1[0-4])|gcf_000001405\.(?:1[3-9]|2[0-5]))(?![0-9])",
        "GRCh38": rf"{_names_of(38, 38)}|gca_000001405\.(?:1[5-9]|[2-9][0-9])|gcf_000001405\.(?:2[6-9]|[3-9][0-9])",
        "T2T-CHM13": r"(?:(?:t2t[-_ ]?)?chm13(?:[-_ ]?v?[0-9.]*)|gc[af]_009914755\.[0-9]+)(?![a-z0-9])"
        r"|hs1(?=\.(?:fa|fasta|2bit)\b|$)",
    }.items()
}


def name_chromosome(spelling: str) -> str | None:
    """Return the canonical name of a human chromosome (``chr1`` for ``1``); None for any other contig."""
    return _CHROMOSOMES.get(spelling)


def find_assemblies(text: str) -> frozenset[str]:
    """Return the assemblies that a text names, such as a header line, the path of a FASTA or the MD5 of a chromosome.

    Examples
    --------
    >>> sorted(find_assemblies("file:///refs/Homo_sapiens_assembly19.fasta"))
    ['GRCh37']
    >>> sorted(find_assemblies("GRCh38 (lifted from b37)"))
    ['GRCh37', 'GRCh38']
    """
    text = text[:_LONGEST]
    digests = {_DIGESTS[digest] for digest in _DIGEST.findall(text.lower()) if digest in _DIGESTS}
    return frozenset(name for name, pattern in _PATTERNS.items() if pattern.search(text)) | digests


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
