from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files.local import BGZF_END
from genolewm_assets.sources.vcf.count import count_records
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.sources.vcf.source import LocalVcf
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.sources.index_files import bgzip
from genolewm_assets_tests.worlds.sources.scanned_vcf import Record, cut_small, scan, scan_with_info
from genolewm_assets_tests.worlds.sources.vcf_files import COLUMNS, vcf_text, write_text

RECORDS = [
    ("chr17", 9, "rs1", "A", "C,G", "PASS", "AF=0.25,0.5;AC=1,2;XAF=0.9;flag"),
    ("chr17", 3, ".", "ac", "a", ".", "AF=."),
    ("chr21", 7, "x;y", "T", ".", "AC0;RF", "."),
]
TEXT = vcf_text(RECORDS, info=["AF:A:Float", "AC:A:Integer"], meta=["##fileDate=2026-02-26", "##contig=<ID=chr17>"])
FOUND = [
    Record(7, "chr17", 9, "rs1", "A", ("C", "G"), "PASS"),
    Record(8, "chr17", 3, None, "ac", ("a",), None),
    Record(9, "chr21", 7, "x;y", "T", (".",), "AC0;RF"),
]


@pytest.mark.parametrize("size_bytes", [1, 1 << 20])
@pytest.mark.parametrize("cut", ["\n", "5\n", "AC=1,2;XAF=0.9;flag\n"])
def test_plain_text_that_is_cut_within_a_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int, cut: str
) -> None:
    """Such a line may have all its columns, with a shorter INFO."""
    cut_small(monkeypatch, size_bytes)
    text = vcf_text(RECORDS[:1], info=["AF:A:Float"]) if cut != "\n" else TEXT
    text = text.replace("AC=1,2;XAF=0.9;flag", "AF=0.25") if cut == "5\n" else text
    assert text.endswith(cut)
    path = write_text(tmp_path / "a.vcf", text.removesuffix(cut))
    with pytest.raises(VcfError, match=r"a\.vcf: the file ends within a line: expected a line end .* may be truncated"):
        scan(path)


@pytest.mark.parametrize("how", ["gzip", "bgzip"])
def test_the_last_line_end_may_be_missing_in_a_compressed_file(tmp_path: Path, how: str) -> None:
    assert scan(write_text(tmp_path / "a.vcf", TEXT.removesuffix("\n"), how)) == FOUND


def test_sample_columns_are_counted_too(tmp_path: Path) -> None:
    head = f"##fileformat=VCFv4.2\n{COLUMNS}\tFORMAT\tHG1\n"
    good = "chr17\t5\t.\tA\tC\t.\tPASS\tAF=0.5\tGT\t0|1\n"
    ((record, info),) = scan_with_info(write_text(tmp_path / "a.vcf", head + good), ["AF", "GT"])
    assert record == Record(3, "chr17", 5, None, "A", ("C",), "PASS")
    assert info == {"AF": "0.5"}
    for bad, count in ((good.replace("\t0|1", ""), 9), (good.replace("\n", "\t0|0\n"), 11)):
        with pytest.raises(VcfError, match=rf"line 4: wrong number of columns: expected 10 columns .*, got {count}"):
            scan(write_text(tmp_path / "a.vcf", head + good + bad))


