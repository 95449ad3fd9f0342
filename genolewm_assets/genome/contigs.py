"""Contigs: names, lengths, topology, digests, and the mapping from aliases to canonical names."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from genolewm_assets.errors import ConfigurationError, UnknownContigError

_MD5 = re.compile(r"[0-9a-f]{32}")
# What names of one contig differ by: ``chromosome_13``, ``Chr13``, ``13`` and ``chr13.fa``.
_BARE = re.compile(r"(?:chromosome|chrom|chr)?[ _.:-]*0*(.+?)(?:\.fa(?:sta)?)?", re.IGNORECASE | re.DOTALL)
#: Least similarity (``difflib``) of a name that resembles another one.
_RESEMBLES = 0.75


@dataclass(frozen=True, slots=True)
class Contig:
    """A reference sequence.

    Parameters
    ----------
    name, aliases
        Canonical name, such as ``chr21``, and other names of this contig.
    length
        Length in bases, at least 1.
    circular
        Whether the contig is circular; a window on a circular contig may wrap around the origin.
    md5
        MD5 of the upper-case sequence (``M5`` in a SAM sequence dictionary), 32 lower-case hex digits. None: unknown; a
        sequence is then not compared with it.

    Raises
    ------
    ConfigurationError
        If a name or alias is empty or contains white space, the length is under 1, or the MD5 is malformed.
    """

    name: str
    length: int
    circular: bool = False
    md5: str | None = None
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for spelling in (self.name, *self.aliases):
            if not spelling or spelling.split() != [spelling]:
                raise ConfigurationError(
                    f"contig {self.name!r}",
                    "not a contig name",
                    expected="text without white space",
                    got=repr(spelling),
                )
        if self.length < 1:
            raise ConfigurationError(
                f"contig {self.name!r}", "impossible length", expected="at least 1 bp", got=f"{self.length}"
            )
        if self.md5 is not None and not _MD5.fullmatch(self.md5):
            raise ConfigurationError(
                f"contig {self.name!r}", "malformed MD5", expected="32 lower-case hex digits", got=repr(self.md5)
            )


class ContigSet:
    """The contigs of one genome, in the order given.

    :meth:`resolve` matches names and aliases exactly first, then ignoring case if the match is unambiguous (``CHR21``,
    ``mt``). Indexing takes canonical names only.

    Raises
    ------
    ConfigurationError
        If two contigs share a name or an alias.

    Examples
    --------
    >>> GRCH38.resolve("NC_000021.9").name
    'chr21'
    """

    def __init__(self, contigs: Iterable[Contig]) -> None:
        self._contigs: dict[str, Contig] = {}
        self._spellings: dict[str, Contig] = {}
        for contig in contigs:
            for spelling in dict.fromkeys((contig.name, *contig.aliases)):
                if (other := self._spellings.get(spelling)) is not None:
                    raise ConfigurationError(
                        f"contig {contig.name!r}",
                        f"name or alias {spelling!r} already belongs to {other.name!r}",
                        remedy="Names and aliases must be unique in a genome",
                    )
                self._spellings[spelling] = contig
            self._contigs[contig.name] = contig
        folds = Counter(fold for fold, _ in {(s.casefold(), c.name) for s, c in self._spellings.items()})
        self._folded = {s.casefold(): c for s, c in self._spellings.items() if folds[s.casefold()] == 1}

    def __iter__(self) -> Iterator[Contig]:
        return iter(self._contigs.values())

    def __len__(self) -> int:
        return len(self._contigs)

    def __contains__(self, name: object) -> bool:
        return name in self._contigs

    def __getitem__(self, name: str) -> Contig:
        """Return the contig with this canonical name; an unknown name raises :class:`UnknownContigError`."""
        try:
            return self._contigs[name]
        except KeyError:
            raise self._unknown(name, self.names) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContigSet) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"ContigSet({list(self)!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names in order."""
        return tuple(self._contigs)

    @property
    def linear(self) -> tuple[Contig, ...]:
        """The contigs that are not circular, in order."""
        return tuple(contig for contig in self if not contig.circular)

    def find(self, name: str) -> Contig | None:
        """Return the contig with this canonical name or alias, or None."""
        return self._spellings.get(name) or self._folded.get(name.casefold())

    def resolve(self, name: str, *, where: str = "") -> Contig:
        """Return the contig with this canonical name or alias.

        Parameters
        ----------
        where
            File and line of the name, for the error.

        Raises
        ------
        UnknownContigError
            If no contig matches; the message lists similar names.
        """
        contig = self.find(name)
        if contig is None:
            raise self._unknown(name, tuple(self._spellings), where)
        return contig

    def _unknown(self, name: str, known: tuple[str, ...], where: str = "") -> UnknownContigError:
        near = difflib.get_close_matches(name, known, n=3)
        bare = {_bare(spelling): contig.name for spelling, contig in self._spellings.items()}
        alike = difflib.get_close_matches(name, self._spellings, n=1, cutoff=_RESEMBLES)
        meant = bare.get(_bare(name)) or (self._spellings[alike[0]].name if alike else None)
        remedy = "Add the contig or an alias to the catalogue, or correct the name"
        if meant is not None:
            remedy = f"It resembles {meant!r}: if that is meant, add it under the contig's aliases in the catalogue"
            near = [meant, *(each for each in near if each != meant)]
        return UnknownContigError(
            where or f"contig {name!r}",
            "not a contig of this genome",
            expected=", ".join(map(repr, near or self.names)),
            got=repr(name),
            remedy=remedy,
        )


