from __future__ import annotations

import tracemalloc
from datetime import date
from pathlib import Path

import pytest

from genolewm_assets.sources.vcf.header import parse_file_date, parse_header
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.worlds.sources.vcf_files import COLUMNS, write_text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_header(tmp_path: Path, end: str) -> None:
    meta = [
        "##fileDate=20260226",
        '##INFO=<ID=vep,Number=.,Type=String,Description="a, b=c \\"quoted\\", ID=no">',
        '##INFO=<ID=AF,Number=A,Type=Float,Description="first">',
        '##INFO=<ID=AF,Number=1,Type=Integer,Description="second">',
        '##FILTER=<ID=AC0,Description="zero">',
        "##contig=<ID=chr17,length=83257441,assembly=GRCh38>",
        "##contig=<ID=17>",
    ]
    record = "17\t1\t.\tA\tC\t.\t.\t.\tGT\t0|0\t0|1"
    text = end.join(["##fileformat=VCFv4.1", *meta, COLUMNS + "\tFORMAT\tHG1\tHG2", record]) + end
    with VcfScanner(write_text(tmp_path / "a.vcf", text)) as scanner:
        header = scanner.header
    assert header.version == "v4.1"
    assert header.file_date == date(2026, 2, 26)
    assert header.info["AF"] == ("A", "Float", "first")
    assert header.info["vep"].number == "."
    assert set(header.info) == {"vep", "AF"}
    assert header.filters == {"AC0"}
    assert header.contigs == {"chr17": 83_257_441, "17": None}
    assert header.samples == ("HG1", "HG2")


@pytest.mark.parametrize(("text", "day"), [("2026-02-26", date(2026, 2, 26)), ("yesterday", None), ("", None)])
def test_file_date(text: str, day: date | None) -> None:
    assert parse_file_date(text) == day


@pytest.mark.parametrize(
    ("version", "encoded"),
    [("v4.0", False), ("v4.2", False), ("v4.3", True), ("v4.4", True), ("v5.0", True), ("4.3", False), ("", False)],
)
def test_values_are_percent_encoded_from_4_3_on(version: str, encoded: bool) -> None:
    assert parse_header([f"##fileformat=VCF{version}"], ()).percent_encoded is encoded


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line",
    [
        "##INFO=<" + "a" * 1_000_000 + ">",
        "##INFO=<ID=AF," + 'a="' * 300_000 + ">",
        "##INFO=<" + "a=" * 500_000 + ">",
        '##INFO=<ID=AF,Description="' + "\\" * 1_000_000 + ">",
        "##contig=<ID=1,length=" + "9" * 1_000_000 + ">",
    ],
)
def test_a_long_header_line_costs_no_more_than_its_length(line: str) -> None:
    header = parse_header([line], ())
    assert header.version == ""
    assert set(header.contigs.values()) <= {None}


@pytest.mark.parametrize("attribute", ["a=,", 'a="",', '\\"'])
def test_a_long_header_line_takes_little_memory(attribute: str) -> None:
    """Attributes that are not read are not kept, and a text in quotation marks is not remembered letter by letter."""
    line = '##INFO=<ID=AF,x="' + attribute * ((1 << 18) // len(attribute)) + ">"
    tracemalloc.start()
    try:
        parse_header([line], ())
        taken_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken_bytes < 2 << 20


def test_a_version_of_many_digits_is_no_version() -> None:
    assert not parse_header(["##fileformat=VCFv" + "9" * 5000 + ".3"], ()).percent_encoded
