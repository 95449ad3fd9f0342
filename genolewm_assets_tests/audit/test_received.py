"""What an audit measures of labels, benches, contexts and the mix: each fault of a written table is found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit import labels as labels_of_audit
from genolewm_assets.audit.allele_searches import search_stream
from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.alleles.normal_alleles import normalise_alleles
from genolewm_assets.audit.benches import search_benches
from genolewm_assets.audit.labels import ClinvarFiles, search_labels
from genolewm_assets.audit.places import PlaceSearch, search_contexts
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import OwnFiles, open_files
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.reading.window_bases import WINDOW_COLUMNS
from genolewm_assets.audit.report import LeakKind, SearchResult, Verdict
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld
from genolewm_assets_tests.worlds.store.changed_tables import Edit, Rows, change_rows

TEST, TRAIN = "variants/test.parquet", "variants/train.parquet"


def labels(audited: AuditedWorld, files: OwnFiles) -> dict[LeakKind, SearchResult]:
    with Reference(audited.fasta) as reference:
        results = search_labels(files, reference, ClinvarFiles(audited.vcf, audited.vcf))
        return {result.kind: result for result in results}


@each_row("split", ["train", "validation", "test"])
@each_row(("column", "value"), [("label", "OTHER"), ("stars", 4), ("pos", None)])
def test_a_wrong_label_is_found(audited: AuditedWorld, package: Path, split: str, column: str, value: object) -> None:
    def edit(rows: Rows) -> None:
        row = next(row for row in rows if row["source"] == "clinvar" and row[column] != value)
        at = row["pos"] - 1
        moved = {"pos": at + 2, "ref": chr(world.SEQUENCES[row["chrom"]][at + 1])}
        row |= moved if value is None else {column: value}
        row["alt"] = world.other_base(row["ref"])

    before = (package / f"variants/{split}.parquet").read_bytes()
    change_rows(package / f"variants/{split}.parquet", edit)
    result = labels(audited, open_files(package))[LeakKind.WRONG_LABEL]
    (package / f"variants/{split}.parquet").write_bytes(before)
    assert len(result.found.keys) == 1
    assert result.found.rows[0]["split"] == split


def test_alleles_of_a_batch_are_normalised_together(
    audited: AuditedWorld, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edit(rows: Rows) -> None:
        for row in (row for row in rows if row["source"] == "clinvar"):
            row["pos"] += 1
            row["ref"] = chr(world.SEQUENCES[row["chrom"]][row["pos"] - 1])
            row["alt"] = world.other_base(row["ref"])

    calls, normalise = list[int](), normalise_alleles
    monkeypatch.setattr(labels_of_audit, "normalise_alleles", lambda *given: (calls.append(1), normalise(*given))[1])
    change_rows(package / TRAIN, edit)
    result = labels(audited, open_files(package))[LeakKind.WRONG_LABEL]
    assert len(result.found.keys) > len(calls) == 2 * 3
    assert all(row["published"] != row["what"] for row in result.found.rows)


def test_training_alleles_with_fewer_stars_are_found(audited: AuditedWorld, package: Path) -> None:
    files = open_files(package)
    assert labels(audited, files)[LeakKind.FEW_STARS].verdict is Verdict.NOT_APPLICABLE
    files.record["mix"]["min_training_stars"] = 2
    rows = pq.read_table(package / TRAIN).to_pylist()
    few = [row for row in rows if row["source"] == "clinvar" and row["stars"] < 2]
    result = labels(audited, files)[LeakKind.FEW_STARS]
    assert len(result.found.keys) == len(few) > 0


def contexts(audited: AuditedWorld, package: Path) -> list[object]:
    with Reference(audited.fasta) as reference:
        return [row["problem"] for row in search_contexts(open_files(package), reference).found.rows]


@each_row(
    ("edit", "problems"),
    [
        (lambda rows: None, []),
        (lambda rows: rows[:-1], ["held out, without a context"]),
        (lambda rows: rows.append(rows[0]), ["not held out, or twice"]),
        (lambda rows: rows[0].update(left_context="A" * 30), ["not the FASTA's bases"]),
        (lambda rows: rows[0].update(right_context=rows[0]["right_context"][1:]), ["not the FASTA's bases"]),
    ],
)
def test_wrong_contexts_are_found(audited: AuditedWorld, package: Path, edit: Edit, problems: list[str]) -> None:
    path = package / "holdouts/contexts.parquet"
    before = path.read_bytes()
    change_rows(path, edit)
    assert contexts(audited, package) == problems
    path.write_bytes(before)


def first_scored(rows: Rows) -> dict[str, Any]:
    return next(row for row in rows if (row["holdout"], row["scoring"]) == ("holdout-chr", "scored"))


def unscored(rows: Rows) -> None:
    first_scored(rows)["scoring"] = "in_no_window"


def undecided(rows: Rows) -> None:
    next(row for row in rows if row["holdout"] == "holdout-chr" and row["stars"] == 0)["scoring"] = "scored"


def other_label(rows: Rows) -> None:
    row = first_scored(rows)
    row["label"] = "B" if row["label"] != "B" else "P"


def show(package: Path, holdout: str, split: str, *, times: int = 1) -> list[SimpleNamespace]:
    """Return a batch of all alleles of the untouched package that are to be shown."""
    rows = pq.read_table(package / f"variants/{split}.parquet").to_pylist()
    shown = [row for row in rows if (row["holdout"], row["scoring"]) == (holdout, "scored")]
    tuples = [SimpleNamespace(alleles=(SimpleNamespace(**row),), **row) for row in shown]
    return [SimpleNamespace(tuples=tuples)] * times


def bench(audited: AuditedWorld, package: Path, **options: int) -> SearchResult:
    with Reference(audited.fasta) as reference:
        draw = lambda _, holdout, split: show(audited.package, holdout, split, **options)  # noqa: E731
        return search_benches(open_files(package), reference, audited.vcf, draw)


@each_row(
    "edit", [unscored, undecided, other_label, lambda rows: rows.remove(first_scored(rows)), lambda rows: rows.clear()]
)
def test_faults_of_a_bench_are_found(audited: AuditedWorld, package: Path, edit: Edit) -> None:
    before = (package / TEST).read_bytes()
    assert bench(audited, package).verdict is Verdict.CLEAN
    change_rows(package / TEST, edit)
    assert bench(audited, package).verdict is Verdict.LEAK
    (package / TEST).write_bytes(before)


@pytest.mark.parametrize("times", [0, 2])
def test_an_allele_not_shown_or_shown_twice_is_found(audited: AuditedWorld, package: Path, times: int) -> None:
    scored = [
        row
        for split in ("validation", "test")
        for row in pq.read_table(package / f"variants/{split}.parquet").to_pylist()
        if row["scoring"] == "scored"
    ]
    result = bench(audited, package, times=times)
    assert len(result.found.keys) == len({(row["holdout"], row["chrom"], row["pos"]) for row in scored})


@pytest.mark.model
@pytest.mark.parametrize("name", ["prokaryote_evo2", "clinvar"])
def test_a_mix_that_is_not_the_declared_one_is_found(audited: AuditedWorld, name: str) -> None:
    files = open_files(audited.package)
    shares = files.record["mix"]["declared"]
    group = shares["edits"] if name in shares["edits"] else shares["windows"]
    with Reference(audited.fasta) as reference:
        held = HeldAlleles.of_package(files, reference)

        def mix() -> SearchResult:
            spans = HeldSpans.of_package(files)
            *_, result = search_stream(files, reference, spans, held, least_tuples=2_500, progress=NO_PROGRESS)
            return result

        assert mix().verdict is Verdict.CLEAN
        group[name] += 0.2
        assert mix().found.keys == {f"{'edits' if group is shares['edits'] else 'windows'} {name}"}


def test_bases_of_evaluation_windows_are_compared(audited: AuditedWorld, package: Path) -> None:
    (path,) = (package / "data").glob("test-*.parquet")

    flank = pq.read_table(path)["left_flank"][0].as_py()
    change_rows(path, lambda rows: rows[0].update(left_flank=world.other_base(flank[0]) + flank[1:]))
    files = open_files(package)
    with Reference(audited.fasta) as reference:
        places = PlaceSearch(files, reference, HeldSpans.of_package(files))
        for batch in files.windows("test", WINDOW_COLUMNS):
            places.compare_bases(batch)
        _, elsewhere, _ = places.results()
    assert len(elsewhere.found.keys) == 1
