"""Bases of the reference FASTA as codes, under canonical names of its contigs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pysam

from genolewm_assets.audit.reading.contig_names import assembled_bases, canonical_name
from genolewm_assets.errors import FastaError

#: Bases as codes: A 0, C 1, G 2, T and U 3, other 4, and 8 added to a lower-case (soft-masked) one.
Codes: TypeAlias = npt.NDArray[np.uint8]
_Item = TypeVar("_Item", bound=np.generic)

OTHER, MASKED = 4, 8
_CODE_OF_BYTE = np.full(256, OTHER, dtype=np.uint8)
for _code, _letter in (*enumerate(b"ACGT"), (3, ord("U"))):
    _CODE_OF_BYTE[_letter], _CODE_OF_BYTE[_letter + 32] = _code, _code + MASKED
_TABLE = _CODE_OF_BYTE.tobytes()
_LETTER_OF_CODE = np.frombuffer(b"ACGTN", dtype=np.uint8)

#: Bases read at once when a whole contig is walked.
_CHUNK_BP = 1 << 23
#: Share of lower-case bases from which on, and up to which, lower case is taken to mean repeats.
_LEAST_MASKED, _MOST_MASKED = 0.05, 0.9


def encode(sequence: str) -> Codes:
    """Return the codes of a sequence: uint8, shape (n_bases,)."""
    return encode_bytes(np.frombuffer(sequence.encode("latin-1", "replace"), dtype=np.uint8))


def encode_bytes(letters: npt.NDArray[np.uint8]) -> Codes:
    """Return the codes of letters."""
    # Much faster than an index for each letter.
    return np.frombuffer(bytearray(letters).translate(_TABLE), np.uint8)


def unmasked(codes: Codes) -> Codes:
    """Return codes as those of upper-case bases."""
    return codes & np.uint8(MASKED - 1)


def decode(codes: Codes) -> str:
    """Return the upper-case text of codes."""
    return _LETTER_OF_CODE[unmasked(codes)].tobytes().decode()


def reverse_complement(codes: Codes) -> Codes:
    """Return the other strand, upper case."""
    plain = unmasked(codes)[::-1]
    return np.where(plain < OTHER, 3 - plain, OTHER).astype(np.uint8)


def mapped(parts: Iterable[npt.NDArray[_Item]]) -> npt.NDArray[_Item]:
    """Return flat arrays, one or more, joined in a temporary file, whose pages can leave memory."""
    with tempfile.TemporaryFile(prefix="genolewm-audit-") as file:
        for part in parts:
            # Not ``tofile``, whose error does not say that the disk is full.
            file.write(part.data)
        file.flush()
        size = file.tell() // part.itemsize
        # A view of nothing would keep all that it is a part of.
        return np.memmap(file, part.dtype, "c", shape=(size,)).view(np.ndarray) if size else np.empty(0, part.dtype)


def mapped_zeros(size: int, kind: type[_Item]) -> npt.NDArray[_Item]:
    """Return zeros, one or more, in a temporary file, where what is written to them stays."""
    with tempfile.TemporaryFile(prefix="genolewm-audit-") as file:
        # Reserved now: later, a full disk would end the process.
        os.posix_fallocate(file.fileno(), 0, size * np.dtype(kind).itemsize)
        return np.memmap(file, kind, "r+", shape=(size,)).view(np.ndarray)


class Reference:
    """An indexed FASTA, plain or compressed with bgzip, opened for random access; use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = pysam.FastaFile(str(path))
        except (OSError, ValueError) as err:
            raise FastaError(
                str(path), f"cannot be opened ({err})", remedy=f"Name an indexed FASTA (samtools faidx {path.name})"
            ) from err
        self._names: dict[str, str] = {}
        for name in self._file.references:
            if canonical_name(name) in self._names:
                raise FastaError(str(path), f"holds {canonical_name(name)} twice", remedy="Name a FASTA of one genome")
            self._names[canonical_name(name)] = name
        self._codes: dict[str, Codes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, contig: str) -> bool:
        return contig in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def own_name(self, contig: str) -> str:
        """Return how the file spells a contig."""
        return self._names[contig]

    def length(self, contig: str) -> int:
        """Return the number of bases of a contig."""
        return int(self._file.get_reference_length(self._names[contig]))

    def fetch(self, contig: str, start: int, end: int) -> Codes:
        """Return ``end - start`` codes; bases outside the contig, and of a contig that is missing, are 4."""
        codes = self.codes(contig)
        if 0 <= start <= end <= codes.size:
            return codes[start:end]
        first, last = max(0, start), min(max(start, end), codes.size)
        padded = np.full(max(0, end - start), OTHER, dtype=np.uint8)
        if first < last:
            padded[first - start : last - start] = codes[first:last]
        return padded

    def codes(self, contig: str) -> Codes:
        """Return the codes of a contig, mapped from a temporary file, not to be changed; none of a missing contig."""
        if contig not in self._codes:
            self._codes[contig] = self._mapped(contig) if contig in self._names else np.empty(0, dtype=np.uint8)
        return self._codes[contig]

    def _mapped(self, contig: str) -> Codes:
        name, length = self._names[contig], self.length(contig)
        starts = range(0, max(1, length), _CHUNK_BP)
        return mapped(encode(self._file.fetch(name, start, min(length, start + _CHUNK_BP))) for start in starts)

    def chunks(self, contig: str, overlap: int) -> Iterator[Codes]:
        """Yield the codes of a contig in pieces; each but the first repeats the last ``overlap`` bases before it."""
        length = self.length(contig)
        for start in range(0, max(1, length), _CHUNK_BP):
            yield self.fetch(contig, max(0, start - overlap), min(length, start + _CHUNK_BP))

    def has_soft_mask(self) -> bool:
        """Tell whether lower case marks repeats: 5 % to 90 % of the known bases are in lower case."""
        known = masked = 0
        for contig in self:
            for codes in self.chunks(contig, 0):
                known += int(np.count_nonzero(unmasked(codes) < OTHER))
                masked += int(np.count_nonzero(codes >= MASKED))
        return _LEAST_MASKED * known <= masked <= _MOST_MASKED * known and masked > 0

    def assembled_share(self, contig: str) -> float:
        """Return the share, 0 to 1, of a contig's bases in GRCh38 that the file holds; 1 for one of another length."""
        if contig not in self._names:
            return 0.0
        expected = assembled_bases(self.length(contig))
        if expected is None:
            return 1.0
        held = sum(int((unmasked(codes) < OTHER).sum()) for codes in self.chunks(contig, 0))
        return min(1.0, held / expected)
