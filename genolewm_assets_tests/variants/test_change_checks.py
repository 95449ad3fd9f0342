"""Changes between releases: those of a plain comparison, and each planted fault is found by its check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given

from genolewm_assets.genome import CLASSES
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.variants.change_checks import CHANGE_CHECKS, check_changes, check_nothing_to_compare
from genolewm_assets.variants.changes import COMPARED, find_changes, transitions
from genolewm_assets.variants.schema import CLINVAR_CHANGES
from genolewm_assets_tests.worlds.lewm.release_world import (
    CONTIGS,
    RELEASES,
    Allele,
    Entry,
    Release,
    allele_table,
    count_labels,
    shard,
)


@dataclass(frozen=True)
class Comparison:
    """Everything that the checks look at; a test replaces what it wants to be wrong."""

    earlier: Mapping[str, pa.Table]
    later: Mapping[str, pa.Table]
    classes: tuple[Mapping[str, int], Mapping[str, int]]
    changes: Mapping[str, pa.Table] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None

    @classmethod
    def of(cls, earlier: Release, later: Release) -> Comparison:
        tables = ({contig: shard(release, contig) for contig in CONTIGS} for release in (earlier, later))
        return cls(*tables, (count_labels(earlier), count_labels(later))).honest()

    def honest(self) -> Comparison:
        counts: Counter[str] = Counter()
        changes = {}
        for contig in CONTIGS:
            changes[contig], found = find_changes(self.earlier[contig], self.later[contig])
            counts.update(found)
        return replace(self, changes=changes, counts=counts)

    def check(self) -> dict[str, CheckResult]:
        rows = sum(table.num_rows for table in self.changes.values()) if self.rows is None else self.rows
        results = check_changes(
            CONTIGS,
            self.changes.__getitem__,
            self.earlier.__getitem__,
            self.later.__getitem__,
            counts=self.counts,
            classes=self.classes,
            rows=rows,
        )
        return {result.name: result for result in results}

    def failed(self) -> set[str]:
        return {name for name, result in self.check().items() if not result.passed}


EARLIER: Release = {
    "chr17": {
        (8, "A", "C"): Entry(1),
        (9, "A", "C"): Entry(2),
        (9, "A", "G"): Entry(3, "Benign"),
        (10, "A", "T"): Entry(4, "Uncertain_significance", 2),
    },
    "chrM": {(8, "A", "C"): Entry(9)},
}
LATER: Release = {
    "chr17": {
        (8, "A", "C"): Entry(1),
        (9, "A", "C"): Entry(2, "Likely_pathogenic"),
        (10, "A", "T"): Entry(4, "Uncertain_significance", 1),
        (11, "A", "T"): Entry(5, None, 0),
    },
    "chr20": {(8, "A", "C"): Entry(6, "Benign")},
}


@pytest.fixture
def compared() -> Comparison:
    return Comparison.of(EARLIER, LATER)


@given(RELEASES, RELEASES)
def test_honest_comparisons_pass(earlier: Release, later: Release) -> None:
    assert Comparison.of(earlier, later).failed() == set()


def with_rows(compared: Comparison, contig: str, change: Callable[[list[dict[str, object]]], None]) -> Comparison:
    rows = compared.changes[contig].to_pylist()
    change(rows)
    table = pa.Table.from_pylist(rows, schema=CLINVAR_CHANGES.arrow)
    return replace(compared, changes={**compared.changes, contig: table})


def row_of(rows: list[dict[str, object]], pos: int, alt: str) -> dict[str, object]:
    (row,) = (row for row in rows if (row["pos"], row["alt"]) == (pos, alt))
    return row


def unchanged_row(change: str) -> dict[str, object]:
    """Return a row of the one allele of chr17 that does not change."""
    sides = {f"{name}_{side}": value for name, value in SAID.items() for side in ("from", "to")}
    flags = dict.fromkeys(COMPARED.values(), False)
    allele = {"chrom": "chr17", "pos": 8, "ref": "A", "alt": "C", "change": change}
    return {**allele, **sides, **flags, "gene_symbols": ["SIM1"], "gene_ids": [4]}


SAID: dict[str, object] = {"clinvar_id": 1, "label": "P", "clnsig": "Pathogenic", "stars": 1, "genes": "4"}

FLAGS, SUM = "flags_agree_with_columns", "changes_add_up"
LEAD, ORDER = "changes_lead_to_the_release", "alleles_sorted_and_unique"
FAULTS: dict[str, tuple[Callable[[list[dict[str, object]]], None], set[str]]] = {
    "an added allele is missing": (lambda rows: rows.remove(row_of(rows, 11, "T")), {LEAD, SUM}),
    "a removed allele is missing": (lambda rows: rows.remove(row_of(rows, 9, "G")), {LEAD, SUM}),
    "a row stands twice": (lambda rows: rows.insert(0, dict(rows[0])), {ORDER, LEAD, SUM}),
    "rows are out of order": (lambda rows: rows.reverse(), {ORDER}),
    "a row of another contig": (lambda rows: rows[0].update(chrom="chr20"), {ORDER, LEAD}),
    "another allele": (lambda rows: row_of(rows, 11, "T").update(pos=12), {LEAD}),
    "a flag lacks": (lambda rows: row_of(rows, 10, "T").update(stars_changed=False), {FLAGS, SUM}),
    "a flag too many": (lambda rows: row_of(rows, 11, "T").update(id_changed=True), {FLAGS, SUM}),
    "a wrong kind of change": (lambda rows: row_of(rows, 9, "G").update(change="changed"), {FLAGS, SUM}),
    "an unknown kind of change": (lambda rows: row_of(rows, 9, "G").update(change="moved"), {FLAGS, SUM}),
    "a text on the side that is not there": (lambda rows: row_of(rows, 11, "T").update(clnsig_from="Benign"), {FLAGS}),
    "stars on the side that is not there": (lambda rows: row_of(rows, 11, "T").update(stars_from=1), {FLAGS}),
    "a change of nothing": (lambda rows: rows.insert(0, unchanged_row("changed")), {FLAGS, SUM}),
    "an unknown kind of nothing": (lambda rows: rows.insert(0, unchanged_row("moved")), {FLAGS, SUM}),
    "a wrong class": (lambda rows: row_of(rows, 9, "C").update(label_to="P"), {FLAGS, LEAD, SUM}),
    "a wrong identifier of the earlier release": (lambda rows: row_of(rows, 9, "G").update(clinvar_id_from=77), {LEAD}),
    "wrong stars": (lambda rows: row_of(rows, 10, "T").update(stars_to=4), {LEAD}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_found_by_its_checks(compared: Comparison, fault: str) -> None:
    change, checks = FAULTS[fault]
    assert with_rows(compared, "chr17", change).failed() == checks


def test_another_schema_stops_the_other_checks(compared: Comparison) -> None:
    wrong = compared.changes["chr17"].drop_columns(["stars_to"])
    found = replace(compared, changes={**compared.changes, "chr17": wrong}).check()
    assert not any(result.passed for result in found.values())
    assert "not run" in str(found["flags_agree_with_columns"].figures)


def test_rows_of_a_contig_that_the_genome_lacks_are_missed_in_the_sum(compared: Comparison) -> None:
    rows = sum(table.num_rows for table in compared.changes.values())
    found = replace(compared, rows=rows + 1).check()["changes_add_up"]
    assert found.figures["problems"] == ["rows are on other contigs"]


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("alleles.earlier", ["earlier is not persisting + removed"]),
        ("alleles.later", ["later is not persisting + added"]),
        ("unchanged", ["persisting is not unchanged + changed"]),
        ("id_changed", ["rows by kind, class and flag differ"]),
        (
            "class.P_to_P",
            [
                "the earlier release's classes differ",
                "the later release's classes differ",
                "classes do not add up to persisting",
            ],
        ),
    ],
)
def test_a_count_that_is_one_too_high(compared: Comparison, name: str, problems: list[str]) -> None:
    counts = {**compared.counts, name: compared.counts[name] + 1}
    assert replace(compared, counts=counts).check()["changes_add_up"].figures["problems"] == problems


@pytest.mark.parametrize("side", [0, 1])
def test_classes_that_the_shards_counted_otherwise(compared: Comparison, side: int) -> None:
    classes = [dict(each) for each in compared.classes]
    classes[side]["P"] += 1
    found = replace(compared, classes=(classes[0], classes[1])).check()["changes_add_up"]
    assert found.figures["problems"] == [f"the {('earlier', 'later')[side]} release's classes differ"]


@pytest.mark.parametrize("side", ["earlier", "later"])
@pytest.mark.parametrize(("pos", "figure"), [(8, "repeated"), (7, "out_of_order")])
def test_a_shard_with_an_allele_twice_or_out_of_order_is_found(
    compared: Comparison, side: str, pos: int, figure: str
) -> None:
    alleles = allele_table("chr17", [((8, "A", "C"), Entry(1)), ((pos, "A", "C"), Entry(2))])
    wrong = replace(compared, **{side: {**getattr(compared, side), "chr17": alleles}})
    found = wrong.honest().check()["shards_hold_no_allele_twice"]
    assert not found.passed
    assert found.figures[f"{side}.{figure}"] == 1
    assert [(row["release"], row["pos"]) for row in found.rows] == [(side, pos)]


def test_a_class_that_changed_while_its_text_did_not(compared: Comparison) -> None:
    """Shards made by two tables of terms: the change is ours, not ClinVar's."""
    table = compared.later["chr17"]
    labels = pc.if_else(pc.equal(table["pos"], 8), "LP", table["label"])
    relabelled = table.set_column(table.column_names.index("label"), table.schema.field("label"), labels)
    later = {**compared.later, "chr17": relabelled}
    classes = (compared.classes[0], {**compared.classes[1], "LP": 2, "P": compared.classes[1]["P"] - 1})
    assert replace(compared, later=later, classes=classes).honest().failed() == {"classes_change_with_their_texts"}


