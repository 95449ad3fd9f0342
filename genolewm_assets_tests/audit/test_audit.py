"""What an audit finds: nothing in a clean package, every kind of planted leak, and when it is not certain."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets.audit import AuditReport, LeakKind, allele_searches, audit_package
from genolewm_assets.audit.planting import field as planting_field
from genolewm_assets.audit.planting.field import draw_lot
from genolewm_assets.audit.planting.plant import plant_leaks
from genolewm_assets.audit.planting.planted import EMITTED_PLANTS, PLANTS, Planted
from genolewm_assets.audit.planting.power import SAMPLER, count_found
from genolewm_assets.audit.reading.intervals import emitted_spans, left_flank_spans
from genolewm_assets.audit.report import Power, Verdict
from genolewm_assets.errors import InputError, MissingResourceError, UnknownTermError
from genolewm_assets.memory_mapped.checks import find_mapped_faults
from genolewm_assets.packages.reader import verify_package
from genolewm_assets_tests.audit.emitted_batches import emitted_batch
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import TEXTS, AuditedWorld, make_audited_world
from genolewm_assets_tests.worlds.store.changed_tables import Rows, change_rows

# The stream is drawn with the trainer's dataset.
pytestmark = pytest.mark.model

Tried = tuple[tuple[Planted, ...], AuditReport]
NUMBER = 10
#: At least so many of NUMBER are found; a 90 % copy of 1,200 bases may keep too few 31-mers.
LEAST_FOUND = {"copy_90": 6}


def audit(audited: AuditedWorld, **changes: object) -> AuditReport:
    settings = {"package": audited.package, "fasta": audited.fasta, "clinvar": audited.vcf, "least_tuples": 500}
    return audit_package(**(settings | changes))  # type: ignore[arg-type]


def planted_and_audited(audited: AuditedWorld, out: Path, kinds: tuple[str, ...], tuples: int) -> Tried:
    planted, failed = plant_leaks(audited.package, out, audited.fasta, kinds, number=NUMBER)
    assert failed == {}
    return planted, audit(audited, package=out / "package", holdouts=out / "holdouts", least_tuples=tuples)


@pytest.fixture(scope="module")
def tried(audited: AuditedWorld, tmp_path_factory: pytest.TempPathFactory) -> Tried:
    kinds = tuple(name for name in PLANTS if name not in EMITTED_PLANTS)
    return planted_and_audited(audited, tmp_path_factory.mktemp("planted") / "out", kinds, 1)


def test_a_clean_package_is_clean(audited: AuditedWorld) -> None:
    report = audit(audited)
    absent = {
        LeakKind.FEW_STARS: "the package asks for no review stars, or trains with no ClinVar allele",
        LeakKind.STATE_MISMATCH: "the package was built without states, and no encoder was given (--encoder)",
    }
    expected = {kind: (Verdict.CLEAN, "nothing found") for kind in LeakKind if kind is not LeakKind.LATE_LABEL}
    expected |= {kind: (Verdict.NOT_APPLICABLE, reason) for kind, reason in absent.items()}
    assert {result.kind: (result.verdict, result.reason) for result in report} == expected
    assert report.verdict is Verdict.CLEAN
    assert report.headline == (
        "No held-out sequence, allele or label was found in 55 training windows and 512 tuples drawn from 35 of them; "
        "planted leaks found: not measured (--power)."
    )
    assert report[LeakKind.RECREATED_ALLELE].searched["tuples"] >= 500


@each_row("plant", [name for name in PLANTS if name not in EMITTED_PLANTS])
def test_planted_leaks_are_found(plant: str, tried: Tried) -> None:
    planted, report = tried
    (power,) = [one for _, one in count_found(planted, report) if one.plant == plant]
    assert power.planted == NUMBER
    assert power.found >= LEAST_FOUND.get(plant, NUMBER)
    assert report[PLANTS[plant].kind].verdict is Verdict.LEAK


def test_what_is_planted_is_all_that_is_found(tried: Tried) -> None:
    planted, report = tried
    of_windows = {one.key for one in planted if PLANTS[one.plant].kind is not LeakKind.HELD_ALLELE}
    for kind in (LeakKind.HELD_INTERVAL, LeakKind.FALSE_PLACE, LeakKind.HELD_SEQUENCE, LeakKind.DUPLICATE):
        assert report[kind].found.keys <= of_windows
    assert report[LeakKind.HELD_ALLELE].found.keys == {one.key for one in planted if one.kind is LeakKind.HELD_ALLELE}
    assert report[LeakKind.WRONG_LABEL].found.keys >= {one.key for one in planted if one.kind is LeakKind.WRONG_LABEL}


def test_power_changes_no_other_finding(audited: AuditedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planting_field, "MOST_WINDOWS", 20)
    plain, report = audit(audited), audit(audited, planted=2, folder=tmp_path)
    for one, other in zip(plain, report, strict=True):
        assert (one.kind, one.verdict, one.searched, one.found) == (
            other.kind, other.verdict, other.searched, other.found
        )  # fmt: skip
    powers = [power for result in report for power in result.power]
    assert {power.plant: power.planted for power in powers} == dict.fromkeys({*PLANTS, SAMPLER} - {*EMITTED_PLANTS}, 2)
    assert report.found_planted >= report.planted - 2
    assert list(tmp_path.iterdir()) == []


def test_a_search_that_misses_an_unfiltered_sampler_is_not_certain(
    audited: AuditedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allele_searches, "_is_held", lambda alleles, *_: np.zeros((2, alleles.num_rows), np.bool_))
    stream = audit(audited, planted=2, folder=tmp_path)[LeakKind.RECREATED_ALLELE]
    assert stream.power == (Power(SAMPLER, 2, 0),)
    reason = "of planted leaks too few were found (unfiltered_sampler 0 of 2)"
    assert (stream.verdict, stream.reason) == (Verdict.INCONCLUSIVE, reason)


def test_rows_are_chosen_by_lot_in_their_order() -> None:
    batches = [pa.RecordBatch.from_pydict({"at": range(first, first + 50)}) for first in range(0, 1_000, 50)]
    chosen = [
        draw_lot(
            batches, ["at"], 30, np.random.default_rng(seed), lambda batch: batch["at"].to_numpy() % 2 == 0
        )["at"].to_pylist()
        for seed in range(40)
    ]  # fmt: skip
    assert all(len(rows) == 30 and rows == sorted(set(rows)) and not any(at % 2 for at in rows) for rows in chosen)
    counts = np.bincount([at // 200 for rows in chosen for at in rows])
    assert counts.min() > 180
    assert draw_lot([], ["at"], 30, np.random.default_rng(0)).num_rows == 0


def test_a_stream_that_trainers_refuse_is_not_certain(audited: AuditedWorld, package: Path) -> None:
    (package / "arrays/train/index.json").unlink()
    stream = audit(audited, package=package)[LeakKind.RECREATED_ALLELE]
    assert stream.verdict is Verdict.INCONCLUSIVE
    assert "the stream cannot be drawn" in stream.reason


def test_two_snvs_that_spell_a_held_out_allele_are_found_in_the_stream(audited: AuditedWorld, tmp_path: Path) -> None:
    planted, report = planted_and_audited(audited, tmp_path / "out", EMITTED_PLANTS, 20_000)
    assert report[LeakKind.HELD_ALLELE].verdict is Verdict.CLEAN
    ((_, power),) = count_found(planted, report)
    assert power.found >= NUMBER - 2
    found = report[LeakKind.RECREATED_ALLELE].found
    assert found.keys <= {one.key for one in planted}
    for row in found.rows:
        contig, pos, *_ = str(row["what"]).split(":")
        at, start = str(row["window"]).split()[1].split(":")
        assert at == contig
        assert 0 < int(pos) - int(start) <= 2_000


def test_two_snvs_are_refused_by_the_stream_that_knows_the_allele(audited: AuditedWorld, tmp_path: Path) -> None:
    plant_leaks(audited.package, tmp_path / "first", audited.fasta, EMITTED_PLANTS, number=3)
    package, told = tmp_path / "first/package", tmp_path / "first/holdouts/alleles.parquet"
    (package / "holdouts/alleles.parquet").write_bytes(told.read_bytes())
    # Planting anything else states the digests anew.
    plant_leaks(package, tmp_path / "second", audited.fasta, ("wrong_label",))
    report = audit(audited, package=tmp_path / "second/package", least_tuples=20_000)
    assert report[LeakKind.RECREATED_ALLELE].verdict is Verdict.CLEAN


def test_random_windows_give_no_false_alarm(tmp_path: Path) -> None:
    texts = [world.simulate(50_000 + at, 1_200).decode() for at in range(1_000)]
    corpora = world.corpora() | {"prokaryote_evo2": world.corpus("prokaryote_evo2", texts)}
    audited = make_audited_world(tmp_path, corpus=corpora)
    report = audit(audited, least_tuples=0)
    found = {result.kind: len(result.found.keys) for result in report}
    assert set(found.values()) == {0}
    assert report[LeakKind.HELD_SEQUENCE].searched["windows"] > 1_000


@each_row(
    ("left_of", "reason"),
    [
        (lambda _: "", "the FASTA has 0.0% of the assembled bases of chr21"),
        (str.lower, "0.0% of the held-out bases of chr21 are outside the soft mask"),
        (lambda text: text[:6_000], "6,000 held-out bases lie behind the end of chr21 in the FASTA"),
    ],
)
def test_part_of_a_fasta_is_not_certain(
    audited: AuditedWorld, tmp_path: Path, left_of: Callable[[str], str], reason: str
) -> None:
    left = left_of(TEXTS["chr21"])
    texts = {name: text for name, text in (TEXTS | {"chr21": left}).items() if text}
    report = audit(audited, fasta=write_fasta(tmp_path / f"{len(reason)}.fa", texts), least_tuples=0)
    sequence = report[LeakKind.HELD_SEQUENCE]
    assert (sequence.verdict, sequence.reason) == (Verdict.INCONCLUSIVE, reason)
    assert left or report[LeakKind.HELD_ALLELE].verdict is report.verdict is Verdict.INCONCLUSIVE


def test_other_names_of_contigs_in_the_fasta(audited: AuditedWorld, tmp_path: Path) -> None:
    renamed = {name.removeprefix("chr"): text for name, text in TEXTS.items()}
    assert audit(audited, fasta=write_fasta(tmp_path / "renamed.fa", renamed)).verdict is Verdict.CLEAN


def test_soft_masked_bases_are_repeats(audited: AuditedWorld, tmp_path: Path) -> None:
    fasta = write_fasta(tmp_path / "masked.fa", TEXTS | {"chr20": TEXTS["chr20"].lower()})
    searched = audit(audited, fasta=fasta, least_tuples=0)[LeakKind.HELD_SEQUENCE].searched["held-out 31-mers"]
    everything = audit(audited, least_tuples=0)[LeakKind.HELD_SEQUENCE].searched["held-out 31-mers"]
    assert searched == pytest.approx(everything - world.LENGTHS["chr20"], abs=200)


def test_without_a_vcf_labels_are_not_certain(audited: AuditedWorld) -> None:
    labels = audit(audited, clinvar=None, least_tuples=0)[LeakKind.WRONG_LABEL]
    assert (labels.verdict, labels.reason) == (Verdict.INCONCLUSIVE, "the VCF of release 2025-01-05 was not given")


def test_labels_at_t0_are_compared_with_the_vcf_of_t0(audited: AuditedWorld, tmp_path: Path) -> None:
    plant_leaks(audited.package, tmp_path / "out", audited.fasta, ("wrong_label",), number=2)
    package = tmp_path / "out/package"
    record = json.loads((package / "package.json").read_text())
    (package / "package.json").write_text(json.dumps(record | {"knowledge": "T0"}))
    report = audit(audited, package=package, clinvar_t0=audited.vcf, least_tuples=0)
    assert len(report[LeakKind.LATE_LABEL].found.keys) == 2
    assert report[LeakKind.WRONG_LABEL].verdict is Verdict.CLEAN


@pytest.mark.parametrize("place", ["package/x", "package/data/x", "link/x", "holdouts/x/y"])
def test_a_copy_inside_of_what_is_copied_is_refused(audited: AuditedWorld, tmp_path: Path, place: str) -> None:
    package = shutil.copytree(audited.package, tmp_path / "package")
    holdouts = shutil.copytree(audited.package / "holdouts", tmp_path / "holdouts")
    (tmp_path / "link").symlink_to("package")
    with pytest.raises(InputError, match=f"{place}: lies in a folder that is copied"):
        plant_leaks(package, tmp_path / place, audited.fasta, ("wrong_label",), holdouts=holdouts)
    assert not (tmp_path / place).parent.joinpath("x").exists()


def test_a_planted_package_verifies_and_the_original_is_untouched(audited: AuditedWorld, tmp_path: Path) -> None:
    before = (audited.package / "manifest.json").read_bytes()
    plant_leaks(audited.package, tmp_path / "out", audited.fasta, number=1)
    assert verify_package(tmp_path / "out/package") == []
    assert find_mapped_faults(tmp_path / "out/package") == []
    assert verify_package(audited.package) == []
    assert find_mapped_faults(audited.package) == []
    assert (audited.package / "manifest.json").read_bytes() == before
    listed = json.loads((tmp_path / "out/planted.json").read_text())
    assert {one["plant"] for one in listed} == set(PLANTS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_planting_is_repeatable(audited: AuditedWorld, tmp_path: Path) -> None:
    for name in ("a", "b"):
        plant_leaks(audited.package, tmp_path / name, audited.fasta, number=2, seed=4)
    sums = [(tmp_path / name / "package/manifest.json").read_bytes() for name in ("a", "b")]
    assert sums[0] == sums[1]


def test_wrong_input_of_planting(audited: AuditedWorld, tmp_path: Path) -> None:
    with pytest.raises(UnknownTermError, match="--kind nonsense: is unknown: expected one of alias_contig"):
        plant_leaks(audited.package, tmp_path / "out", audited.fasta, ("nonsense",))
    with pytest.raises(InputError, match="exists already"):
        plant_leaks(audited.package, tmp_path, audited.fasta)
    with pytest.raises(MissingResourceError):
        plant_leaks(tmp_path, tmp_path / "out", audited.fasta)


def test_a_flank_with_one_held_out_base_is_found_and_one_beside_it_is_not(audited: AuditedWorld, package: Path) -> None:
    size = world.PROFILE.window_bp
    last = world.BLOCK_TEST[0] - size - world.PROFILE.margin_bp

    def move(rows: Rows) -> None:
        for row, start in zip([row for row in rows if row["origin"] == "reference"], (last, last + 1), strict=False):
            row.update(start=start, end=start + size)

    change_rows(next((package / "data").glob("train-*.parquet")), move)
    report = audit(audited, package=package, least_tuples=0)
    assert report[LeakKind.HELD_INTERVAL].found.keys == {f"reference chr17:{last + 1}"}


@pytest.mark.parametrize(("at_allele", "leaks"), [(True, True), (False, False)])
def test_a_held_out_allele_in_a_window_without_a_place(audited: AuditedWorld, at_allele: bool, leaks: bool) -> None:
    held = world.clinvar("chr17").to_pylist()[3]
    start = held["pos"] - 1 - 300
    window = world.SEQUENCES["chr17"][start : start + 600].decode()
    at = 300 if at_allele else 301
    alt = held["alt"] if at_allele else world.other_base(window[at])
    # The window reads along the other strand, and no place is stated.
    texts = [world.reverse(text.encode()) for text in (window, f"{window[:at]}{alt}{window[at + 1 :]}")]
    batch = emitted_batch(*texts, None, origin="mrna_evo2", locus_token=50)
    stream = audit(audited, least_tuples=1, draw=lambda *_: [batch])[LeakKind.RECREATED_ALLELE]
    assert stream.found.keys == ({"mrna_evo2 w"} if leaks else set())
    assert stream.verdict is (Verdict.LEAK if leaks else Verdict.INCONCLUSIVE)


@each_row(
    ("strand", "end", "emitted", "left"),
    [
        ("+", 200, (100, 215), (93, 100)),
        ("-", 200, (85, 200), (200, 207)),
        # Without an end the bases tell it; a window of unknown strand reaches both ways.
        ("+", None, (100, 215), None),
        ("-", None, (85, 200), None),
        (None, None, (85, 215), None),
    ],
)
def test_what_a_window_shows_on_either_strand(
    strand: str | None, end: int | None, emitted: tuple[int, int], left: tuple[int, int] | None
) -> None:
    row = {"start": 100, "end": end, "strand": strand, "sequence": "A" * 100 if end is None else ""}
    row |= {"left_flank": "A" * 7, "right_flank": "C" * 15}
    types = {"start": pa.int64(), "end": pa.int64()} | dict.fromkeys(list(row)[2:], pa.string())
    windows = pa.RecordBatch.from_pylist([row], schema=pa.schema(list(types.items())))
    assert [each.tolist() for each in emitted_spans(windows)] == [[at] for at in emitted]
    assert left is None or [each.tolist() for each in left_flank_spans(windows)] == [[at] for at in left]


def test_a_window_of_a_contig_without_coordinates(audited: AuditedWorld, package: Path) -> None:
    path = next((package / "data").glob("train-*.parquet"))
    named = {"mrna_evo2.1": "21", "mrna_evo2.3": "17"}
    change_rows(path, lambda rows: [row | {"contig": named.get(row["record_id"], row["contig"])} for row in rows])
    report = audit(audited, package=package, least_tuples=0)
    assert report[LeakKind.HELD_INTERVAL].found.keys == {"mrna_evo2 mrna_evo2.1:0", "mrna_evo2 mrna_evo2.3:0"}
