"""A header is read up to a number of lines and bytes, whatever way the file is opened."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pysam
import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import GRCH38
from genolewm_assets.sources.vcf.header_size import MAX_HEADER_BYTES, MAX_HEADER_LINES, check_header_size
from genolewm_assets.sources.vcf.index import VariantIndex
from genolewm_assets.sources.vcf.remote import RemoteVcf
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.sources.vcf.source import VcfSource
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.sources.scanned_vcf import scan
from genolewm_assets_tests.worlds.sources.vcf_files import COLUMNS, write_text

RECORD = "chr17\t3\t.\tG\tT\t.\tPASS\tAF=0.5\n"
FIRST = "##fileformat=VCFv4.2\n"
LAST = f"{COLUMNS}\n{RECORD}"
TOO_MANY = r", line 100001: the header is too large: expected at most 100,000 lines and 16 MiB, got more\. Check that"


def header(lines: int, line: str = "##x=y") -> str:
    """Return a VCF whose header has ``lines`` lines."""
    return FIRST + f"{line}\n" * (lines - 2) + LAST


def write_indexed(path: Path, text: str) -> Path:
    write_text(path, text, "bgzip")
    pysam.tabix_index(str(path), preset="vcf", force=True)
    return path


@pytest.mark.parametrize("how", ["plain", "gzip", "bgzip"])
def test_lines_are_bounded(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.vcf"
    assert len(scan(write_text(path, header(MAX_HEADER_LINES), how))) == 1
    with path.open("rb") as file:
        check_header_size(file, label="a.vcf")
    write_text(path, header(MAX_HEADER_LINES + 1), how)
    with pytest.raises(VcfError, match=f"{path}{TOO_MANY}"):
        scan(path)
    with pytest.raises(VcfError, match=rf"^a\.vcf{TOO_MANY}"), path.open("rb") as file:
        check_header_size(file, label="a.vcf")


@pytest.mark.parametrize("line", ["##x=" + "y" * 999, "##x=" + "y" * ((6 << 20) - 1)])
def test_bytes_are_bounded(tmp_path: Path, line: str) -> None:
    most = (MAX_HEADER_BYTES - len(FIRST) - len(COLUMNS) - 1) // (len(line) + 1)
    path = tmp_path / "a.vcf"
    assert len(scan(write_text(path, header(most + 2, line), "gzip"))) == 1
    write_text(path, header(most + 3, line), "gzip")
    message = rf"a\.vcf, line {most + 2}: the header is too large"
    with pytest.raises(VcfError, match=message):
        scan(path)
    with pytest.raises(VcfError, match=message), path.open("rb") as file:
        check_header_size(file, label="a.vcf")


def test_sample_names_are_bounded(tmp_path: Path) -> None:
    names = "\tFORMAT" + "\tS1" * (MAX_HEADER_BYTES // 3)
    with pytest.raises(VcfError, match=r"a\.vcf, line 2: the header is too large"):
        scan(write_text(tmp_path / "a.vcf", FIRST + COLUMNS + names + "\n" + RECORD, "gzip"))


def test_an_indexed_file_and_a_remote_file_have_the_same_bounds(tmp_path: Path, site: WebServer) -> None:
    vcf = write_indexed(tmp_path / "all.vcf.gz", header(MAX_HEADER_LINES + 1))
    site.files.update({"all.vcf.gz": vcf.read_bytes(), "all.vcf.gz.tbi": Path(f"{vcf}.tbi").read_bytes()})
    for source in (vcf, RemoteVcf(site.url("all.vcf.gz"))):
        with pytest.raises(VcfError, match=rf"all\.vcf\.gz{TOO_MANY}"):
            scan(source, contig=GRCH38["chr17"])


class Lines(BytesIO):
    """A file in memory that knows how much of it was read."""

    taken_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken_bytes += len(data)
        return data


class InMemory(VcfSource):
    """A VCF in memory, without an index."""

    name = label = "lines.vcf"

    def __init__(self, file: Lines) -> None:
        self.file = file

    def open(self) -> tuple[BinaryIO, int]:
        return self.file, len(self.file.getbuffer())

    def index(self) -> VariantIndex | None:
        return None


@pytest.mark.parametrize("threads", [1, 2])
def test_the_rest_of_an_endless_header_is_not_read(threads: int) -> None:
    file = Lines((FIRST + "##x=y\n" * 10_000_000).encode())
    with pytest.raises(VcfError, match=TOO_MANY):
        VcfScanner(InMemory(file), threads=threads)
    assert file.taken_bytes < 24 << 20


def test_the_headers_of_cohorts_pass(tmp_path: Path) -> None:
    """Contigs with decoys and HLA alleles, a thousand INFO fields with VEP's format, a caller's command, samples."""
    consequences = "|".join(f"field_{number}" for number in range(300))
    lines = [f"##contig=<ID=HLA-{number},length=3000,assembly=GRCh38>" for number in range(3_366)]
    lines += [f'##INFO=<ID=vep{at},Number=.,Type=String,Description="Format: {consequences}">' for at in range(1_000)]
    lines += [
        '##GATKCommandLine=<ID=GenotypeGVCFs,CommandLine="' + "--variant gs://cohort/sample.g.vcf " * 50_000 + '">'
    ]
    samples = "\tFORMAT" + "".join(f"\tHG{number:07}" for number in range(100_000))
    text = FIRST + "\n".join(lines) + f"\n{COLUMNS}{samples}\n" + RECORD[:-1] + "\tGT" + "\t0|1" * 100_000 + "\n"
    with VcfScanner(write_text(tmp_path / "a.vcf", text, "bgzip")) as scanner:
        assert (len(scanner.header.contigs), len(scanner.header.info)) == (3_366, 1_000)
        assert len(scanner.header.samples) == 100_000
        assert sum(len(block) for block in scanner) == 1


def test_real_headers_are_far_below_the_bounds(shared_data: Path) -> None:
    found = [path for path in shared_data.rglob("*.vcf*") if path.suffix in {".vcf", ".gz", ".bgz"}]
    assert found
    for path in found:
        with VcfScanner(path) as scanner:
            assert scanner.header.version
            assert 10 * len(scanner.header.contigs) < MAX_HEADER_LINES