def test_without_a_predecessor_the_table_is_empty() -> None:
    results = check_nothing_to_compare(CLINVAR_CHANGES.empty())
    assert tuple(result.name for result in results) == CHANGE_CHECKS
    assert all(result.passed for result in results)
    table = Comparison.of(EARLIER, LATER).changes["chr17"]
    failed = {result.name for result in check_nothing_to_compare(table) if not result.passed}
    assert failed == set(CHANGE_CHECKS) - {"schema_as_declared"}


def plain_row(contig: str, allele: Allele, before: Entry | None, after: Entry | None) -> dict[str, object] | None:
    """Return the row of one allele from what each release says of it; None where both say the same."""
    both = before is not None and after is not None
    fields = {"text": "clnsig", "class": "label", "id": "clinvar_id", "stars": "stars", "genes": "gene_ids"}
    differs = {f"{flag}_changed": both and getattr(before, n) != getattr(after, n) for flag, n in fields.items()}
    if both and not any(differs.values()):
        return None
    last = after or before or Entry()
    row: dict[str, object] = dict(zip(("chrom", "pos", "ref", "alt"), (contig, *allele), strict=True))
    for side, entry in (("from", before), ("to", after)):
        for name in ("clinvar_id", "label", "clnsig", "stars"):
            row[f"{name}_{side}"] = None if entry is None else getattr(entry, name)
        row[f"genes_{side}"] = None if entry is None else "|".join(map(str, entry.gene_ids))
    change = "changed" if both else "added" if before is None else "removed"
    return {**row, "change": change, "gene_symbols": list(last.genes), "gene_ids": last.gene_ids, **differs}


