"""Read slices of the reference genome: its bases are packed once, kept beside the genome, and mapped."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pysam

from genolewm_assets.errors import FastaError, UnknownContigError
from genolewm_assets.genome import ContigSet
from genolewm_assets.sources.corpus.packed import PackedBases, pack
from genolewm_assets.store.artefacts import DerivedFiles

#: Bases read at a time; even, so that pieces of a contig begin with a byte.
_READ_BP = 1 << 22


class Stretch(NamedTuple):
    """Part of a contig: its name in the FASTA, 0-based half-open."""

    contig: str
    start: int
    end: int


class GenomeSlices:
    """Reads slices of an indexed FASTA file, without reading whole contigs.

    Parameters
    ----------
    fasta
        Plain or bgzipped file, with its ``.fai`` (and ``.gzi``) beside it.
    contigs
        Map the file's contig names to canonical names.
    derived
        Files derived from this FASTA: packed bases, and what other users of the genome keep.

    Raises
    ------
    FastaError
        If the file or an index is missing.
    """

    def __init__(self, fasta: Path, contigs: ContigSet, derived: DerivedFiles) -> None:
        indexes = [fasta.with_name(f"{fasta.name}.fai")]
        indexes += [fasta.with_name(f"{fasta.name}.gzi")] if fasta.suffix in (".gz", ".bgz") else []
        for file in (fasta, *indexes):
            if not file.is_file():
                raise FastaError(str(file), "does not exist", remedy="Rebuild reference/genome")
        self.path, self.derived = fasta, derived
        self._file = pysam.FastaFile(str(fasta), *map(str, indexes))
        self._spelling: dict[str, str] = {}
        for spelt in self._file.references:
            with contextlib.suppress(UnknownContigError):
                self._spelling[contigs.resolve(spelt).name] = spelt
        sizes = [(length + 1) // 2 * 2 for length in self._file.lengths]
        self._firsts = dict(zip(self._file.references, np.cumsum([0, *sizes]).tolist(), strict=False))

    @cached_property
    def lengths(self) -> Mapping[str, int]:
        """Length in bases of each contig of the file, in its order, by the name that the file uses."""
        return dict(zip(self._file.references, self._file.lengths, strict=True))

    def read(self, stretch: Stretch) -> bytes:
        """Return the upper-case bases of a stretch; symbols other than ACGT are N."""
        end = min(stretch.end, self.lengths[stretch.contig])
        return self._packed.read(self._firsts[stretch.contig] + stretch.start, max(0, end - stretch.start))

    def canonical(self, spelt: str) -> str | None:
        """Return the canonical name of a contig of the file; None if the genome does not have it."""
        return next((name for name, theirs in self._spelling.items() if theirs == spelt), None)

    def __call__(self, contig: str, start: int, end: int) -> bytes:
        """Return the upper-case bases ``[start, end)``, 0-based, of a contig given by its canonical name.

        Symbols other than ACGT are N.

        Raises
        ------
        UnknownContigError
            If the file has no such contig.
        """
        if start >= end:
            return b""
        if contig not in self._spelling:
            raise UnknownContigError(str(self.path), "no such contig", got=repr(contig))
        return self.read(Stretch(self._spelling[contig], start, end))

    @cached_property
    def _packed(self) -> PackedBases:
        return PackedBases(np.memmap(self.derived.get("bases.4bit", self._pack), dtype=np.uint8, mode="r"))

    def _pack(self, path: Path) -> None:
        """Write the bases of all contigs, each from a byte on."""
        with path.open("wb") as out:
            for contig, length in self.lengths.items():
                for start in range(0, length, _READ_BP):
                    bases = self._file.fetch(contig, start, min(length, start + _READ_BP))
                    out.write(pack(bases.upper().encode("ascii")).data)
