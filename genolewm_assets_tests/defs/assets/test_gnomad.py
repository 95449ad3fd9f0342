"""``gnomad/shard`` and ``clinvar/shard`` of files that state another assembly or release than the catalogue."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.errors import RejectedResourceError
from genolewm_assets.sample.bgzip import write_bgzip
from genolewm_assets.sources.files import CHECKSUM_MATCHES
from genolewm_assets.variants import CONTIGS_KNOWN
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld, check_of, refusal_of

OLD, NEW = RELEASES
GNOMAD = "gnomad.chr17.vcf.bgz"


@pytest.fixture
def world(world: TinyWorld) -> TinyWorld:
    world.make("reference/genome")
    return world


def rewrite(path: Path, edit: Callable[[str], str]) -> None:
    """Edit the text of a source and publish its new MD5."""
    write_bgzip(path, edit(gzip.decompress(path.read_bytes()).decode()).encode())


def stating(line: str, text: str) -> str:
    kept = [each for each in text.splitlines(keepends=True) if not each.startswith("##reference")]
    return "".join(kept).replace("#CHROM", f"{line}\n#CHROM")


def refusal(world: TinyWorld, asset: str, partition: str) -> str:
    """Materialise an asset that must fail with a message, and check that no row was published."""
    said = refusal_of(world.materialize(asset, partition=partition))
    with pytest.raises(RejectedResourceError):
        world.open(asset, partition)
    assert not list(world.root.glob(f"{asset.split('/', maxsplit=1)[0]}/**/*.parquet"))
    return said


def test_a_streamed_file_gives_the_shard_of_a_download_and_the_other_way_of_reading_rebuilds_nothing(
    world: TinyWorld, site: WebServer
) -> None:
    for name in (GNOMAD, f"{GNOMAD}.md5"):
        site.files[name] = (world.folder / name).read_bytes()
    (md5, *_) = site.files[f"{GNOMAD}.md5"].decode().split()
    tables = []
    for how, other in (("stream", "download"), ("download", "stream")):
        shutil.rmtree(world.root / "gnomad", ignore_errors=True)
        for read in (how, other):
            site.requests.clear()
            source = {"url": site.url(GNOMAD), "md5": "published", "read": read}
            world.edit_catalog(gnomad={"sources": {"chr17": source}})
            result = world.materialize("gnomad/shard", partition="chr17")
            assert result.success
            assert (f"/{GNOMAD}" in dict(site.requests)) == (read == how)
            checked = check_of(result, CHECKSUM_MATCHES)
            assert (checked.passed, checked.metadata["md5"].value) == (True, md5)
        shard = world.open("gnomad/shard", "chr17")
        tables.append([shard.file(name).read_bytes() for name in ("variants.parquet", "rejects.parquet")])
        assert not list((world.root / "work/downloads").rglob("*gnomad*"))
    assert tables[0] == tables[1]


def test_another_assembly_or_release_that_a_file_states_fails_its_step(world: TinyWorld) -> None:
    for line, message in (
        ("##reference=GRCh37", "states another assembly in ##reference: expected GRCh38, got 'GRCh37'"),
        ("##contig=<ID=17,assembly=hg19>", "states another assembly in ##contig of '17': expected GRCh38"),
        ("##contig=<ID=22,length=51304566>", "contig '22' the length of another assembly: expected 50818468 bp"),
        ("##gnomAD_version=3.1.2", "another gnomAD release: expected '4.1', as declared, got 3.1.2"),
    ):
        rewrite(world.folder / GNOMAD, partial(stating, line))
        assert message in refusal(world, "gnomad/shard", "chr17")
        world.write_gnomad("chr17", world.gnomad_records("chr17"))
    rewrite(world.vcf(NEW), partial(stating, "##reference=GRCh37"))
    world.make("clinvar/release", NEW)
    assert "expected GRCh38, got 'GRCh37'" in refusal(world, "clinvar/shard", NEW)


def test_contigs_that_the_catalogue_lacks_are_told_and_what_resembles_its_own_is_refused(world: TinyWorld) -> None:
    records = world.clinvar_records()
    for share, name, passed in ((5, "NC_000013.11", True), (5, "NT_187633.1", False), (200, "NT_187633.1", True)):
        others = [line.replace("17", name, 1) for line in records[: max(1, len(records) // share)]]
        world.write_clinvar(NEW, header_date=NEW, records=[*records, *records, *others][::1])
        result = publish_clinvar(world)
        check = check_of(result, CONTIGS_KNOWN)
        assert result.success
        assert (check.passed, check.severity) == (passed, dg.AssetCheckSeverity.WARN)
        if not passed:
            (row,) = check.metadata["offending"].records
            assert (row.data["contig"], row.data["records"]) == (name, len(others))
            assert "aliases" in check.metadata["remedy"].value
    world.write_clinvar(NEW, header_date=NEW, records=[*records, records[0].replace("17", "chromosome_17", 1)])
    said = refusal_of(publish_clinvar(world))
    assert "'chromosome_17'" in said
    assert "It resembles 'chr17': if that is meant, add it under the contig's aliases" in said


def publish_clinvar(world: TinyWorld) -> dg.ExecuteInProcessResult:
    """Build the newest release anew."""
    for folder in ("clinvar", "clinvar_releases"):
        shutil.rmtree(world.root / folder, ignore_errors=True)
    world.make("clinvar/release", NEW)
    return world.materialize("clinvar/shard", partition=NEW)


def test_a_file_without_filters_fails_its_step_unless_it_is_declared(world: TinyWorld) -> None:
    rewrite(world.folder / GNOMAD, lambda text: text.replace("\tPASS\t", "\t.\t").replace("\tAC0\t", "\t.\t"))
    assert "gnomad.sources.chr17.accept_unfiltered: true" in refusal(world, "gnomad/shard", "chr17")
    world.edit_catalog(gnomad={"sources": {"chr17": {"accept_unfiltered": True}}})
    world.make("gnomad/shard", "chr17")
