"""The ClinVar sensor, tick by tick, on real folders, web pages and buckets."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

import dagster as dg
import pytest

from genolewm_assets.defs.operations import clinvar_sensor
from genolewm_assets.errors import CorruptResourceError, RootError
from genolewm_assets.sources.clinvar.releases import LEDGER
from genolewm_assets_tests.defs.operations.conftest import unregistered
from genolewm_assets_tests.servers.s3_server import running_s3
from genolewm_assets_tests.servers.web_server import WebServer, running_server
from genolewm_assets_tests.worlds.graph.sensor_world import LATER, LATEST, NAME, NEW, OLD, Ticks, run_of, serve
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld, failed_checks, refusal_of
from genolewm_assets_tests.worlds.sources.release_files import directory_page, md5_line

pytestmark = pytest.mark.usefixtures("inputs_are_there")
world = unregistered


def test_every_release_is_registered_in_order_and_the_newest_requested(ticks: Ticks) -> None:
    result = ticks.evaluate(cursor=None)
    (added,) = result.dynamic_partitions_requests
    assert (added.partitions_def_name, list(added.partition_keys)) == (NAME, [OLD, NEW])
    assert result.run_requests == [dg.RunRequest(run_key=NEW, job_name="refresh_release", partition_key=NEW)]
    assert len(str(result.cursor)) < 100


def test_ticks_restarts_and_a_lost_cursor_change_nothing(world: TinyWorld, ticks: Ticks) -> None:
    assert ticks.tick() == [NEW]
    ledger = (world.root / LEDGER).read_bytes()
    assert [ticks.tick() for _ in range(3)] == [[], [], []]
    for cursor in (None, "", "not JSON", "[]", '{"newest": "../etc"}', json.dumps({"newest": OLD})):
        # The last is what a crash between registration and request leaves: the instance knows what was launched.
        ticks.cursor = cursor
        assert ticks.tick() == []
    assert ticks.partitions == [OLD, NEW]
    assert (world.root / LEDGER).read_bytes() == ledger
    assert f"nothing to request: 2 offered, newest {NEW}" == ticks.reason()


def test_a_new_file_is_registered_and_requested_once(world: TinyWorld, ticks: Ticks) -> None:
    ticks.tick()
    for release in (LATEST, LATER):
        world.write_clinvar(release, header_date=release)
    assert [ticks.tick(), ticks.tick()] == [[LATEST], []]
    assert ticks.partitions == [OLD, NEW, LATER, LATEST]


def test_a_crash_between_registration_and_request_loses_no_request(world: TinyWorld, ticks: Ticks) -> None:
    ticks.tick()
    world.write_clinvar(LATER, header_date=LATER)
    ticks.tick(crash_before_runs=True)
    assert ticks.partitions == [OLD, NEW, LATER]
    assert [ticks.tick(), ticks.tick()] == [[LATER], []]


def test_a_release_that_a_run_was_made_for_is_not_requested_again(world: TinyWorld, ticks: Ticks) -> None:
    ticks.tick()
    world.write_clinvar(LATER, header_date=LATER)
    world.instance.add_dynamic_partitions(NAME, [LATER])
    run_of(world, LATER, dg.DagsterRunStatus.FAILURE)
    assert ticks.tick() == []


def test_an_older_file_is_registered_only_once_a_newer_one_stands(world: TinyWorld, ticks: Ticks) -> None:
    assert ticks.tick() == [NEW]
    world.materialize("reference/genome")
    assert world.materialize("clinvar/release", "clinvar/shard", partition=NEW).success
    world.write_clinvar("2024-06-02", header_date="2024-06-02")
    assert ticks.tick() == []
    assert ticks.partitions == [OLD, NEW, "2024-06-02"]
    world.write_clinvar(LATER, header_date=LATER)
    assert ticks.tick() == [LATER]


def test_the_newest_earlier_release_with_a_good_shard_is_handed_over(world: TinyWorld, ticks: Ticks) -> None:
    def predecessor(release: str) -> str | None:
        world.write_clinvar(release, header_date=release)
        assert ticks.tick() == [release]
        config = ticks.launched[-1].run_config
        return config["ops"]["clinvar__changes"]["config"]["predecessor"] if config else None

    ticks.tick()
    world.materialize("reference/genome")
    assert predecessor("2025-02-02") is None
    assert world.materialize("clinvar/release", "clinvar/shard", partition=OLD).success
    assert predecessor("2025-02-09") == OLD
    assert world.materialize("clinvar/release", "clinvar/shard", partition=NEW).success
    assert predecessor("2025-02-16") == NEW
    shard = world.open("clinvar/shard", NEW).file("chr17.parquet")
    shard.write_bytes(shard.read_bytes()[:-1])
    assert predecessor("2025-02-23") == OLD


def test_a_file_changed_under_its_name_becomes_a_release_of_its_own(world: TinyWorld, ticks: Ticks) -> None:
    """The first is rejected for its header; what replaces it is taken, and the first key never gets its bytes."""
    world.write_clinvar(LATER, header_date=LATEST)
    assert ticks.tick() == [LATER]
    assert failed_checks(world.materialize("clinvar/release", partition=LATER)) == {"release_key_equals_header_date"}
    world.write_clinvar(LATER, header_date=LATER)
    assert ticks.tick() == [f"{LATER}.2"]
    assert ticks.partitions == [OLD, NEW, LATER, f"{LATER}.2"]
    assert f"Materialise '{LATER}.2'" in refusal_of(world.materialize("clinvar/release", partition=LATER))
    world.make("clinvar/release", f"{LATER}.2")
    assert ticks.tick() == []


def test_the_tenth_file_of_a_day_is_registered_last_and_requested(world: TinyWorld, ticks: Ticks) -> None:
    world.write_clinvar(LATER, header_date=LATER)
    for word in "abcdefghi":
        copy = world.vcf(LATER).with_name(world.vcf(LATER).name.replace(".vcf", f".{word}.vcf"))
        copy.write_bytes(world.vcf(LATER).read_bytes())
        world.publish_md5(copy)
    assert ticks.tick() == [f"{LATER}.10"]
    assert ticks.partitions == [OLD, NEW, LATER, *(f"{LATER}.{number}" for number in range(2, 11))]


def test_half_uploaded_files_wait_alone(world: TinyWorld, ticks: Ticks, capsys: pytest.CaptureFixture[str]) -> None:
    world.write_clinvar(LATER, header_date=LATER)
    world.write_clinvar(LATEST, header_date=LATEST)
    checksum = world.vcf(LATEST).with_suffix(".gz.md5")
    good = checksum.read_bytes()
    checksum.unlink()
    assert ticks.tick() == [LATER]
    assert f"not complete yet: {world.vcf(LATEST).name}" in ticks.reason()
    assert f"{world.vcf(LATEST).name} has no checksum yet" in capsys.readouterr().err
    for content in (b"", b"<html>503</html>", good[:20]):
        checksum.write_bytes(content)
        assert ticks.tick() == []
        assert "states no MD5" in capsys.readouterr().err
    assert ticks.partitions == [OLD, NEW, LATER]
    checksum.write_bytes(good)
    assert ticks.tick() == [LATEST]


def test_a_file_without_a_checksum_is_complete_when_two_ticks_find_it_alike(world: TinyWorld, ticks: Ticks) -> None:
    for checksum in (world.folder / "clinvar").glob("*.md5"):
        checksum.unlink()
    assert f"0 offered; not complete yet: {world.vcf(OLD).name}, {world.vcf(NEW).name}" in ticks.reason()
    assert ticks.tick() == []
    assert ticks.partitions == []
    assert ticks.tick() == [NEW]
    growing = world.write_clinvar(LATER, header_date=LATER)
    growing.with_suffix(".gz.md5").unlink()
    whole = growing.read_bytes()
    for size in (100, 1000):
        growing.write_bytes(whole[:size])
        assert ticks.tick() == []
    growing.write_bytes(whole)
    ticks.tick()
    ticks.cursor = None  # only means one more look
    assert ticks.tick() == []
    assert ticks.tick() == [LATER]
    assert ticks.partitions == [OLD, NEW, LATER]
    world.make("clinvar/release", LATER)
    os.utime(growing, (1, 1))
    assert not world.materialize("clinvar/release", partition=LATER).success
    assert ticks.tick() == [f"{LATER}.2"]  # the attempt at the former key has registered it


@pytest.mark.nightly
@pytest.mark.parametrize("checksums", [True, False])
def test_an_s3_prefix(world: TinyWorld, ticks: Ticks, checksums: bool) -> None:
    def upload() -> None:
        for path in (world.folder / "clinvar").iterdir():
            if checksums or path.suffix == ".gz":
                s3.pipe(f"pub/clinvar/{path.name}", path.read_bytes())

    with running_s3() as s3:
        s3.mkdir("pub")
        upload()
        world.edit_catalog(clinvar={"listing": "s3://pub/clinvar"})
        if not checksums:
            assert ticks.tick() == []
        assert ticks.tick() == [NEW]
        world.make("clinvar/release", NEW)
        world.write_clinvar(NEW, header_date=LATER)  # other bytes under the name of before
        upload()
        assert not world.materialize("clinvar/release", partition=NEW).success
        # The attempt at the old key has registered the new one; the sensor makes it a partition.
        assert ticks.tick() == [f"{NEW}.2"]
        assert ticks.partitions == [OLD, NEW, f"{NEW}.2"]


NO_DATES = ["clinvar_20251301.vcf.gz", "clinvar_20250230.vcf.gz"]


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        (lambda site: site.statuses.extend([503] * 9), "HTTP 503"),
        (lambda site: site.files.update({"data/": b"\x00\xff" * 5_000}), "0 offered"),
        (lambda site: site.files.update({"data/": directory_page(NO_DATES)}), "0 offered"),
        (lambda site: site.files.update({"data/": site.files["data/"].ljust(20 << 20)}), "file is too large"),
        (lambda site: site.cuts.extend([10] * 9), "download failed"),
        (lambda site: site.files.pop("data/", None), "no such listing"),
    ],
)
def test_a_failed_listing_is_survived(
    world: TinyWorld, ticks: Ticks, site: WebServer, breaks: Callable[[WebServer], object], reason: str
) -> None:
    serve(world, site)
    ticks.tick()
    before = (ticks.cursor, ticks.partitions, (world.root / LEDGER).read_bytes())
    breaks(site)
    assert reason in ticks.reason()
    site.statuses, site.cuts = [], []
    breaks(site)
    assert ticks.tick() == []
    assert (ticks.cursor, ticks.partitions, (world.root / LEDGER).read_bytes()) == before
    site.statuses, site.cuts = [], []
    world.write_clinvar(LATER, header_date=LATER)
    serve(world, site)
    assert ticks.tick() == [LATER]


def test_a_server_that_is_gone_or_does_not_answer(
    world: TinyWorld, ticks: Ticks, site: WebServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_server() as gone:
        world.edit_catalog(clinvar={"listing": gone.url("data")})
    assert "download failed" in ticks.reason()
    assert "download failed" in capsys.readouterr().err
    serve(world, site)
    monkeypatch.setattr(clinvar_sensor, "_READ_WITHIN_S", 0.5)
    let_go = threading.Event()
    site.on_request = {number: lambda: bool(let_go.wait(60)) and None for number in range(1, 9)}  # type: ignore[misc]
    assert "did not answer within 0.5 s" in ticks.reason()
    let_go.set()


def test_one_bad_checksum_does_not_stop_the_others(world: TinyWorld, ticks: Ticks, site: WebServer) -> None:
    world.write_clinvar(LATER, header_date=LATER)
    serve(world, site)
    site.files[f"data/{world.vcf(NEW).name}.md5"] = b"\x00" * 100
    assert ticks.tick() == [LATER]
    assert ticks.partitions == [OLD, LATER]
    site.files[f"data/{world.vcf(NEW).name}.md5"] = md5_line(world.vcf(NEW).read_bytes(), "x")
    assert ticks.tick() == [NEW]  # nothing newer stands yet
    assert ticks.partitions == [OLD, LATER, NEW]


def test_what_a_person_has_to_repair_fails_the_tick(world: TinyWorld, ticks: Ticks) -> None:
    ticks.tick()
    (world.root / LEDGER).write_bytes(b"{}")
    with pytest.raises(CorruptResourceError, match="is not a record of releases"):
        ticks.tick()
    world.write_catalog(name="other")
    with pytest.raises(RootError, match="belongs to another"):
        ticks.tick()


def test_the_catalogue_limits_what_is_registered_and_what_is_packaged(world: TinyWorld, ticks: Ticks) -> None:
    world.write_clinvar(LATER, header_date=LATER)
    world.edit_catalog(clinvar={"releases": [OLD, NEW, LATEST], "packaged": [OLD]})
    assert ticks.tick() == [NEW]
    assert ticks.partitions == [OLD, NEW]
    unpackaged = [dg.AssetKey(["clinvar", name]) for name in ("release", "shard", "changes")]
    assert ticks.launched[-1].asset_selection == unpackaged
    world.edit_catalog(clinvar={"releases": None, "packaged": None})
    assert ticks.tick() == [LATER]
    assert ticks.launched[-1].asset_selection is None
