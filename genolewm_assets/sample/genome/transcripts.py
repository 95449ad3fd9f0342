"""Transcripts of the simulated genes: exons joined in the gene's orientation, with untranslated regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sample.genome.blueprint import Span
from genolewm_assets.sample.genome.genes import Gene
from genolewm_assets.sample.genome.reference import SimulatedContig

Codes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A spliced transcript.

    ``codes`` are its base codes from 5' to 3', uint8, shape (bases,). ``span`` is its 0-based half-open interval on the
    contig, introns included. ``junctions`` are the offsets in ``codes`` where introns were removed.
    """

    codes: Codes
    span: Span
    junctions: tuple[int, ...]


def read_sense(contig: SimulatedContig, span: Span, strand: str) -> Codes:
    """Return the base codes of a 0-based half-open interval in the orientation of a strand; code 4 (N) stays 4."""
    codes = contig.codes[slice(*span)]
    if strand == "+":
        return codes
    return np.where(codes > 3, codes, 3 - codes)[::-1].astype(np.uint8)


def splice(contig: SimulatedContig, gene: Gene, exons: Sequence[int], utr5_bp: int, utr3_bp: int) -> Transcript:
    """Return the transcript that joins exons of a gene.

    Parameters
    ----------
    exons
        0-based numbers of the exons in the order of transcription, ascending.
    utr5_bp, utr3_bp
        Bases by which the first exon is extended upstream and the last one downstream.
    """
    start, end = gene.span
    forward = gene.plan.strand == "+"
    edges = [(a - start, b - start) if forward else (end - b, end - a) for a, b in gene.exons][:: 1 if forward else -1]
    chosen = [edges[number] for number in exons]
    chosen[0] = (chosen[0][0] - utr5_bp, chosen[0][1])
    chosen[-1] = (chosen[-1][0], chosen[-1][1] + utr3_bp)
    sense = read_sense(contig, gene.span, gene.plan.strand)
    ends = np.cumsum([b - a for a, b in chosen])
    first, last = chosen[0][0], chosen[-1][1]
    return Transcript(
        np.concatenate([sense[a:b] for a, b in chosen]),
        (start + first, start + last) if forward else (end - last, end - first),
        tuple(int(at) for at in ends[:-1]),
    )
