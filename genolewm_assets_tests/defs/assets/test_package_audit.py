"""``packages/audit``: a clean package passes, a leak holds the pointer back, and what is not certain is said."""

from __future__ import annotations

import html
import json
import shutil
from dataclasses import replace
from typing import get_args

import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit.audit import audit_package
from genolewm_assets.audit.planting.plant import plant_leaks
from genolewm_assets.audit.report import AuditReport, Found, LeakKind, Power, SearchResult, Verdict
from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.assets.packages import audit as audit_module
from genolewm_assets.defs.assets.packages.audit import KINDS_OF, check_conclusive, check_no_leak, check_power
from genolewm_assets.defs.assets.packages.audit_table import AUDIT_FINDINGS, PACKAGE_AUDIT
from genolewm_assets.errors import MissingResourceError, RejectedResourceError
from genolewm_assets.packages import reader
from genolewm_assets.packages.audits import IS_CONCLUSIVE
from genolewm_assets.packages.pointer import pin_release, read_current
from genolewm_assets.packages.references import PackageRef, read_latest, write_latest
from genolewm_assets.sources.catalog.training import AuditedKind
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import Automation, BuiltWorld, forget
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, bytes_of, check_of, failed_checks, shown_of

FIRST, SECOND = RELEASES
NEW = "2025-06-01"

world = copied


def plant(world: BuiltWorld, *kinds: str) -> PackageRef:
    """Publish a copy of the newest package with planted leaks as the latest of its release."""
    ref, out = read_latest(world.root, SECOND), world.folder / "planted"
    fasta = world.open("reference/genome").file("genome.fa.gz")
    planted, failed = plant_leaks(world.root / ref.path, out, fasta, kinds)
    assert (bool(planted), bool(failed)) == (True, False)
    manifest = read_manifest(out / "package")
    folder = (world.root / ref.path).parent
    shutil.copytree(out / "package", folder / ".gen" / f"0123456789ab.{manifest.sha256[:12]}")
    (folder / "0123456789ab").symlink_to(f".gen/0123456789ab.{manifest.sha256[:12]}")
    leaking = PackageRef(SECOND, f"packages/{SECOND}/0123456789ab", manifest.sha256)
    write_latest(world.root, leaking)
    return leaking


def test_a_clean_package_passes_and_its_page_begins_with_what_is_guaranteed(world: BuiltWorld) -> None:
    result = world.materialize("packages/audit", partition=SECOND)
    assert result.success
    (kept, _), (name, headline), *_ = shown_of(result, "packages/audit").metadata.items()
    assert (kept, name) == ("kept", "headline"), "the world has it already"
    report = json.loads((world.root / f"audits/{SECOND}/report.json").read_text())
    planted = [power for row in report["results"] for power in row["power"]]
    emitted = LeakKind.RECREATED_ALLELE
    windows, tuples, drawn = (
        next(row["searched"][unit] for row in report["results"] if row["kind"] == kind)
        for kind, unit in ((LeakKind.HELD_RECORD, "windows"), (emitted, "tuples"), (emitted, "windows drawn"))
    )
    assert headline.value == report["headline"]
    found, of = (sum(each[name] for each in planted) for name in ("found", "planted"))
    assert headline.value == (
        f"No held-out sequence, allele or label was found in {windows:,} training windows and {tuples:,} tuples drawn "
        f"from {drawn:,} of them; planted leaks found: {found} of {of}."
    )
    assert tuples >= 500
    assert sum(power["planted"] for power in planted) >= 30
    assert report["package"] == read_latest(world.root, SECOND).path
    assert all(check.passed for check in result.get_asset_check_evaluations())
    assert check_of(result, IS_CONCLUSIVE).blocking


def test_what_is_published_names_the_package_and_has_its_tables(world: BuiltWorld) -> None:
    published, package = world.open("packages/audit", SECOND), read_latest(world.root, SECOND)
    inputs = {(each.asset, each.partition): each.manifest_sha256 for each in published.manifest.inputs}
    assert set(inputs) == {("packages/split", SECOND), ("reference/genome", None), ("clinvar/release", SECOND)}
    assert inputs["packages/split", SECOND] == package.manifest_sha256
    for name, schema in (("audit", PACKAGE_AUDIT), ("findings", AUDIT_FINDINGS)):
        schema.check(pq.read_schema(published.file(f"{name}.parquet")), where=name)
    rows = {row["kind"]: row for row in pq.read_table(published.file("audit.parquet")).to_pylist()}
    assert set(rows) == set(LeakKind) - {LeakKind.LATE_LABEL}
    assert {kind for kinds in KINDS_OF.values() for kind in kinds} <= set(LeakKind)
    absent = {kind: row["result"] for kind, row in rows.items() if row["verdict"] != "clean"}
    assert absent == {
        "few_stars": "the package asks for no review stars, or trains with no ClinVar allele",
        "held_record": "no corpus record is held out",
        "unshown_allele": "no bench has an allele",
        "state_mismatch": "no encoder was given (--encoder); a package holds no states of edited windows",
    }
    assert rows["held_sequence"]["planted"] == rows["held_sequence"]["found_planted"] == 14
    assert rows["held_sequence"]["searched"].startswith(f"{rows['held_sequence']['n_searched']} windows, ")
    assert pq.read_table(published.file("findings.parquet")).num_rows == 0
    assert str(world.folder).encode() not in b"".join(bytes_of(world.root / "audits").values())


