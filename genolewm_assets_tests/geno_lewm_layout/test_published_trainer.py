"""The published geno-lewm 0.2.1, in an environment of its own, on what was exported and prepared for it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from genolewm_assets.audit import audit_package
from genolewm_assets.geno_lewm_layout.export import export_package
from genolewm_assets.sources.prepare import prepare_clinvar, prepare_gnomad
from genolewm_assets_tests.geno_lewm_layout.test_export import without_corpus
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES
from genolewm_assets_tests.worlds.lewm.audited_world import make_audited_world

pytestmark = pytest.mark.nightly

#: Reads every row by the readers of geno-lewm, and draws an epoch of its tuples.
READ = """
import json, sqlite3, sys
from collections import Counter
from pathlib import Path
from geno_lewm.data import iter_clinvar_shard, iter_gnomad_shard
from geno_lewm.encoder.cache import WindowCacheKey, read_embedding, reindex_cache
from geno_lewm.training import real
folder, found = Path(sys.argv[1]), Counter()
for source, reader in (("gnomad", iter_gnomad_shard), ("clinvar", iter_clinvar_shard)):
    for path in folder.glob(f"{source}/*/variants.parquet"):
        found[str(path.relative_to(folder))] = sum(1 for _ in reader(path))
if (folder / "dataset_manifest.json").is_file():
    files = real._dataset_files(real._load_dataset_manifest(folder))
    windows = tuple(real._load_windows(folder, files))
    providers = {"synthetic_snv": real.synthetic_snv_provider, "synthetic_indel": real.synthetic_indel_provider}
    providers["gnomad_common"] = real.variant_provider(tuple(real._load_gnomad_edits(folder, files)))
    providers["clinvar"] = real.variant_provider(tuple(real._load_clinvar_edits(folder, files)))
    items = real.GenoLeWMDataset(windows, providers, seed=1, fallback_sources=real._dataset_fallback_sources(windows))
    found["windows"], found["tuples"] = len(windows), sum(1 for _ in items)
    found["real"] = sum(item.edit_source in ("gnomad_common", "clinvar") for item in items)
index = folder / "embeddings/index.sqlite"
if index.is_file():
    for row in sqlite3.connect(index).execute("SELECT * FROM window_index"):
        key = WindowCacheKey(bytes.fromhex(row[0]), bytes.fromhex(row[1]), *row[2:6])
        found["states"] += read_embedding(folder, key) is not None
        found["states of windows"] += any(window.window_id == row[0] for window in windows)
    found["states in shards"] = reindex_cache(folder).indexed_rows
print(json.dumps(found))
"""
CONFIG: dict[str, dict[str, object]] = {
    "encoder": {"dtype": "fp32", "state_layer": 2, "pool_radius": 8},
    "predictor": {"n_layers": 1, "n_heads": 2, "d_state": 64, "d_action": 16, "dtype": "fp32"},
    "action": {"d_action": 16},
    "training": {"max_steps": 3},
    "optimizer": {"schedule": "constant", "warmup_steps": 0},
    "data": {"batch_size": 4, "num_workers": 0},
    "runtime": {"device": "cpu"},
}


def read(environment: Path, folder: Path) -> dict[str, int]:
    # Its tools write the index of the states anew.
    folder = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-read")))
    done = subprocess.run([environment / "python", "-c", READ, folder], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    found: dict[str, int] = json.loads(done.stdout)
    return found


def n_real_edits(folder: Path) -> int:
    """Return how many edits of an epoch are real: per window 3 of gnomAD and 1 of ClinVar, where it has as many."""
    n = 0
    for source, n_wanted in (("gnomad", 3), ("clinvar", 1)):
        (shard,) = folder.glob(f"{source}/*/variants.parquet")
        spans = [(row["chrom"], row["pos"] - 1, row["pos"] - 1 + len(row["ref"])) for row in rows_of(shard)]
        for line in (folder / "carbon/reference.jsonl").read_text().splitlines():
            window = json.loads(line)
            start, end = window["start_bp"], window["start_bp"] + len(window["sequence"])
            n += min(n_wanted, sum(c == window["chrom"] and start <= a and b <= end for c, a, b in spans))
    return n


def rows_of(shard: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(shard).read().to_pylist()
    return rows


def test_every_row_is_read_and_some_steps_are_trained(
    environment: Path, built: BuiltWorld, package: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    exported = export_package(package, folder)
    found = read(environment, folder)
    shards = {path: n for path, n in exported.rows.items() if path.startswith(("gnomad", "clinvar"))}
    windows = sum(n for path, n in exported.rows.items() if path.endswith(".jsonl"))
    assert {path: found[path] for path in shards} == shards
    assert (found["windows"], found["tuples"]) == (windows, 8 * windows)
    assert found["real"] == n_real_edits(folder)
    states = {found["states"], found["states of windows"], found["states in shards"]}
    assert states == {exported.rows["embeddings/index.sqlite"]}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"run_id": "steps", **CONFIG}))
    for mode in ("--carbon-preflight", "--carbon-train"):
        words: list[Any] = [mode, "--run-dir", tmp_path / "run", "--dataset-dir", folder, "--training-config", config]
        words += ["--carbon-model-dir", built.root / "models/tiny-llama-random", "--no-require-accelerator"]
        program = [environment / "geno-lewm-train", *words]
        done = subprocess.run(program, check=False, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3_000:]
    preflight = json.loads((tmp_path / "run/training_preflight_report.json").read_text())
    assert (preflight["ok"], preflight["issues"]) == (True, [])
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert (metrics["steps_completed"], metrics["sample_count"]) == (3, 12)
    assert metrics["metrics"]["nan_loss_count"] == 0
    # A byte that changed is found by its preflight.
    (folder / "carbon/reference.jsonl").write_bytes((folder / "carbon/reference.jsonl").read_bytes()[:-1])
    program[1] = "--carbon-preflight"
    assert subprocess.run(program, check=False, capture_output=True, cwd=tmp_path).returncode


def test_an_audit_of_the_built_world_finds_nothing_held_out(built: BuiltWorld, package: Path, tmp_path: Path) -> None:
    export_package(package, tmp_path / "data")
    (fasta,), (vcf,) = built.root.glob("reference/*/genome.fa.gz"), built.root.glob(f"clinvar/{RELEASES[1]}/vcf/*.gz")
    report = audit_package(tmp_path / "data", fasta, clinvar=vcf, holdouts=package / "holdouts")
    assert {result.kind: result.found.keys for result in report if result.found.keys} == {}


def test_windows_without_a_corpus_all_train(environment: Path, tmp_path: Path) -> None:
    made = make_audited_world(tmp_path, **without_corpus())
    exported = export_package(made.package, tmp_path / "out")
    found = read(environment, tmp_path / "out")
    assert found["windows"] == exported.rows["placed/reference.jsonl"]
    assert found["tuples"] == 8 * found["windows"]


def test_prepared_shards_are_read(environment: Path, built: BuiltWorld, tmp_path: Path) -> None:
    vcf = next(built.folder.glob("clinvar/*20250105*.vcf.gz"))
    options: dict[str, Any] = {"root": built.root, "layout": "geno-lewm"}
    out = tmp_path / "out"
    prepare_gnomad(built.folder / "gnomad.chr17.vcf.bgz", out, release="4.1", **options)
    prepare_clinvar(vcf, out, release=RELEASES[1], **options)
    found = read(environment, out)
    assert sorted(found) == [f"clinvar/{RELEASES[1]}/variants.parquet", "gnomad/4.1/variants.parquet"]
    assert all(n == pq.read_metadata(out / path).num_rows > 0 for path, n in found.items())
