"""What a package, FASTA or VCF of unknown origin does to an audit: a finding, a gap or a typed error, never silence."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit import AuditReport, LeakKind, audit_package
from genolewm_assets.audit.duplicates import either_strand
from genolewm_assets.audit.kmer_kernels import densest_stretch
from genolewm_assets.audit.planting.field import Field
from genolewm_assets.audit.planting.plant import plant_leaks
from genolewm_assets.audit.planting.planted import PLANTS, Planted, plant_all
from genolewm_assets.audit.planting.power import count_found
from genolewm_assets.audit.reading.intervals import Span
from genolewm_assets.audit.reading.package_files import OwnFiles, open_files
from genolewm_assets.audit.reading.reference import Reference, encode
from genolewm_assets.audit.report import Found, SearchResult, Verdict
from genolewm_assets.errors import CorruptResourceError, MissingResourceError, VcfError
from genolewm_assets_tests.audit.compared import compare, held_table, sieved
from genolewm_assets_tests.audit.emitted_batches import emitted_batch
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import TEXTS, AuditedWorld
from genolewm_assets_tests.worlds.store.changed_tables import Rows, change_rows

HELD = world.SEQUENCES["chr21"][8_000:9_200].decode()


def train_file(package: Path) -> Path:
    return next((package / "data").glob("train-*.parquet"))


def change_record(package: Path, **columns: object) -> None:
    """Change the first training window that comes from a corpus."""
    change_rows(train_file(package), lambda rows: next(row for row in rows if row["record_id"]).update(columns))


def audit(audited: AuditedWorld, package: Path, **changes: object) -> AuditReport:
    settings = {"fasta": audited.fasta, "clinvar": audited.vcf, "least_tuples": 0}
    return audit_package(package, **(settings | changes))  # type: ignore[arg-type]


def test_held_out_sequence_spelled_with_u(audited: AuditedWorld, package: Path) -> None:
    change_record(package, sequence=HELD.replace("T", "U"))
    assert audit(audited, package)[LeakKind.HELD_SEQUENCE].verdict is Verdict.LEAK


def test_a_window_that_states_no_place_is_not_counted_as_compared(audited: AuditedWorld, package: Path) -> None:
    before = audit(audited, package)[LeakKind.FALSE_PLACE].searched["windows"]
    change_record(package, contig="chr17", start=None, end=None, placement_exact=True)
    assert audit(audited, package)[LeakKind.FALSE_PLACE].searched["windows"] == before


def test_windows_are_read_once(audited: AuditedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    read, windows = Counter[str](), OwnFiles.windows

    def counted(files: OwnFiles, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        read[split] += "sequence" in columns
        return windows(files, split, columns)

    monkeypatch.setattr(OwnFiles, "windows", counted)
    audit(audited, audited.package)
    assert read == {"train": 1, "validation": 1, "test": 1}


def test_copies_of_windows_that_train_by_design_are_not_planted(audited: AuditedWorld, package: Path) -> None:
    path = package / "holdouts/intervals.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    with Reference(audited.fasta) as reference:
        field = Field(open_files(package), reference, np.random.default_rng(0))
    assert plant_all(field, ["duplicate"], 1)[1] == {"duplicate": "the package has no row to make it from"}


def test_equal_sequences_in_any_spelling() -> None:
    assert either_strand("ACGRT") == either_strand("AYCGT") == either_strand("acgru")
    assert either_strand("ACGRT") != either_strand("ARCGT")


@pytest.mark.parametrize("lower", [True, False])
def test_a_fasta_in_lower_case_has_no_mask(audited: AuditedWorld, package: Path, tmp_path: Path, lower: bool) -> None:
    spelled = {name: text.lower() if lower else f"{text[:100].lower()}{text[100:]}" for name, text in TEXTS.items()}
    change_record(package, sequence=HELD)
    report = audit(audited, package, fasta=write_fasta(tmp_path / "spelled.fa", spelled))
    assert report[LeakKind.HELD_SEQUENCE].verdict is Verdict.LEAK


def test_a_window_of_unknown_bases_is_not_certain(audited: AuditedWorld, package: Path) -> None:
    change_record(package, sequence="".join("N" if at % 30 == 0 else base for at, base in enumerate(HELD)))
    similar = audit(audited, package)[LeakKind.HELD_SEQUENCE]
    assert similar.reason == "most 31-mers of 1 training window have an unknown base"


@pytest.mark.parametrize(("known", "is_known"), [(900, True), (400, False)])
def test_known_31mers_are_counted(known: int, is_known: bool) -> None:
    table = sieved(encode(HELD))
    assert compare(world.simulate(3, known).decode() + "N" * (1_000 - known), table)[1] is is_known
    assert compare("N" + world.simulate(3, 100).decode() + "NN", table)[1]
    assert not compare("ACGT", sieved(encode(HELD)))[0]


def test_no_interval_is_not_certain(audited: AuditedWorld, package: Path) -> None:
    path = package / "holdouts/intervals.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    report = audit(audited, package)
    for kind in (LeakKind.HELD_INTERVAL, LeakKind.HELD_SEQUENCE):
        assert report[kind].reason == "no interval is held out"
    assert report[LeakKind.DUPLICATE].reason == "no window of evaluation is of a holdout of intervals"


def test_an_interval_that_ends_before_it_starts(audited: AuditedWorld, package: Path) -> None:
    change_rows(package / "holdouts/intervals.parquet", lambda rows: rows[0].update(start=rows[0]["end"], end=0))
    with pytest.raises(CorruptResourceError, match="ends before it starts"):
        audit(audited, package)


def test_a_contig_that_nobody_names_is_not_certain(audited: AuditedWorld, package: Path) -> None:
    change_record(package, contig="hg38_21", start=10, end=20, strand="+", placement_exact=False)
    places = audit(audited, package)[LeakKind.HELD_INTERVAL]
    assert places.reason == "hg38_21 is no contig of the FASTA or the holdouts"


@pytest.mark.parametrize("split", ["validation", "test"])
def test_an_allele_that_is_evaluated_and_trains(audited: AuditedWorld, package: Path, split: str) -> None:
    row = pq.read_table(package / "variants/train.parquet").to_pylist()[5]
    change_rows(package / f"variants/{split}.parquet", lambda rows: [*rows, row | {"role": split}])
    alleles = audit(audited, package)[LeakKind.HELD_ALLELE]
    assert alleles.found.keys == {f"{row['chrom']}:{row['pos']}:{row['ref']}:{row['alt']}"}


def test_an_interval_and_a_padded_allele_in_both_roles(audited: AuditedWorld, package: Path) -> None:
    def padded(rows: Rows) -> Rows:
        one = next(row for row in rows if row["role"] == "test")
        before = world.SEQUENCES[one["chrom"]][one["pos"] - 2 : one["pos"] - 1].decode()
        other = {"pos": one["pos"] - 1, "ref": before + one["ref"], "alt": before + one["alt"], "role": "validation"}
        return [*rows, one | other]

    change_rows(package / "holdouts/alleles.parquet", padded)
    other = {"test": "validation", "validation": "test"}
    path = package / "holdouts/intervals.parquet"
    change_rows(path, lambda rows: [*rows, rows[0] | {"role": other[rows[0]["role"]]}])
    found = audit(audited, package)[LeakKind.SHARED_EVALUATION].found.keys
    assert len({key for key in found if "reference chr20:" not in key}) == 2
    assert "holdout-chr chr20:0-12000" in found


def test_a_window_of_validation_on_an_interval_of_test_of_another_holdout(audited: AuditedWorld, package: Path) -> None:
    _, end = world.BLOCK_VALIDATION
    row = {"holdout": "holdout-clinvar", "role": "test", "contig": "chr17", "start": end - 1, "end": end + 1}
    change_rows(package / "holdouts/intervals.parquet", lambda rows: [*rows, rows[-1] | row])
    shared = audit(audited, package)[LeakKind.SHARED_EVALUATION]
    assert shared.verdict is Verdict.LEAK
    assert all(key.startswith("holdout-haplotypes reference chr17:") for key in shared.found.keys)


def test_files_that_cannot_be_read(audited: AuditedWorld, package: Path, tmp_path: Path) -> None:
    path = train_file(package)
    table, data = pq.read_table(path), bytearray(path.read_bytes())
    data[200 : len(data) // 2 : 37] = b"\x5a" * len(data[200 : len(data) // 2 : 37])
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptResourceError, match="cannot be read as Parquet"):
        audit(audited, package)
    at = table.schema.get_field_index("start")
    pq.write_table(table.set_column(at, "start", table["start"].cast(pa.string())), path)
    with pytest.raises(CorruptResourceError, match="another kind of 'start': expected an integer, got string"):
        audit(audited, package)
    pq.write_table(table, path)
    change_rows(package / "variants/train.parquet", lambda rows: rows[0].update(pos=None))
    with pytest.raises(CorruptResourceError, match="has a row without 'pos'"):
        audit(audited, package)
    vcf = bytearray(audited.vcf.read_bytes())
    vcf[len(vcf) // 2] ^= 255
    vcf[len(vcf) // 2 + 1] ^= 255
    (tmp_path / "bad.vcf.gz").write_bytes(bytes(vcf))
    with pytest.raises(VcfError, match="cannot be read"):
        audit(audited, audited.package, clinvar=tmp_path / "bad.vcf.gz")


def test_a_package_without_labels_has_none_to_compare(audited: AuditedWorld, package: Path) -> None:
    for split in ("train", "validation", "test"):
        change_rows(package / f"variants/{split}.parquet", lambda rows: [row | {"label": None} for row in rows])
    labels = audit(audited, package, clinvar=audited.vcf)[LeakKind.WRONG_LABEL]
    assert (labels.verdict, labels.reason) == (Verdict.NOT_APPLICABLE, "no allele has a ClinVar label")


def test_searches_that_do_not_apply_decide_nothing() -> None:
    def report(*absent: str) -> AuditReport:
        results = tuple(SearchResult(LeakKind.HELD_RECORD, "", {"rows": 1}, Found(), absent=text) for text in absent)
        return AuditReport("p", "", results, {})

    assert report("", "none held out").verdict is Verdict.CLEAN
    assert report("none held out").verdict is Verdict.INCONCLUSIVE
    assert "not certain" not in report("", "none held out").headline


@pytest.mark.parametrize("order", [1, -1])
def test_a_long_shared_stretch_does_not_hide_a_copy(order: int) -> None:
    # 31 shared 31-mers in a row are not enough; 30 of them in three places, 2 kb away, are.
    held = np.zeros(4_000, dtype=np.uint8)
    held[100:131] = 1
    for place in (2_500, 2_600, 2_700):
        held[place : place + 10] = 1
    _, longest, _, best, places = densest_stretch(held[::order].copy(), 970)
    assert (longest, best, places) == (31, 30, 3)


def test_a_repeat_hides_nothing_of_another_stretch(tmp_path: Path) -> None:
    unit, other = world.simulate(1, 300).decode(), world.simulate(2, 300).decode()
    spacers = [world.simulate(10 + at, 200).decode() for at in range(12)]
    text = other + spacers[0] + "".join(unit + spacer for spacer in spacers[1:])
    with Reference(write_fasta(tmp_path / "genome.fa", {"chr1": text})) as reference:
        spans = [Span("chr1", 500, 800), Span("chr1", 0, 300)]
        table = held_table(reference, spans).kmers
        assert table.keys.size == 270


def test_windows_that_no_file_has_are_not_certain(audited: AuditedWorld) -> None:
    text = world.SEQUENCES["chr17"][3_000:3_600].decode()
    batch = emitted_batch(text, text, 3_000)
    stream = audit(audited, audited.package, least_tuples=1, draw=lambda *_: [batch])[LeakKind.RECREATED_ALLELE]
    assert "1 drawn window in no file of training windows" in stream.gaps
    assert "no tuple with a place changes a base" in stream.gaps


def test_what_leaks_before_is_not_a_planted_leak(audited: AuditedWorld) -> None:
    def report(*keys: str) -> AuditReport:
        found = Found()
        for key in keys:
            found.add(key)
        return AuditReport("p", "", (SearchResult(LeakKind.HELD_ALLELE, "", {"alleles": 9}, found),), {})

    planted = [Planted("alias_allele", LeakKind.HELD_ALLELE, key) for key in ("a", "b", "c")]
    ((_, power),) = count_found(planted, report("a", "b"), report("a"))
    assert (power.planted, power.found) == (2, 1)


def test_planting_in_packages_that_lack_something(audited: AuditedWorld, package: Path, tmp_path: Path) -> None:
    lower = Path(shutil.copytree(package, tmp_path / "lower"))
    change_rows(train_file(lower), lambda rows: [row | {"sequence": row["sequence"].lower()} for row in rows])
    with pytest.raises(CorruptResourceError, match="holds a base other than A, C, G and T"):
        plant_leaks(lower, tmp_path / "out", audited.fasta, number=2)
    assert not (tmp_path / "out").exists()
    told = Path(shutil.copytree(package / "holdouts", tmp_path / "told"))
    for noun in ("intervals", "alleles", "corpus"):
        pq.write_table(pq.read_table(told / f"{noun}.parquet").slice(0, 0), told / f"{noun}.parquet")
    planted, failed = plant_leaks(package, tmp_path / "none", audited.fasta, holdouts=told)
    assert {one.plant for one in planted} | set(failed) == set(PLANTS)
    assert failed["exact_copy"] == "the package has no row to make it from"
    pq.write_table(pq.read_table(train_file(package)).slice(0, 0), train_file(package))
    with pytest.raises(MissingResourceError, match="holds no windows of train"):
        plant_leaks(package, tmp_path / "empty", audited.fasta, holdouts=told)
