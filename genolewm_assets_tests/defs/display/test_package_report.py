"""The report of a move between packages with planted differences, beside a recount of their files."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from genolewm_assets.defs.display.package_report import FIGURES, MoveFacts, move_figures, write_report, write_title
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.diff import compare_packages
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.pointer import Move
from genolewm_assets.packages.reader import Package
from genolewm_assets.packages.references import PackageRef
from genolewm_assets.variants.changes import find_changes
from genolewm_assets.variants.schema import CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets_tests.pictures import PICTURE
from genolewm_assets_tests.referees import package_tables as referee
from genolewm_assets_tests.worlds.lewm.package_world import (
    LENGTHS,
    clinvar,
    default_intervals,
    gnomad,
    intervals,
    make_sources,
)

OLD, NEW = "2025-01-05", "2025-02-05"
CLASSES = ("P", "LP", "VUS", "LB", "B", "OTHER")


def ref(release: str, digit: str) -> PackageRef:
    return PackageRef(release, f"packages/{release}/{digit * 12}", digit * 64)


@dataclass(frozen=True)
class Pair:
    """Two packages, and ClinVar as each was made from."""

    before: Path
    after: Path
    clinvar: tuple[dict[str, pa.Table], dict[str, pa.Table]]

    def facts(self) -> MoveFacts:
        old, new = (Package(each, read_package_info(each), {}) for each in (self.before, self.after))
        counts: Counter[str] = Counter()
        for name in LENGTHS:
            counts.update(find_changes(self.clinvar[0][name], self.clinvar[1][name])[1])
        move = Move(ref(OLD, "a"), ref(NEW, "b"))
        return MoveFacts(move, new.info, old.info, compare_packages(old, new), counts, {})


def planted() -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
    """Return ClinVar and gnomAD of the later release: alleles gone, new and of another class, in train and a bench."""
    seventeen = clinvar("chr17").to_pylist()
    seventeen[4]["label"] = seventeen[10]["label"] = "P"  # VUS, both trained on
    gone = seventeen.pop(0)
    seventeen.insert(0, gone | {"alt": next(b for b in "ACGT" if b not in (gone["ref"], gone["alt"])), "label": "B"})
    bench = clinvar("chr21").to_pylist()
    decided = [row for row in bench if row["label"] in {"P", "LP"} and row["stars"] >= 1]
    decided[0]["label"], decided[1]["stars"], decided[2]["label"] = "B", 5 - decided[1]["stars"], "VUS"
    frequent = gnomad("chr17").to_pylist()[2:]
    tables = {
        "chr17": pa.Table.from_pylist(seventeen, schema=CLINVAR_VARIANTS.arrow),
        "chr20": clinvar("chr20"),
        "chr21": pa.Table.from_pylist(bench, schema=CLINVAR_VARIANTS.arrow),
    }
    return tables, {"chr17": pa.Table.from_pylist(frequent, schema=GNOMAD_VARIANTS.arrow), "chr20": gnomad("chr20")}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("pair")
    write_package(folder / "before", make_sources())
    labels, frequencies = planted()
    more = pa.concat_tables([default_intervals(), intervals(("holdout-clinvar", "test", "chr17", 10_000, 11_000))])
    versions = {"gnomad[chr17]": "4.2 | `x`"}
    changed = {"release": NEW, "clinvar": labels, "gnomad": frequencies, "intervals": more, "versions": versions}
    write_package(folder / "after", make_sources(**changed))
    return Pair(folder / "before", folder / "after", ({name: clinvar(name) for name in LENGTHS}, labels))


@pytest.fixture(scope="module")
def facts(pair: Pair) -> MoveFacts:
    return pair.facts()


@pytest.fixture(scope="module")
def text(facts: MoveFacts) -> str:
    return write_report(facts)


def table(text: str, section: str, first: str) -> list[list[str]]:
    """Return the cells of the table of a section whose header begins with a word."""
    within = text.split(f"## {section}")[1].split("\n## ", maxsplit=1)[0]
    _, _, *rows = within[within.index(f"\n| {first} |") + 1 :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_the_figures_are_those_of_a_recount(pair: Pair, facts: MoveFacts) -> None:
    found, of_clinvar = move_figures(facts), {"clinvar_added": 1, "clinvar_removed": 1, "clinvar_reclassified": 4}
    assert tuple(found) == FIGURES
    assert found == referee.move_figures(pair.before, pair.after) | of_clinvar
    # What was planted is there.
    planted = {"bench_labels_changed": 1, "train_labels_changed": 2, "bench_alleles_removed": 1}
    assert planted.items() <= found.items()
    assert referee.compare_training(pair.before, pair.after)[0]["B"] == 1
    assert found["train_windows_removed"] > found["test_windows_added"] > 0
    assert found["train_alleles_removed"] > found["train_alleles_added"] > 0


def test_the_classes_of_clinvar_add_up(pair: Pair, text: str) -> None:
    def labels(tables: dict[str, pa.Table]) -> dict[tuple[object, ...], str]:
        rows = [row for each in tables.values() for row in each.to_pylist()]
        return {(row["chrom"], row["pos"], row["ref"], row["alt"]): row["label"] for row in rows}

    before, after = map(labels, pair.clinvar)
    stated = {row[0]: [int(cell) for cell in row[1:]] for row in table(text, f"ClinVar {OLD} to {NEW}", "class")}
    assert set(stated) == set(CLASSES)
    both = [(before[key], after[key]) for key in before.keys() & after.keys()]
    for name in CLASSES:
        assert stated[name] == [
            list(before.values()).count(name),
            sum(after[key] == name for key in after.keys() - before.keys()),
            sum(before[key] == name for key in before.keys() - after.keys()),
            sum(old != name == new for old, new in both),
            sum(old == name != new for old, new in both),
            list(after.values()).count(name),
        ]
        was, new, gone, came, left, now = stated[name]
        assert was + new - gone + came - left == now
    assert "**1** allele appeared, **1** disappeared and **4** got another class." in text


def test_the_benches_are_those_of_a_recount(pair: Pair, text: str) -> None:
    wanted = referee.compare_benches(pair.before, pair.after)
    stated = {(row[0], row[1]): tuple(map(int, row[2:])) for row in table(text, "Benches", "holdout")}
    assert stated == wanted
    assert any(each[4] for each in wanted.values()), "stars alone were planted"
    equal = sum(each[1:5] == (0, 0, 0, 0) for each in wanted.values())
    assert f"{equal} of {len(wanted)} benches stayed equal" in text


def test_training_is_that_of_a_recount(pair: Pair, text: str) -> None:
    gained, lost, relabelled = referee.compare_training(pair.before, pair.after)
    stated = {row[0]: (int(row[1]), int(row[2])) for row in table(text, "Training", "ClinVar alleles")}
    assert stated == {name: (gained[name], lost[name]) for name in CLASSES if gained[name] or lost[name]}
    stated_labels = {row[0]: int(row[1]) for row in table(text, "Training", "other label in training")}
    assert stated_labels == relabelled == {"VUS -> P": 2}
    shares = table(text, "Training", "of")
    for what, column in product(("windows", "edits"), (2, 3)):
        total = sum(float(row[column].rstrip("%")) for row in shares if row[0] == what)
        assert total == pytest.approx(100, abs=0.5)


def test_every_split_has_as_many_rows_as_its_files(pair: Pair, text: str) -> None:
    counted = referee.count_rows(pair.before, pair.after)
    for split, noun, *numbers in table(text, "Splits", "split"):
        was, added, removed, _, now = (int(number.replace(",", "")) for number in numbers)
        pattern = f"data/{split}-*.parquet" if noun == "windows" else f"variants/{split}.parquet"
        assert was == len(referee.rows_of(pair.before, pattern))
        assert now == len(referee.rows_of(pair.after, pattern))
        assert (added, removed) == (counted[f"{split}_{noun}_added"], counted[f"{split}_{noun}_removed"])
        assert was + added - removed == now


def test_what_moved_and_what_was_set_otherwise(text: str) -> None:
    moved = {row[0]: int(row[1]) for row in table(text, "Moved between splits", "what")}
    assert moved.keys() == {"windows, train -> test", "alleles, train -> test"}
    # Text of a catalogue neither ends its cell nor becomes Markdown.
    assert ["`gnomad[chr17]`", "`4.1`", "`4.2 / 'x'`"] in table(text, "Settings and sources", "setting")


def test_three_small_pictures_state_their_figures(text: str) -> None:
    pictures = PICTURE.findall(text)
    assert all(len(data) < 40_000 for _, data in pictures)
    (of_clinvar, _), (of_benches, _), (of_training, _) = pictures
    assert of_clinvar == f"{OLD} to {NEW}: 1 allele added, 1 removed, 4 reclassified"
    assert all(said in of_benches for said in ("holdout-chr, test", "1 relabelled"))
    assert "B 1 added" in of_training


def test_equal_facts_give_equal_bytes(pair: Pair, text: str) -> None:
    assert write_report(pair.facts()) == text
    assert str(pair.before.parent) not in text


def test_a_first_package_is_described_without_a_comparison(facts: MoveFacts) -> None:
    first = replace(facts, move=Move(None, facts.move.after), info_before=None, diff=None, clinvar=None)
    assert move_figures(first) == {}
    text = write_report(first)
    assert text.startswith(f"# The package of ClinVar {NEW} is in use; no package before it is recorded\n")
    assert re.findall("^## .*", text, re.MULTILINE) == ["## Splits"]
    train = facts.info.splits["train"]
    assert ["train", "windows", f"{train.windows:,}"] in table(text, "Splits", "split")


def test_a_new_build_of_one_release(pair: Pair) -> None:
    old = Package(pair.before, read_package_info(pair.before), {})
    move = Move(ref(OLD, "a"), ref(OLD, "c"))
    text = write_report(MoveFacts(move, old.info, old.info, compare_packages(old, old), None, {}))
    total = sum(len(rows) for rows in referee.bench(pair.before).values())
    for said in (
        f"# A new build of the package of ClinVar {OLD} is in use\n",
        f"Both packages are of ClinVar {OLD}.",
        f"All benches are equal: **{total:,}** alleles",
        "Training gained **0** windows and lost **0**",
    ):
        assert said in text
    assert "## Settings" not in text
    assert not PICTURE.search(text)


def test_a_package_that_is_gone_and_a_release_that_is_not_compared(facts: MoveFacts) -> None:
    problems = {"package": "manifest.json is missing", "clinvar": "nothing is *published* `here`\n<img>"}
    gone = replace(facts, info_before=None, diff=None, clinvar=None, problems=problems)
    assert move_figures(gone) == {}
    text = write_report(gone)
    assert "The packages were not compared: `manifest.json is missing`." in text
    assert "The releases were not compared: `nothing is *published* 'here' <img>`." in text
    # ClinVar's own tables may still be there.
    half = replace(gone, clinvar=facts.clinvar)
    assert move_figures(half) == {"clinvar_added": 1, "clinvar_removed": 1, "clinvar_reclassified": 4}
    assert "**4** got another class" in write_report(half)


def test_the_tenth_file_of_a_day_is_no_older_one() -> None:
    title = write_title(Move(ref(f"{OLD}.9", "a"), ref(f"{OLD}.10", "b")))
    assert title == f"The package of ClinVar {OLD}.10 is in use, after {OLD}.9"
