"""``packages/current`` as the UI shows it: what changed since the package before, the report, and the webhook."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from genolewm_assets.defs.assets.packages import current as current_package
from genolewm_assets.defs.display import FIGURES
from genolewm_assets.defs.runtime import webhook as webhook_module
from genolewm_assets.defs.runtime.webhook import UI_VARIABLE, WEBHOOK_VARIABLE
from genolewm_assets.packages.pointer import pin_release, read_current
from genolewm_assets.packages.references import read_latest
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.pictures import PICTURE
from genolewm_assets_tests.referees.package_tables import move_figures
from genolewm_assets_tests.servers.webhook import Webhook, closed_port, webhook_server
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.live_release_world import change_records
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, check_of, shown_of

FIRST, SECOND = RELEASES
THIRD = "2025-02-05"
#: Counts of the changes that ``change_records`` plants.
PLANTED = {"clinvar_added": 3, "clinvar_removed": 2, "clinvar_reclassified": 2}

world = copied


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook_server() as site:
        monkeypatch.setenv(WEBHOOK_VARIABLE, site.url)
        monkeypatch.setenv(UI_VARIABLE, "https://dagster.example")
        yield site


class Shown:
    """What one run of ``packages/current`` shows."""

    def __init__(self, world: BuiltWorld) -> None:
        result = world.materialize("packages/current")
        entries = shown_of(result, "packages/current").metadata
        self.metadata: dict[str, Any] = {name: value.value for name, value in entries.items()}
        entries = world.instance.all_logs(result.run_id)
        self.warnings = [entry.user_message for entry in entries if entry.level == 30 and not entry.is_dagster_event]
        self.events_bytes = sum(len(dg.serialize_value(entry)) for entry in entries)
        self.run_id = result.run_id

    @property
    def figures(self) -> dict[str, int]:
        return {name: self.metadata[name] for name in FIGURES if name in self.metadata}


def folder(world: BuiltWorld, release: str) -> Path:
    return (world.root / read_latest(world.root, release).path).resolve()


def build_third(world: BuiltWorld) -> None:
    """Publish and build a release with planted changes."""
    records, _ = change_records(world.clinvar_records())
    world.write_clinvar(THIRD, header_date=THIRD, records=records)
    world.instance.add_dynamic_partitions("clinvar_release", [THIRD])
    assert world.run_job("refresh_release", partition_key=THIRD).success


def forget_pointer(world: BuiltWorld) -> None:
    (world.root / "packages/current.json").unlink()
    shutil.rmtree(world.root / "packages/reports")


def test_the_first_package_ever(world: BuiltWorld, webhook: Webhook) -> None:
    forget_pointer(world)
    shown = Shown(world)
    ref = read_current(world.root)
    pointer = {"release": SECOND, "pinned": False, "path": ref.path, "manifest_sha256": ref.manifest_sha256[:12]}
    pointer["before"] = "none is recorded"
    assert pointer.items() <= shown.metadata.items()
    more = ("report", "report_file", "card", "card_yaml", "open", "releases", "over_releases")
    assert list(shown.metadata) == [*pointer, *more]
    _, front, card = (world.root / ref.path / "README.md").read_text().split("---\n", 2)
    assert shown.metadata["card"].strip() == re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", card.strip())
    assert shown.metadata["card_yaml"].strip() == f"```yaml\n{front}```"
    assert (world.root / shown.metadata["report_file"]).read_text().strip() == shown.metadata["report"].strip()
    title = f"The package of ClinVar {SECOND} is in use; no package before it is recorded"
    assert shown.metadata["report"].startswith(f"# {title}\n")
    (posted,) = webhook.posted
    assert posted == {
        "title": title,
        "release": SECOND,
        "before": None,
        "figures": dict.fromkeys((*PLANTED, "bench_labels_changed", "train_labels_changed")),
        "manifest_sha256": ref.manifest_sha256,
        "run_id": shown.run_id,
        "url": "https://dagster.example/assets/packages/current",
        "run_url": f"https://dagster.example/runs/{shown.run_id}",
    }


def test_the_lines_that_open_it_open_it(world: BuiltWorld) -> None:
    shown = Shown(world)
    found = re.fullmatch(r"```python\n(.*)\n``` *", shown.metadata["open"], re.DOTALL)
    names: dict[str, Any] = {}
    exec(found[1], names)
    assert names["package"].directory == (world.root / shown.metadata["path"]).resolve()
    assert names["dataset"].package.directory == names["package"].directory


def test_a_new_release_is_reported_and_posted_once(world: BuiltWorld, webhook: Webhook) -> None:
    assert Shown(world).metadata["before"] == "none is recorded"
    assert webhook.posted == [], "the pointer did not move"
    build_third(world)
    shown = Shown(world)
    before, after = folder(world, SECOND), folder(world, THIRD)
    assert shown.figures == move_figures(before, after) | PLANTED
    assert shown.figures["bench_alleles_added"] > 0
    assert shown.figures["train_alleles_removed"] > 0
    assert tuple(shown.figures) == FIGURES
    assert shown.metadata["before"] == f"{SECOND} ({read_latest(world.root, SECOND).path})"
    assert len(PICTURE.findall(shown.metadata["report"])) == 3
    assert shown.warnings == []
    assert shown.events_bytes < 250_000
    (posted,) = webhook.posted
    assert posted["title"] == f"The package of ClinVar {THIRD} is in use, after {SECOND}"
    names = ("bench_labels_changed", "train_labels_changed")
    assert posted["figures"] == PLANTED | {name: shown.figures[name] for name in names}

    file = world.root / shown.metadata["report_file"]
    written = file.stat().st_mtime_ns
    assert Shown(world).metadata == shown.metadata
    assert file.stat().st_mtime_ns == written, "the kept report was read"
    assert len(webhook.posted) == 1


@pytest.mark.nightly
def test_a_kept_report_that_is_damaged_is_made_again(world: BuiltWorld) -> None:
    build_third(world)
    shown = Shown(world)
    file = world.root / shown.metadata["report_file"]
    good, stated = file.read_bytes(), file.with_suffix(".json").read_bytes()
    for path, data in ((file, good[:-1]), (file.with_suffix(".json"), stated.replace(b"3", b"4")), (file, b"\xff")):
        path.write_bytes(data)
        assert Shown(world).metadata == shown.metadata
        assert (file.read_bytes(), file.with_suffix(".json").read_bytes()) == (good, stated)


def test_an_older_package_that_is_pinned(world: BuiltWorld, webhook: Webhook) -> None:
    Shown(world)
    pin_release(world.root, FIRST)
    shown = Shown(world)
    assert (shown.metadata["release"], shown.metadata["pinned"]) == (FIRST, True)
    expected = move_figures(folder(world, SECOND), folder(world, FIRST))
    # Both releases have the same records.
    assert shown.figures == {**expected, "clinvar_added": 0, "clinvar_removed": 0, "clinvar_reclassified": 0}
    assert f"## ClinVar {SECOND} to {FIRST}" in shown.metadata["report"]
    pin_release(world.root, None)
    assert Shown(world).metadata["pinned"] is False
    assert [posted["title"] for posted in webhook.posted] == [
        f"The package of ClinVar {FIRST} is in use, which is older than {SECOND} before it",
        f"The package of ClinVar {SECOND} is in use, after {FIRST}",
    ]


@pytest.mark.nightly
def test_releases_between_are_counted_from_the_shards(world: BuiltWorld) -> None:
    pin_release(world.root, FIRST)
    Shown(world)
    build_third(world)
    manifest = json.loads((world.root / f"clinvar/{THIRD}/changes/manifest.json").read_bytes())
    assert manifest["recipe"]["predecessor"] == SECOND
    pin_release(world.root, None)
    shown = Shown(world)
    assert shown.metadata["before"].startswith(FIRST)
    assert {name: shown.figures[name] for name in PLANTED} == PLANTED


@pytest.mark.nightly
def test_a_package_built_again_for_the_same_release(world: BuiltWorld, webhook: Webhook) -> None:
    Shown(world)
    before = folder(world, SECOND)
    world.edit_catalog(packages={"max_visits": 41})
    assert world.materialize("packages/split", "packages/audit", partition=SECOND).success
    after = folder(world, SECOND)
    assert after != before
    shown = Shown(world)
    assert shown.figures == move_figures(before, after)
    assert f"Both packages are of ClinVar {SECOND}." in shown.metadata["report"]
    (posted,) = webhook.posted
    assert posted["title"] == f"A new build of the package of ClinVar {SECOND} is in use"


@pytest.mark.nightly
def test_a_package_before_whose_files_are_gone(world: BuiltWorld, webhook: Webhook, tmp_path: Path) -> None:
    Shown(world)
    build_third(world)
    before = folder(world, SECOND)
    before.rename(tmp_path / "aside")
    shown = Shown(world)
    assert shown.figures == PLANTED
    assert "The packages were not compared: " in shown.metadata["report"]
    assert str(world.root) not in shown.metadata["report"]
    (warning,) = shown.warnings
    assert "the report lacks the comparison of package" in warning
    assert webhook.posted[0]["figures"] == PLANTED | {"bench_labels_changed": None, "train_labels_changed": None}
    # Back again, they are compared.
    (tmp_path / "aside").rename(before)
    whole = Shown(world)
    assert whole.figures == move_figures(before, folder(world, THIRD)) | PLANTED
    assert "not compared" not in whole.metadata["report"]
    assert len(webhook.posted) == 1


@pytest.mark.nightly
def test_another_package_at_the_place_of_the_one_before_is_not_compared(world: BuiltWorld) -> None:
    Shown(world)
    record = world.root / "packages/current.json"
    record.write_text(json.dumps({**json.loads(record.read_bytes()), "manifest_sha256": "0" * 64}))
    build_third(world)
    shown = Shown(world)
    assert shown.figures == PLANTED
    assert "is not the package that current.json names" in shown.metadata["report"]


@pytest.mark.nightly
def test_without_a_readable_record_nothing_moves_or_is_posted_twice(world: BuiltWorld, webhook: Webhook) -> None:
    def moves() -> int:
        """Count the messages about a move; the run that fails is posted as well."""
        return sum("before" in each for each in webhook.posted)

    build_third(world)
    Shown(world)
    assert moves() == 1
    record = world.root / "packages/current.json"
    record.write_bytes(record.read_bytes()[:40])
    failed = world.materialize("packages/current")
    check = check_of(failed, "package_verifies")
    assert not failed.success
    assert "genolewm package pin --newest" in (check.description or "") + str(check.metadata)
    pin_release(world.root, None)
    assert Shown(world).metadata["before"] == "none is recorded"
    assert moves() == 1
    pin_release(world.root, FIRST)
    assert Shown(world).metadata["before"].startswith(THIRD)
    assert moves() == 2


@pytest.mark.nightly
def test_a_webhook_that_is_down_stops_nothing(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    Shown(world)
    monkeypatch.setattr(webhook_module, "TIMEOUT_S", 0.5)
    with closed_port() as url:
        monkeypatch.setenv(WEBHOOK_VARIABLE, f"{url}?token=secret")
        pin_release(world.root, FIRST)
        shown = Shown(world)
    (warning,) = shown.warnings
    assert warning.startswith("the move was not posted to the webhook: ")
    assert "Connection refused" in warning
    logged = "".join(entry.user_message for entry in world.instance.all_logs(shown.run_id))
    assert "secret" not in logged
    with webhook_server() as site:
        monkeypatch.setenv(WEBHOOK_VARIABLE, site.url)
        Shown(world)
        assert site.posted == [], "a move is posted when it happens, or not at all"


@pytest.mark.nightly
@pytest.mark.parametrize("error", [KeyError("column"), pa.ArrowNotImplementedError("kind"), RuntimeError()])
def test_a_failed_report_stops_nothing(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_: object) -> None:
        raise error

    forget_pointer(world)
    monkeypatch.setattr(current_package, "report_move", fails)
    shown = Shown(world).metadata
    assert ("report" in shown, shown["release"]) == (False, SECOND)


@pytest.mark.nightly
def test_a_report_that_cannot_be_kept_stops_nothing(world: BuiltWorld, webhook: Webhook) -> None:
    Shown(world)
    reports = world.root / "packages/reports"
    shutil.rmtree(reports)
    reports.write_text("in the way")
    pin_release(world.root, FIRST)
    shown = Shown(world)
    assert ("report" in shown.metadata, shown.metadata["release"]) == (False, FIRST)
    (warning,) = shown.warnings
    assert warning.startswith("no report was made: ")
    assert len(webhook.posted) == 1
    reports.unlink()
    assert "report" in Shown(world).metadata
