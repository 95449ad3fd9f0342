"""Alleles of samples from allele reports, and the scan points that belong to them.

A report has one line per sample and locus: ``Sample Name``, ``Marker``, and the columns ``Allele 1``, ``Allele 2``, ...
(or ``Allele#1``, ...), separated by commas or tabs, as GeneMapper exports it. Other columns, such as heights, are not
read.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import InputError
from genolewm_assets.forensic import Panel

#: Alleles by locus.
Genotype: TypeAlias = Mapping[str, tuple[str, ...]]

_ALLELE = re.compile(r"allele[ #]*\d+", re.IGNORECASE)
_SAMPLE, _MARKER = "sample name", "marker"


@dataclass(frozen=True, slots=True, repr=False)
class Annotations:
    """Alleles of samples, by the name of the sample; printed without them.

    Attributes
    ----------
    by_sample
        Alleles by locus of each sample.
    """

    by_sample: Mapping[str, Genotype] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Annotations({len(self.by_sample)} samples)"

    def find(self, names: Sequence[str]) -> Genotype | None:
        """Return the alleles of the first of some names that a report has; None if it has none of them."""
        return next((self.by_sample[name] for name in names if name and name in self.by_sample), None)


def parse_annotations(texts: Mapping[str, bytes]) -> Annotations:
    """Return the alleles that allele reports state.

    Parameters
    ----------
    texts
        Content of each report by its name.

    Raises
    ------
    InputError
        If a report lacks a column, or two lines state the same locus of the same sample; no allele is named.
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in sorted(texts):
        text = texts[name].decode("utf-8-sig", "replace")
        rows = csv.reader(io.StringIO(text), delimiter="\t" if "\t" in text.partition("\n")[0] else ",")
        head = [cell.strip() for cell in next(rows, [])]
        lower = [cell.lower() for cell in head]
        alleles = [at for at, cell in enumerate(head) if _ALLELE.fullmatch(cell)]
        if _SAMPLE not in lower or _MARKER not in lower or not alleles:
            raise InputError(
                name,
                "is no allele report",
                expected="columns 'Sample Name', 'Marker' and 'Allele 1', 'Allele 2', ...",
                got=f"{len(head)} other columns",
                remedy="Export it as a table of genotypes, or change forensic.annotation_names",
            )
        sample_at, marker_at = lower.index(_SAMPLE), lower.index(_MARKER)
        for number, cells in enumerate(rows, 2):
            if len(cells) <= max(sample_at, marker_at) or not cells[sample_at].strip():
                continue
            genotype = found.setdefault(cells[sample_at].strip(), {})
            locus = cells[marker_at].strip()
            if locus in genotype:
                raise InputError(f"{name}:{number}", "states a locus of a sample twice", expected="one line for it")
            stated = (cells[at].strip() for at in alleles if at < len(cells))
            genotype[locus] = tuple(dict.fromkeys(allele for allele in stated if allele))
    return Annotations(found)


def mask_alleles(
    genotype: Genotype, panel: Panel, scaler: npt.NDArray[np.float32], n_dyes: int
) -> tuple[npt.NDArray[np.int8], int]:
    """Return the scan points in the bins of some alleles, and how many alleles have no bin.

    Parameters
    ----------
    genotype
        Alleles by locus.
    panel
        The panel, moved by the ladder of the run.
    scaler
        Size in base pairs of each scan point, ascending: shape (n_scanpoints,).

    Returns
    -------
    mask
        1 in the bin of an allele, in the channel of its locus, else 0: int8, shape (n_dyes, n_scanpoints).
    unplaced
        Number of alleles that are in no bin of the panel.
    """
    mask = np.zeros((n_dyes, len(scaler)), np.int8)
    bins = {(locus.name, each.allele): (locus.channel, each) for locus in panel.loci for each in locus.bins}
    unplaced = 0
    for locus, alleles in genotype.items():
        for allele in alleles:
            if (locus, allele) not in bins:
                unplaced += 1
                continue
            channel, each = bins[locus, allele]
            first, last = np.searchsorted(scaler, [each.size_bp - each.left_bp, each.size_bp + each.right_bp])
            mask[channel - 1, first:last] = 1
    return mask, unplaced
