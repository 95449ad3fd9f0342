"""Audits of data folders that have the layout of geno-lewm 0.2.1, written here by hand from its facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit import AuditReport, Layout, LeakKind, audit_package, find_layout
from genolewm_assets.audit.reading.geno_lewm import open_geno_lewm
from genolewm_assets.audit.reading.package_files import open_files
from genolewm_assets.audit.report import Verdict
from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import CLNSIG, AuditedWorld

Row = dict[str, Any]
SIZE = 1_200
#: Starts of windows of chr17 that meet none of its held-out stretches.
STARTS = (0, 1_200, 2_400, 8_000)


def window(contig: str, start: int, **columns: object) -> Row:
    name = f"chr{contig.removeprefix('chr')}"
    sequence = world.SEQUENCES[name][start : start + SIZE].decode()
    row = {"record_id": f"{contig}-{start}", "source": "reference", "sequence": sequence, "start_bp": start}
    return row | {"chrom": contig} | columns


def write_lines(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_alleles(path: Path, rows: Sequence[Row]) -> None:
    """Write the columns that the shards of geno-lewm have; those of ClinVar where the rows have a label."""
    key = [("chrom", pa.string()), ("pos", pa.int64()), ("ref", pa.string()), ("alt", pa.string())]
    clinvar = [("clinical_significance", pa.string()), ("review_status", pa.string()), ("clinvar_id", pa.int64())]
    gnomad = [("af_global", pa.float32()), ("filter", pa.string())]
    columns = [*key, *(clinvar if "clinvar" in str(path) else gnomad), ("schema_version", pa.string())]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(columns)), path)


def clinvar_rows() -> list[Row]:
    """Return the ClinVar alleles of chr17 that nothing holds out, under bare contig names."""
    held = {row["pos"] for row in world.temporal_alleles().to_pylist()}
    blocks = (world.BLOCK_VALIDATION, world.BLOCK_TEST)
    rows = [row for row in world.clinvar("chr17").to_pylist() if row["pos"] not in held]
    rows = [row for row in rows if not any(start < row["pos"] <= end for start, end in blocks)]
    return [
        {"chrom": "17", "clinical_significance": row["label"], "clinvar_id": 9_000 + row["clinvar_id"]}
        | {name: row[name] for name in ("pos", "ref", "alt")}
        for row in rows
    ]


def write_vcf(path: Path) -> Path:
    lines = [
        f"17\t{row['pos']}\t{row['clinvar_id']}\t{row['ref']}\t{row['alt']}\t.\t.\t"
        f"ALLELEID={9_000 + row['clinvar_id']};CLNSIG={CLNSIG[row['label']]}\n"
        for row in world.clinvar("chr17").to_pylist()
    ]
    path.write_text("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n" + "".join(lines))
    return path


def write_dataset(folder: Path, files: dict[str, tuple[str, Sequence[Row]]]) -> Path:
    """Write a data set with its manifest, from split and rows of each file."""
    for path, (_, rows) in files.items():
        (write_lines if path.endswith(".jsonl") else write_alleles)(folder / path, rows)
    entries = [{"path": path, "split": split} for path, (split, _) in files.items()]
    record = {"snapshot_id": "snapshot", "splits": {"train": {}, "eval_clinvar": {}}, "files": entries}
    (folder / "dataset_manifest.json").write_text(json.dumps(record))
    return folder


def clean_files() -> dict[str, tuple[str, Sequence[Row]]]:
    shown = world.clinvar("chr17").to_pylist()[3]
    label = {name: shown[name] for name in ("chrom", "pos", "ref", "alt")} | {"label": "P", "clinvar_id": 9_004}
    return {
        "placed/train.jsonl": ("train", [window("chr17", start) for start in STARTS]),
        "gnomad/4.1/variants.parquet": ("train", []),
        "clinvar/2025-01-05/variants.parquet": ("train", clinvar_rows()),
        "eval/windows.jsonl": ("eval_clinvar", [window("21", 1_000)]),
        "eval/labels.jsonl": ("eval_clinvar", [label | {"label": shown["label"]}]),
    }


@pytest.fixture
def holdouts(tmp_path: Path) -> Path:
    folder = tmp_path / "holdouts"
    folder.mkdir()
    tables = {"intervals": world.default_intervals(), "alleles": world.temporal_alleles()}
    for noun, table in (tables | {"corpus": world.held_corpus()}).items():
        pq.write_table(table, folder / f"{noun}.parquet")
    return folder


def audit(audited: AuditedWorld, folder: Path, **changes: object) -> AuditReport:
    return audit_package(folder, audited.fasta, **({"clinvar": write_vcf(folder.parent / "c.vcf")} | changes))  # type: ignore[arg-type]


def test_a_data_set_without_a_leak(audited: AuditedWorld, tmp_path: Path, holdouts: Path) -> None:
    folder = write_dataset(tmp_path / "data", clean_files())
    assert find_layout(folder) is Layout.GENO_LEWM
    report = audit(audited, folder, holdouts=holdouts)
    unstored = "geno-lewm draws its tuples while it trains, by code of its own; none is stored"
    assert {result.kind: result.reason for result in report if result.verdict is not Verdict.CLEAN} == {
        LeakKind.HELD_RECORD: "no corpus record is held out",
        LeakKind.FEW_STARS: "the package asks for no review stars, or trains with no ClinVar allele",
        LeakKind.WRONG_CONTEXT: "the package states no bases around held-out alleles",
        **dict.fromkeys((LeakKind.RECREATED_ALLELE, LeakKind.FALSE_EDIT, LeakKind.STATE_MISMATCH), unstored),
        **dict.fromkeys((LeakKind.UNSHOWN_ALLELE, LeakKind.WRONG_MIX), unstored),
    }
    assert report.release == "2025-01-05"
    assert report[LeakKind.HELD_ALLELE].searched == {"alleles": len(clinvar_rows()), "held-out alleles": 2}
    assert report[LeakKind.DUPLICATE].searched["windows of test"] == 1


def test_each_leak_of_a_data_set_is_found(audited: AuditedWorld, tmp_path: Path, holdouts: Path) -> None:
    files = clean_files()
    # Its trainer reads whatever lies under placed/ and clinvar/, also what is stated to be of evaluation.
    files["placed/eval.jsonl"] = ("eval_clinvar", [window("21", 3_000)])
    copy = window("17", 9_200, sequence=world.reverse(world.SEQUENCES["chr21"][5_000:6_200]))
    files["placed/more.jsonl"] = ("train", [copy])
    held = clinvar_rows()[0] | {"clinvar_id": None}
    files["eval/more.jsonl"] = ("test", [held | {"clinical_significance": "B"}])
    wrong = [row | {"clinical_significance": "P"} if row["clinvar_id"] == 9_003 else row for row in clinvar_rows()]
    files["clinvar/2025-01-05/variants.parquet"] = ("train", wrong)
    report = audit(audited, write_dataset(tmp_path / "data", files), holdouts=holdouts)
    found = {result.kind: result.found.keys for result in report if result.found.keys}
    assert found == {
        LeakKind.HELD_INTERVAL: {"reference 21-3000:3000"},
        LeakKind.FALSE_PLACE: {"reference 17-9200:9200"},
        LeakKind.HELD_SEQUENCE: {"reference 21-3000:3000", "reference 17-9200:9200"},
        LeakKind.HELD_ALLELE: {f"chr17:{held['pos']}:{held['ref']}:{held['alt']}"},
        LeakKind.DUPLICATE: {"reference 21-3000:3000"},
        LeakKind.WRONG_LABEL: {key for row in wrong[2:3] for key in [f"17:{row['pos']}:{row['ref']}:{row['alt']}"]},
    }
    assert report[LeakKind.WRONG_LABEL].gaps == ("1 label without AlleleID",)


def test_windows_under_carbon_have_no_place(audited: AuditedWorld, tmp_path: Path, holdouts: Path) -> None:
    files = clean_files()
    own = {"sequence": world.simulate(77, SIZE).decode(), "source": "mrna", "chrom": None}
    copy = {"sequence": world.SEQUENCES["chr21"][700:1_900].decode().lower(), "source": "mrna", "chrom": None}
    rows = [window("chr17", 0, **own), window("chr17", 256, record_id="copy", **copy)]
    files["carbon/part.jsonl"] = ("train", rows)
    # Where there are placed windows, its trainer leaves the others out.
    report = audit(audited, write_dataset(tmp_path / "a", files), holdouts=holdouts)
    assert not report[LeakKind.HELD_SEQUENCE].found.keys
    del files["placed/train.jsonl"]
    report = audit(audited, write_dataset(tmp_path / "b", files), holdouts=holdouts)
    assert report[LeakKind.HELD_SEQUENCE].found.keys == {"mrna copy:256"}
    assert report[LeakKind.HELD_INTERVAL].reason == "there was nothing to search"


def cached_row(contig: str, start: int, sequence: str) -> Row:
    digest = hashlib.sha256(sequence.encode()).digest()
    return {"chrom": contig, "start_bp": start, "end_bp": start + SIZE, "window_hash": digest, "embedding": [0.5]}


def test_prepared_shards_and_cached_windows(audited: AuditedWorld, tmp_path: Path, holdouts: Path) -> None:
    folder, text = tmp_path / "data", world.SEQUENCES["chr17"].decode()
    write_alleles(folder / "clinvar/2025-01-05/variants.parquet", clinvar_rows())
    rows = [cached_row("17", start, text[start : start + SIZE]) for start in STARTS]
    rows += [rows[0], cached_row("17", 10_000, text[: SIZE - 1] + "A"), cached_row("21", 0, "")]
    shard = folder / "embeddings/Org__model/20/centered_mean_8/chr17_0.parquet"
    shard.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), shard)
    assert find_layout(folder) is Layout.GENO_LEWM
    report = audit(audited, folder, holdouts=holdouts)
    assert report[LeakKind.HELD_INTERVAL].found.keys == {"cache 21:0:0"}
    similar = report[LeakKind.HELD_SEQUENCE]
    assert similar.searched["windows"] == 6
    assert similar.reason == "most 31-mers of 2 training windows have an unknown base"
    assert report[LeakKind.FALSE_PLACE].searched == {"windows": 4}
    assert report[LeakKind.DUPLICATE].verdict is Verdict.NOT_APPLICABLE


def test_without_holdouts_nothing_is_certain(audited: AuditedWorld, tmp_path: Path) -> None:
    report = audit(audited, write_dataset(tmp_path / "data", clean_files()))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report[LeakKind.HELD_INTERVAL].reason == "no interval is held out"


#: Brackets that Python's reader of JSON gives up on.
DEEP = "[" * 30_000
ALLELE: Row = {"chrom": "17", "ref": "A", "alt": "C", "pos": 7}


def test_folders_that_are_something_else(audited: AuditedWorld, tmp_path: Path) -> None:
    assert find_layout(audited.package) is Layout.PACKAGE
    assert find_layout(tmp_path) is Layout.PACKAGE
    with pytest.raises(MissingResourceError, match=r"has neither dataset_manifest\.json nor a shard"):
        open_geno_lewm(tmp_path, None, audited.fasta)
    manifest = tmp_path / "dataset_manifest.json"
    for content, problem in (
        ("[1", "lists no files"),
        (DEEP, "lists no files.*recursion"),
        ('{"files": [1]}', "lists no files"),
        ('{"files": [{"path": "../x.jsonl"}]}', "outside of the folder"),
    ):
        manifest.write_text(content)
        with pytest.raises(CorruptResourceError, match=problem):
            open_geno_lewm(tmp_path, None, audited.fasta)
    manifest.write_text('{"files": [{"path": "placed/a.jsonl"}]}')
    files = open_geno_lewm(tmp_path, None, audited.fasta)
    with pytest.raises(MissingResourceError, match="is missing"):
        list(files.windows("train", ("sequence",)))
    rows: list[tuple[object, str]] = [
        (window("17", 0) | {"start_bp": "0"}, "'start_bp' is no integer"),
        (window("17", 0) | {"start_bp": -1}, "'start_bp' is no integer"),
        (window("17", 0) | {"record_id": 7}, "'record_id' is no text"),
        (window("17", 0) | {"chrom": 17}, "'chrom' is no text"),
        ([], "it is no JSON object"),
        ({"chrom": "17", "ref": "A", "alt": "C", "pos": None}, "'pos' is no integer"),
        ({"sequence": "A", "record_id": "a", "source": "b", "Chrom": "17"}, "'Chrom' is 'chrom' misspelt"),
        (ALLELE | {"clinvar_id": "9003"}, "'clinvar_id' is no integer"),
        (ALLELE | {"ClinVar-ID": 9003}, "'ClinVar-ID' is 'clinvar_id' misspelt"),
        (ALLELE | {"label": 1}, "the label is no text"),
    ]
    for row, problem in rows:
        write_lines(tmp_path / "placed/a.jsonl", [row])  # type: ignore[list-item]
        with pytest.raises(CorruptResourceError, match=f"a.jsonl:1: is no window or allele of geno-lewm .{problem}"):
            list(files.windows("train", ("sequence",)))
    (tmp_path / "placed/a.jsonl").write_text(DEEP)
    with pytest.raises(CorruptResourceError, match=r"a.jsonl:1: is no window or allele of geno-lewm .*recursion"):
        list(files.windows("train", ("sequence",)))
    (tmp_path / "package.json").write_text(DEEP)
    with pytest.raises(CorruptResourceError, match=r"package\.json: is no JSON .*recursion"):
        open_files(tmp_path, None)


def test_the_command(audited: AuditedWorld, tmp_path: Path, holdouts: Path, command: Command) -> None:
    files = clean_files() | {"placed/eval.jsonl": ("eval_clinvar", [window("21", 3_000)])}
    words, fasta = ("audit", write_dataset(tmp_path / "data", files), "--holdouts", holdouts), audited.fasta
    leaky = command(*words, "--reference", fasta, "--layout", "geno-lewm")
    assert leaky.code == 5
    assert "reference 21-3000:3000" in leaky.out
    assert command(*words, "--reference", fasta, "--layout", "package").code == 4
    for more, problem in (
        ([], "--reference: is needed for a folder of geno-lewm"),
        (["--layout", "zip"], "--layout: is unknown: expected 'package' or 'geno-lewm', got 'zip'"),
        (["--power", 1], "plants in packages only"),
    ):
        refused = command(*words, *(["--reference", fasta, *more] if more else []))
        assert refused.code == 2
        assert problem in refused.err
