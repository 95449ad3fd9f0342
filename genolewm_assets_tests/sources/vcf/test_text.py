"""What fuzzing and a hostile reading of the scanner found: each went wrong once."""

from __future__ import annotations

import gzip
import io
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files.local import BGZF_END
from genolewm_assets.sources.vcf.count import AlleleCount, count_records
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.sources.vcf.text import TextChunk, read_text
from genolewm_assets_tests.fuzz import index_check
from genolewm_assets_tests.fuzz.seeds import index_seeds, vcf_seeds
from genolewm_assets_tests.fuzz.vcf_check import check_vcf, make_input
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.index_files import bgzip
from genolewm_assets_tests.worlds.sources.scanned_vcf import cut_small
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

TEXT = b"".join(b"%d,%d\n" % (at, at * 7919 % 9973) for at in range(2_000))
CONTAINERS = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT, mtime=0),
    "gzip of several members": gzip.compress(TEXT[:999], mtime=0) + gzip.compress(b"") + gzip.compress(TEXT[999:]),
    "BGZF": bgzip(TEXT, block_bytes=1_000),
    "BGZF, its end block within": bgzip(TEXT[:999]) + bgzip(TEXT[999:], block_bytes=700),
}


def text_of(chunks: Iterable[TextChunk]) -> bytes:
    return b"".join(part for chunk in chunks for part in chunk.parts)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size_bytes", [100, 5_000, 1 << 20])
def test_text_comes_in_order_and_is_said_how_far_it_was_read(
    monkeypatch: pytest.MonkeyPatch, container: str, threads: int, size_bytes: int
) -> None:
    cut_small(monkeypatch, size_bytes)
    data = CONTAINERS[container]
    chunks = list(read_text(io.BytesIO(data), label="a.gz", threads=threads))
    assert text_of(chunks) == TEXT
    assert [chunk.read_bytes for chunk in chunks] == sorted(chunk.read_bytes for chunk in chunks)
    assert chunks[-1].read_bytes == len(data)


@each_row("threads", [1, 2, 3])
def test_nothing_is_a_text_too(threads: int) -> None:
    for data in (b"", gzip.compress(b"", mtime=0), BGZF_END):
        assert text_of(read_text(io.BytesIO(data), label="", threads=threads)) == b""


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (CONTAINERS["BGZF"][:-28], r"^a\.gz: the file is truncated: the BGZF end-of-file block is missing"),
        (CONTAINERS["BGZF"][:5_000] + BGZF_END, r"^a\.gz, block at byte [\d,]+: "),
        (CONTAINERS["gzip"][:-500], r"^a\.gz: the file is truncated: the compressed data are incomplete"),
        (CONTAINERS["gzip"][:12], r"^a\.gz: the file is truncated: the compressed data are incomplete"),
        (CONTAINERS["gzip"][:500] + b"\xff" * 300 + CONTAINERS["gzip"][800:], r"^a\.gz, at byte [\d,]+: .*damaged"),
        (CONTAINERS["gzip"][:-8] + b"\0\0\0\0" + CONTAINERS["gzip"][-4:], r"^a\.gz, at byte [\d,]+: .*damaged"),
        (CONTAINERS["gzip"] + b"rest of a file", r"^a\.gz, at byte [\d,]+: .*damaged"),
    ],
)
def test_what_is_broken_is_named(monkeypatch: pytest.MonkeyPatch, data: bytes, message: str, threads: int) -> None:
    cut_small(monkeypatch, 700)
    with pytest.raises(VcfError, match=message):
        list(read_text(io.BytesIO(data), label="a.gz", threads=threads))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


def count(*pieces: bytes) -> tuple[int, int]:
    """Feed a text piece by piece; return records and alleles."""
    counter = AlleleCount()
    for piece in pieces:
        counter.feed(piece)
    return counter.records, counter.alleles


def count_plainly(text: str) -> tuple[int, int]:
    fields = [line.removesuffix("\r").split("\t") for line in text.removeprefix("\ufeff").split("\n")]
    alts = [each[4] for each in fields if len(each) > 4 and not each[0].startswith("#")]
    return len(alts), sum(alt.count(",") + 1 for alt in alts)


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Lines of tabs, commas and anything else, with header lines among them, and the text in pieces."""
    first, others = st.text("A,.#é", min_size=1, max_size=4), st.lists(st.text("A,.#é", max_size=4), max_size=6)
    line = st.builds(lambda chrom, rest: "\t".join([chrom, *rest]), first, others)
    lines = draw(st.lists(line | st.just("") | st.just("##x=1\t2\t3\t4\t5,6"), max_size=8))
    text = draw(st.sampled_from(["", "\ufeff##f\n"])) + draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    data = text.encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return text, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(cut_texts())
def test_the_count_equals_the_plain_count(case: tuple[str, list[bytes]]) -> None:
    text, pieces = case
    assert count(*pieces) == count_plainly(text)


SNV = ("chr1", 5, ".", "A", "C", "PASS", "AF=0.5")


def test_a_header_line_in_the_form_of_a_record_is_refused(tmp_path: Path) -> None:
    """It was read as a record of contig ``#...``, which the count of alleles passes over."""
    path = write_text(tmp_path / "a.vcf", vcf_text([SNV, ("##INFO=<ID=AF,chr1", *SNV[1:]), SNV]))
    with (
        VcfScanner(path, threads=1) as scanner,
        pytest.raises(VcfError, match="line 4: a header line follows the first"),
    ):
        list(scanner)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_contig_that_begins_as_a_byte_order_mark_does_is_counted(mark: str, tmp_path: Path) -> None:
    """The count took its record for a header."""
    path = write_text(tmp_path / "a.vcf", mark + vcf_text([("\uf8ffchr1", *SNV[1:]), SNV]))
    with VcfScanner(path, threads=1) as scanner:
        assert sum(map(len, scanner)) == scanner.alleles == count_records(path) == 2


def test_very_many_alleles_cost_no_more_than_their_text(tmp_path: Path) -> None:
    """Each allele walked the whole list: 80,000 of them took a minute and a half."""
    number = 300_000
    values = ",".join(f"0.{at % 10}" for at in range(number))
    text = vcf_text([SNV, ("chr1", 6, ".", "A", ",".join("CG" * (number // 2)), "PASS", f"AF={values}"), SNV])
    with VcfScanner(write_text(tmp_path / "a.vcf", text), threads=1) as scanner:
        rows = next(iter(scanner)).alleles()
        assert rows.alts().to_pylist()[:5] == ["C", "C", "G", "C", "G"]
        assert rows.shares_of("AF").values[-3:].tolist() == [0.8, 0.9, 0.5]
    some = rows.take([0, 3, 4, 4, number + 1])  # type: ignore[arg-type]
    assert some.alts().to_pylist() == ["C", "C", "G", "G", "C"]
    assert some.shares_of("AF").values.tolist() == [0.5, 0.2, 0.3, 0.3, 0.5]


@each_row("data", [*vcf_seeds(), make_input(b""), b""])
def test_where_fuzzing_begins(data: bytes) -> None:
    check_vcf(data)


@each_row("data", [*index_seeds(), b""])
def test_where_fuzzing_of_indexes_begins(data: bytes) -> None:
    index_check.check_index(data)
