"""Taxa that are not human, and whether a text states one of them: names, NCBI taxonomy ids and lineages.

A missing taxon costs alignments and, in doubt, training windows; a wrong one could cost a leak: the list is short.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType

#: NCBI taxonomy ids by scientific name (NCBI Taxonomy, https://www.ncbi.nlm.nih.gov/taxonomy): domains and kingdoms
#: without animals, two virus taxa that lineages of phages begin with, and genera of model organisms. No ancestor of
#: *Homo sapiens* (Eukaryota, Metazoa, Mammalia, ...) and no primate.
NON_HUMAN_TAXA = MappingProxyType({
    "Bacteria": 2, "Archaea": 2157, "Viruses": 10239, "Duplodnaviria": 2731341, "Caudoviricetes": 2731619,
    "Fungi": 4751, "Viridiplantae": 33090, "Escherichia": 561, "Klebsiella": 570, "Saccharomyces": 4930,
    "Schizosaccharomyces": 4895, "Neurospora": 5140, "Arabidopsis": 3701, "Oryza": 4527, "Zea": 4575,
    "Chlamydomonas": 3052, "Dictyostelium": 5782, "Plasmodium": 5820, "Caenorhabditis": 6237,
    "Drosophila": 7215, "Danio": 7954, "Xenopus": 8353, "Gallus": 9030, "Mus": 10088, "Rattus": 10114,
})  # fmt: skip

#: NCBI taxonomy ids of species of these genera, which texts state more often than the id of the genus.
NON_HUMAN_SPECIES = MappingProxyType({
    "Escherichia coli": 562, "Klebsiella pneumoniae": 573, "Saccharomyces cerevisiae": 4932,
    "Schizosaccharomyces pombe": 4896, "Neurospora crassa": 5141, "Arabidopsis thaliana": 3702,
    "Oryza sativa": 4530, "Zea mays": 4577, "Chlamydomonas reinhardtii": 3055,
    "Dictyostelium discoideum": 44689, "Plasmodium falciparum": 5833, "Caenorhabditis elegans": 6239,
    "Drosophila melanogaster": 7227, "Danio rerio": 7955, "Xenopus laevis": 8355, "Xenopus tropicalis": 8364,
    "Gallus gallus": 9031, "Mus musculus": 10090, "Rattus norvegicus": 10116,
})  # fmt: skip

_NAMES = frozenset(name.casefold() for name in NON_HUMAN_TAXA)
_IDS = frozenset(map(str, (*NON_HUMAN_TAXA.values(), *NON_HUMAN_SPECIES.values())))
#: Words with which no text exempts a record, whatever else it states: human taxa, and organisms with foreign sequence.
_DOUBT = re.compile(
    r"\b(?:homo|homin\w*|humans?|sapiens|9604|9605|9606|synthetic|transgenic|hybrid|chimer\w*|xenograft)\b"
)
#: Rank of an element of a lineage, as Greengenes, GTDB and Evo 2 write it: ``d__Bacteria``, ``sk__Bacteria``.
_RANK = re.compile(r"^[a-z]{1,2}__")
_TAXID = re.compile(r"^(?:ncbi)?[ :]*(?:tax(?:on|id)?|txid)?[ :]*(\d+)$")
_LINEAGE = re.compile(r"[;|]")


# Records of one organism follow one another.
@lru_cache(1024)
def states_non_human(stated: str) -> bool:
    """Tell whether a text states a taxon of the list, and no word that is in doubt (``Homo``, ``synthetic``, ...).

    The text is a name (``mus_musculus C57BL/6``), an NCBI taxonomy id (``10090``, ``NCBI:txid10090``) or a lineage with
    ``;`` or ``|`` between its elements, with or without ranks (``d__Bacteria``). A genus stands for its species.
    """
    elements = [_plain(element) for element in _LINEAGE.split(stated.casefold())]
    if any(_DOUBT.search(element) for element in elements):
        return False
    return any(_is_listed(element) for element in elements)


def _plain(element: str) -> str:
    """Return an element of a lineage without its rank, its words separated by one space."""
    return " ".join(_RANK.sub("", element.strip()).replace("_", " ").split())


def _is_listed(element: str) -> bool:
    if number := _TAXID.match(element):
        return number[1] in _IDS
    return element.partition(" ")[0] in _NAMES
