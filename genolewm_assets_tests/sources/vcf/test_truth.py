"""The scanner against htslib on real files, and against htslib and a plain parser on made ones."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pysam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.sources.vcf.count import count_records
from genolewm_assets.sources.vcf.header import InfoField
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.fuzz.vcf_check import AS_IT_IS, PLAIN, check_vcf, make_input
from genolewm_assets_tests.referees.hostile_vcf import read_records
from genolewm_assets_tests.worlds.sources.generated_vcf import generated_vcfs
from genolewm_assets_tests.worlds.sources.index_files import bgzip
from genolewm_assets_tests.worlds.sources.scanned_vcf import Record, records_of, scan
from genolewm_assets_tests.worlds.sources.vcf_files import write_text

REAL = 11
Values = list[Any]


def real_files(shared_data: Path) -> list[Path]:
    paths = sorted(path for path in shared_data.rglob("*.vcf*") if path.suffix in {".vcf", ".gz", ".bgz"})
    assert len(paths) == REAL
    return paths


def htslib_records(file: pysam.VariantFile) -> tuple[list[Record], list[dict[str, Any]]]:
    records, infos = [], []
    for each in file:
        alts, filters = each.alts or (".",), ";".join(map(str, each.filter.keys())) or None
        records.append(Record(0, each.chrom, each.pos, each.id, str(each.ref), alts, filters))
        infos.append(dict(each.info.items()))
    return records, infos


def as_list(value: object) -> Values:
    return [None] if value is None else list(value) if isinstance(value, tuple) else [value]


def as_float32(values: Iterable[float | str | None]) -> Values:
    """Return numbers as htslib keeps them; it has no missing value beside nan."""
    floats = [None if value is None else np.float32(value) for value in values]
    return [None if value is None or math.isnan(value) else value for value in floats]


class Column:
    """One INFO field of a block, read by the method that fits what the header says of it."""

    def __init__(self, block: VcfBlock, name: str, declared: InfoField) -> None:
        self._block, self._name, self._declared = block, name, declared
        self._there = block.flag(name).tolist()
        self._texts = block.strings_of(name).to_pylist()
        self._numbers = self._typed()

    def _typed(self) -> list[Values] | None:
        number, kind = self._declared.number, self._declared.type
        parts = [part for text in self._texts if text is not None for part in text.split(",") if part != "."]
        # The typed methods read counts, and numbers from 0 to 1: all that a shard holds.
        fits = {"Integer": str.isdigit, "Float": lambda part: 0 <= float(part) <= 1}
        if number not in {"1", "A"} or kind not in fits or not all(map(fits[kind], parts)):
            return None
        rows = self._block if number == "1" else self._block.alleles()
        numbers = rows.counts_of(self._name) if kind == "Integer" else rows.shares_of(self._name)
        found: list[Values] = [[] for _ in self._texts]
        owners = range(len(self._texts)) if number == "1" else rows.record.tolist()  # type: ignore[union-attr]
        for record, value in zip(owners, numbers.arrow().to_pylist(), strict=True):
            found[record].append(value)
        return found

    def value(self, record: int) -> Values | None:
        """Return what htslib should say; None: it should not know the key."""
        if not self._there[record]:
            return None
        if self._declared.type == "Flag":
            return [True]
        if self._texts[record] is None:
            return [None]
        if self._numbers is not None:
            return self._numbers[record]
        parts = [None if part == "." else part for part in self._texts[record].split(",")]
        if self._declared.type == "Integer":
            return [None if part is None else int(part) for part in parts]
        return parts


def differences(path: Path) -> Iterator[str]:
    """Yield where a file is another to htslib than to the scanner."""
    with pysam.VariantFile(str(path)) as file:
        numbers = {name: (str(item.number), item.type) for name, item in file.header.info.items()}
        theirs, infos = htslib_records(file)
    compared = 0
    with VcfScanner(path) as scanner:
        declared = scanner.header.info
        if {name: (item.number, item.type) for name, item in declared.items()} != numbers:
            yield "the declarations of INFO"
        for block in scanner:
            for at, record in enumerate(records_of(block)):
                if record._replace(line=0) != theirs[compared + at]:
                    yield f"{record} is {theirs[compared + at]}"
            block.locate(list(declared))
            for name, field in declared.items():
                column = Column(block, name, field)
                for at in range(len(block)):
                    mine, other = column.value(at), infos[compared + at].get(name)
                    expected = as_list(other) if name in infos[compared + at] else None
                    if field.type == "String" and expected is not None and expected != [None]:
                        # htslib parts text at commas by what Number says.
                        mine = [",".join("." if part is None else part for part in mine or [])]
                        expected = [",".join("." if part is None else str(part) for part in expected)]
                    if field.type == "Float" and mine is not None and expected is not None:
                        mine, expected = as_float32(mine), as_float32(expected)
                    if mine is not None and expected is not None and not any(v is not None for v in [*mine, *expected]):
                        continue
                    if mine != expected:
                        yield f"{block.where(at)}: {name} is {mine}, not {expected}"
            compared += len(block)
    if compared != len(theirs):
        yield f"{compared} records, not {len(theirs)}"


@pytest.mark.nightly
@pytest.mark.parametrize("index", range(REAL))
def test_real_files_equal_htslib_field_by_field(shared_data: Path, index: int) -> None:
    assert list(differences(real_files(shared_data)[index])) == []


@pytest.mark.slow
def test_every_line_of_the_real_files_becomes_a_record(shared_data: Path) -> None:
    for path in real_files(shared_data):
        data = gzip.decompress(path.read_bytes()) if path.suffix != ".vcf" else path.read_bytes()
        plain = read_records(data)
        assert plain is not None
        found = [(record.line, record.chrom, record.pos, record.ref, list(record.alts)) for record in scan(path)]
        assert found == [(each.line, each.chrom, each.pos, each.ref, each.alts) for each in plain]
        assert count_records(path) == len(plain)


def digest(path: Path, **options: Any) -> list[Values]:
    """Return everything that the scanner says of the records of a file."""
    found = []
    with VcfScanner(path, **options) as scanner:
        names = list(scanner.header.info)
        for block in scanner:
            columns = [block.strings_of(name).to_pylist() for name in names]
            flags = [block.flag(name).tolist() for name in names]
            found += [list(row) for row in zip(records_of(block), *columns, *flags, strict=True)]
        found.append([scanner.records, scanner.alleles])
    return found


@given(generated_vcfs(), st.integers(0, 2), st.sampled_from([0, 20, 255]))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_made_files_equal_the_plain_parser(made: str, how: int, piece: int) -> None:
    for threads in (1, 2, 3):
        check_vcf(make_input(ended(made.encode()), how=how, piece=piece), threads=threads)


@given(
    generated_vcfs(),
    st.integers(0, 2),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=3),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_mutated_bytes_are_an_error_of_the_package_or_what_the_bytes_say(
    tmp_path_factory: pytest.TempPathFactory, made: str, how: int, threads: int, changes: list[tuple[int, int]]
) -> None:
    """Compressed bytes say what they said before: their checksum tells."""
    text = ended(made.encode())
    data = bytearray((text, gzip.compress(text, 1), bgzip(text, block_bytes=100))[how])
    for at, byte in changes:
        data[at % len(data)] = byte
    if how == PLAIN:
        check_vcf(make_input(bytes(data), how=AS_IT_IS), threads=threads)
        return
    path = tmp_path_factory.mktemp("mutated") / "a.vcf"
    expected = digest(write_text(path, text))
    with suppress(VcfError):
        assert digest(write_text(path, bytes(data)), threads=threads) == expected


def ended(text: bytes) -> bytes:
    """Return a text whose last line has a line end; only compressed text may lack it."""
    return text if text.endswith(b"\n") else text + b"\n"


@given(generated_vcfs(ends=("\n",)))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_made_files_equal_htslib(tmp_path_factory: pytest.TempPathFactory, made: str) -> None:
    path = write_text(tmp_path_factory.mktemp("made") / "a.vcf", ended(made.replace("%", "_").encode()))
    assert list(differences(path)) == []


def test_a_difference_would_be_seen(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(path for path in real_files(shared_data) if "r3.0" in path.name)
    flag = VcfBlock.flag
    monkeypatch.setattr(VcfBlock, "flag", lambda block, key: flag(block, "segdup" if key == "lcr" else key))
    assert any(": lcr is" in found for found in differences(path))
