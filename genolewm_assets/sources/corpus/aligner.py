"""Align corpus windows without confirmed coordinates to the reference.

This is the only module that imports mappy (minimap2). A minimap2 index takes up to 17 bytes a base while it is made, so
that a large genome is indexed in parts (:mod:`~genolewm_assets.sources.corpus.parts`). Indexes are kept beside the
genome. All windows are asked before the first is answered, so that each index is loaded once.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import IO

import mappy
import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import FastaError
from genolewm_assets.sources.corpus.genome_slices import GenomeSlices, Stretch
from genolewm_assets.sources.corpus.packed import BasesSpool, PackedBases, temporary_file
from genolewm_assets.sources.corpus.parts import OVERLAP_BP, PART_BP, BestHits, Hit, divide
from genolewm_assets.sources.corpus.screen import PartScreen
from genolewm_assets.store.tables import give_memory_back, map_ahead
from genolewm_assets.windows.corpus import Placement, PlacementHow

#: Smallest share of the window that is aligned, and of alignment columns that match, for a hit to be accepted; 0 to 1.
MIN_COVERAGE = 0.9
MIN_IDENTITY = 0.95

#: BAM operation N: skipped reference bases, an intron (SAM specification 1.6, §4.2).
_INTRON = 3
_READ_BP = 1 << 22
_THREADS, _AT_ONCE = 2, 16
#: A question to a part: its number, and the first base and the size of its sequence in the spool.
_QUESTION = np.dtype([("number", "i8"), ("first", "i8"), ("size", "i8")])


class MappyAligner:
    """Places sequences on a reference with minimap2: all are asked, then all are answered.

    Parameters
    ----------
    genome
        The reference. Indexes, and questions until they are answered, are kept in the folder of its derived files.
    spliced
        Whether to align across introns (preset ``splice:hq``); else the preset is ``asm10``.
    part_bp, overlap_bp
        A genome with more than ``part_bp`` ACGT bases is aligned in parts of that size, which share ``overlap_bp`` of a
        contig. A sequence is aligned to those parts with which it shares enough 15-mers, and the best hit counts.
        Mapping qualities and thresholds for repeats are those of the parts.
    """

    def __init__(
        self, genome: GenomeSlices, *, spliced: bool, part_bp: int = PART_BP, overlap_bp: int = OVERLAP_BP
    ) -> None:
        self._genome = genome
        self._preset = "splice:hq" if spliced else "asm10"
        self._part_bp, self._overlap_bp = part_bp, overlap_bp
        self._count = 0
        self._asked: dict[int, IO[bytes]] = {}

    def ask(self, sequence: bytes) -> int:
        """Note a sequence, upper-case bases, and return the number of its answer; -1 if no part can hold it."""
        parts = [0] if self._screen is None else self._screen.find(sequence)
        if not parts:
            return -1
        row = np.array((self._count, self._sequences.append(sequence), len(sequence)), _QUESTION).tobytes()
        for part in parts:
            if part not in self._asked:
                self._asked[part] = temporary_file(self, self._folder)
            self._asked[part].write(row)
        self._count += 1
        return self._count - 1

    def answer(self) -> Callable[[int], Placement | None]:
        """Align all sequences that were asked, and return the answers by number.

        Returns
        -------
        callable
            Gives the primary hit with the most matching bases of all parts; None unless it reaches
            :data:`MIN_COVERAGE` and :data:`MIN_IDENTITY` and its place is unique.

        Raises
        ------
        FastaError
            If minimap2 cannot index the reference.
        """
        if not self._count:
            return lambda _: None
        best, sequences = BestHits(self._count, self._folder), self._sequences.read_back()
        for part in sorted(self._asked):
            for question, hit in self._align_to(part, self._asked[part], sequences):
                best.add(question, hit)
        return partial(self._find, best)

    def _find(self, best: BestHits, question: int) -> Placement | None:
        hit = best.find(question)
        name = None if hit is None else self._genome.canonical(hit.contig)
        if hit is None or name is None:
            return None
        return Placement(
            PlacementHow.MAPPY,
            name,
            hit.start,
            hit.end,
            "-" if hit.reverse else "+",
            spliced=hit.spliced,
            identity=hit.matches / hit.columns,
            coverage=hit.aligned / hit.size,
        )

    def _align_to(self, part: int, asked: IO[bytes], sequences: PackedBases) -> Iterator[tuple[int, Hit]]:
        """Yield the accepted hits of the questions to one part."""
        asked.flush()
        questions: NDArray[np.void] = np.memmap(asked, dtype=_QUESTION, mode="r")
        # The C library keeps the memory of the index before this one, in pieces too small for the next.
        give_memory_back()
        aligner, own = self._index(part), threading.local()

        def align(start: int) -> list[tuple[int, Hit]]:
            own.buffer = getattr(own, "buffer", None) or mappy.ThreadBuffer()
            found = []
            for number, first, size in questions[start : start + _AT_ONCE].tolist():
                text = sequences.read(first, size).decode("ascii")
                hit = _best_hit(aligner.map(text, buf=own.buffer), self._parts[part], size)
                found += [] if hit is None else [(number, hit)]
            return found

        for hits in map_ahead(align, range(0, len(questions), _AT_ONCE), threads=_THREADS):
            yield from hits

    def _index(self, part: int) -> mappy.Aligner:
        name = f"{self._kept_as}/{self._preset.replace(':', '-')}.minimap2-{mappy.__version__}.{part}.mmi"
        path = self._genome.derived.get(name, partial(self._make_index, self._parts[part]))
        return self._opened(mappy.Aligner(str(path), preset=self._preset))

    def _make_index(self, part: tuple[Stretch, ...], path: Path) -> None:
        fasta = path.with_name(f".fasta.{secrets.token_hex(4)}.tmp")
        try:
            _write_part(part, self._genome, fasta)
            self._opened(mappy.Aligner(str(fasta), preset=self._preset, n_threads=1, fn_idx_out=str(path)))
        finally:
            fasta.unlink(missing_ok=True)

    def _opened(self, aligner: mappy.Aligner) -> mappy.Aligner:
        if not aligner:
            raise FastaError(str(self._genome.path), "cannot be indexed by minimap2", remedy="Rebuild reference/genome")
        return aligner

    @cached_property
    def _parts(self) -> list[tuple[Stretch, ...]]:
        whole, known_bp = tuple(Stretch(name, 0, length) for name, length in self._genome.lengths.items()), 0
        for contig, _, length in whole if sum(stretch.end for stretch in whole) > self._part_bp else ():
            for start in range(0, length, _READ_BP):
                bases = self._genome.read(Stretch(contig, start, start + _READ_BP))
                known_bp += len(bases) - bases.count(b"N")
                if known_bp > self._part_bp:
                    return divide(self._genome.lengths, part_bp=self._part_bp, overlap_bp=self._overlap_bp)
        return [whole]

    @cached_property
    def _screen(self) -> PartScreen | None:
        """Return the screen of all parts; None for one part, to which every sequence is aligned."""
        if len(self._parts) == 1:
            return None
        write = partial(PartScreen.write, parts=self._parts, genome=self._genome)
        return PartScreen(self._genome.derived.get(f"{self._kept_as}/screen", write), len(self._parts))

    @property
    def _kept_as(self) -> str:
        return f"parts.{self._part_bp}.{self._overlap_bp}"

    @cached_property
    def _folder(self) -> Path:
        self._genome.derived.folder.mkdir(parents=True, exist_ok=True)
        return self._genome.derived.folder

    @cached_property
    def _sequences(self) -> BasesSpool:
        return BasesSpool(self._folder)


def _write_part(part: tuple[Stretch, ...], genome: GenomeSlices, path: Path) -> None:
    """Write the bases of a part as FASTA, its records named by their number in the part."""
    with path.open("wb") as out:
        for number, stretch in enumerate(part):
            out.write(b">%d\n" % number)
            for start in range(stretch.start, stretch.end, _READ_BP):
                out.write(genome.read(stretch._replace(start=start, end=min(start + _READ_BP, stretch.end))) + b"\n")


def _best_hit(found: Iterator[mappy.Alignment], part: tuple[Stretch, ...], size: int) -> Hit | None:
    """Return the primary alignment with the most matching bases, if enough of the sequence is aligned, and matches."""
    best = max((hit for hit in found if hit.is_primary), key=lambda hit: (hit.mlen, -hit.r_st), default=None)
    if best is None or (best.q_en - best.q_st) / size < MIN_COVERAGE or best.mlen / best.blen < MIN_IDENTITY:
        return None
    stretch = part[int(best.ctg)]
    introns = any(operation == _INTRON for _, operation in best.cigar)
    place = stretch.contig, best.r_st + stretch.start, best.r_en + stretch.start, best.strand < 0
    return Hit(*place, introns, best.mapq > 0, best.mlen, best.blen, best.q_en - best.q_st, size)
