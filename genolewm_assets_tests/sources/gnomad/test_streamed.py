"""A gnomAD VCF that is scanned as it passes: the shard of a download, interruptions, servers that fail."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError, ChecksumError, FetchError, VcfError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.files import remote
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.sources.vcf import bgzf, streamed
from genolewm_assets.sources.vcf.streamed import StreamedVcf
from genolewm_assets.variants import REJECTS_FILE, VARIANTS_FILE, ShardReport
from genolewm_assets_tests.servers.web_server import WebServer, running_server
from genolewm_assets_tests.worlds.sources.gnomad_world import PLAIN
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

CHR17 = Contig("chr17", 40_000_000, aliases=("17",))
CONTIGS = ContigSet([CHR17, Contig("chrX", 1_000)])
NAME = "gnomad.chr17.vcf.bgz"


@cache
def simulated(records: int = 3_000) -> bytes:
    """Return the text of a VCF on several contigs, whose lines are longer than a block now and then."""
    rng, rows, pos = random.Random(5), [], 1
    for at in range(records):
        pos += rng.randrange(3)
        chrom = rng.choice(["chr17"] * 8 + ["17", "chrX", "chrUn_KI270302v1", "chr5"])
        an = rng.randrange(100, 2_000)
        af = rng.choice([0.001, 0.2, 0.02, 0.5])
        more = rng.randbytes(100_000 if at % 1_000 == 700 else rng.randrange(200)).hex()
        info = f"AF={af},{af / 9};AC={int(an * af)},1;AN={an};vep={more}"
        fate = rng.choice(["PASS", "PASS", "AC0", "."])
        rows.append((chrom, pos, f"rs{at}", "A", rng.choice(["G,T", "<DEL>,C", "G,G"]), fate, info))
    return vcf_text(rows, info=[*PLAIN, "vep:.:String"]).encode()


def written(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in (VARIANTS_FILE, REJECTS_FILE)]


class Stopped(BaseException):
    """What ends a scan in a test."""


class StopAfter:
    """Listener that ends a scan at the first report past a share of the file."""

    def __init__(self, share: float) -> None:
        self._share = share

    def advance(self, done: int, total: int | None, unit: str) -> None:
        if unit == "bytes of VCF read" and total and done > self._share * total:
            raise Stopped


class World:
    """A VCF on a server, and a folder for shards of it."""

    def __init__(self, site: WebServer, folder: Path) -> None:
        self.site, self.folder, self.vcf = site, folder, folder / NAME
        if self.vcf.exists():
            self.md5: str | None = hashlib.md5(self.vcf.read_bytes()).hexdigest()
        else:
            self.publish(simulated())

    def publish(self, text: bytes, etag: str = '"v1"') -> None:
        self.vcf = write_text(self.folder / NAME, text, "bgzip")
        self.site.files[NAME], self.site.etag = self.vcf.read_bytes(), etag
        self.md5 = hashlib.md5(self.vcf.read_bytes()).hexdigest()

    def build(self, out: str, *, local: bool = False, progress: Progress = NO_PROGRESS, **params: float) -> ShardReport:
        return build_gnomad_shard(
            self.vcf if local else self.remote,
            contig=CHR17,
            contigs=CONTIGS,
            reference=None,
            params=GnomadParams(**params),  # type: ignore[arg-type]
            out_dir=self.folder / out,
            progress=progress,
        )

    @property
    def remote(self) -> StreamedVcf:
        return StreamedVcf(self.site.url(NAME), self.md5, self.folder / "downloads")

    def interrupt(self, share: float = 0.5) -> None:
        """End a scan on its way."""
        with pytest.raises(Stopped):
            self.build("streamed", progress=StopAfter(share))
        self.site.requests.clear()
        assert self.left()

    def left(self) -> list[Path]:
        return sorted((self.folder / "downloads").glob("*"))

    def offset(self) -> int:
        """Return the byte at which the last request began."""
        wanted = self.site.requests[-1][1]
        return int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0

    def check_same(self, streamed: ShardReport) -> None:
        """Compare the shard, and that nothing is left, with that of the local file."""
        local = self.build("local", local=True)
        assert (streamed.counts, streamed.rows) == (local.counts, local.rows)
        assert streamed.alleles_in_source == local.alleles_in_source
        assert streamed.source_md5 == hashlib.md5(self.vcf.read_bytes()).hexdigest()
        assert written(self.folder / "streamed") == written(self.folder / "local")
        self.remote.forget()
        assert self.left() == []


@pytest.fixture
def world(site: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(streamed, "SAVE_BYTES", 1)
    monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", 40_000)
    monkeypatch.setattr(bgzf, "_READ_BYTES", 30_000)
    return World(site, tmp_path)


def test_the_shard_is_that_of_the_local_file_after_one_request(world: World) -> None:
    report = world.build("streamed")
    assert report.rows[VARIANTS_FILE] > 400
    assert report.rows[REJECTS_FILE] > 100
    assert world.site.requests == [(f"/{NAME}", None)] * 2
    assert world.site.headed == [f"/{NAME}"]
    world.check_same(report)


@pytest.mark.parametrize("pattern", ["*v4.1*chr17.vcf.bgz", "*r2.0.1*.bgz", "*r3.0*.bgz", "*v3.1.sites.chrM*.bgz"])
def test_shards_of_real_files(pattern: str, shared_data: Path, sliced_contigs: ContigSet, world: World) -> None:
    # Without the index beside it, as a download is.
    bare = Path(shutil.copy(next(shared_data.rglob(pattern)), world.folder))
    content = world.site.files[bare.name] = bare.read_bytes()
    contig = next(each for each in sliced_contigs if f".{each.name}." in bare.name)
    reports = [
        build_gnomad_shard(
            vcf,
            contig=contig,
            contigs=sliced_contigs,
            reference=None,
            params=GnomadParams(accept_unfiltered=True),
            out_dir=world.folder / place,
        )
        for place, vcf in (
            ("local", bare),
            ("streamed", StreamedVcf(world.site.url(bare.name), hashlib.md5(content).hexdigest(), world.folder / "d")),
        )
    ]
    assert reports[0].counts == reports[1].counts
    assert written(world.folder / "local") == written(world.folder / "streamed")


def test_a_scan_that_is_ended_after_each_saved_point_goes_on_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, offsets = streamed.StreamedScanner._rest_between_texts, []

    def end_after_saving(scanner: streamed.StreamedScanner) -> None:
        save(scanner)
        if offsets[-1:] < [scanner._saved_offset] and scanner._saved_offset < scanner._size:
            offsets.append(scanner._saved_offset)
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(streamed.StreamedScanner, "_rest_between_texts", end_after_saving)
        while True:
            try:
                report = world.build("streamed")
            except Stopped:
                continue
            break
    begun = [int(wanted[6:-1]) for _, wanted in world.site.requests if wanted]
    assert begun == offsets
    assert len(offsets) > 12
    world.check_same(report)


_SCAN = """
import sys
from pathlib import Path