BODY = TEXT.encode()
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "not VCF": (b">chr17\nACGT\n", "line 1: not a VCF file"),
    "BCF": (b"BCF\x02\x02rest", "line 1: not a VCF file"),
    "an index": (b"TBI\x01\xf0\x00", "binary data, not a VCF file"),
    "header only": (b"##fileformat=VCFv4.2\n##source=x\n", "the header has no #CHROM line"),
    "record before #CHROM": (BODY.replace(COLUMNS.encode() + b"\n", b""), "line 6: no #CHROM line before the first"),
    "a column short": (BODY.replace(b"\tPASS", b""), "line 7: wrong number of columns: expected 8 .* got 7"),
    "a column more": (BODY.replace(b"\tPASS", b"\tPASS\tPASS"), "line 7: wrong number of columns: .* got 9"),
    "empty column": (BODY.replace(b"\tT\t", b"\t\t"), "line 9: a column is empty"),
    "empty INFO": (BODY[:-2] + b"\n", "line 9: a column is empty"),
    "empty CHROM": (BODY.replace(b"chr21", b""), "line 9: a column is empty"),
    "tabs alone": (BODY + b"\t" * 7 + b"\n", "line 10: a column is empty"),
    "blank line": (BODY.replace(b"chr21", b"\nchr21"), "line 9: wrong number of columns"),
    "header without a record": (TEXT[: TEXT.index("chr17\t9")].encode(), "bad.vcf: the file holds no record"),
    "blank lines alone": (TEXT[: TEXT.index("chr17\t9")].encode() + b"\n\n", "bad.vcf: the file holds no record"),
    "NUL": (BODY.replace(b"x;y", b"x\0y"), "line 9: the text holds a NUL byte: .* got byte 0x00"),
    "NUL in the header": (BODY.replace(b"of a test", b"\0"), "line 4: the text holds a NUL byte"),
    "zeros at the end": (BODY + bytes(512), "line 10: the text holds a NUL byte"),
    "line ends of old Macs": (BODY.replace(b"\n", b"\r"), "no #CHROM line"),
    "header again": (BODY + BODY, "line 10: a header line follows the first record"),
    "POS": (BODY.replace(b"\t9\t", b"\t9a\t"), "line 7: POS is not a number: .* got '9a'"),
    "negative POS": (BODY.replace(b"\t9\t", b"\t-9\t"), "line 7: POS is not a number"),
    "POS with a blank": (BODY.replace(b"\t9\t", b"\t 9\t"), "line 7: POS is not a number: .* got ' 9'"),
    "POS in another script": (BODY.replace(b"\t9\t", "\t\u0669\t".encode()), "line 7: POS is not a number"),
    "huge POS": (BODY.replace(b"\t9\t", b"\t10000000000\t"), "line 7: POS is not a number: expected at most 10 digits"),
    "endless POS": (BODY.replace(b"\t9\t", b"\t" + b"9" * 5000 + b"\t"), "line 7: POS is not a number"),
    "latin-1": (BODY.replace(b"x;y", b"\xe4"), "line 9: the text is not UTF-8: .* got byte 0xe4"),
    "latin-1 header": (BODY.replace(b"of a test", b"\xff"), "line 4: the text is not UTF-8"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("how", ["plain", "bgzip"])
@pytest.mark.parametrize("size_bytes", [3, 1 << 20])
def test_bad_text_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, how: str, size_bytes: int
) -> None:
    cut_small(monkeypatch, size_bytes)
    data, message = HOSTILE[case]
    path = write_text(tmp_path / "bad.vcf", data, "plain" if case == "empty" else how)
    with pytest.raises(VcfError, match=message) as caught:
        scan(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("size_bytes", [1, 5, 1000])
@pytest.mark.parametrize("end", ["\n", "\n\n", "\r\n"])
def test_byte_order_mark_and_blank_lines_at_the_end_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int, end: str
) -> None:
    cut_small(monkeypatch, size_bytes)
    path = write_text(tmp_path / "a.vcf", f"\ufeff{TEXT}{end}")
    assert scan(path) == FOUND
    assert count_records(path) == 3
    with pytest.raises(VcfError, match="line 10: wrong number of columns"):
        scan(write_text(tmp_path / "b.vcf", TEXT + end + TEXT.splitlines()[-1]))


def test_errors_may_name_the_file_by_another_name(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.vcf", TEXT.replace("\t9\t", "\tx\t"))
    with pytest.raises(VcfError, match=r"^https://there/b\.vcf, line 7: POS"):
        scan(LocalVcf(path, "https://there/b.vcf"))
    path = write_text(tmp_path / "a.vcf.gz", bgzip(BODY)[: -len(BGZF_END)])
    with pytest.raises(VcfError, match=r"^https://there/b\.vcf: the file is truncated"):
        scan(LocalVcf(path, "https://there/b.vcf"))


@pytest.mark.timeout(10)
def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    places = {tmp_path / "pipe": "not a regular file: expected a VCF file", Path("/dev/zero"): "not a regular file"}
    for path, problem in (places | {tmp_path: "is a directory", tmp_path / "absent.vcf": "does not exist"}).items():
        with pytest.raises(VcfError, match=problem):
            VcfScanner(path)


@pytest.mark.parametrize("how", ["plain", "gzip", "bgzip"])
@pytest.mark.parametrize("threads", [1, 2])
def test_progress_ends_at_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, threads: int) -> None:
    cut_small(monkeypatch, 100)
    seen = Heard()
    path = write_text(tmp_path / "a.vcf", TEXT, how)
    scan(path, progress=seen, threads=threads)
    size = path.stat().st_size
    done = [call[0] for call in seen]
    assert done == sorted(done)
    assert seen[-1] == (size, size, "bytes of VCF read")


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Let nothing be closed by chance."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("how", ["plain", "gzip", "bgzip"])
def test_no_thread_outlives_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    cut_small(monkeypatch, 256)
    text = vcf_text([("chr17", at, ".", "A", "C", "PASS", ".") for at in range(1, 2_000)])
    path = write_text(tmp_path / "a.vcf", text, how)
    with VcfScanner(path, threads=3) as scanner:
        next(iter(scanner))
        assert readers()
    assert not readers()
    for bad in (
        text.replace("\t700\t", "\tx\t"),
        text.replace("\t700\t", "\t\0\t"),
        text.replace(COLUMNS, COLUMNS[1:]),
        text.replace("VCFv4.2", "VCFv4.2\0"),
        text[1:],
    ):
        with pytest.raises(VcfError):
            scan(write_text(tmp_path / "b.vcf", bad, how), threads=3)
        assert not readers()
