"""Audits of data folders that the published geno-lewm 0.2.1 writes, against plain counts and what its trainer reads."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit import AuditReport, LeakKind, audit_package
from genolewm_assets.audit.report import Verdict
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

pytestmark = pytest.mark.nightly

RELEASE = RELEASES[1]
GNOMAD, CLINVAR = "gnomad/v4.1/variants.parquet", f"clinvar/{RELEASE}/variants.parquet"
PLACED, CARBON = "placed/gnomad-common-windows.jsonl", "carbon/source-mix-windows.jsonl"
LABELS, ALLELES = "eval/clinvar.labels.jsonl", "eval/clinvar.vcf"
#: Smallest window that geno-lewm makes.
SIZE = 4_096
#: A snapshot with the splits of the one that geno-lewm publishes: the shard of ClinVar is of evaluation.
SPEC: dict[str, Any] = {
    "schema_version": "1.0.0",
    "snapshot_id": "tiny-1",
    "generated_at": "2026-06-02T00:00:00Z",
    **dict.fromkeys(("license", "split_policy", "intended_use"), "simulated"),
    **{name: ["simulated"] for name in ("preprocessing", "leakage_checks", "limitations")},
    "sources": [{"name": "simulated", "revision": "1", "url": "https://example.org/simulated", "license": "CC0"}],
    "carbon_files": [
        {"source_path": "corpus.jsonl", "path": CARBON, "split": "train_carbon", "description": "corpus windows"},
        {"source_path": "labels.jsonl", "path": LABELS, "split": "eval_clinvar", "description": "labels"},
        {"source_path": "alleles.vcf", "path": ALLELES, "split": "eval_clinvar", "description": "alleles to score"},
    ],
    "gnomad": {"input_vcf": "gnomad.vcf", "release": "v4.1", "split": "train_gnomad", "description": "common alleles"},
    "placed_windows": {"input_fasta": "genome.fa.gz", "path": PLACED, "split": "train_placed", "window_bp": SIZE}
    | {"description": "windows around common alleles"},
    "clinvar": {"input_vcf": "clinvar.vcf.gz", "release": RELEASE, "split": "eval_clinvar", "description": "labels"},
    "splits": {
        name: {"description": name} for name in ("train_carbon", "train_placed", "train_gnomad", "eval_clinvar")
    },
}
#: Prints the windows and alleles that its trainer reads.
TRAINED = """
import json, sys
from pathlib import Path
from geno_lewm.training import real
folder = Path(sys.argv[1])
files = real._dataset_files(real._load_dataset_manifest(folder))
edits = [*real._load_gnomad_edits(folder, files), *real._load_clinvar_edits(folder, files)]
windows = [f"{window.source} {window.record_id}:{window.start_bp}" for window in real._load_windows(folder, files)]
print(json.dumps([windows, [f"chr{edit.chrom}:{edit.pos}:{edit.ref}:{edit.alt}" for edit in edits]]))
"""
#: Writes two shards of cached windows by its own code, one of chr17 with a window at a gap, one of chr20.
CACHE = """
import sys
from geno_lewm.encoder.cache import WindowCacheRecord, write_shard
from geno_lewm.encoder.windowing import extract_window
from tools.data.placed_windows import _load_reference_fasta
from pathlib import Path
reference = _load_reference_fasta(Path(sys.argv[2]))
for contig, loci in (("17", (0, 3_000, 9_200, 23_999)), ("20", (5_000,))):
    windows = [extract_window(reference[f"chr{contig}"], edit_locus=at, window_bp=4_096) for at in loci]
    how = {"encoder_hash": bytes(32), "state_layer": 2, "pool_type": "global_mean", "pool_radius": 0, "dtype": "fp16"}
    rows = [
        WindowCacheRecord(
            chrom=contig, start_bp=one.start_bp, end_bp=one.end_bp, window_hash=one.sha256, embedding=(0.5,),
            untargeted=False, **how
        )
        for one in windows
    ]
    write_shard(sys.argv[1], encoder_id="Org/model", contig=contig, stride_block=0, records=rows)
