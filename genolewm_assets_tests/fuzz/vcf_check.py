"""The VCF scanner on any bytes: records and values equal to a plain parser's, or an error of the package."""

from __future__ import annotations

import gzip
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from unittest import mock

import numpy as np

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files.local import Compression, detect_compression
from genolewm_assets.sources.vcf import bgzf
from genolewm_assets.sources.vcf import text as text_chunks
from genolewm_assets.sources.vcf.block import AlleleRows, Numbers, VcfBlock
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.referees.hostile_vcf import (
    BadValueError,
    PlainRecord,
    count,
    own_values,
    read_records,
    share,
)
from genolewm_assets_tests.worlds.sources.index_files import bgzip

PLAIN, GZIP, BGZF, AS_IT_IS = range(4)
_KEYS = ("AF", "AC", "AN")
_MAX_KEYS = 5
_FOLDER = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())


def make_input(text: bytes, *, how: int = PLAIN, piece: int = 255) -> bytes:
    """Return what :func:`check_vcf` takes: how to wrap the text, the size of its pieces (255: large), and the text."""
    return bytes([how, piece]) + text


def check_vcf(data: bytes, *, threads: int = 1) -> None:
    """Scan an input, compare, and let through nothing but errors that are right."""
    how, piece, text = (data[0] % 4, data[1], data[2:]) if len(data) >= 2 else (AS_IT_IS, 255, data)
    size = {0: 1, 255: 1 << 20}.get(piece, piece * 3)
    with (
        tempfile.NamedTemporaryFile(dir=_FOLDER, suffix=".vcf") as file,
        mock.patch.multiple(bgzf, BATCH_TEXT_BYTES=size),
        mock.patch.multiple(text_chunks, CHUNK_BYTES=size),
    ):
        file.write(_wrapped(text, how, size))
        file.flush()
        file.seek(0)
        known = how in {PLAIN, GZIP, BGZF} or not text
        if how in {PLAIN, AS_IT_IS}:
            known = detect_compression(file) is Compression.PLAIN
        cut = how in {PLAIN, AS_IT_IS} and not text.endswith(b"\n")
        records = read_records(text) if known and not cut else None
        try:
            _compare(Path(file.name), records if known else None, threads=threads)
        except VcfError as err:
            assert not known or records is None, f"a sound file is refused: {err}"
            assert "\n" not in str(err).rstrip("\n"), f"an error of several lines: {err}"
        else:
            assert not known or records is not None, "a file is read that should be refused"


def _wrapped(text: bytes, how: int, size: int) -> bytes:
    if how == GZIP:
        return gzip.compress(text, 1, mtime=0)
    if how == BGZF:
        return bgzip(text, block_bytes=min(size, 0xFF00))
    return text


def _compare(path: Path, records: Sequence[PlainRecord] | None, *, threads: int) -> None:
    done = alleles = 0
    with VcfScanner(path, threads=threads) as scanner:
        for block in scanner:
            # Where all is known to be wrong, blocks before the wrong line still come, and must do no harm.
            expected = None if records is None else records[done : done + len(block)]
            done += len(block)
            alleles += int(block.alts.sum())
            _compare_block(block, expected)
        assert scanner.records == done
        assert scanner.alleles == alleles, f"{scanner.alleles} alleles counted, {alleles} read"
    assert records is None or done == len(records), f"{done} of {len(records)} records"


def _compare_block(block: VcfBlock, records: Sequence[PlainRecord] | None) -> None:
    distinct, codes = block.distinct_chroms()
    names = [distinct[code] for code in codes.tolist()]
    if records is not None:
        columns = {
            "line": (block.line.tolist(), [r.line for r in records]),
            "chrom": (names, [r.chrom for r in records]),
            "chroms": (block.chroms().to_pylist(), names),
            "pos": (block.pos.tolist(), [r.pos for r in records]),
            "id": (block.ids().to_pylist(), [None if r.id == "." else r.id for r in records]),
            "ref": (block.refs().to_pylist(), [r.ref for r in records]),
            "filter": (block.filters().to_pylist(), [None if r.filter == "." else r.filter for r in records]),
            "alts": (block.alleles().alts().to_pylist(), [alt for r in records for alt in r.alts]),
        }
        for name, (got, expected) in columns.items():
            assert got == expected, f"{name}: {got}, expected {expected}"
    _agree(lambda: _listed(block.numeric_ids()), records, lambda r: [count(None if r.id == "." else r.id)], "ID")
    _compare_values(block, records)
    if len(block) > 1:
        # Some of the records over the same text, some of their alleles.
        some = np.arange(0, len(block), 2)
        _compare_key(block.take(some), _KEYS[0], None if records is None else [records[at] for at in some])