from genolewm_assets.sources.files import remote
from genolewm_assets.sources.vcf import bgzf, streamed

streamed.SAVE_S, bgzf.BATCH_S, remote._PORTION_S = 0.1, 0.05, 0.02
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.sources.gnomad.test_streamed import World

world = World(WebServer(int(sys.argv[1])), Path(sys.argv[2]))
world.build("streamed")
"""


@pytest.mark.nightly
def test_ten_kills_of_a_slow_scan_cost_a_twentieth_of_the_file(site: WebServer, tmp_path: Path) -> None:
    world = World(site, tmp_path)
    world.publish(simulated(100_000))
    size = len(site.files[NAME])
    site.rate = size / 75
    for kill in range(11):
        child = subprocess.Popen([sys.executable, "-c", _SCAN, str(site.port), str(tmp_path)])
        while child.poll() is None:
            time.sleep(0.01)
            if kill < 10 and site.sent > (kill + random.Random(kill).uniform(0.6, 1.4)) * size / 11:
                child.kill()
        assert child.returncode == (-signal.SIGKILL if kill < 10 else 0)
    assert size <= site.sent <= 1.05 * size
    world.build("local", local=True)
    assert written(tmp_path / "streamed") == written(tmp_path / "local")


class TestWhatIsFoundOfAnEarlierScan:
    def test_another_md5_than_expected_keeps_nothing(self, world: World) -> None:
        world.interrupt()
        world.md5 = "0" * 32
        with pytest.raises(ChecksumError, match=r"differs: expected 0{32}, got [0-9a-f]{32} over [0-9,]+ bytes\. Scan"):
            world.build("streamed")
        assert world.offset() > 0
        assert world.left() == []
        assert not list((world.folder / "streamed").iterdir())

    def test_a_file_that_changed_between_two_runs_is_scanned_from_its_beginning(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        world.interrupt()
        world.publish(simulated(2_000), '"v2"')
        report = world.build("streamed")
        assert "begins anew: the file on the server changed" in caplog.text
        world.check_same(report)

    def test_one_that_changes_while_it_is_read_is_told(self, world: World) -> None:
        world.site.cuts = [200_000]
        world.site.on_request[3] = lambda: world.publish(simulated(2_000), '"v2"')
        with pytest.raises(FetchError, match=r"no longer the version first opened .*Run it again"):
            world.build("streamed")
        world.check_same(world.build("streamed"))

    @pytest.mark.parametrize(
        "damage", ["cut", "count", "forged", "rows", "fewer rows", "no rows", "another bound", "another contig"]
    )
    def test_a_damaged_or_foreign_state_is_dropped(
        self, world: World, damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        world.interrupt(0.9)
        rows, document = world.left()
        text, content = document.read_text(), bytearray(rows.read_bytes())
        assert len(content) > 10_000
        params = {}
        if damage == "cut":
            document.write_text(text[: len(text) // 2])
        elif damage == "count":
            count = json.loads(text)["state"]["point"]["records"]
            document.write_text(text.replace(f'"records": {count}', f'"records": {count + 1}'))
        elif damage == "forged":
            forged = json.loads(text)
            del forged["sha256"]
            forged["state"]["point"]["counts"] = [1, 2]
            plain = json.dumps(forged, sort_keys=True, ensure_ascii=False, indent=2) + "\n"
            document.write_text(json.dumps({**forged, "sha256": hashlib.sha256(plain.encode()).hexdigest()}))
        elif damage == "rows":
            content[-3_000] ^= 1
        elif damage == "fewer rows":
            del content[-100:]
        elif damage == "another bound":
            params = {"min_af": 0.015}
        rows.write_bytes(content)
        if damage == "no rows":
            rows.unlink()
        elif damage == "another contig":
            rows.rename(rows.with_name(rows.name.replace("chr17", "chrX")))
            document.rename(document.with_name(document.name.replace("chr17", "chrX")))
        report = world.build("streamed", **params)
        assert (world.offset(), "begins anew" in caplog.text) == (0, damage != "another contig")
        for left in world.left() if damage == "another contig" else ():
            left.unlink()
        if not params:
            world.check_same(report)

    def test_rows_past_the_saved_ones_are_cut_off(self, world: World) -> None:
        world.interrupt()
        rows, _ = world.left()
        with rows.open("ab") as file:
            file.write(b"what was written before the power went")
        report = world.build("streamed")
        assert world.offset() > 0
        world.check_same(report)

    def test_without_md5_and_etag_nothing_tells_that_the_file_is_the_same(self, world: World) -> None:
        world.site.etag = None
        world.interrupt()
        report = world.build("streamed")
        assert world.offset() > 0
        world.md5 = None
        world.interrupt()
        report = world.build("streamed")
        assert world.offset() == 0
        world.check_same(report)

    def test_one_process_scans_a_file_at_a_time(self, world: World) -> None:
        class Second:
            def advance(self, done: int, total: int | None, unit: str) -> None:
                with pytest.raises(BusyError):
                    world.build("second")
                raise Stopped

        with pytest.raises(Stopped):
            world.build("streamed", progress=Second())
        world.check_same(world.build("streamed"))


class TestServers:
    @pytest.fixture(autouse=True)
    def _without_waiting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(remote.BACK_OFF, "multiplier", 0)

    def test_one_that_drops_stalls_and_refuses_is_asked_for_the_rest(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(remote, "_SILENCE_S", 0.3)
        world.site.statuses = [200, 200, 429, 500, 503]
        world.site.retry_after = "0"
        world.site.cuts = [None, 100_000]
        world.site.stalls = [150_000]
        report = world.build("streamed")
        assert len(world.site.requests) == 7
        world.check_same(report)

    @pytest.mark.parametrize("status", [429, 503])
    def test_one_that_always_refuses_is_one_line(self, world: World, status: int) -> None:
        world.site.statuses, world.site.retry_after = [200, *[status] * 9], "0"
        with pytest.raises(FetchError, match=rf"download failed \(HTTP {status} .*\)\. Run it again later\.$"):
            world.build("streamed")
        world.site.statuses = []
        world.check_same(world.build("streamed"))

    def test_one_that_sends_elsewhere(self, world: World) -> None:
        world.interrupt()
        with running_server() as other:
            other.files["there.bgz"] = world.site.files[NAME]
            world.site.moved[f"/{NAME}"] = f"http://localhost:{other.port}/there.bgz"
            report = world.build("streamed")
            assert other.requests[-1][1] == world.site.requests[-1][1] != None  # noqa: E711
        world.check_same(report)

    def test_one_without_ranges_serves_a_first_pass(self, world: World) -> None:
        world.site.ranges = False
        world.check_same(world.build("streamed"))
        world.interrupt()
        with pytest.raises(FetchError, match="cannot send a part of the file"):
            world.build("streamed")
        world.check_same(world.build("streamed"))

    def test_what_arrives_slowly_is_handed_on_before_it_is_much(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", 100 << 20)
        monkeypatch.setattr(bgzf, "_READ_BYTES", 1 << 20)
        monkeypatch.setattr(bgzf, "BATCH_S", 0.05)
        monkeypatch.setattr(remote, "_PORTION_S", 0.05)
        world.site.rate = 500_000
        at: list[int] = []

        class Listener:
            def advance(self, done: int, total: int | None, unit: str) -> None:
                if unit == "bytes of VCF read":
                    at.append(done)

        world.build("streamed", progress=Listener())
        assert len(at) > 5

    def test_a_file_that_is_not_bgzf_or_has_no_end_is_refused(self, world: World) -> None:
        content = world.site.files[NAME]
        for served, match in (
            (write_text(world.folder / "a.gz", simulated(), "gzip").read_bytes(), r"is not BGZF.*read: download in"),
            (content[:-28], "truncated: the BGZF end-of-file block is missing"),
            (content[:-40], "truncated: it ends within a block"),
        ):
            world.site.files[NAME], world.md5 = served, None
            with pytest.raises(VcfError, match=match):
                world.build("streamed")
