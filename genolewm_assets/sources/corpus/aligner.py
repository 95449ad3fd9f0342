"""Align corpus windows without confirmed coordinates to the reference, and read slices of the reference.

This is the only module that imports mappy (minimap2). A minimap2 index takes up to 17 bytes a base while it is made, so
that of a large genome one part at a time is indexed (:mod:`~genolewm_assets.sources.corpus.parts`).
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path

import mappy
import pyarrow as pa
import pysam

from genolewm_assets.errors import FastaError, UnknownContigError
from genolewm_assets.genome import ContigSet
from genolewm_assets.sources.corpus.parts import (
    OVERLAP_BP,
    PART_BP,
    Hit,
    KmerScreen,
    SequenceFile,
    Stretch,
    align_in_parts,
    divide,
    write_part,
)
from genolewm_assets.windows.corpus import Placement, PlacementHow, WindowAligner

#: Smallest share of the window that is aligned, and of alignment columns that match, for a hit to be accepted; 0 to 1.
MIN_COVERAGE = 0.9
MIN_IDENTITY = 0.95

#: BAM operation N: skipped reference bases, an intron (SAM specification 1.6, §4.2).
_INTRON = 3
_READ_BP = 1 << 22


class GenomeSlices:
    """Reads slices of an indexed FASTA file, without reading whole contigs.

    Parameters
    ----------
    fasta
        Plain or bgzipped file, with its ``.fai`` (and ``.gzi``) beside it.
    contigs
        Map the file's contig names to canonical names.

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

    @property
    def lengths(self) -> Mapping[str, int]:
        """Length in bases of each contig of the file, in its order, by the name that the file uses."""
        return dict(zip(self._file.references, self._file.lengths, strict=True))

    def read(self, stretch: Stretch) -> str:
        """Return the upper-case bases of a stretch."""
        return str(self._file.fetch(*stretch)).upper()

    def spelling(self, contig: str) -> str:
        """Return the name that the file uses for a contig; raises :class:`UnknownContigError` if it has no such one."""
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
    spliced
        Whether to align across introns (preset ``splice:hq``); else the preset is ``asm10``.
    part_bp, overlap_bp
        Genomes with more than ``part_bp`` ACGT bases are aligned in parts, see :meth:`prepare`.

    Raises
    ------
    FastaError
        From :meth:`align` and :meth:`prepare`, if minimap2 cannot index the reference.
    """

    def __init__(
        self, genome: GenomeSlices, *, spliced: bool, part_bp: int = PART_BP, overlap_bp: int = OVERLAP_BP
    ) -> None:
        self._genome = genome
        self._preset = "splice:hq" if spliced else "asm10"
        self._part_bp, self._overlap_bp = part_bp, overlap_bp

    @cached_property
    def _aligner(self) -> mappy.Aligner:
        return self._index(self._genome.path)

    def _index(self, fasta: Path) -> mappy.Aligner:
        aligner = mappy.Aligner(str(fasta), preset=self._preset, n_threads=1)
        if not aligner:
            raise FastaError(str(self._genome.path), "cannot be indexed by minimap2", remedy="Rebuild reference/genome")
        return aligner

    def align(self, sequence: bytes) -> Placement | None:
        """Return the unique place of a sequence, upper-case bases, from one index of the whole genome.

        Returns
        -------
        Placement or None
            The primary hit with the most matching bases; None unless it reaches :data:`MIN_COVERAGE` and
            :data:`MIN_IDENTITY`. Ambiguous hits (mapping quality 0) are ignored.
        """
        hits = [hit for hit in self._aligner.map(sequence.decode("ascii")) if hit.is_primary and hit.mapq]
        best = max(hits, key=lambda hit: (hit.mlen, -hit.r_st), default=None)
        return None if best is None else self._placement(_as_hit(best), len(sequence))

    def prepare(self, ask: Callable[[WindowAligner], None], folder: Path) -> WindowAligner:
        """Return an aligner that answers what ``ask`` asks, in the same order.

        Parameters
        ----------
        ask
            Calls ``align`` of its argument for every sequence of a build. Not called if the genome fits into one index.
        folder
            Folder for temporary files: the sequences, compressed, and the bases of one part.

        Notes
        -----
        Of a genome that does not fit, one part at a time is indexed, and the best hits of the parts are compared.
        Mapping qualities and thresholds for repeats are then those of the parts.
        """
        parts = self._parts()
        if not parts:
            return self
        path = folder / "sequences.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            asked = _Questions(file)
            ask(asked)
        align = partial(self._align_part, folder=folder)
        return _Answers(self._placement, align_in_parts(SequenceFile(path, asked.count), parts, align))

    def _parts(self) -> list[tuple[Stretch, ...]]:
        """Return the parts of a genome that does not fit into one index; none if it does."""
        known_bp = 0
        for spelt, length in self._genome.lengths.items():
            for start in range(0, length, _READ_BP):
                bases = self._genome.read(Stretch(spelt, start, min(start + _READ_BP, length)))
                known_bp += sum(map(bases.count, "ACGT"))
                if known_bp > self._part_bp:
                    return divide(self._genome.lengths, part_bp=self._part_bp, overlap_bp=self._overlap_bp)
        return []

    def _align_part(
        self, part: tuple[Stretch, ...], sequences: Iterable[bytes], *, folder: Path
    ) -> Iterator[Hit | None]:
        # The C library keeps the memory of the index before this one, in pieces too small for the next.
        pa.system_memory_pool().release_unused()
        fasta = folder / "part.fa"
        screen = KmerScreen()
        write_part(part, self._genome.read, fasta, screen)
        aligner = self._index(fasta)
        fasta.unlink()
        for sequence in sequences:
            if not screen.may_hold(sequence):
                yield None
                continue
            hits = [hit for hit in aligner.map(sequence.decode("ascii")) if hit.is_primary]
            best = max(hits, key=lambda hit: (hit.mlen, -hit.r_st), default=None)
            if best is None or not _is_whole(found := _as_hit(best), len(sequence)):
                yield None
                continue
            stretch = part[int(best.ctg)]
            start, end = found.start + stretch.start, found.end + stretch.start
            yield found._replace(contig=stretch.contig, start=start, end=end)

    def _placement(self, hit: Hit, length_bp: int) -> Placement | None:
        name = self._genome.canonical(hit.contig)
        if name is None or not _is_whole(hit, length_bp):
            return None
        return Placement(
            PlacementHow.MAPPY,
            name,
            hit.start,
            hit.end,
            "-" if hit.reverse else "+",
            spliced=hit.spliced,
            identity=hit.matches / hit.columns,
            coverage=hit.aligned / length_bp,
        )


class _Questions:
    """Aligner that writes down the sequences it is asked for, and finds none."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file, self.count = file, 0

    def align(self, sequence: bytes) -> None:
        self._file.write(sequence + b"\n")
        self.count += 1


class _Answers:
    """Aligner that returns places found before, in the order in which the sequences were asked for."""

    def __init__(self, placement: Callable[[Hit, int], Placement | None], hits: Iterator[Hit | None]) -> None:
        self._placement, self._hits = placement, hits

    def align(self, sequence: bytes) -> Placement | None:
        hit = next(self._hits)
        return None if hit is None else self._placement(hit, len(sequence))


def _as_hit(found: mappy.Alignment) -> Hit:
    introns = any(operation == _INTRON for _, operation in found.cigar)
    aligned = found.q_en - found.q_st
    place = found.ctg, found.r_st, found.r_en, found.strand < 0
    return Hit(*place, introns, found.mapq > 0, found.mlen, found.blen, aligned)


def _is_whole(hit: Hit, length_bp: int) -> bool:
    """Tell whether enough of a sequence is aligned, and matches."""
    return hit.aligned / length_bp >= MIN_COVERAGE and hit.matches / hit.columns >= MIN_IDENTITY
