"""The variant shards under kill -9, a full disk and a read-only one: the next build is as if nothing had been."""

from __future__ import annotations

import gzip
import os
import re
import resource
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.errors import ResourceError
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.sources.prepare import prepare_clinvar, prepare_gnomad
from genolewm_assets.sources.vcf import bgzf
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.store.artefacts.build import BuildPlan, build
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import DIGESTS, WORK, Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets.store.tables import spool as batch_spool
from genolewm_assets.store.tables.spool import BatchSpool
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.killing import start
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld
from genolewm_assets_tests.worlds.sources.index_files import bgzip
from genolewm_assets_tests.worlds.store.plans import picture

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("no_syncs")]

#: Steps of a build that no call of `os` marks: a block is read, rows are put aside, given back, written.
STEPS = [(VcfScanner, ["_split"]), (BatchSpool, ["append", "batches"]), (pq.ParquetWriter, ["write_table", "close"])]
SHARDS = {"gnomad": ("gnomad/shard", "chr17"), "clinvar": ("clinvar/shard", RELEASES[0])}
PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    """Sources in small blocks, with alleles of every fate, and a root that holds what the shards are made from."""
    world = TinyWorld(tmp_path_factory.mktemp("shards") / "world")
    bases = world.sequences["chr17"]
    odd = [f"chr17\t{at}\t.\t{chr(bases[at - 1])}\t<DEL>\t.\tPASS\tAC=500;AN=1000;AF=0.5" for at in (5_000, 5_001)]
    odd.append(f"chr17\t3000\t.\t{bases[2999:3005].decode()}\t{chr(bases[2999])}\t.\tPASS\tAC=500;AN=1000;AF=0.5")
    world.write_gnomad("chr17", [*world.gnomad_records("chr17"), *odd])
    reject = "17\t7000\t999\tN\t<DEL>\t.\t.\tALLELEID=1;CLNSIG=Benign"
    sources = [world.folder / "gnomad.chr17.vcf.bgz"]
    records = [*world.clinvar_records(), reject, *world.clinvar_records("chr20")]
    sources.append(world.write_clinvar(RELEASES[0], header_date=RELEASES[0], records=records))
    for source in sources:
        source.write_bytes(bgzip(gzip.decompress(source.read_bytes()), block_bytes=700))
        world.publish_md5(source)
    workspace = world.workspace()
    build(workspace.root, GATED["reference/genome"].build_plan(workspace, None, NO_PROGRESS))
    build(workspace.root, GATED["clinvar/release"].build_plan(workspace, RELEASES[0], NO_PROGRESS))
    return world


@pytest.fixture(autouse=True)
def everything_goes_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small what is put aside, so that a small build does all that a large one does."""
    monkeypatch.setattr(batch_spool, "_MEMORY_BYTES", 0)
    monkeypatch.setattr(batch_spool, "_GATHER_ROWS", 16)
    monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", 1)


class Builder:
    """Builds one shard in copies of the world's root."""

    def __init__(self, world: TinyWorld, which: str) -> None:
        self.world = world
        self.which, self.artefact = which, ArtefactId(*SHARDS[which])

    def plan(self, root: Root) -> BuildPlan:
        workspace = Workspace.open(root.path, str(self.world.catalog))
        return GATED[self.artefact.asset].build_plan(workspace, self.artefact.partition, NO_PROGRESS)

    def build(self, root: Root) -> Path:
        return build(root, self.plan(root)).directory

    def build_former(self, root: Root) -> None:
        """Publish what an older version of the code made."""
        build(root, replace(self.plan(root), code_version="0"))

    def copy_root(self, folder: Path) -> Root:
        """Copy the root as it is after ``build_former``."""
        former = self.world.folder / f"root with a former {self.which}"
        if not former.is_dir():
            shutil.copytree(self.world.root, former, symlinks=True)
            self.build_former(Root(former, lock_wait_s=0))
        shutil.copytree(former, folder, symlinks=True)
        return Root(folder, lock_wait_s=0)

    def version(self, root: Root) -> str:
        """Return the code version that readers get, every byte of it checked."""
        return open_input(root, self.artefact, self.plan(root).location).manifest.code_version


