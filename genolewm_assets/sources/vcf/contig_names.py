"""Map the contig names of a source to contigs of the genome."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from genolewm_assets.errors import UnknownContigError, VcfError
from genolewm_assets.genome import GRCH38, Contig, ContigSet
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.variants import OTHER_CONTIG

# Names of the scaffolds, patches, alternates and decoys of GRCh38 in RefSeq, GenBank and UCSC.
_UNPLACED = re.compile(
    r"(N[TW]_\d{6,9}\.\d+|(GL|KI|KN|KQ|KV|KZ|ML|MU|GU|KB|KE|KF|KG|JH|JTFH|AC|AL)\d{5,9}([v.]\d+)?"
    r"|chr(\w+_)?[A-Z]{2,4}\d{5,9}v\d+(_random|_alt|_fix|_decoy)?|chrEBV|HLA-.+)"
)
# No contig of the assembly has a longer name. The limit bounds the time of matching patterns and of finding similar
# names.
_LONGEST_NAME = 100
#: Share of the records above which the contigs that a file has beside chromosomes are told, and how many names of them.
_FEW, _TOLD = 0.01, 5


@dataclass(frozen=True, slots=True)
class NamesState:
    """Names that were resolved, records divided, and records by name of contigs that are no chromosome."""

    known: tuple[str, ...]
    records: int
    others: tuple[tuple[str, int], ...]


class ContigNames:
    """Resolves contig names of a source to contigs of the genome; each name is looked up once.

    Records of a human chromosome that the genome lacks are those of a catalogue of fewer contigs. The others that no
    contig of the genome takes, such as those of scaffolds, are counted by name.
    """

    def __init__(self, contigs: ContigSet) -> None:
        self._contigs = contigs
        self._known: dict[str, Contig | None] = {}
        self._records, self._others = 0, Counter[str]()

    @property
    def state(self) -> NamesState:
        """What has been resolved and counted so far."""
        return NamesState(tuple(self._known), self._records, tuple(self._others.items()))

    def go_on(self, state: NamesState, where: str) -> None:
        """Begin with what an earlier reader of the same file had resolved and counted; raises as :meth:`resolve`."""
        for name in state.known:
            self.resolve(name, lambda _: where)
        self._records, self._others = state.records, Counter(dict(state.others))

    def other_contigs(self) -> dict[str, int]:
        """Return the records on contigs that are no chromosome, ``other_contig.<name>`` of the five commonest names.

        Empty if these are at most 1 % of the records of the blocks divided so far.
        """
        if self._others.total() <= _FEW * self._records:
            return {}
        return {f"{OTHER_CONTIG}{name}": n for name, n in self._others.most_common(_TOLD)}

    def check_met(self, wanted: Iterable[Contig], *, where: str) -> None:
        """Raise :class:`VcfError` unless at least one name resolved so far is a contig of ``wanted``."""
        names = [contig.name for contig in wanted]
        if not any(contig is not None and contig.name in names for contig in self._known.values()):
            raise VcfError(
                where,
                "no record is on a requested contig",
                expected=_first_names(names),
                got=_first_names(self._known),
                remedy="Check that this is the file for this genome or contig",
            )

    def divide(self, block: VcfBlock) -> Iterator[tuple[Contig | None, VcfBlock]]:
        """Yield the records of each contig of a block, in the order of the file, by the contig's first record.

        A contig has one block, however its name is spelled and whatever records are between its own. None stands for
        all contigs of the human assembly that this genome lacks. Raises as :meth:`resolve`, before the first contig is
        yielded.
        """
        spellings, codes = block.distinct_chroms()
        found = [
            self.resolve(name, lambda _, code=code: block.where(int(np.argmax(codes == code))))  # type: ignore[misc]
            for code, name in enumerate(spellings)
        ]
        self._records += len(block)
        for code, contig in enumerate(found):
            if contig is None and GRCH38.find(spellings[code]) is None:
                self._others[spellings[code][:_LONGEST_NAME]] += int(np.count_nonzero(codes == code))
        contigs = list(dict.fromkeys(found))
        if len(contigs) == 1:
            yield contigs[0], block
            return
        places = np.array([contigs.index(contig) for contig in found], np.int32)[codes]
        for place, contig in enumerate(contigs):
            yield contig, block.take(np.flatnonzero(places == place))

    def resolve(self, name: str, where: Callable[[int], str]) -> Contig | None:
        """Return the contig with a name; None for a contig of the human assembly that this genome lacks.

        Parameters
        ----------
        where
            Returns file and line of a row, such as ``VcfBlock.where``; called with row 0 only to raise an error.

        Raises
        ------
        UnknownContigError
            If the name is neither in the genome nor one of the human reference assembly, or is GRCh38's for a contig
            that this genome has with another sequence.
        """
        name = name[: _LONGEST_NAME + 1]
        if name not in self._known:
            self._known[name] = self._contigs.find(name) or self._absent(name, where)
        return self._known[name]

    def _absent(self, name: str, where: Callable[[int], str]) -> Contig | None:
        """Return None for a contig of the human assembly that this genome lacks; raise for any other name."""
        if not is_assembly_contig(name):
            return self._contigs.resolve(name, where=where(0))
        chromosome = GRCH38.find(name)
        meant = chromosome and self._contigs.find(chromosome.name)
        if meant:
            raise UnknownContigError(
                where(0),
                f"contig {name!r} is GRCh38's {meant.name}, which this genome has with another sequence",
                expected=f"{meant.name!r}, or an alias of it",
                got=repr(name),
                remedy="Take a file of this genome, or name the alias in the catalogue",
            )
        return None


def is_assembly_contig(name: str) -> bool:
    """Return whether a name is a contig of the human reference assembly: a chromosome, scaffold, patch or decoy."""
    if len(name) > _LONGEST_NAME:
        return False
    return _UNPLACED.fullmatch(name) is not None or GRCH38.find(name) is not None


def _first_names(names: Collection[str]) -> str:
    """Return at most six names, for a message."""
    return ", ".join(map(repr, sorted(names)[:6])) + (", ..." if len(names) > 6 else "")