def plain_changes(earlier: Release, later: Release, contig: str) -> list[dict[str, object]]:
    before, after = earlier.get(contig, {}), later.get(contig, {})
    rows = (plain_row(contig, allele, before.get(allele), after.get(allele)) for allele in sorted({*before, *after}))
    return [row for row in rows if row is not None]


def plain_counts(earlier: Release, later: Release, contig: str) -> Counter[str]:
    before, after = earlier.get(contig, {}), later.get(contig, {})
    counts = Counter({"alleles.earlier": len(before), "alleles.later": len(after)})
    for row in plain_changes(earlier, later, contig):
        counts[str(row["change"])] += 1
        counts.update(flag for flag in COMPARED.values() if row[flag])
    counts["persisting"] = len(before.keys() & after.keys())
    counts["unchanged"] = counts["persisting"] - counts["changed"]
    counts.update(f"class.{before[a].label}_to_{after[a].label}" for a in before.keys() & after.keys())
    counts.update(f"removed.{before[a].label}" for a in before.keys() - after.keys())
    counts.update(f"added.{after[a].label}" for a in after.keys() - before.keys())
    return counts


#: Both entries of alleles of which one thing changes each, or nothing that is compared.
EACH_FLAG = {
    **{"A": (Entry(), Entry(clnsig="Pathogenic|risk_factor")), "AC": (Entry(), Entry(genes=("GENE4", "G")))},
    **{"ACC": (Entry(), Entry(clnsig="Likely_pathogenic")), "C": (Entry(clnsig=None), Entry(clnsig="drug_response"))},
    **{"CC": (Entry(), Entry(clinvar_id=7)), "G": (Entry(), Entry(stars=2)), "T": (Entry(), Entry(genes=("SIM2",)))},
}


@given(RELEASES, RELEASES)
@example({}, {})
@example({}, {"chr17": {(8, "A", "C"): Entry()}})
@example({"chr17": {(8, "A", "C"): Entry()}}, {"chr20": {(8, "A", "C"): Entry()}})
@example({"chr17": {(8, "A", "C"): Entry(clnsig=None)}}, {"chr17": {(8, "A", "C"): Entry(clnsig="not_provided")}})
@example(*({"chr17": {(8, "A", alt): entry[side] for alt, entry in EACH_FLAG.items()}} for side in (0, 1)))
def test_changes_are_those_of_a_comparison_of_dicts(earlier: Release, later: Release) -> None:
    for contig in CONTIGS:
        table, counts = find_changes(shard(earlier, contig), shard(later, contig))
        assert table.schema == CLINVAR_CHANGES.arrow
        assert table.select(sorted(table.column_names)).to_pylist() == [
            dict(sorted(row.items())) for row in plain_changes(earlier, later, contig)
        ]
        expected = plain_counts(earlier, later, contig)
        assert {name: n for name, n in counts.items() if n} == {name: n for name, n in expected.items() if n}


def test_the_matrix_holds_every_allele_of_both_releases_once() -> None:
    earlier, later = (
        allele_table("chr17", [((pos, "A", "C"), Entry(clnsig=text)) for pos, text in texts.items()])
        for texts in ({8: "Pathogenic", 9: "Pathogenic", 10: "Benign"}, {8: "Pathogenic", 9: None, 11: "Pathogenic"})
    )
    matrix = transitions(find_changes(earlier, later)[1])
    p, b, other, absent = (*map(CLASSES.index, ("P", "B", "OTHER")), len(CLASSES))
    expected = np.zeros((7, 7), dtype=np.int64)
    expected[p, p] = expected[p, other] = expected[b, absent] = expected[absent, p] = 1
    np.testing.assert_array_equal(matrix, expected)