@pytest.fixture(params=SHARDS)
def builder(world: TinyWorld, request: pytest.FixtureRequest) -> Builder:
    return Builder(world, request.param)


@pytest.fixture
def undisturbed(builder: Builder, tmp_path: Path) -> dict[str, bytes | str]:
    root = builder.copy_root(tmp_path / "undisturbed")
    directory = builder.build(root)
    rejects = pq.read_table(directory / "rejects.parquet")
    assert 0 < rejects.num_rows < sum(pq.read_metadata(path).num_rows for path in directory.glob("*.parquet"))
    return everything(root)


def everything(root: Root) -> dict[str, bytes | str]:
    """Picture a root after garbage collection, and name all that lies in its work areas."""
    collect_garbage(root)
    # Digests of sources are recorded by the way; a temporary file of a killed process is swept after an hour.
    work = [str(path.relative_to(root.path)) for path in (root.path / WORK).rglob("*")]
    return {**picture(root), "in work/": "\n".join(sorted(name for name in work if not name.startswith(DIGESTS)))}


def check_readers(builder: Builder, root: Root, current: str) -> str:
    """Return the version that readers see, which is a whole one."""
    version = builder.version(root)
    assert version in {"0", current}
    assert not any(finding.is_fault for finding in verify_root(root))
    location = builder.plan(root).location
    shown = [path for path in (root.path / location).parent.rglob("*") if path.name.startswith((".spool", "tmp"))]
    assert shown == [], "something half done lies among what is published"
    return version


def test_killed_at_every_step(
    builder: Builder, undisturbed: dict[str, bytes | str], tmp_path: Path, kill_points: KillPoints
) -> None:
    roots: list[Root] = []

    def prepare() -> Callable[[], object]:
        roots.append(builder.copy_root(tmp_path / str(len(roots))))
        return lambda: builder.build(roots[-1])

    seen, spooled = set(), 0
    for point in kill_points(prepare, lambda: roots[-1].path, further=STEPS):
        root = roots[-1]
        current = builder.plan(root).code_version
        seen.add(check_readers(builder, root, current))
        spooled += any((root.path / "work").rglob("*.arrows"))
        builder.build(root)
        assert everything(root) == undisturbed, f"after the kill at call {point}"
        shutil.rmtree(root.path)
    assert seen == {"0", current}
    assert spooled > 3, "no kill met rows that were put aside on disk"
    assert kill_points.last >= 40


