from __future__ import annotations

import gzip
import os
from datetime import date
from pathlib import Path

import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import InputError, VcfError
from genolewm_assets.sources import vcf as module
from genolewm_assets.sources.allele_count import count_alleles
from genolewm_assets.sources.compression import BGZF_END
from genolewm_assets.sources.vcf import VcfReader, parse_file_date
from genolewm_assets.sources.vcf_record import VcfInfo, VcfRecord
from genolewm_assets_tests.sources.vcf_files import COLUMNS, vcf_text, write_text

RECORDS = [
    ("chr17", 9, "rs1", "A", "C,G", "PASS", "AF=0.25,0.5;AC=1,2;XAF=0.9;flag"),
    ("chr17", 3, ".", "ac", "a", ".", "AF=."),
    ("chr21", 7, "x;y", "T", ".", "AC0;RF", "."),
]
TEXT = vcf_text(RECORDS, info=["AF:A:Float", "AC:A:Integer"], meta=["##fileDate=2026-02-26", "##contig=<ID=chr17>"])
KEYS = [
    (7, "chr17", 9, "rs1", "A", ("C", "G"), ("PASS",)),
    (8, "chr17", 3, None, "ac", ("a",), ()),
    (9, "chr21", 7, "x;y", "T", (".",), ("AC0", "RF")),
]


def read(path: Path) -> list[VcfRecord]:
    with VcfReader(path) as reader:
        records = list(reader)
        assert reader.records == len(records)
    return records


def keys(records: list[VcfRecord]) -> list[tuple[object, ...]]:
    return [(r.line, r.chrom, r.pos, r.id, r.ref, r.alts, r.filters) for r in records]


@pytest.mark.parametrize("how", ["plain", "gzip", "bgzip"])
@pytest.mark.parametrize("name", ["a.vcf", "a.vcf.gz", "a.vcf.bgz"])
def test_container_is_told_by_content_not_by_name(tmp_path: Path, how: str, name: str) -> None:
    assert keys(read(write_text(tmp_path / name, TEXT, how))) == KEYS


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_do_not_depend_on_block_borders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, end: str
) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", block)
    text = TEXT.replace("\n", end).replace("rs1", "rsä1")
    records = read(write_text(tmp_path / "a.vcf", text))
    assert [r.id for r in records] == ["rsä1", None, "x;y"]
    assert [r.line for r in records] == [7, 8, 9]
    assert records[0].info.get("XAF") == "0.9"
    assert "flag" in records[0].info


def test_last_line_end_may_be_missing(tmp_path: Path) -> None:
    assert keys(read(write_text(tmp_path / "a.vcf", TEXT.removesuffix("\n")))) == KEYS


def test_header(tmp_path: Path) -> None:
    meta = [
        "##fileDate=20260226",
        '##INFO=<ID=vep,Number=.,Type=String,Description="a, b=c \\"quoted\\", ID=no">',
        '##INFO=<ID=AF,Number=A,Type=Float,Description="first">',
        '##INFO=<ID=AF,Number=1,Type=Integer,Description="second">',
        '##FILTER=<ID=AC0,Description="zero">',
        "##contig=<ID=chr17,length=83257441,assembly=GRCh38>",
        "##contig=<ID=17>",
    ]
    text = "\n".join(["##fileformat=VCFv4.1", *meta, COLUMNS + "\tFORMAT\tHG1\tHG2"]) + "\n"
    with VcfReader(write_text(tmp_path / "a.vcf", text)) as reader:
        header = reader.header
    assert header.version == "v4.1"
    assert header.file_date == date(2026, 2, 26)
    assert header.info["AF"] == ("A", "Float", "first")
    assert header.info["vep"].number == "."
    assert set(header.info) == {"vep", "AF"}
    assert header.filters == {"AC0"}
    assert header.contigs == {"chr17": 83_257_441, "17": None}
    assert header.samples == ("FORMAT", "HG1", "HG2")[1:]


@pytest.mark.parametrize(("text", "day"), [("2026-02-26", date(2026, 2, 26)), ("yesterday", None), ("", None)])
def test_file_date(text: str, day: date | None) -> None:
    assert parse_file_date(text) == day


