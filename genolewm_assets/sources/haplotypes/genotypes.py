"""Read from a VCF which haplotypes carry the common alleles of a contig.

A haplotype is one of the two copies of a sample. The genotype of a haploid call, such as ``1``, belongs to the first.
All genotypes of a contig count as one phase: files with phase sets (``PS``) are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import Bases, Contig, ContigSet
from genolewm_assets.holdouts import PhasedGenotypes
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.vcf import ContigNames, LocalVcf, VcfBlock, VcfScanner, check_assembly
from genolewm_assets.variants import ALLELE_KEY, AlleleNormaliser, NormalAllele

#: Columns of ``VcfBlock.column``: REF and ALT.
_REF, _ALT = 3, 4
_COPIES = 2
#: Width of a genotype such as ``0|1`` with the tab after it.
_WIDTH = 4
_REMEDY = "Use a file of statistically phased genotypes, such as those of the 1000 Genomes Project"


@dataclass(frozen=True, slots=True)
class _WantedAlleles:
    """The wanted alleles of a contig by normal form, with their rows; counts what it is asked for."""

    contig: Contig
    rows: Mapping[tuple[int, str, str], int]
    normaliser: AlleleNormaliser
    counts: Counter[str]

    def find(self, block: VcfBlock, record: int) -> list[tuple[int, int]]:
        """Return the wanted alleles of a record: number in GT, from 1, and row; count the others by reason."""
        ref, alts = (block.piece(block.column(column), record) for column in (_REF, _ALT))
        found: list[tuple[int, int]] = []
        for index, alt in enumerate(alts.split(","), start=1):
            self.counts["alleles_in"] += 1
            allele = self.normaliser.normalise(self.contig, int(block.pos[record]), ref, alt)
            if not isinstance(allele, NormalAllele):
                self.counts[f"rejected.{allele.reason}"] += 1
            elif allele not in self.rows:
                self.counts["alleles_not_common"] += 1
            elif self.rows[allele] in (row for _, row in found):
                self.counts["rejected.duplicate"] += 1
            else:
                found.append((index, self.rows[allele]))
        return found


@dataclass(frozen=True, slots=True)
class PhasedFile:
    """What a VCF says of the alleles of one contig.

    ``counts``: ``records`` and ``alleles_in`` on the contig, of which ``alleles_used``, ``alleles_not_common`` (not
    wanted) and ``rejected.<reason>``; ``records_other_contig``; ``genotypes`` of the records with a used allele, of
    which ``genotypes_unphased`` (two different copies without phase) and ``genotypes_missing`` (a copy is missing); and
    as :meth:`ContigNames.other_contigs` ``other_contig.<name>``.
    """

    genotypes: PhasedGenotypes
    counts: Mapping[str, int]


def read_phased(
    vcf: Path,
    contig: Contig,
    wanted: pa.Table,
    *,
    contigs: ContigSet,
    reference: Callable[[Contig], Bases],
    progress: Progress = NO_PROGRESS,
) -> PhasedFile:
    """Read the phased genotypes of some alleles of one contig.

    Sites with several ALTs are divided into alleles, and each allele is brought into normal form. Of several records of
    one allele with the same genotypes one counts, the others are rejected as ``duplicate``. Where their genotypes
    differ none counts, and all are rejected as ``conflicting_records``.

    Parameters
    ----------
    vcf
        VCF with sample columns, plain, gzip or BGZF; with an index only the records of the contig are read.
    wanted
        Alleles of the contig in normal form; columns ``ALLELE_KEY``, each allele once.
    reference
        Returns a contig's bases, which every REF is compared with.
    progress
        Receives the compressed bytes read so far.

    Returns
    -------
    PhasedFile
        Haplotype ``2 * i + c`` is copy c, 0 or 1, of sample i. A copy that is missing carries nothing, nor does a copy
        of an unphased genotype, unless both copies are the same allele.

    Raises
    ------
    VcfError
        If the file is damaged, on another assembly, has no sample or no record of the contig, or a genotype is missing
        from a record, malformed, in a phase set, or of more than two copies.
    UnknownContigError
        If a record is on a contig that no human assembly has.
    """
    keys = zip(*(wanted[name].to_pylist() for name in ALLELE_KEY[1:]), strict=True)
    rows = {key: row for row, key in enumerate(keys)}
    names, counts, source = ContigNames(contigs), Counter(dict.fromkeys(_COUNTS, 0)), LocalVcf(vcf)
    alleles = _WantedAlleles(contig, rows, AlleleNormaliser(reference), counts)
    # Records of each allele, and whether two of them have other genotypes.
    times, conflicting = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
    with VcfScanner(source, contig=contig, progress=progress) as scanner:
        check_assembly(scanner.header, contigs, where=source.label)
        n_samples = len(scanner.header.samples)
        if not n_samples:
            raise VcfError(source.label, "has no sample, so no genotype", remedy=_REMEDY)
        packed = np.zeros((len(rows), -(-n_samples * _COPIES // 8)), dtype=np.uint8)
        for block in _blocks_on(contig, scanner, names, counts):
            text = block.text.tobytes()
            for record in range(len(block)):
                if not (found := alleles.find(block, record)):
                    continue
                copies = _genotypes(text, block, record, n_samples, counts)
                for index, row in found:
                    carried = np.packbits(copies == index)
                    conflicting[row] |= bool(times[row] and (packed[row] != carried).any())
                    packed[row] = carried
                    times[row] += 1
        names.check_met([contig], where=source.label)
    counts.update(names.other_contigs())
    known = (times > 0) & ~conflicting
    packed[~known] = 0
    counts["alleles_used"] += int(known.sum())
    counts["rejected.duplicate"] += int((times[known] - 1).sum())
    counts["rejected.conflicting_records"] += int(times[conflicting].sum())
    return PhasedFile(PhasedGenotypes(packed, known, n_samples * _COPIES), dict(sorted(counts.items())))


_COUNTS = (
    "records",
    "records_other_contig",
    "alleles_in",
    "alleles_used",
    "alleles_not_common",
    "rejected.conflicting_records",
    "rejected.duplicate",
    "genotypes",
    "genotypes_unphased",
    "genotypes_missing",
)


def _blocks_on(contig: Contig, scanner: VcfScanner, names: ContigNames, counts: Counter[str]) -> Iterator[VcfBlock]:
    """Yield the records that are on a contig; count them and the others."""
    for block in scanner:
        for found, records in names.divide(block):
            counts["records" if found == contig else "records_other_contig"] += len(records)
            if found == contig:
                yield records


def _genotypes(text: bytes, block: VcfBlock, record: int, n_samples: int, counts: Counter[str]) -> NDArray[np.int16]:
    """Return the allele of every haplotype: int16, shape (n_haplotypes,); -1 if it is missing or its phase unknown."""
    start = int(block.starts[8, record])
    end = text.find(b"\n", start)
    fields = text[start : len(text) if end < 0 else end].removesuffix(b"\r")
    layout, _, samples = fields.partition(b"\t")
    keys = layout.split(b":")
    if keys[0] != b"GT" or b"PS" in keys:
        # VCF 4.3, section 1.6.2: GT, if present, is the first key.
        problem = "genotypes are phased in sets" if b"PS" in keys else "the record has no genotype"
        got = repr(layout.decode("ascii", "replace")[:60])
        raise VcfError(block.where(record), problem, expected="FORMAT with GT and without PS", got=got, remedy=_REMEDY)
    counts["genotypes"] += n_samples
    plain = _plain_genotypes(samples, n_samples) if keys == [b"GT"] else None
    copies, phased = _parsed(samples, block.where(record)) if plain is None else plain
    if copies.max() > block.alts[record]:
        expected, got = f"0 to {block.alts[record]}", f"{copies.max()}"
        raise VcfError(
            block.where(record), "a genotype names an allele that the record lacks", expected=expected, got=got
        )
    missing = (copies == _MISSING).any(axis=1)
    unknown = ~phased & (copies[:, 0] != copies[:, 1]) & (copies[:, 1] != _ABSENT)
    counts["genotypes_missing"] += int(np.count_nonzero(missing))
    counts["genotypes_unphased"] += int(np.count_nonzero(unknown & ~missing))
    copies[unknown] = _MISSING
    return copies.reshape(-1)


#: A copy that is ``.``, and the second copy of a haploid call; neither is the number of an allele.
_MISSING, _ABSENT = -1, -2


def _plain_genotypes(samples: bytes, n_samples: int) -> tuple[NDArray[np.int16], NDArray[np.bool_]] | None:
    """Read genotypes of two one-digit alleles each; None if one of them is written in another way."""
    if len(samples) != n_samples * _WIDTH - 1:
        return None
    letters = np.frombuffer(samples + b"\t", dtype=np.uint8).reshape(n_samples, _WIDTH)
    first, mark, second, tab = letters.T
    copies = np.stack([first, second], axis=1)
    is_digit, is_dot = (copies >= ord("0")) & (copies <= ord("9")), copies == ord(".")
    phased = mark == ord("|")
    if not ((is_digit | is_dot).all() and (phased | (mark == ord("/"))).all() and (tab == ord("\t")).all()):
        return None
    return np.where(is_digit, copies.astype(np.int16) - ord("0"), np.int16(_MISSING)), phased


def _parsed(samples: bytes, where: str) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """Read genotypes one by one; GT is the first field of a sample."""
    copies, phased = [], []
    for sample in samples.split(b"\t"):
        genotype = sample.partition(b":")[0]
        parts = genotype.replace(b"/", b"|").split(b"|")
        if len(parts) > _COPIES or not all(part == b"." or part.isdigit() for part in parts):
            expected, got = "one or two alleles, as 0|1", repr(genotype.decode("ascii", "replace")[:40])
            raise VcfError(where, "a genotype cannot be read", expected=expected, got=got, remedy=_REMEDY)
        numbers = [_MISSING if part == b"." else int(part) for part in parts]
        copies.append(numbers if len(numbers) == _COPIES else [*numbers, _ABSENT])
        phased.append(b"/" not in genotype)
    return np.array(copies, dtype=np.int16), np.array(phased, dtype=bool)
