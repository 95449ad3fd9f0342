"""Files made to harm: each is a one-line error or counted rejects; never a crash, a hang or a wrong row."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import GRCH38
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
from genolewm_assets.sources.files.local import BGZF_END
from genolewm_assets.sources.vcf import scan as vcf_scan
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.gnomad_world import PLAIN, SEQUENCE, build, snv
from genolewm_assets_tests.worlds.sources.index_files import bgzip
from genolewm_assets_tests.worlds.sources.scanned_vcf import scan
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

HEAD = vcf_text([], info=PLAIN)


@contextmanager
def refused(match: str, kind: type[Exception] = VcfError) -> Iterator[None]:
    """Expect an error of one short line."""
    with pytest.raises(kind, match=match) as caught:
        yield
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_places_outside_the_contig_are_rejected(tmp_path: Path) -> None:
    size = len(SEQUENCE)
    places = [0, 1, size, size + 1, 2**31 - 1, 2**31, 2**32, 9_999_999_999]
    records = [
        snv("AF=0.5", pos=pos, ref=chr(SEQUENCE[pos - 1]) if 0 < pos <= size else "A", alt="T") for pos in places
    ]
    records += [
        snv("AF=0.5", ref=SEQUENCE.decode() + "A", alt="A", pos=1),
        snv("AF=0.5", ref=SEQUENCE.decode(), alt="A", pos=2),
        snv("AF=0.5", ref="A" * 9_000, alt="A"),
        snv("AF=0.5", ref="A" * 11_000, alt="A"),
        snv("AF=0.5", ref=SEQUENCE[1:].decode(), alt="C", pos=2),
    ]
    rows, counts, rejects = build(tmp_path, records, info=["AF:A:Float"])
    assert [row["pos"] for row in rows] == [1, 1, size]
    assert [(row["pos"], row["reason"]) for row in rejects] == [
        *((pos, "out_of_range") for pos in places if not 0 < pos <= size),
        *((1, "out_of_range"), (2, "out_of_range"), (3, "out_of_range"), (3, "too_long")),
    ]
    assert counts["rejected.out_of_range"] == 9
    for pos in ("-1", "10000000000", "1" * 100_000, "", "+1", "1.0", "0x1", "1e3"):
        text = HEAD + "\t".join(["chr17", pos, ".", "A", "C", ".", "PASS", "AF=0.5"]) + "\n"
        with refused("line 6: (POS is not a number|a column is empty)"):
            scan(write_text(tmp_path / "bad.vcf", text))


def test_very_many_keys_and_empty_items(tmp_path: Path) -> None:
    info = ";" * 500_000 + ";".join(f"K{at}={at}" for at in range(200_000)) + ";AF=0.5" + ";" * 500_000
    rows, _, _ = build(tmp_path, [snv(info)], info=["AF:A:Float"])
    assert [row["af"] for row in rows] == [0.5]


@pytest.mark.parametrize("how", ["plain", "gzip", "bgzip"])
@pytest.mark.parametrize("threads", [1, 2])
def test_too_long_a_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, threads: int) -> None:
    monkeypatch.setattr(vcf_scan, "MAX_LINE_BYTES", 1 << 20)
    for at, text in (
        (5, HEAD.encode() + b"x" * (12 << 20)),
        (6, HEAD.encode() + b"chr17\t1\t.\tA\tC\t.\t.\t.\n" + b"x" * (12 << 20)),
        (0, b"##fileformat=VCFv4.2" + b"x" * (12 << 20)),
    ):
        with refused(rf"a\.vcf, after line {at}: a line is too long: expected at most 1 MiB, got more"):
            scan(write_text(tmp_path / "a.vcf", text, how), threads=threads)


CHILD = """
import json, resource, sys
from pathlib import Path
from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf.count import count_records
from genolewm_assets.sources.vcf.scan import VcfScanner


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def scan(path):
    with VcfScanner(path, threads=3) as scanner:
        return sum(len(block) for block in scanner)


work = {"scan": scan, "count": count_records}[sys.argv[1]]
work(Path(sys.argv[2]))
before = peak()
try:
    answer = work(Path(sys.argv[3]))
except VcfError as err:
    answer = str(err)
