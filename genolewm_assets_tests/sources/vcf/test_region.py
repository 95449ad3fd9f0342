"""One contig of an indexed VCF: the same records as by reading all of it, without reading all of it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import FetchError, VcfError
from genolewm_assets.genome import GRCH38, Contig
from genolewm_assets.sources.files import ranges
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.sources.vcf import bgzf
from genolewm_assets.sources.vcf.remote import RemoteVcf
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.sources.vcf.source import LocalVcf, VcfSource, find_region
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.sources.gnomad_world import PLAIN
from genolewm_assets_tests.worlds.sources.index_files import index_beside
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

NAMES = ("chr2", "chr17", "chr21", "chrX")
Row = tuple[int, str, int, str]


def records_of(name: str, count: int, *, start: int = 1) -> list[tuple[object, ...]]:
    draw = random.Random(f"{name} {start}")
    return [
        (name, start + 7 * at, f"rs{at}", draw.choice("ACGT"), "T,<DEL>", "PASS", f"AF={draw.random():.3f},0;AN={at}")
        for at in range(count)
    ]


def write_indexed(path: Path, records: Sequence[tuple[object, ...]], *, csi: bool = False) -> Path:
    text = vcf_text(records, info=PLAIN, meta=[f"##contig=<ID={name}>" for name in NAMES])
    index_beside(write_text(path, text, "bgzip"), path, csi=csi)
    return path


@pytest.fixture
def vcf(tmp_path: Path) -> Path:
    records = [record for name in NAMES for record in records_of(name, 4_000)]
    return write_indexed(tmp_path / "all.vcf.gz", records)


def read(source: Path | VcfSource, contig: Contig | None, *, threads: int = 2) -> tuple[list[Row], int]:
    """Return line, CHROM, POS and REF of the records given, and the alleles counted."""
    rows: list[Row] = []
    with VcfScanner(source, contig=contig, threads=threads) as scanner:
        for block in scanner:
            columns = (block.line.tolist(), block.chroms().to_pylist(), block.pos.tolist(), block.refs().to_pylist())
            rows += zip(*columns, strict=True)
        assert scanner.records == len(rows)
        return rows, scanner.alleles


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("batch", [1, 1 << 22])
def test_a_contig_is_read_by_its_lines(vcf: Path, monkeypatch: pytest.MonkeyPatch, threads: int, batch: int) -> None:
    everything, alleles = read(vcf, None)
    assert (len(everything), alleles) == (16_000, 32_000)
    monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", batch)
    for name in NAMES:
        rows, alleles = read(vcf, GRCH38[name], threads=threads)
        assert rows == [row for row in everything if row[1] == name]
        assert alleles == 8_000


@pytest.mark.parametrize("csi", [False, True])
@pytest.mark.parametrize("names", [("17", "X"), ("NC_000017.11", "NC_000023.11")])
def test_the_index_is_asked_for_the_name_that_the_file_uses(tmp_path: Path, csi: bool, names: tuple[str, str]) -> None:
    records = [record for name in names for record in records_of(name, 50)]
    path = write_indexed(tmp_path / "a.vcf.gz", records, csi=csi)
    assert {row[1] for row in read(path, GRCH38["chr17"])[0]} == {names[0]}
    assert {row[1] for row in read(path, GRCH38["chrX"])[0]} == {names[1]}


def test_without_an_index_all_blocks_are_given(tmp_path: Path, vcf: Path) -> None:
    assert read(Path(shutil.copy(vcf, tmp_path / "bare.vcf.gz")), GRCH38["chr17"]) == read(vcf, None)
    plain = write_text(tmp_path / "plain.vcf", vcf_text(records_of("chr17", 5), info=PLAIN))
    shutil.copy(f"{vcf}.tbi", f"{plain}.tbi")
    assert len(read(plain, GRCH38["chr17"])[0]) == 5


def test_a_contig_that_the_index_does_not_know_is_looked_for_in_the_whole_file(vcf: Path) -> None:
    assert len(read(vcf, GRCH38["chr5"])[0]) == 16_000


Parts = dict[str, list[tuple[object, ...]]]
#: What is changed in the file under its index.
CHANGES: dict[str, Callable[[Parts], object]] = {
    "more of the contig": lambda parts: parts["chr17"].extend(records_of("chr17", 900, start=40_000)),
    "less of the contig": lambda parts: parts.update(chr17=parts["chr17"][:1_000]),
    "one record less": lambda parts: parts["chr17"].pop(),
    "one record more at the front": lambda parts: parts["chr2"].insert(0, ("chr2", 1, "rs", "A", "T", "PASS", ".")),
    "another contig there": lambda parts: parts.update(chr17=records_of("chr3", 4_000)),
    "the contig is gone": lambda parts: parts.update(chr17=[]),
}


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("newer", [True, False])
def test_an_index_of_another_file_is_found_out(vcf: Path, case: str, newer: bool) -> None:
    parts: Parts = {name: records_of(name, 4_000) for name in NAMES}
    CHANGES[case](parts)
    path = write_text(vcf, vcf_text([record for part in parts.values() for record in part], info=PLAIN), "bgzip")
    age = 10 if newer else -10
    os.utime(f"{path}.tbi", (path.stat().st_atime, path.stat().st_mtime + age))
    with pytest.raises(VcfError) as caught:
        read(path, GRCH38["chr17"])
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_older_index_that_fits_is_good(vcf: Path) -> None:
    expected = read(vcf, GRCH38["chr17"])
    os.utime(f"{vcf}.tbi", (0, 0))
    assert read(vcf, GRCH38["chr17"]) == expected


def test_an_index_that_cannot_be_read_is_named(vcf: Path) -> None:
    Path(f"{vcf}.tbi").write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(VcfError, match=r"all\.vcf\.gz\.tbi"):
        read(vcf, GRCH38["chr17"])


def test_damage_elsewhere_does_not_matter_and_damage_here_does(vcf: Path) -> None:
    region = find_region(LocalVcf(vcf), GRCH38["chrX"])
    assert region is not None
    expected = read(vcf, GRCH38["chrX"])
    whole = vcf.read_bytes()
    elsewhere, here = bytearray(whole), bytearray(whole)
    elsewhere[(region.begin >> 16) - 40_000] ^= 0xFF
    here[(region.begin >> 16) + 500] ^= 0xFF
    vcf.write_bytes(elsewhere)
    assert read(vcf, GRCH38["chrX"]) == expected
    vcf.write_bytes(here)
    with pytest.raises(VcfError, match="damaged"):
        read(vcf, GRCH38["chrX"])


@pytest.fixture
def remote(site: WebServer, vcf: Path) -> RemoteVcf:
    site.files.update({"all.vcf.gz": vcf.read_bytes(), "all.vcf.gz.tbi": Path(f"{vcf}.tbi").read_bytes()})
    return RemoteVcf(site.url("all.vcf.gz"))


def test_a_contig_of_a_remote_file_is_read_in_ranges(
    site: WebServer, vcf: Path, remote: RemoteVcf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_BYTES", "_MOST_BYTES", "_SKIP_BYTES"):
        monkeypatch.setattr(ranges, name, 1 << 10)
    whole = read(remote, None)[0]
    for name in NAMES[1:]:
        region = find_region(remote, GRCH38[name])
        assert region is not None
        site.requests.clear()
        assert read(remote, GRCH38[name])[0] == [row for row in whole if row[1] == name]
        assert ("/all.vcf.gz", f"bytes={region.begin >> 16}-") in site.requests


def test_a_remote_file_without_an_index_is_read_through(site: WebServer, vcf: Path, remote: RemoteVcf) -> None:
    del site.files["all.vcf.gz.tbi"]
    assert read(remote, GRCH38["chr17"]) == read(vcf, None)


def test_a_remote_file_that_changes_meanwhile_is_refused(site: WebServer, remote: RemoteVcf) -> None:
    assert read(remote, GRCH38["chr17"])[0]
    site.etag = '"v2"'
    with pytest.raises(FetchError, match=r"changed|version"):
        read(remote, GRCH38["chr17"])


def test_the_shard_is_the_same_by_file_by_region_and_by_ranges(tmp_path: Path, vcf: Path, remote: RemoteVcf) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(vcf, bare / vcf.name)
    tables = []
    sources: dict[str, Path | VcfSource] = {"file": bare / vcf.name, "region": vcf, "ranges": remote}
    for place, source in sources.items():
        how = {"contig": GRCH38["chr21"], "contigs": GRCH38, "reference": None, "out_dir": tmp_path / place}
        report = build_gnomad_shard(source, params=GnomadParams(), **how)  # type: ignore[arg-type]
        assert report.counts["alleles_in"] == report.alleles_in_source == (32_000 if place == "file" else 8_000)
        tables.append([pq.read_table(tmp_path / place / name) for name in ("variants.parquet", "rejects.parquet")])
    assert tables[0][0].num_rows > 1_000
    assert tables[0] == tables[1] == tables[2]
    files = [(tmp_path / place / "variants.parquet").read_bytes() for place in ("region", "ranges")]
    assert files[0] == files[1]