def test_sample_columns_are_counted_too(tmp_path: Path) -> None:
    head = f"##fileformat=VCFv4.2\n{COLUMNS}\tFORMAT\tHG1\n"
    good = "chr17\t5\t.\tA\tC\t.\tPASS\tAF=0.5\tGT\t0|1\n"
    assert len(read(write_text(tmp_path / "a.vcf", head + good))) == 1
    with pytest.raises(VcfError, match=r"line 4: wrong number of columns: expected 10 columns .*, got 9"):
        read(write_text(tmp_path / "a.vcf", head + good + good.replace("\t0|1", "")))


BODY = TEXT.encode()
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "not VCF": (b">chr17\nACGT\n", "line 1: not a VCF file"),
    "BCF": (b"BCF\x02\x02rest", "line 1: not a VCF file"),
    "an index": (b"TBI\x01\xf0\x00", "not a VCF file, but binary data"),
    "header only": (b"##fileformat=VCFv4.2\n##source=x\n", "the header has no #CHROM line"),
    "record before #CHROM": (BODY.replace(COLUMNS.encode() + b"\n", b""), "line 6: no #CHROM line before the first"),
    "a column short": (BODY.replace(b"\tPASS", b""), "line 7: wrong number of columns: expected 8 .* got 7"),
    "a column more": (BODY.replace(b"\tPASS", b"\tPASS\tPASS"), "line 7: wrong number of columns: .* got 9"),
    "empty column": (BODY.replace(b"\tT\t", b"\t\t"), "line 9: a column is empty"),
    "blank line": (BODY.replace(b"chr21", b"\nchr21"), "line 9: wrong number of columns"),
    "header without a record": (TEXT[: TEXT.index("chr17\t9")].encode(), "bad.vcf: the file holds no record"),
    "blank lines alone": (TEXT[: TEXT.index("chr17\t9")].encode() + b"\n\n", "bad.vcf: the file holds no record"),
    "NUL": (BODY.replace(b"x;y", b"x\0y"), "line 9: the text holds a NUL byte: .* got byte 0x00"),
    "NUL in the header": (BODY.replace(b"of a test", b"\0"), "line 4: the text holds a NUL byte"),
    "zeros at the end": (BODY + bytes(512), "line 10: the text holds a NUL byte"),
    "line ends of old Macs": (BODY.replace(b"\n", b"\r"), "no #CHROM line"),
    "header again": (BODY + BODY, "line 10: a header line stands among the records"),
    "POS": (BODY.replace(b"\t9\t", b"\t9a\t"), "line 7: POS is not a number: .* got '9a'"),
    "negative POS": (BODY.replace(b"\t9\t", b"\t-9\t"), "line 7: POS is not a number"),
    "endless POS": (BODY.replace(b"\t9\t", b"\t" + b"9" * 5000 + b"\t"), "line 7: POS is not a number"),
    "latin-1": (BODY.replace(b"x;y", b"\xe4"), "line 9: the text is not UTF-8: .* got byte 0xe4"),
    "latin-1 header": (BODY.replace(b"of a test", b"\xff"), "line 4: the text is not UTF-8"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("how", ["plain", "bgzip"])
def test_hostile_text_is_named(tmp_path: Path, case: str, how: str) -> None:
    data, message = HOSTILE[case]
    path = write_text(tmp_path / "bad.vcf", data, "plain" if case == "empty" else how)
    with pytest.raises(VcfError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("block", [1, 5, 1000])
@pytest.mark.parametrize("end", ["\n", "\n\n", "\r\n"])
def test_byte_order_mark_and_blank_lines_at_the_end_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, end: str
) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", block)
    path = write_text(tmp_path / "a.vcf", f"\ufeff{TEXT}{end}")
    assert keys(read(path)) == KEYS
    assert count_alleles(path) == 4
    with pytest.raises(VcfError, match="line 10: wrong number of columns"):
        read(write_text(tmp_path / "b.vcf", TEXT + end + TEXT.splitlines()[-1]))


@pytest.mark.timeout(10)
def test_a_pipe_or_a_device_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(VcfError, match="is not a regular file: expected a VCF file"):
            VcfReader(path)


def test_errors_may_name_the_file_by_another_name(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.vcf", TEXT.replace("\t9\t", "\tx\t"))
    with (
        pytest.raises(VcfError, match=r"^https://there/b\.vcf, line 7: POS"),
        VcfReader(path, named="https://there/b.vcf") as reader,
    ):
        list(reader)


@pytest.mark.parametrize("info", ["AF=0.1;AC=1;AF=0.1", "AF=0.1;AF=0.9", "AF=.;X;AF=0.9"])
def test_an_info_key_that_is_there_twice_is_refused(tmp_path: Path, info: str) -> None:
    (record,) = read(write_text(tmp_path / "a.vcf", vcf_text([("chr1", 1, ".", "A", "C", "PASS", info)])))
    with pytest.raises(VcfError, match=r"a\.vcf, line 3: INFO/AF is there twice"):
        record.allele_share("AF", 0)
    with pytest.raises(VcfError, match=r"a\.vcf, line 3: INFO/AF is there twice"):
        record.info.values()
    assert VcfInfo("AF=1;;AC=2;").values() == {"AF": "1", "AC": "2"}


@pytest.mark.parametrize("text", ["0_1.0", "0.1 ", " 0.1", "0x1", "1e", ".", "\u0661", "0,1", "+-1"])
def test_numbers_are_those_of_the_specification(tmp_path: Path, text: str) -> None:
    (record,) = read(write_text(tmp_path / "a.vcf", vcf_text([("chr1", 1, ".", "A", "C", "PASS", "AF=1")])))
    with pytest.raises(VcfError, match="INFO/AF cannot be read"):
        record.parse_share("AF", f"{text}." if text == "." else text)
    for good, value in {"1": 1.0, "1.": 1.0, ".5": 0.5, "1e-3": 0.001, "1.00000E+00": 1.0, "+0.5": 0.5}.items():
        assert record.parse_share("AF", good) == value


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "absent.vcf")
    with pytest.raises(VcfError, match="is a directory"):
        read(tmp_path)


def test_truncated_and_damaged_compression(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = vcf_text([("chr17", at, ".", "A", "C", "PASS", f"AF=0.{at * 7919 % 9973}") for at in range(1, 20_000)])
    bgzip = write_text(tmp_path / "whole.vcf.bgz", text, "bgzip").read_bytes()
    assert bgzip.endswith(BGZF_END)
    plain_gzip = gzip.compress(text.encode())
    flipped = bytearray(bgzip)
    flipped[len(flipped) // 2] ^= 0xFF
    cases = {
        "no EOF block": (bgzip[: -len(BGZF_END)], "truncated: the BGZF end-of-file block is missing"),
        "cut in a block": (bgzip[: len(bgzip) // 2], "truncated"),
        "cut, end block kept": (bgzip[: len(bgzip) // 2] + BGZF_END, "truncated|damaged"),
        "cut gzip": (plain_gzip[: len(plain_gzip) // 2], "truncated: the compressed data end in the middle"),
        "cut gzip trailer": (plain_gzip[:-3], "truncated|damaged"),
        "flipped": (bytes(flipped), "damaged|truncated"),
    }
    for name, (data, message) in cases.items():
        path = write_text(tmp_path / "bad.vcf.gz", data)
        with pytest.raises(VcfError, match=message):
            read(path)
            pytest.fail(name)
    assert capfd.readouterr() == ("", "")


def test_no_flipped_byte_changes_a_record(tmp_path: Path) -> None:
    whole = write_text(tmp_path / "whole.vcf.bgz", TEXT, "bgzip").read_bytes()
    named = 0
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        try:
            # What a flip may leave unharmed: the modification time, the operating system, the file name's flag.
            assert keys(read(write_text(tmp_path / "bad.vcf.bgz", bytes(data)))) == KEYS, at
        except VcfError:
            named += 1
    assert named > len(whole) * 0.8


def test_number_a_values_follow_their_allele(tmp_path: Path) -> None:
    first, second, third = read(write_text(tmp_path / "a.vcf", TEXT))
    assert [first.allele_share("AF", i) for i in (0, 1)] == [0.25, 0.5]
    assert [first.allele_int("AC", i) for i in (0, 1)] == [1, 2]
    assert second.allele_share("AF", 0) is None
    assert third.allele_int("AC", 0) is None


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ("AF=0.1", "does not have one value per ALT allele: expected 2 values, got '0.1'"),
        ("AF=0.1,0.2,0.3", "does not have one value per ALT allele"),
        ("AF=x,0.1", "INFO/AF cannot be read: expected a number from 0 to 1, got 'x'"),
        ("AF=1.5,0.1", "INFO/AF cannot be read"),
        ("AF=-0.5,0.1", "INFO/AF cannot be read"),
        ("AF=inf,0.1", "INFO/AF cannot be read"),
    ],
)
def test_bad_frequency_is_named(tmp_path: Path, info: str, message: str) -> None:
    (record,) = read(write_text(tmp_path / "a.vcf", vcf_text([("chr1", 1, ".", "A", "C,G", "PASS", info)])))
    with pytest.raises(VcfError, match=f"line 3: .*{message}"):
        record.allele_share("AF", 0)


def test_bad_count_is_named_and_nan_is_missing(tmp_path: Path) -> None:
    text = vcf_text([("chr1", 1, ".", "A", "C", "PASS", "AN=1e3;AC=-1;AF=nan")])
    (record,) = read(write_text(tmp_path / "a.vcf", text))
    assert record.allele_share("AF", 0) is None
    with pytest.raises(VcfError, match="INFO/AN cannot be read: expected a count, got '1e3'"):
        record.site_int("AN")
    with pytest.raises(VcfError, match="INFO/AC cannot be read"):
        record.allele_int("AC", 0)


def test_frequency_keeps_double_precision(tmp_path: Path) -> None:
    (record,) = read(write_text(tmp_path / "a.vcf", vcf_text([("chr1", 1, ".", "A", "C", "PASS", "AF=0.01")])))
    share = record.allele_share("AF", 0)
    assert share is not None
    assert share >= 0.01


_NAMES = st.text("AFnx_-", min_size=1, max_size=4)


@given(st.dictionaries(_NAMES, st.none() | st.text("0123.,|", min_size=1, max_size=5)))
def test_info_lookup_finds_what_was_written(values: dict[str, str | None]) -> None:
    info = VcfInfo(";".join(name if value is None else f"{name}={value}" for name, value in values.items()) or ".")
    for name, value in values.items():
        assert name in info
        assert info.get(name) == (None if value in {None, "."} else value)
    assert info.values() == {name: value for name, value in values.items() if value not in {None, "."}}
    for absent in {"AF", "A", "F", "x"} - set(values):
        assert absent not in info
        assert info.get(absent) is None


def test_progress_ends_at_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Listener:
        def __init__(self) -> None:
            self.calls: list[tuple[int, int | None, str]] = []

        def advance(self, done: int, total: int | None, unit: str) -> None:
            self.calls.append((done, total, unit))

    monkeypatch.setattr(module, "_BLOCK_BYTES", 100)
    listener = Listener()
    path = write_text(tmp_path / "a.vcf", TEXT)
    with VcfReader(path, progress=listener) as reader:
        list(reader)
    done = [call[0] for call in listener.calls]
    assert done == sorted(done)
    assert listener.calls[-1] == (len(TEXT), len(TEXT), "bytes")


def test_every_line_of_the_real_files_becomes_a_record(shared_data: Path) -> None:
    paths = sorted((shared_data / "gnomad").rglob("*.vcf*gz")) + sorted((shared_data / "clinvar").rglob("*.vcf.gz"))
    assert len(paths) == 7
    for path in paths:
        records = read(path)
        assert count_alleles(path) == sum(len(r.alts) for r in records)
        with gzip.open(path, "rb") as lines:
            data = [(at, line) for at, line in enumerate(lines, 1) if not line.startswith(b"#")]
        assert [r.line for r in records] == [at for at, _ in data]
        assert [f"{r.chrom}\t{r.pos}\t" for r in records] == [
            b"\t".join([*line.split(b"\t")[:2], b""]).decode() for _, line in data
        ]


def test_values_equal_htslib(shared_data: Path) -> None:
    path = next((shared_data / "gnomad").rglob("*r3.0*.vcf.bgz"))
    theirs = list(pysam.VariantFile(str(path)))
    ours = read(path)
    assert len(ours) == len(theirs) == 178
    for mine, record in zip(ours, theirs, strict=True):
        assert (mine.chrom, mine.pos, mine.ref, mine.alts) == (record.chrom, record.pos, record.ref, record.alts)
        assert mine.allele_int("AC_afr", 0) == record.info["AC_afr"][0]
        assert mine.allele_share("AF_nfe", 0) == pytest.approx(record.info["AF_nfe"][0], rel=1e-6)
        assert ("lcr" in mine.info) == ("lcr" in record.info)