@pytest.mark.parametrize("torn", [".arrows", ".parquet"])
def test_killed_in_the_middle_of_a_write(
    builder: Builder, undisturbed: dict[str, bytes | str], torn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files kills at exactly one byte of the first file that is longer."""
    root = builder.copy_root(tmp_path / "root")
    current = builder.plan(root).code_version
    found = set()
    if torn == ".parquet":
        # What is put aside is larger than what is published.
        monkeypatch.setattr(batch_spool, "_MEMORY_BYTES", 1 << 30)

    def build_within(size_bytes: int) -> object:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))
        return builder.build(root)

    for size_bytes in (1, 5, 100, 300, *range(500, 60_000, 500)):
        _, status = os.waitpid(start(lambda: build_within(size_bytes)), 0)  # noqa: B023 - the child runs at once
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        assert os.WTERMSIG(status) == signal.SIGXFSZ
        assert check_readers(builder, root, current) == "0"
        found |= {path.suffix for path in (root.path / "work").rglob("*") if path.is_file()}
    assert torn in found
    builder.build(root)
    assert everything(root) == undisturbed


def test_a_full_disk(builder: Builder, undisturbed: dict[str, bytes | str], tmp_path: Path) -> None:
    def fill(disk: SmallDisk) -> int:
        root = builder.copy_root(disk.folder / "root")
        refused = 0
        for pages in range(2_000):
            disk.leave(pages * PAGE_BYTES)
            try:
                builder.build(root)
            except ResourceError as err:
                assert re.search(r"refused to write \(.*No space left on device", str(err)), str(err)
            else:
                break
            refused += 1
            assert check_readers(builder, root, "none") == "0"
            location = builder.plan(root).location
            assert root.leftovers(location) == []
            assert not root.is_rejected(location)
        assert everything(root) == undisturbed
        return refused

    assert int(on_small_disk(tmp_path / "disk", fill)) > 5


@pytest.fixture(params=["gnomad", "clinvar"])
def prepare(world: TinyWorld, request: pytest.FixtureRequest) -> Callable[[Path], object]:
    genome = world.folder / "genome.fa.gz"
    if request.param == "gnomad":
        vcf = world.folder / "gnomad.chr17.vcf.bgz"
        return lambda out: prepare_gnomad(vcf, out, release="4.1", reference=genome)
    vcf = world.folder / f"clinvar/clinvar_{RELEASES[0].replace('-', '')}.vcf.gz"
    return lambda out: prepare_clinvar(vcf, out, release=RELEASES[0], reference=genome)


def shown(folder: Path) -> dict[str, bytes | str]:
    return picture(Root(folder))


def test_prepare_leaves_the_work_of_a_living_command_alone(
    prepare: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "undisturbed")
    (tmp_path / "out").mkdir()
    real, met = VcfScanner._split, []

    def split(scanner: VcfScanner, text: bytes) -> object:
        if not met:
            met.append(list((tmp_path / "out").glob(".genolewm-prepare-*/work/*/*")))
            prepare(tmp_path / "out")
        return real(scanner, text)

    monkeypatch.setattr(VcfScanner, "_split", split)
    prepare(tmp_path / "out")
    assert met
    assert shown(tmp_path / "out") == shown(tmp_path / "undisturbed")


@pytest.mark.parametrize(("prepare", "inside"), [("gnomad", "out"), ("clinvar", "new/deep/out")], indirect=["prepare"])
def test_prepare_killed_at_every_step(
    prepare: Callable[[Path], object], inside: str, tmp_path: Path, kill_points: KillPoints
) -> None:
    (tmp_path / "undisturbed").mkdir()
    prepare(tmp_path / "undisturbed" / inside)
    expected = shown(tmp_path / "undisturbed")
    sites: list[Path] = []

    def run() -> Callable[[], object]:
        sites.append(tmp_path / str(len(sites)))
        sites[-1].mkdir()
        return lambda: prepare(sites[-1] / inside)

    outcomes = set()
    for point in kill_points(run, lambda: sites[-1], further=STEPS):
        published = {name: data for name, data in shown(sites[-1]).items() if ".genolewm-prepare-" not in name}
        outcomes.add(bool(published))
        assert not any(name.endswith(".parquet") and ".gen/" not in name for name in published)
        prepare(sites[-1] / inside)
        assert shown(sites[-1]) == expected, f"after the kill at call {point}"
    assert outcomes == {True, False}


def test_prepare_on_a_full_and_a_read_only_disk(prepare: Callable[[Path], object], tmp_path: Path) -> None:
    prepare(tmp_path / "undisturbed")
    expected = shown(tmp_path / "undisturbed")

    def fill(disk: SmallDisk) -> int:
        out, refused = disk.folder / "out", 0
        for pages in range(1, 2_000):
            disk.leave(pages * PAGE_BYTES)
            try:
                prepare(out)
            except ResourceError as err:
                assert re.search(r"refused to write \(.*No space left on device", str(err)), str(err)
            else:
                break
            refused += 1
            assert list(disk.folder.rglob("*.*")) == []
        assert shown(out) == expected
        disk.set_read_only(read_only=True)
        with pytest.raises(ResourceError, match="Read-only file system"):
            prepare(out)
        with pytest.raises(ResourceError, match="Read-only file system"):
            prepare(disk.folder / "new")
        assert shown(disk.folder / "out") == expected
        return refused

    assert int(on_small_disk(tmp_path / "disk", fill)) > 2