@pytest.mark.nightly
def test_an_audit_made_again_has_the_same_bytes_and_hashes_no_file_of_the_package(
    world: BuiltWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "find_damage_once", lambda *_, **__: pytest.fail("the package is hashed"))
    before = bytes_of(world.root / "audits")
    shutil.rmtree(world.root / "audits")
    # The second one has no earlier audit, then the first one's, whose windows it does not search again.
    for release in (SECOND, FIRST):
        world.make("packages/audit", release)
    assert bytes_of(world.root / "audits") == before
    forget(world.root, "packages/audit", SECOND)
    earlier = list[object]()

    def noted(*args: object, **options: object) -> AuditReport:
        earlier.append(options["earlier"])
        return audit_package(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(audit_module, "audit_package", noted)
    world.make("packages/audit", SECOND)
    assert earlier == [world.open("packages/split", FIRST).directory]
    assert bytes_of(world.root / "audits") == before


def test_a_leak_is_shown_and_publishes_nothing_and_the_pointer_stays(world: BuiltWorld) -> None:
    used, audited = read_current(world.root), bytes_of(world.root / "audits")
    automation = Automation(world)
    plant(world, "exact_copy", "padded_allele", "duplicate")
    result = world.materialize("packages/audit", partition=SECOND)
    assert failed_checks(result) == {"no_leak_found", "no_holdout_window_in_train", "no_holdout_allele_in_train"}
    failed = check_of(result, "no_leak_found")
    rows = [record.data for record in failed.metadata["offending"].records]
    assert {row["kind"] for row in rows[:3]} == {"held_sequence", "held_allele", "duplicate"}
    assert any("planted.exact_copy" in str(row["what"]) for row in rows)
    assert "Leaks were found (" in str(failed.description)
    assert "Do not train on this package" in str(failed.metadata["remedy"].value)
    (found,) = (world.root / f"rejected/audits/{SECOND}").glob("findings.parquet")
    assert {row["kind"] for row in pq.read_table(found).to_pylist()} >= {"held_sequence", "held_allele"}
    assert {name: data for name, data in bytes_of(world.root / "audits").items() if ".gen" in name} == audited

    # The page of the pointer says why, without being asked.
    assert automation.tick() == ({"packages/current": {None}}, {})
    moved = world.make("packages/current").metadata
    assert read_current(world.root) == used
    over = html.unescape(str(moved["releases"].value))
    assert f"packages/audit[{SECOND}]: the audit of the package failed: no_holdout_allele_in_train, " in over
    with pytest.raises(RejectedResourceError, match="the audit of the package failed"):
        pin_release(world.root, SECOND)
    assert automation.tick() == ({}, {})


@pytest.mark.nightly
def test_a_package_built_again_is_used_after_it_is_audited_again(world: BuiltWorld) -> None:
    used, automation = read_current(world.root), Automation(world)
    world.edit_catalog(packages={"max_visits": 41})
    world.make("packages/split", SECOND)
    latest = read_latest(world.root, SECOND)
    assert latest != used
    currency = GATED["packages/audit"].currency(world.workspace(), SECOND)
    assert currency.state == "stale"
    assert currency.reasons[0].startswith(f"input packages/split[{SECOND}]: built from manifest ")
    with pytest.raises(MissingResourceError, match="is not audited, another build of the release is"):
        pin_release(world.root, SECOND)
    moved = world.make("packages/current").metadata
    assert read_current(world.root) == used
    assert "another build of the release is" in str(moved["releases"].value)

    requested, _ = automation.tick()
    assert requested["packages/audit"] == {SECOND}
    world.make("packages/audit", SECOND)
    assert automation.tick()[0]["packages/current"] == {None}
    world.make("packages/current")
    assert read_current(world.root) == latest


@pytest.mark.nightly
def test_a_package_of_which_no_audit_passed_is_audited_when_it_is_built(world: BuiltWorld) -> None:
    world.register_release(NEW)
    automation = Automation(world)
    assets = ("clinvar/release", "clinvar/shard", "clinvar/changes", "holdouts/manifest", "packages/split")
    assert world.materialize(*assets, partition=NEW).success
    assert automation.tick()[0]["packages/audit"] == {NEW}


def test_what_is_uncertain_fails_unless_it_is_declared(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_labels(*args: object, **options: object) -> AuditReport:
        # What is planted is searched for with the VCF.
        report, unknown = (
            audit_package(*args, **(options | changes))  # type: ignore[arg-type]
            for changes in ({}, {"clinvar": None, "planted": 0})
        )
        results = (replace(one, power=report[one.kind].power) for one in unknown)
        return replace(unknown, results=tuple(results))

    monkeypatch.setattr(audit_module, "audit_package", without_labels)
    world.edit_catalog(packages={"audit_tuples": 3_001})
    result = world.materialize("packages/audit", partition=SECOND)
    assert failed_checks(result) == {IS_CONCLUSIVE}
    rows = [record.data for record in check_of(result, IS_CONCLUSIVE).metadata["offending"].records]
    gap = f"the VCF of release {SECOND} was not given"
    assert rows == [{"kind": kind, "gap": gap} for kind in ("wrong_label", "unshown_allele")]
    with pytest.raises(RejectedResourceError, match="the audit of the package failed: audit_is_conclusive"):
        pin_release(world.root, SECOND)

    world.edit_catalog(packages={"audit_may_lack": ["wrong_label", "unshown_allele"]})
    result = world.materialize("packages/audit", partition=SECOND)
    assert result.success
    assert check_of(result, IS_CONCLUSIVE).metadata["declared"].value == "wrong_label, unshown_allele"
    assert "; not certain: wrong label, unshown allele; " in str(
        shown_of(result, "packages/audit").metadata["headline"].value
    )
    world.make("packages/current")
    assert read_current(world.root).release == SECOND


def test_the_catalogue_knows_every_kind_that_is_looked_for() -> None:
    assert set(get_args(AuditedKind)) == set(LeakKind)


def report_of(*powers: Power, tuples: int = 1_000, **found: int) -> AuditReport:
    """Return a report of ten windows, with findings by kind, and powers that all belong to one search."""

    def result(kind: LeakKind, searched: dict[str, int]) -> SearchResult:
        finding = Found()
        for number in range(found.get(kind, 0)):
            finding.add(f"{kind} {number}")
        return SearchResult(kind, "by a test", searched, finding)

    windows = {kind: result(kind, {"windows": 10}) for kind in (LeakKind.HELD_RECORD, LeakKind.HELD_SEQUENCE)}
    stream = result(LeakKind.RECREATED_ALLELE, {"tuples": tuples})
    report = AuditReport("packages/R/x", SECOND, (*windows.values(), stream), {})
    return report.with_power({LeakKind.RECREATED_ALLELE: powers})


def test_rows_of_leaks_are_of_every_kind_in_turn() -> None:
    check = check_no_leak(report_of(held_sequence=12, held_record=2))
    assert not check.passed
    assert check.figures["leaks"] == 14
    kinds = [row["kind"] for row in check.rows[:5]]
    assert kinds == [*["held_record", "held_sequence"] * 2, "held_sequence"]
    assert check_no_leak(report_of()).passed
    nothing = replace(report_of(), results=())
    assert check_no_leak(nothing).figures["not_compared"] == "the package has no training window"


@each_row("found, least, enough", [(9, 0.9, True), (8, 0.9, False), (0, 0.0, False), (0, 0.01, False), (1, 0.01, True)])
def test_a_kind_of_planted_leak_is_found_in_the_stated_share(found: int, least: float, enough: bool) -> None:
    check = check_power(report_of(Power("two_snvs", 10, found, least), Power("late_label", 0, 0, 0.9)))
    assert check.passed is enough
    assert check.figures["not_planted"] == "late_label"
    rows = [] if enough else [{"plant": "two_snvs", "planted": 10, "found": found, "least": least}]
    assert [{name: row[name] for name in ("plant", "planted", "found", "least")} for row in check.rows] == rows


def test_a_search_that_finds_too_few_planted_leaks_is_not_certain() -> None:
    report = report_of(Power("unfiltered_sampler", 20, 0))
    assert report[LeakKind.RECREATED_ALLELE].verdict is report.verdict is Verdict.INCONCLUSIVE
    reason = "of planted leaks too few were found (unfiltered_sampler 0 of 20)"
    assert report[LeakKind.RECREATED_ALLELE].reason == reason
    assert not check_conclusive(report, ()).passed
    assert not check_power(report, ["held_sequence"]).passed
    for check in (check_power, check_conclusive):
        assert check(report, ["recreated_allele"]).passed
    assert report_of(Power("unfiltered_sampler", 20, 18)).verdict is Verdict.CLEAN
    assert not check_power(report_of()).passed, "nothing could be planted"