def _bare(name: str) -> str:
    """Return a name without what says that it is a chromosome, in lower case."""
    found = _BARE.fullmatch(name)
    return name if found is None else found[1].casefold()


def standard_aliases(name: str) -> tuple[str, ...]:
    """Return the usual aliases of a contig name: with and without ``chr``, and the four names of the mitochondrion."""
    bare = name.removeprefix("chr")
    spellings = ("chrM", "M", "MT", "chrMT") if bare in {"M", "MT"} else (f"chr{bare}", bare)
    return tuple(spelling for spelling in spellings if spelling != name)


def genome_digest(contigs: Iterable[Contig]) -> str:
    """Compute the identity of a genome: SHA-256, hex, of its lines ``name<TAB>length<TAB>md5<LF>``, sorted by name.

    Raises
    ------
    ConfigurationError
        If a contig has no MD5.
    """
    lines = []
    for contig in sorted(contigs, key=lambda c: c.name):
        if contig.md5 is None:
            raise ConfigurationError(
                f"contig {contig.name!r}", "has no MD5", remedy="Add the MD5: it is part of the genome's identity"
            )
        lines.append(f"{contig.name}\t{contig.length}\t{contig.md5}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


# Columns: name, length, RefSeq accession, GenBank accession, M5. Lengths and accessions: NCBI assembly report of
# GCF_000001405.26. M5: sequence dictionary of the GRCh38 analysis sets (the no-alt and full sets agree on these
# contigs), in which the pseudo-autosomal regions of chrY are masked with N.
_GRCH38 = """
chr1  248956422 NC_000001.11 CM000663.2 6aef897c3d6ff0c78aff06ac189178dd
chr2  242193529 NC_000002.12 CM000664.2 f98db672eb0993dcfdabafe2a882905c
chr3  198295559 NC_000003.12 CM000665.2 76635a41ea913a405ded820447d067b0
chr4  190214555 NC_000004.12 CM000666.2 3210fecf1eb92d5489da4346b3fddc6e
chr5  181538259 NC_000005.10 CM000667.2 a811b3dc9fe66af729dc0dddf7fa4f13
chr6  170805979 NC_000006.12 CM000668.2 5691468a67c7e7a7b5f2a3a683792c29
chr7  159345973 NC_000007.14 CM000669.2 cc044cc2256a1141212660fb07b6171e
chr8  145138636 NC_000008.11 CM000670.2 c67955b5f7815a9a1edfaa15893d3616
chr9  138394717 NC_000009.12 CM000671.2 6c198acf68b5af7b9d676dfdd531b5de
chr10 133797422 NC_000010.11 CM000672.2 c0eeee7acfdaf31b770a509bdaa6e51a
chr11 135086622 NC_000011.10 CM000673.2 1511375dc2dd1b633af8cf439ae90cec
chr12 133275309 NC_000012.12 CM000674.2 96e414eace405d8c27a6d35ba19df56f
chr13 114364328 NC_000013.11 CM000675.2 a5437debe2ef9c9ef8f3ea2874ae1d82
chr14 107043718 NC_000014.9  CM000676.2 e0f0eecc3bcab6178c62b6211565c807
chr15 101991189 NC_000015.10 CM000677.2 f036bd11158407596ca6bf3581454706
chr16 90338345  NC_000016.10 CM000678.2 db2d37c8b7d019caaf2dd64ba3a6f33a
chr17 83257441  NC_000017.11 CM000679.2 f9a0fb01553adb183568e3eb9d8626db
chr18 80373285  NC_000018.10 CM000680.2 11eeaa801f6b0e2e36a1138616b8ee9a
chr19 58617616  NC_000019.10 CM000681.2 85f9f4fc152c58cb7913c06d6b98573a
chr20 64444167  NC_000020.11 CM000682.2 b18e6c531b0bd70e949a7fc20859cb01
chr21 46709983  NC_000021.9  CM000683.2 974dc7aec0b755b19f031418fdedf293
chr22 50818468  NC_000022.11 CM000684.2 ac37ec46683600f808cdd41eac1d55cd
chrX  156040895 NC_000023.11 CM000685.2 2b3a55ff7f58eb308420c8a9b11cac50
chrY  57227415  NC_000024.10 CM000686.2 ce3e31103314a704255f3cd90369ecce
chrM  16569     NC_012920.1  J01415.2   c68f52674c9fb33aef52dcf399755519
"""


#: GRCh38: chr1-22, X and Y of the no-alt analysis set, and chrM (rCRS), the only circular contig.
GRCH38 = ContigSet(
    Contig(name, int(length), name == "chrM", md5, (*standard_aliases(name), refseq, genbank))
    for name, length, refseq, genbank, md5 in map(str.split, _GRCH38.strip().splitlines())
)


def known_aliases(name: str, length: int) -> tuple[str, ...]:
    """Return the usual aliases of a contig and, if it has the length of GRCh38's, all names of that.

    Examples
    --------
    >>> known_aliases("chr21", 46_709_983)
    ('21', 'NC_000021.9', 'CM000683.2')
    >>> known_aliases("chr21", 3_400_000), known_aliases("chrM", 16_000)
    (('21',), ('M', 'MT', 'chrMT'))
    """
    named = (contig for contig in GRCH38 if contig.length == length and name in (contig.name, *contig.aliases))
    same = next(named, None)
    if same is None:
        return standard_aliases(name)
    return tuple(spelling for spelling in (same.name, *same.aliases) if spelling != name)
