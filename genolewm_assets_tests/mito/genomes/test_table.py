"""The table of genomes: which records are placed, where, under which haplogroup, in whatever order they come."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from genolewm_assets.genome import reverse_complement
from genolewm_assets.mito.genomes import table as genome_table
from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.differences import parse_names
from genolewm_assets.mito.genomes.qc import find_fault
from genolewm_assets.mito.genomes.records import GenomeRecord, GenomeReject
from genolewm_assets.mito.genomes.rotation import canonical_rotation
from genolewm_assets.mito.genomes.split import SplitPolicy
from genolewm_assets.mito.genomes.table import (
    MITO_GENOME_REJECTS,
    MITO_GENOMES,
    PlacedCollection,
    PlacedGenome,
    genome_tables,
    haplogroups_of,
    place_genomes,
    reject_table,
)
from genolewm_assets.mito.tokens.store import read_placements
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.mito.genome_world import (
    GENOMES,
    MISFIT_REASONS,
    QC,
    REFERENCE,
    chimera,
    collection,
    misfits,
)


@pytest.fixture(scope="module")
def aligner() -> CircularAligner:
    return CircularAligner(REFERENCE)


@pytest.fixture(scope="module")
def placed(aligner: CircularAligner) -> PlacedCollection:
    return place_genomes(collection(), aligner, QC)


def table_of(placed: PlacedCollection, policy: SplitPolicy | None = None) -> pa.Table:
    _, tables = genome_tables(placed.genomes, REFERENCE, policy or SplitPolicy())
    return pa.concat_tables([MITO_GENOMES.empty(), *tables])


def test_every_other_record_is_rejected_with_its_reason(placed: PlacedCollection) -> None:
    assert tuple(rejected.reason for rejected in placed.rejected) == MISFIT_REASONS
    assert [rejected.number for rejected in placed.rejected] == [record.number for record in misfits(9)]
    assert all(rejected.detail for rejected in placed.rejected)
    table = reject_table(placed.rejected)
    assert table.schema.equals(MITO_GENOME_REJECTS.arrow, check_metadata=True)
    assert (table["reason"].to_pylist(), table["record"].to_pylist()) == (list(MISFIT_REASONS), list(range(9, 15)))
    counts = placed.counts()
    assert (counts["records"], counts["kept"]) == (len(collection()), len(GENOMES))
    assert {name.removeprefix("rejected."): n for name, n in counts.items() if name.startswith("rejected.")} == {
        str(reason): MISFIT_REASONS.count(str(reason)) for reason in GenomeReject
    }


def test_half_a_genome_turned_round_is_fit_alone_and_does_not_align(placed: PlacedCollection) -> None:
    record = GenomeRecord("chimera", "", chimera(), None, "a.fa", 14)
    assert find_fault(record, QC) is None
    (found,) = (rejected for rejected in placed.rejected if rejected.reason is GenomeReject.NOT_ALIGNABLE)
    assert (found.name, found.file, found.number) == ("chimera", "a.fa", 14)
    assert found.detail.startswith("got ")
    assert found.detail.endswith("of 3999 bases in one piece")


@pytest.mark.parametrize("at_once", [3, 512])
def test_threads_and_batches_change_nothing(
    aligner: CircularAligner, placed: PlacedCollection, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(genome_table, "_AT_ONCE", at_once)
    for threads in (1, 4):
        assert place_genomes(iter(collection()), aligner, QC, threads=threads) == placed
    assert table_of(placed).equals(table_of(place_genomes(collection(), aligner, QC, threads=4)))


def test_order_of_records_decides_neither_places_nor_sides(aligner: CircularAligner, placed: PlacedCollection) -> None:
    policy = SplitPolicy(validation=0.25, test=0.25)
    before = {row["name"]: row for row in table_of(placed, policy).to_pylist()}
    assert {row["split"] for row in before.values()} == {"train", "validation", "test"}
    for seed in range(3):
        records = collection()[: len(GENOMES)]
        random.Random(seed).shuffle(records)
        again = place_genomes(records, aligner, QC)
        after = {row["name"]: row for row in table_of(again, policy).to_pylist()}
        # A cluster bears the name of the genome that came first.
        parted = [{name: row for name, row in rows.items() if name not in {"lone", "near"}} for rows in (before, after)]
        assert parted[0] == parted[1]
        assert after["lone"]["split"] == after["near"]["split"] == before["lone"]["split"]
        assert after["lone"]["cluster"] == after["near"]["cluster"]


def test_rows_say_what_was_placed(placed: PlacedCollection) -> None:
    table = table_of(placed)
    assert table.schema.equals(MITO_GENOMES.arrow, check_metadata=True)
    rows = {row["name"]: row for row in table.to_pylist()}
    assert list(rows) == [genome.name for genome in GENOMES]
    assert not any(genome.record.sequence for genome in placed.genomes), "sequences do not stay in memory"
    for number, genome in enumerate(GENOMES, 1):
        row = rows[genome.name]
        assert (row["sequence"], row["length_bp"]) == (genome.spell(), len(genome.spell()))
        assert (row["differences"], row["file"], row["record"]) == (genome.names(), "a.fa", number)
        assert row["description"] == f"about {genome.name}"
        stated = (genome.haplogroup, "stated") if genome.haplogroup else (None, None)
        assert (row["haplogroup"], row["haplogroup_from"]) == stated
        given = genome.record(number).sequence
        given = reverse_complement(given) if row["is_reversed"] else given
        assert given[row["first_base"] :] + given[: row["first_base"]] == row["sequence"]
        assert (row["n_bases"], row["ambiguous_bases"]) == ((1, 1) if genome.name == "n5" else (0, 0))
    assert rows["k1"]["differences"][-1] == f"4000.1{GENOMES[5].inserted[3_999]}"
    assert rows["near"]["cluster"] == rows["lone"]["cluster"] == "lone"
    assert all(row["cluster"] == name for name, row in rows.items() if name != "near")
    assert len({row["circle_sha256"] for row in rows.values()}) == len(GENOMES)
    assert canonical_rotation(rows["h2"]["sequence"]) == canonical_rotation(GENOMES[1].record(1).sequence)


def test_the_reference_itself_is_a_genome_without_differences(aligner: CircularAligner) -> None:
    table = table_of(place_genomes([GenomeRecord("itself", "", REFERENCE, None, "a.fa", 1)], aligner, QC))
    (row,) = table.to_pylist()
    assert (row["differences"], row["placeholders"], row["sequence"]) == ([], [1_501], REFERENCE)
    ((_, _, placement),) = read_placements(table, REFERENCE)
    assert (placement.sequence, placement.coordinates.tolist()) == (REFERENCE, list(range(len(REFERENCE))))


def test_without_records_the_tables_are_empty(aligner: CircularAligner) -> None:
    found = place_genomes([], aligner, QC)
    assert table_of(found).num_rows == reject_table(found.rejected).num_rows == 0
    assert reject_table([]).schema.equals(MITO_GENOME_REJECTS.arrow, check_metadata=True)
    assert set(found.counts().values()) == {0}


@each_row(
    ("names", "stated", "expected"),
    [
        ("", None, ("H", "called")),
        ("73G 2706G 7028T 11719A 11467G 12308G 12372A 14766T", None, ("U", "called")),
        ("73G 2706G 7028T 11719A 11467G 12308G 12372A 14766T", "T2b", ("T2b", "stated")),
        ("", "", ("H", "called")),
    ],
)
def test_a_stated_haplogroup_goes_first(rcrs: str, names: str, stated: str | None, expected: tuple[str, str]) -> None:
    record = GenomeRecord("a", "", "", stated, "a.fa", 1)
    differences = parse_names(names.split(), where="a")
    genome = PlacedGenome(record, 0, 0, "", differences, is_reversed=False, first_base=0)
    assert haplogroups_of([genome], rcrs) == [expected]
