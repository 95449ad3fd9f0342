"""The demo as a process: built, current, killed at random and resumed, refused."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.engines.op_tags import H100_POOL
from genolewm_assets.defs.instance import CODE_LOCATION
from genolewm_assets.defs.operations.demo import Demo
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld, bytes_of

pytestmark = [pytest.mark.nightly]

#: genome, windows, records and windows of the corpus, gnomAD, releases, shards, changes, states of both, holdouts,
#: packages, pointer, and of the mitochondrion genomes, tokens, variants.
PARTITIONS = 1 + 3 + 4 + 4 + 4 + 2 + 2 + 2 + 3 + 4 + 2 + 2 + 2 + 1 + 1 + 1 + 2


#: What a process runs: the command as people run it, and the command with less work for Dagster's databases.
SHIPPED, QUICK = "genolewm_assets", "genolewm_assets_tests.worlds.graph.quick_dagster"


def command(world: TinyWorld, root: Path, *more: str, module: str = QUICK) -> list[str]:
    catalog = ["--catalog", str(world.catalog), "--root", str(root)]
    return [sys.executable, "-m", module, "demo", *catalog, *more]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=900, check=False)


def genolewm(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "genolewm_assets", *arguments)


def run_demo(world: TinyWorld, root: Path, *, module: str = QUICK) -> list[dict[str, object]]:
    done = run(*command(world, root, "--json", module=module))
    assert done.returncode == 0, done.stderr
    results: list[dict[str, object]] = json.loads(done.stdout)
    return results


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    return TinyWorld(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def undisturbed(world: TinyWorld) -> Path:
    root = world.folder / "undisturbed"
    results = run_demo(world, root, module=SHIPPED)
    assert [result["outcome"] for result in results] == ["built"] * PARTITIONS
    return root


def test_second_run_finds_everything_current(world: TinyWorld, undisturbed: Path) -> None:
    results = run_demo(world, undisturbed)
    assert [result["outcome"] for result in results] == ["current"] * PARTITIONS
    # One row per window of a split, per record of a release, per allele: not per row of every file.
    rows = {(result["asset"], result["partition"]): result["rows"] for result in results}
    newest = {asset: n for (asset, partition), n in rows.items() if partition == RELEASES[1]}
    assert (newest["clinvar/release"], newest["packages/split"], newest["mito/variants"]) == (65, 98, 0)
    with dg.DagsterInstance.from_config(str(undisturbed / "dagster")) as instance:
        # The one package in use is no figure that the UI plots.
        del rows["packages/current", None]
        assert rows == {found: rows_shown(instance, *found) for found in rows}
        assert set(instance.get_dynamic_partitions("clinvar_release")) == set(RELEASES)
        # Its runs belong to the code location that the UI loads.
        origins = {run.remote_job_origin and run.remote_job_origin.location_name for run in instance.get_runs()}
        assert origins == {CODE_LOCATION}


def test_a_root_may_have_no_states(world: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENOLEWM_WITHOUT_STATES", "1")
    root = tmp_path / "root"
    for outcome in ("built", "current"):
        done = run(*command(world, root, "--json"))
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout)
        assert [result["outcome"] for result in results] == [outcome] * (PARTITIONS - 7)
        assert not [result for result in results if result["asset"].startswith("embeddings/")]
        assert done.stderr.count("states are off") == 1
    assert not (root / "embeddings").exists()
    for words in (("status",), ("verify",), ("gc", "--dry-run"), ("package", "verify", package_in_use(root))):
        places = () if words[0] == "package" else ("--root", root)
        places += ("--catalog", world.catalog) if words[0] == "status" else ()
        done = genolewm(*words, *places)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    refused = genolewm("cache-windows", "--root", root, "--catalog", world.catalog)
    assert (refused.returncode, "states are off" in refused.stderr) == (3, True)


def rows_shown(instance: dg.DagsterInstance, asset: str, partition: str | None) -> object:
    """Return the number of rows that the UI shows of a partition."""
    wanted = dg.AssetRecordsFilter(dg.AssetKey(asset.split("/")), asset_partitions=partition and [partition])
    (record,) = instance.fetch_materializations(wanted, limit=1).records
    name = "dagster/row_count" if partition is None else "dagster/partition_row_count"
    return record.asset_materialization.metadata[name].value


def count_manifests(root: Path) -> int:
    return sum("manifest.json" in files for _, _, files in os.walk(root))


def test_killed_at_random_and_resumed_gives_identical_bytes(world: TinyWorld, undisturbed: Path) -> None:
    rng = random.Random(20_241_117)
    root = world.folder / "killed"
    interrupted = 0
    for _ in range(6):
        child = subprocess.Popen(command(world, root), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        enough = count_manifests(root) + rng.randint(1, 5)
        while child.poll() is None and count_manifests(root) < enough:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.5))
        interrupted += child.poll() is None
        child.kill()
        child.wait()
    assert interrupted
    assert len(run_demo(world, root)) == PARTITIONS
    assert bytes_of(root) == bytes_of(undisturbed)
    with dg.DagsterInstance.from_config(str(root / "dagster")) as instance:
        unfinished = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.NOT_STARTED])
        assert instance.get_runs(unfinished) == []


REVERSED = """
import sys
from itertools import groupby
from pathlib import Path
from genolewm_assets.encoders import state_cache
from genolewm_assets.launch import enter_environment
from genolewm_assets_tests.worlds.graph.quick_dagster import install