"""


#: Runs a program of geno-lewm's environment and returns what it prints.
Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(environment: Path, tools: Path) -> Run:
    def output(program: str, *words: object) -> str:
        # Its tools are not part of what is installed.
        variables = os.environ | {"PYTHONPATH": str(tools)}
        words = (environment / program, *words)
        done = subprocess.run([*map(str, words)], check=False, capture_output=True, text=True, env=variables)
        assert done.returncode == 0, done.stderr[-3_000:]
        return done.stdout

    return output


@pytest.fixture(scope="module")
def inputs(built: BuiltWorld, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with VCFs and FASTA of the built world, and with what geno-lewm's tools make of them."""
    folder = tmp_path_factory.mktemp("inputs")
    lines = []
    for name in ("chr17", "chr20"):
        text = gzip.decompress((built.folder / f"gnomad.{name}.vcf.bgz").read_bytes()).decode()
        lines += [line for line in text.splitlines() if not (lines and line.startswith("#"))]
    (folder / "gnomad.vcf").write_text("\n".join(lines) + "\n")
    shutil.copy(next(built.folder.glob("clinvar/*20250105*.vcf.gz")), folder / "clinvar.vcf.gz")
    shutil.copy(built.folder / "genome.fa.gz", folder)
    corpus = {"record_id": "r", "source": "mrna", "start_bp": 0, "sequence": "ACGT" * (SIZE // 4)}
    (folder / "corpus.jsonl").write_text(json.dumps(corpus) + "\n")
    words = ("--labels-out", folder / "labels.jsonl", "--vcf-out", folder / "alleles.vcf")
    run("python", "-m", "tools.data.clinvar_eval_set", "--input-vcf", folder / "clinvar.vcf.gz", *words)
    (folder / "spec.json").write_text(json.dumps(SPEC))
    return folder


@pytest.fixture(scope="module")
def data(run: Run, inputs: Path) -> Path:
    """Return a data folder that geno-lewm's tools write; not to be changed."""
    words = ("--spec-json", inputs / "spec.json", "--dataset-dir", inputs / "data")
    run("python", "-m", "tools.release.dataset_snapshot", *words)
    return inputs / "data"


def audit(built: BuiltWorld, package: Path, folder: Path) -> AuditReport:
    (fasta,) = built.root.glob("reference/*/genome.fa.gz")
    (vcf,) = built.root.glob(f"clinvar/{RELEASE}/vcf/*.gz")
    return audit_package(folder, fasta, clinvar=vcf, holdouts=package / "holdouts")


def found_by(report: AuditReport) -> dict[LeakKind, set[str]]:
    return {result.kind: result.found.keys for result in report if result.found.keys}


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    rows: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
    return rows


def names_of(rows: list[dict[str, Any]]) -> list[str]:
    return [f"chr{row['chrom']}:{row['pos']}:{row['ref']}:{row['alt']}" for row in rows]


def test_what_its_trainer_reads_is_searched_and_what_it_holds_is_found(
    built: BuiltWorld, package: Path, data: Path, run: Run, command: Command
) -> None:
    report = audit(built, package, data)
    windows, gnomad, clinvar, labels = (rows_of(data / path) for path in (PLACED, GNOMAD, CLINVAR, LABELS))
    trained_windows, trained_alleles = json.loads(run("python", "-c", TRAINED, data))
    assert sorted(trained_alleles) == sorted(names_of([*gnomad, *clinvar]))
    assert trained_windows == [f"{row['source']} {row['record_id']}:{row['start_bp']}" for row in windows]
    assert report.n_windows == report[LeakKind.FALSE_PLACE].searched["windows"] == len(windows)
    assert report[LeakKind.HELD_ALLELE].searched["alleles"] == len(gnomad) + len(clinvar)
    assert report[LeakKind.WRONG_LABEL].searched == {"labels": 2 * len(clinvar) + len(labels)}

    # chr20 is held out; its trainer reads the shard of ClinVar, which its manifest states to be of evaluation.
    held = {name for name, row in zip(trained_windows, windows, strict=True) if row["chrom"] == "20"}
    alleles = {name for name, row in zip(names_of(gnomad), gnomad, strict=True) if row["chrom"] == "20"}
    assert found_by(report) == {
        LeakKind.HELD_INTERVAL: held,
        LeakKind.HELD_SEQUENCE: held,
        LeakKind.HELD_ALLELE: alleles | set(names_of(clinvar)),
    }
    assert min(len(held), len(alleles), len(windows) - len(held)) > 10

    # What no search reads is said.
    unread = f"files of evaluation that are neither JSON lines nor a shard ({ALLELES})"
    assert [unread in report[kind].gaps for kind in (LeakKind.HELD_ALLELE, LeakKind.DUPLICATE)] == [True, True]
    assert report[LeakKind.DUPLICATE].verdict is Verdict.INCONCLUSIVE
    assert report[LeakKind.WRONG_LABEL].gaps == (f"{len(labels)} labels without AlleleID",)
    assert report.measured[f"files that its trainer does not read, not searched: {CARBON}"] == 1
    read = {PLACED, GNOMAD, CLINVAR, LABELS, ALLELES, CARBON}
    assert {row["path"] for row in json.loads((data / "dataset_manifest.json").read_text())["files"]} == read
    fasta = next(built.root.glob("reference/*/genome.fa.gz"))
    answer = command("audit", data, "--reference", fasta, "--holdouts", package / "holdouts", "--json")
    assert answer.code == 5
    assert json.loads(answer.out)["measured"] == dict(report.measured)


def test_what_is_planted_is_found_besides(built: BuiltWorld, package: Path, data: Path, tmp_path: Path) -> None:
    before = found_by(audit(built, package, data))
    folder = Path(shutil.copytree(data, tmp_path / "data"))
    copy = built.sequences["chr21"][2_000 : 2_000 + SIZE].decode().translate(str.maketrans("ACGT", "TGCA"))[::-1]
    window = {"record_id": "copy", "source": "mrna", "sequence": copy, "start_bp": 100, "chrom": "17"}
    with (folder / PLACED).open("a") as lines:
        lines.write(json.dumps(window) + "\n")
    # An allele of the held-out chr21 that is not left-aligned or trimmed, and a label that ClinVar does not have.
    gnomad, clinvar = (pq.ParquetFile(folder / path).read() for path in (GNOMAD, CLINVAR))
    text = built.sequences["chr21"].decode()
    at = next(at for at in range(3_000, 4_000) if len(set(text[at - 1 : at + 3])) == 4)
    padded = {"chrom": "21", "pos": at, "ref": text[at - 1 : at + 2], "alt": text[at - 1] + text[at + 2] + text[at + 1]}
    rows = [*gnomad.to_pylist(), gnomad.to_pylist()[0] | padded]
    pq.write_table(pa.Table.from_pylist(rows, schema=gnomad.schema), folder / GNOMAD)
    labels = clinvar.to_pylist()
    wrong = next(row for row in labels if row["clinical_significance"] == "B")
    wrong["clinical_significance"] = "P"
    pq.write_table(pa.Table.from_pylist(labels, schema=clinvar.schema), folder / CLINVAR)

    found = found_by(audit(built, package, folder))
    new = {kind: keys - before.get(kind, set()) for kind, keys in found.items()}
    assert new.pop(LeakKind.WRONG_LABEL) == {f"{wrong['chrom']}:{wrong['pos']}:{wrong['ref']}:{wrong['alt']}"}
    assert new == {
        LeakKind.HELD_INTERVAL: set(),
        LeakKind.FALSE_PLACE: {"mrna copy:100"},
        LeakKind.HELD_SEQUENCE: {"mrna copy:100"},
        LeakKind.HELD_ALLELE: {f"chr21:{at + 1}:{text[at]}:{text[at + 2]}"},
    }


def test_shards_and_a_cache_without_a_manifest(
    built: BuiltWorld, package: Path, run: Run, inputs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    for source, vcf, release in (("gnomad", "gnomad.vcf", "v4.1"), ("clinvar", "clinvar.vcf.gz", RELEASE)):
        words = ("--input-vcf", inputs / vcf, "--output", folder, "--release", release)
        run(f"geno-lewm-prepare-{source}", *words)
    run("python", "-c", CACHE, folder, inputs / "genome.fa.gz")
    shard = next(folder.glob("embeddings/**/chr17_0.parquet"))
    shard.with_name("chr17_1.parquet").write_bytes(shard.read_bytes()[:100])
    with pytest.raises(CorruptResourceError, match=r"chr17_1\.parquet.*cannot be read as Parquet"):
        audit(built, package, folder)
    # Its repair moves what cannot be read aside.
    run("geno-lewm-cache-windows", "--repair", "--cache-dir", folder)
    report = audit(built, package, folder)
    cached = [row for path in shard.parent.glob("*.parquet") for row in rows_of(path)]
    n_alleles = len(rows_of(folder / GNOMAD)) + len(rows_of(folder / CLINVAR))
    assert (report.n_windows, report[LeakKind.HELD_ALLELE].searched["alleles"]) == (len(cached), n_alleles) == (5, 155)
    held = {f"cache 20:{row['start_bp']}:{row['start_bp']}" for row in cached if row["chrom"] == "20"}
    assert found_by(report)[LeakKind.HELD_INTERVAL] == found_by(report)[LeakKind.HELD_SEQUENCE] == held
    assert len(held) == 1
    # Hashes of all windows are those of the FASTA's bases.
    assert report[LeakKind.FALSE_PLACE].searched == {"windows": len(cached)}
    assert not report[LeakKind.FALSE_PLACE].found.keys
