"""Read tabix (``.tbi``) and CSI (``.csi``) indexes of BGZF-compressed VCF files: the part of the file of each contig.

Only offsets and counts are read. An index may belong to another version of its file; :mod:`.source` verifies it. A
virtual offset is ``coffset << 16 | uoffset``: a block's offset in the file, and an offset in its text, in bytes.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from isal import igzip, igzip_lib

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files import Compression, check_local_file, detect_compression, has_bgzf_end
from genolewm_assets.sources.vcf.header_size import MAX_HEADER_LINES

#: Largest index accepted, compressed or not. For a whole human genome with a chunk per 16 kb it takes under 10 MB.
INDEX_LIMIT_BYTES = 32 << 20
#: Suffixes of an index after the name of its VCF, in order of preference.
INDEX_SUFFIXES = (".tbi", ".csi")

_PORTION_BYTES = 256 << 10
_TBI_MAGIC, _CSI_MAGIC = b"TBI\x01", b"CSI\x01"
_TBI_DEPTH = 5
#: Depth of the deepest binning whose bin numbers fit into 32 bits.
_MAX_DEPTH = 10
#: Accepted tabix formats: generic text in columns (0), as ``tabix -s1 -b2 -e2`` writes, and VCF (2).
_FORMATS = frozenset({0, 2})
_TBI_BIN, _CSI_BIN = struct.Struct("<Ii"), struct.Struct("<IQi")
_INT32, _LAYOUT, _CHUNK_PAIR = struct.Struct("<i"), struct.Struct("<7i"), struct.Struct("<4Q")
_CHUNK_BYTES, _OFFSET_BYTES = 16, 8

Offsets = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class IndexedContig:
    """The part of a file that holds the records of one contig."""

    name: str
    begin: int
    end: int
    records: int | None
    cuts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VariantIndex:
    """Contigs that have a record, by name, in the order of the file; their parts of the file do not overlap."""

    contigs: Mapping[str, IndexedContig]

    def lines_before(self, name: str) -> int | None:
        """Return the number of records before a contig's first record; None if the index does not count them."""
        begin = self.contigs[name].begin
        counts = [contig.records for contig in self.contigs.values() if contig.begin < begin]
        return None if None in counts else sum(count for count in counts if count is not None)