print(json.dumps([answer, peak() - before]))
"""
GIGABYTE = 1 << 30
RECORD = "chr17\t3\t.\tG\tT\t.\tPASS\tAF=0.5\n"
#: What a scan may take beside what libraries and compiled loops take: a few of the longest lines.
ROOM_BYTES = 200 << 20


def work_in_a_child(what: str, path: Path) -> object:
    """Scan or count a file where its memory can be measured; return the answer, or the error as text."""
    small = write_text(path.with_name("small.vcf"), HEAD + RECORD)
    command = [sys.executable, "-W", "error", "-c", CHILD, what, str(small), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    answer, taken_bytes = json.loads(run.stdout)
    assert taken_bytes < ROOM_BYTES
    return answer


def write_bgzf(path: Path, head: str, block: bytes, blocks: int) -> Path:
    """Write the same block again and again: far more text than there is file."""
    block = bgzip(block)[: -len(BGZF_END)]
    with path.open("wb") as file:
        file.write(bgzip(head.encode())[: -len(BGZF_END)])
        for _ in range(blocks):
            file.write(block)
        file.write(BGZF_END)
    assert path.stat().st_size < 64 << 20
    return path


def write_long_bgzf(path: Path, head: str) -> None:
    write_bgzf(path, head, b"A" * 0xFF00, GIGABYTE // 0xFF00 + 1)


def write_long_gzip(path: Path, head: str) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.encode())
        for _ in range(GIGABYTE >> 20):
            file.write(b"A" * (1 << 20))


def write_long_plain(path: Path, head: str) -> None:
    """Write a file with a hole, which reads as zeros and takes no room."""
    with path.open("wb") as file:
        file.write(head.encode())
        file.truncate(GIGABYTE)


@pytest.mark.nightly
@pytest.mark.parametrize("what", ["scan", "count"])
@pytest.mark.parametrize("write", [write_long_bgzf, write_long_gzip, write_long_plain])
def test_lines_of_a_gigabyte_take_little_memory(tmp_path: Path, write: Callable[[Path, str], None], what: str) -> None:
    path = tmp_path / "long.vcf.gz"
    write(path, HEAD + RECORD + "chr17\t4\t.\tA\tT\t.\tPASS\t")
    answer = work_in_a_child(what, path)
    if what == "count":
        assert answer == 2
    else:
        assert str(answer).startswith(f"{path}, after line 6: a line is too long: expected at most 32 MiB")


@pytest.mark.nightly
@each_row(
    ("head", "block", "answer"),
    [
        (HEAD, 2 * (RECORD[:-1] + ";X=" + "A" * 32_000 + "\n"), 2 * (GIGABYTE >> 16)),
        (HEAD + RECORD + "\n", "\n" * 0xFF00, 1),
        (HEAD + RECORD + "\n", 1_000 * RECORD, ", line 7: wrong number of columns"),
        (HEAD.splitlines()[0] + "\n", "##x=y\n" * 10_000, ", line 100001: the header is too large"),
    ],
)
def test_a_gigabyte_of_text_in_a_few_megabytes_of_file_takes_little_memory(
    tmp_path: Path, head: str, block: str, answer: int | str
) -> None:
    path = write_bgzf(tmp_path / "bomb.vcf.gz", head, block.encode(), GIGABYTE >> 16)
    found = work_in_a_child("scan", path)
    assert str(found).startswith(f"{path}{answer}") if isinstance(answer, str) else found == answer


def test_every_cut_of_a_file_is_an_error_or_ends_at_a_line(tmp_path: Path) -> None:
    """Of a compressed file no cut goes unnoticed; plain text may be cut where it still is a table."""
    text = vcf_text([snv("AF=0.5", pos=pos) for pos in (1, 2, 3)], info=PLAIN).encode()
    path = tmp_path / "a.vcf"
    for data in (gzip.compress(text), bgzip(text, block_bytes=100)):
        for cut in range(len(data)):
            path.write_bytes(data[:cut])
            with pytest.raises(VcfError):
                scan(path)
    whole = scan(write_text(path, text))
    for cut in range(len(text)):
        path.write_bytes(text[:cut])
        try:
            found = scan(path)
        except VcfError:
            continue
        assert found == whole[: len(found)]
        assert found


def test_a_record_that_would_not_fit_once_per_allele_is_refused(tmp_path: Path) -> None:
    alts = ",".join(["T"] * 3_000)
    path = write_text(tmp_path / "a.vcf", vcf_text([("chr17", 9, ".", "A" * 1_000_000, alts, "PASS", "AF=.")]))
    message = r"a\.vcf, line 3: a record is too large: expected at most 64 MiB .* got 28\d\d MiB"
    with pytest.raises(VcfError, match=message), VcfScanner(path) as scanner:
        list(scanner)


def test_a_clinvar_record_that_would_not_fit_once_per_allele_is_refused(tmp_path: Path) -> None:
    alts = ",".join(["T"] * 300)
    info = f"ALLELEID=1;CLNSIG=Benign;CLNDN={'x' * 1_000_000}"
    path = write_text(tmp_path / "a.vcf", vcf_text([("chr17", 9, 1, "A", alts, ".", info)], info=["CLNSIG:.:String"]))
    with pytest.raises(VcfError, match=r"a\.vcf, line 4: too many ALT alleles share a long INFO: .* got 286 MiB"):
        build_clinvar_shard(path, release="x", contigs=GRCH38, reference=None, out_dir=tmp_path / "out")


def test_records_that_are_large_together_make_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [("chr17", at, f"n{at}", "A" * 20 * at, "C,G,T", "PASS", "AF=.") for at in range(1, 60)]
    path = write_text(tmp_path / "a.vcf", vcf_text(records))
    monkeypatch.setattr(vcf_scan, "MAX_RECORD_BYTES", 5_000)
    with VcfScanner(path) as scanner:
        blocks = list(scanner)
    assert len(blocks) > 10
    assert [name for block in blocks for name in block.ids().to_pylist()] == [f"n{at}" for at in range(1, 60)]
    assert scanner.records == 59


@pytest.mark.parametrize("value", ["0.1,", ",0.1", ",", "0.1,,"])
def test_an_empty_value_of_a_list_is_refused(tmp_path: Path, value: str) -> None:
    path = write_text(tmp_path / "a.vcf", vcf_text([("chr17", 9, ".", "A", "C,G", "PASS", f"AF={value}")]))
    with VcfScanner(path) as scanner, pytest.raises(VcfError, match=r"line 3: INFO/AF does not have one value per ALT"):
        next(iter(scanner)).alleles().shares_of("AF")
