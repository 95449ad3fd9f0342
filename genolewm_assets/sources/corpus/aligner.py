"""Align corpus windows that state no coordinates to the reference, and read slices of the reference.

This is the only module that imports mappy (minimap2). The minimap2 index of a whole human genome takes about 12 GB of
memory and is built only when the first sequence is aligned.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path

import mappy
import pysam

from genolewm_assets.errors import FastaError, UnknownContigError
from genolewm_assets.genome import ContigSet
from genolewm_assets.lewm.corpus import Placement, PlacementHow

#: Smallest share of the window that is aligned, and of alignment columns that match, for a hit to be accepted; 0 to 1.
MIN_COVERAGE = 0.9
MIN_IDENTITY = 0.95

#: BAM operation N: skipped reference bases, an intron (SAM specification 1.6, §4.2).
_INTRON = 3


class GenomeSlices:
    """Reads slices of an indexed FASTA file, without reading whole contigs.

    Parameters
    ----------
    fasta
        Plain or bgzipped file, with its ``.fai`` (and ``.gzi``) beside it.
    contigs
        Contigs of the genome; map the file's contig names to canonical names.

    Raises
    ------
    FastaError
        If the file or an index is missing.
    """

    def __init__(self, fasta: Path, contigs: ContigSet) -> None:
        indexes = [fasta.with_name(f"{fasta.name}.fai")]
        indexes += [fasta.with_name(f"{fasta.name}.gzi")] if fasta.suffix in (".gz", ".bgz") else []
        for file in (fasta, *indexes):
            if not file.is_file():
                raise FastaError(str(file), "does not exist", remedy="Rebuild reference/genome")
        self.path = fasta
        self._file = pysam.FastaFile(str(fasta), *map(str, indexes))
        self._spelling: dict[str, str] = {}
        for spelt in self._file.references:
            with contextlib.suppress(UnknownContigError):
                self._spelling[contigs.resolve(spelt).name] = spelt

    def spelling(self, contig: str) -> str:
        """Return the name that the file uses for a contig, given by its canonical name.

        Raises
        ------
        UnknownContigError
            If the file has no such contig.
        """
        if contig not in self._spelling:
            raise UnknownContigError(str(self.path), "no such contig", got=repr(contig))
        return self._spelling[contig]

    def canonical(self, spelt: str) -> str | None:
        """Return the canonical name of a contig of the file; None if the genome does not have it."""
        return next((name for name, theirs in self._spelling.items() if theirs == spelt), None)

    def __call__(self, contig: str, start: int, end: int) -> bytes:
        """Return the upper-case bases ``[start, end)``, 0-based, of a contig given by its canonical name.

        Raises
        ------
        UnknownContigError
            If the file has no such contig.
        """
        if start >= end:
            return b""
        return str(self._file.fetch(self.spelling(contig), start, end)).upper().encode("ascii")


class MappyAligner:
    """Places sequences on a reference with minimap2.

    Parameters
    ----------
    genome
        The reference.
    spliced
        Whether to align across introns (preset ``splice:hq``); else the preset is ``asm10``.

    Raises
    ------
    FastaError
        From :meth:`align`, if minimap2 cannot index the reference.
    """

    def __init__(self, genome: GenomeSlices, *, spliced: bool) -> None:
        self._genome = genome
        self._preset = "splice:hq" if spliced else "asm10"

    @cached_property
    def _aligner(self) -> mappy.Aligner:
        aligner = mappy.Aligner(str(self._genome.path), preset=self._preset, n_threads=1)
        if not aligner:
            raise FastaError(str(self._genome.path), "cannot be indexed by minimap2", remedy="Rebuild reference/genome")
        return aligner

    def align(self, sequence: bytes, *, contig: str | None) -> Placement | None:
        """Return the unique place of a sequence.

        Parameters
        ----------
        sequence
            Upper-case bases.
        contig
            Canonical name of the only contig to search; None: all.

        Returns
        -------
        Placement or None
            The primary hit with the most matching bases; None unless it reaches :data:`MIN_COVERAGE` and
            :data:`MIN_IDENTITY`. Ambiguous hits (mapping quality 0) are ignored.
        """
        hits = [hit for hit in self._aligner.map(sequence.decode("ascii")) if hit.is_primary and hit.mapq]
        hits = [hit for hit in hits if contig is None or self._genome.canonical(hit.ctg) == contig]
        best = max(hits, key=lambda hit: (hit.mlen, -hit.r_st), default=None)
        if best is None or (name := self._genome.canonical(best.ctg)) is None:
            return None
        coverage, identity = (best.q_en - best.q_st) / len(sequence), best.mlen / best.blen
        if coverage < MIN_COVERAGE or identity < MIN_IDENTITY:
            return None
        return Placement(
            PlacementHow.MAPPY,
            name,
            best.r_st,
            best.r_en,
            "-" if best.strand < 0 else "+",
            spliced=any(operation == _INTRON for _, operation in best.cigar),
            identity=identity,
            coverage=coverage,
        )