def find_index(vcf: Path) -> Path | None:
    """Return the path of the index beside a VCF file, preferring ``.tbi`` to ``.csi``; None if there is none."""
    candidates = (vcf.with_name(vcf.name + suffix) for suffix in INDEX_SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def read_index(index: Path | bytes, *, where: str) -> VariantIndex:
    """Read a tabix or CSI index, by its content and not its name; impossible counts allocate no memory."""
    content = _IndexContent(_inflate(_packed(index, where), where), where)
    return VariantIndex(_in_file_order(content.contigs(), where))


def _packed(index: Path | bytes, where: str) -> bytes:
    if isinstance(index, bytes):
        size = len(index)
    else:
        size = check_local_file(index, expected="an index of a VCF file", error=VcfError)
    if size > INDEX_LIMIT_BYTES:
        _too_large(where, f"{size:,}")
    return index if isinstance(index, bytes) else index.read_bytes()


def _inflate(packed: bytes, where: str) -> bytes:
    file = io.BytesIO(packed)
    if detect_compression(file) is not Compression.BGZF:
        raise VcfError(
            where,
            "not an index of a VCF file",
            expected="BGZF",
            got=f"{packed[:8]!r}" if packed else "an empty file",
            remedy="Make the index again, as with bcftools index",
        )
    if not has_bgzf_end(file):
        _damaged(where, "the index is truncated: the BGZF end-of-file block is missing")
    content = bytearray()
    try:
        with igzip.IGzipFile(fileobj=file, mode="rb") as text:  # type: ignore[no-untyped-call]
            while len(content) <= INDEX_LIMIT_BYTES and (portion := text.read(_PORTION_BYTES)):
                content += portion
    except (EOFError, igzip_lib.error, OSError) as err:  # type: ignore[misc]  # The stub calls the class an instance.
        _damaged(where, f"the compressed data of the index are damaged ({err})", err)
    if len(content) > INDEX_LIMIT_BYTES:
        _too_large(where, "more after decompression")
    return bytes(content)


def _too_large(where: str, got: str) -> NoReturn:
    expected = f"at most {INDEX_LIMIT_BYTES:,} bytes"
    raise VcfError(where, "too large for an index", expected=expected, got=got, remedy="Check the path")


def _damaged(where: str, problem: str, cause: BaseException | None = None) -> NoReturn:
    raise VcfError(where, problem, remedy="Make the index again, as with bcftools index") from cause


class _IndexContent:
    """Parser of a decompressed index; every count is compared with the bytes that remain."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where, self._at = data, where, 0

    def contigs(self) -> list[IndexedContig]:
        """Parse the index; return the contigs that have a record, in the order of the index."""
        magic = self._take(4, "its first four bytes")
        if magic == _TBI_MAGIC:
            number = self._count("contigs", 8)
            depth, names = _TBI_DEPTH, self._names()
        elif magic == _CSI_MAGIC:
            depth = self._depth()
            aux_bytes = self._count("auxiliary bytes", 1)
            names = self._names() if aux_bytes else self._not_of_text("no contig names (as in an index of a BCF file)")
            number = self._count("contigs", 4)
        else:
            expected = f"{_TBI_MAGIC!r} or {_CSI_MAGIC!r}"
            raise VcfError(self._where, "not a tabix or CSI index", expected=expected, got=f"{magic!r}")
        if number != len(names):
            self._fail(f"{number:,} contigs have {len(names):,} names")
        found = [self._contig(name, depth, is_csi=magic == _CSI_MAGIC) for name in names]
        # Both formats may end with a count (8 bytes) of records without a contig.
        if len(self._data) - self._at not in (0, 8):
            self._fail(f"{len(self._data) - self._at:,} bytes follow the last contig")
        return [contig for contig in found if contig is not None]

    def _depth(self) -> int:
        min_shift, depth = self._int32("the size of the smallest bin"), self._int32("the depth of the binning")
        if not (0 <= depth <= _MAX_DEPTH and 0 <= min_shift <= 62 - 3 * depth):
            self._fail(f"a binning of depth {depth} above 2^{min_shift} bp is impossible")
        return depth

    def _names(self) -> list[str]:
        """Parse tabix's header of the text; return the contig names, each of which ends with a NUL byte."""
        format_, column, _, _, meta, _, size = _LAYOUT.unpack(self._take(_LAYOUT.size, "the layout of the text"))
        if format_ not in _FORMATS or column != 1 or meta != ord("#"):
            self._not_of_text(f"format {format_}, contigs in column {column}, comments marked by character {meta}")
        if size < 0:
            self._fail(f"{size} bytes of contig names")
        text = self._take(size, "the contig names")
        if (number := text.count(0)) > MAX_HEADER_LINES:
            self._fail(f"{number:,} contigs are more than a header can declare ({MAX_HEADER_LINES:,})")
        try:
            *names, rest = text.decode().split("\0")
        except UnicodeDecodeError as err:
            _damaged(self._where, f"the contig names are not UTF-8 ({err})", err)
        if rest or "" in names or len(set(names)) < len(names):
            self._fail("the contig names are not distinct, or not ended by NUL bytes")
        return names

    def _contig(self, name: str, depth: int, *, is_csi: bool) -> IndexedContig | None:
        chunks, starts, summary = self._bins(name, depth, is_csi=is_csi)
        if not is_csi:
            starts = self._offsets(self._count(f"linear offsets of {name!r}", _OFFSET_BYTES))
        if not chunks.size and summary in (None, (0, 0, 0, 0)):
            return None
        if not chunks.size or (chunks[:, 0] >= chunks[:, 1]).any():
            self._fail(f"the chunks of {name!r} are empty or reversed")
        begin, end = int(chunks[:, 0].min()), int(chunks[:, 1].max())
        records = None if summary is None else summary[2] + summary[3]
        if summary is not None and (summary[:2] != (begin, end) or not records):
            self._fail(f"the summary of {name!r} contradicts its chunks")
        cuts = np.unique(np.concatenate([chunks[:, 0], starts]))
        return IndexedContig(name, begin, end, records, tuple(cuts[(cuts > begin) & (cuts < end)].tolist()))

    def _bins(
        self, name: str, depth: int, *, is_csi: bool
    ) -> tuple[Offsets, Offsets, tuple[int, int, int, int] | None]:
        """Return a contig's chunks, the starts of its bins, and its summary, all virtual offsets.

        Chunks: uint64, shape (chunks, 2), first line and line after the last. Starts: uint64, CSI's ``loffset``; empty
        for tabix. Summary: begin, end, numbers of mapped and unmapped records, from htslib's pseudo-bin, whose number
        is one above the highest bin number; None if there is none.
        """
        data, at = self._data, self._at
        head, pseudo_bin = _CSI_BIN if is_csi else _TBI_BIN, (8 ** (depth + 1) - 1) // 7 + 1
        chunks, starts, summary = [], [], None
        number_of_bins = self._count(f"bins of {name!r}", head.size)
        at = self._at
        for _ in range(number_of_bins):
            if at + head.size > len(data):
                self._truncated(f"the bins of {name!r}")
            bin_number, *loffset, count = head.unpack_from(data, at)
            at += head.size
            stop = at + count * _CHUNK_BYTES
            if count < 0 or stop > len(data):
                self._impossible_count(f"chunks of {name!r}", count, len(data) - at)
            if bin_number > pseudo_bin or (bin_number == pseudo_bin and (count != 2 or summary is not None)):
                self._fail(f"bin {bin_number} of {name!r}, with {count} chunks, is impossible")
            if bin_number == pseudo_bin:
                summary = _CHUNK_PAIR.unpack_from(data, at)
            else:
                chunks.append(data[at:stop])
                starts += loffset
            at = stop
        self._at = at
        pairs = np.frombuffer(b"".join(chunks), "<u8").astype(np.uint64, copy=False).reshape(-1, 2)
        return pairs, np.array(starts, np.uint64), summary

    def _offsets(self, count: int) -> Offsets:
        content = self._take(count * _OFFSET_BYTES, "the linear index")
        return np.frombuffer(content, "<u8").astype(np.uint64, copy=False)

    def _count(self, what: str, item_bytes: int) -> int:
        """Read a count of items that take at least ``item_bytes`` each."""
        count = self._int32(f"the number of {what}")
        if count < 0 or count * item_bytes > len(self._data) - self._at:
            self._impossible_count(what, count, len(self._data) - self._at)
        return count

    def _int32(self, what: str) -> int:
        (value,) = _INT32.unpack(self._take(_INT32.size, what))
        return int(value)

    def _take(self, size: int, what: str) -> bytes:
        """Return the next ``size`` bytes; ``what`` names them in the error."""
        if size > len(self._data) - self._at:
            self._truncated(what)
        self._at += size
        return self._data[self._at - size : self._at]

    def _truncated(self, what: str) -> NoReturn:
        self._fail(f"it ends after {len(self._data):,} bytes, before the end of {what}")

    def _impossible_count(self, what: str, count: int, left: int) -> NoReturn:
        self._fail(f"it states {count:,} {what} with {left:,} bytes left")

    def _fail(self, problem: str) -> NoReturn:
        _damaged(self._where, f"the index is damaged: {problem}")

    def _not_of_text(self, got: str) -> NoReturn:
        expected = "contig names in column 1, comments marked by '#'"
        raise VcfError(self._where, "not an index of a VCF text file", expected=expected, got=got)


def _in_file_order(contigs: Iterable[IndexedContig], where: str) -> dict[str, IndexedContig]:
    """Sort contigs by offset; an overlap is an error."""
    ordered = sorted(contigs, key=lambda contig: contig.begin)
    for contig, following in pairwise(ordered):
        if following.begin < contig.end:
            _damaged(where, f"the index is damaged: {contig.name!r} and {following.name!r} overlap")
    return {contig.name: contig for contig in ordered}