def _compare_values(block: VcfBlock, records: Sequence[PlainRecord] | None) -> None:
    keys = list(dict.fromkeys([*_KEYS, *_keys_of(block)]))[: _MAX_KEYS + len(_KEYS)]
    together = block.take(slice(None))
    twice = None if records is None else any(r.has_twice(key) for r in records for key in keys)
    try:
        together.locate(keys)
    except VcfError as err:
        assert twice is not False, f"{err} of {keys}"
        together = block
    else:
        assert not twice, f"one of {keys} is there twice"
    for key in keys:
        _compare_key(together, key, records)
        if together is not block:
            # Looked up alone, it is where it was found among others.
            assert [each.tolist() for each in block.spans(key)] == [each.tolist() for each in together.spans(key)]


def _compare_key(block: VcfBlock, key: str, records: Sequence[PlainRecord] | None) -> None:
    def once(read: Callable[[PlainRecord], list[object]]) -> Callable[[PlainRecord], list[object]]:
        def checked(record: PlainRecord) -> list[object]:
            if record.has_twice(key):
                raise BadValueError
            return read(record)

        return checked

    def own(read: Callable[[str | None], object]) -> Callable[[PlainRecord], list[object]]:
        return once(lambda r: [read(each) for each in own_values(r.value(key), len(r.alts))])

    rows = block.alleles()
    _agree(lambda: block.flag(key).tolist(), records, once(lambda r: [r.flag(key)]), key)
    _agree(lambda: block.strings_of(key).to_pylist(), records, once(lambda r: [r.text(r.value(key))]), key)
    _agree(lambda: _listed(block.counts_of(key)), records, once(lambda r: [count(r.value(key))]), key)
    _agree(lambda: _listed(block.shares_of(key)), records, once(lambda r: [share(r.value(key))]), key)
    decoded = once(lambda r: [r.text(each) for each in own_values(r.value(key), len(r.alts))])
    _agree(lambda: rows.strings_of(key).to_pylist(), records, decoded, key)
    _agree(lambda: _listed(rows.counts_of(key)), records, own(count), key)
    _agree(lambda: _listed(rows.shares_of(key)), records, own(share), key)
    _compare_some_alleles(rows, key)


def _compare_some_alleles(rows: AlleleRows, key: str) -> None:
    """Values of every other allele are those it has among all."""
    some = np.arange(0, len(rows), 2)
    try:
        expected = rows.strings_of(key).to_pylist()[::2]
    except VcfError:
        return
    assert rows.take(some).strings_of(key).to_pylist() == expected
    assert rows.take(some).alts().to_pylist() == rows.alts().to_pylist()[::2]


def _agree(
    read: Callable[[], Iterable[object]],
    records: Sequence[PlainRecord] | None,
    plain: Callable[[PlainRecord], list[object]],
    named: str,
) -> None:
    """Compare what the scanner reads with what is right, or its error with an error."""
    expected: list[object] | None = None
    if records is not None:
        try:
            expected = [value for record in records for value in plain(record)]
        except BadValueError:
            expected = None
    try:
        got = list(read())
    except VcfError as err:
        assert records is None or expected is None, f"{named}: refused ({err}), expected {expected}"
        return
    assert records is None or expected is not None, f"{named}: {got}, expected an error"
    assert records is None or repr(got) == repr(expected), f"{named}: {got}, expected {expected}"


def _listed(numbers: Numbers) -> list[object]:
    values = [value if there else None for value, there in zip(*map(np.ndarray.tolist, numbers), strict=True)]
    assert not any(isinstance(value, float) and math.isnan(value) for value in values)
    assert numbers.arrow().to_pylist() == values
    return values


def _keys_of(block: VcfBlock) -> list[str]:
    info = block.column(7)
    items = (item for row in range(min(len(block), 8)) for item in block.piece(info, row).split(";"))
    return [key for key in dict.fromkeys(item.partition("=")[0] for item in items) if key]