install()
enter_environment(Path(sys.argv[1]), sys.argv[2])
from genolewm_assets.definitions import defs
from genolewm_assets.defs.instance import CODE_LOCATION
from genolewm_assets.defs.operations.demo import Demo

state_cache.ENCODED_AT_ONCE = 7
with Demo(defs) as walk:
    by_asset = [list(group) for _, group in groupby(walk.steps(), key=lambda step: step[0].key)]
    results = [*walk.run([step for group in by_asset for step in reversed(group)]), walk.follow()]
sys.exit(", ".join(result.line() for result in results if result.outcome != "built") or 0)
"""


def test_another_order_of_partitions_and_batch_size_gives_identical_bytes(world: TinyWorld, undisturbed: Path) -> None:
    root = world.folder / "reversed"
    done = run(sys.executable, "-c", REVERSED, root, world.catalog)
    assert done.returncode == 0, done.stderr
    assert bytes_of(root) == bytes_of(undisturbed)


def package_in_use(root: Path) -> Path:
    return root / json.loads((root / "packages/current.json").read_bytes())["path"]


def test_commands_on_caches_and_packages(world: TinyWorld, undisturbed: Path) -> None:
    new = package_in_use(undisturbed)
    assert json.loads(genolewm("cache", "inspect", undisturbed / "embeddings", "--json").stdout)[0]["complete"]
    assert genolewm("cache", "verify", undisturbed / "embeddings").returncode == 0
    assert genolewm("package", "verify", new).returncode == 0
    pinned = genolewm("package", "pin", RELEASES[0], "--root", undisturbed, "--json")
    assert json.loads(pinned.stdout)["release"] == RELEASES[0], pinned.stderr
    old = package_in_use(undisturbed)
    assert old != new
    assert "windows" in genolewm("package", "diff", old, new).stdout
    assert genolewm("package", "pin", "--newest", "--root", undisturbed).returncode == 0
    assert package_in_use(undisturbed) == new
    assert genolewm("package", "pin", "1999-01-01", "--root", undisturbed).returncode == 4


def test_one_flipped_byte_of_a_cache_is_named(undisturbed: Path) -> None:
    states = next((undisturbed / "embeddings").glob("*/states.bin"))
    intact = states.read_bytes()
    states.write_bytes(intact[:-1] + bytes([intact[-1] ^ 1]))
    try:
        for command in (["cache", "verify", states.parent], ["package", "verify", package_in_use(undisturbed)]):
            done = genolewm(*command)
            assert (done.returncode, "states.bin" in done.stdout) == (4, True)
    finally:
        states.write_bytes(intact)


def test_another_encoder_makes_another_cache_and_the_old_package_still_opens(undisturbed: Path, tmp_path: Path) -> None:
    changed = TinyWorld(tmp_path / "changed")
    shutil.copytree(undisturbed, changed.root, symlinks=True)
    old, caches = package_in_use(changed.root), set((changed.root / "embeddings").glob("[!.]*"))
    changed.write_catalog(layer=1)
    outcomes = {result["asset"]: result["outcome"] for result in run_demo(changed, changed.root)}
    assert outcomes["windows/index"] == "current"
    assert outcomes["embeddings/cache"] == outcomes["packages/split"] == "built"
    assert len(set((changed.root / "embeddings").glob("[!.]*")) - caches) == len(caches)
    for package in (old, package_in_use(changed.root)):
        assert genolewm("package", "verify", package).returncode == 0


def test_broken_source_fails_its_partition_and_leaves_the_rest(undisturbed: Path, tmp_path: Path) -> None:
    broken = TinyWorld(tmp_path / "broken")
    # What reads no gnomAD file is there already; what reads one is not.
    shutil.copytree(undisturbed, broken.root, symlinks=True)
    for folder in ("gnomad", "holdouts", "packages", "audits"):
        shutil.rmtree(broken.root / folder)
    vcf = broken.folder / "gnomad.chr17.vcf.bgz"
    vcf.write_bytes(vcf.read_bytes()[:-300])
    done = run(*command(broken, broken.root, "--json"))
    assert done.returncode == 2
    entries = json.loads(done.stdout)
    failed = [(entry["asset"], entry["partition"]) for entry in entries if entry["outcome"] == "failed"]
    waiting = {entry["asset"]: entry["error"] for entry in entries if entry["outcome"] == "waiting"}
    # What reads it is not run; the package in use is looked for all the same.
    assert failed == [("gnomad/shard", "chr17"), ("packages/current", None)]
    assert waiting.keys() == {"holdouts/manifest", "packages/split", "packages/audit"}
    assert waiting["holdouts/manifest"] == "reads gnomad/shard[chr17], which is not there"
    *lines, last = done.stderr.splitlines()
    rest = f"{sum(entry['outcome'] == 'waiting' for entry in entries)} partitions that read them were not built"
    assert last == f"2 of {len(entries)} partitions failed; {rest}"
    assert lines[-2].startswith("gnomad/shard[chr17] failed in ")
    assert "gnomad.chr17.vcf.bgz" in lines[-2]


@pytest.mark.parametrize("alive", [False, True], ids=["killed", "alive"])
@pytest.mark.parametrize("failed", [False, True], ids=["unfinished", "already-failed"])
def test_only_dead_runs_lose_their_slot(world: TinyWorld, tmp_path: Path, *, alive: bool, failed: bool) -> None:
    """A demo killed between failing a dead run and freeing its slot must not make the next one wait for ever."""
    (tmp_path / "dagster.yaml").write_text((REPOSITORY / "dagster.yaml").read_text())
    instance = dg.DagsterInstance.from_config(str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    tags = {".dagster/demo_host": socket.gethostname(), ".dagster/demo_pid": str(os.getpid() if alive else ended.pid)}
    job = dg.GraphDefinition("nothing").to_job()
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)
    storage = instance.event_log_storage
    storage.initialize_concurrency_limit_to_default(H100_POOL)
    assert storage.claim_concurrency_slot(H100_POOL, run.run_id, "states").is_claimed
    storage.claim_concurrency_slot(H100_POOL, run.run_id, "later")
    if failed:
        instance.report_run_failed(run)
    with Demo(dg.Definitions(), Workspace.open(tmp_path / "root", world.catalog), instance):
        pool, record = storage.get_concurrency_info(H100_POOL), instance.get_run_by_id(run.run_id)
        held = {step.step_key for step in (*pool.claimed_slots, *pool.pending_steps)}
    assert (record.is_finished, held) == ((False, {"states", "later"}) if alive and not failed else (True, set()))


AT_ONCE = """
import sys
from itertools import islice
from pathlib import Path
from genolewm_assets.launch import enter_environment
from genolewm_assets_tests.worlds.graph.quick_dagster import install

install()
enter_environment(Path(sys.argv[1]), sys.argv[2])
from genolewm_assets.definitions import defs
from genolewm_assets.defs.operations.demo import Demo

with Demo(defs, say=lambda line: print(line, flush=True)) as walk:
    print("begun", flush=True)
    sys.stdin.readline()
    for result in walk.run(walk.steps()[:4]):
        print(result.outcome, flush=True)
"""


def test_the_second_of_two_demos_waits_and_finds_everything_current(world: TinyWorld, tmp_path: Path) -> None:
    words = [sys.executable, "-c", AT_ONCE, str(tmp_path / "root"), str(world.catalog)]
    first, second = (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    )
    with first, second:
        said = {process: process.stdout.readline() for process in (first, second)}
        if "another demo" in said[first]:
            first, second = second, first
        assert said[first] == "begun\n"
        assert "another demo of this root is running; waiting until it ends" in said[second]
        outcomes, _ = first.communicate("go\n", timeout=200)
        waited, _ = second.communicate("go\n", timeout=200)
    assert (outcomes.split(), first.returncode) == (["built"] * 4, 0)
    assert (waited.split(), second.returncode) == (["begun", *["current"] * 4], 0)
