"""A package as a data folder of geno-lewm 0.2.1: its columns, what is left out, and that an audit finds nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit import audit_package
from genolewm_assets.audit.report import LeakKind, Verdict
from genolewm_assets.errors import BusyError, InputError, MissingResourceError
from genolewm_assets.geno_lewm_layout.export import export_package
from genolewm_assets.genome import Split
from genolewm_assets.packages.reader import open_tables
from genolewm_assets.packages.schema import CacheRef
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.locks import locked_folder
from genolewm_assets.variants.schema import GNOMAD_VARIANTS
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld, make_audited_world
from genolewm_assets_tests.worlds.lewm.cache_world import publish_cache, states_of, token_counts

#: Columns and types of the shards, as the source of geno-lewm 0.2.1 declares them.
_ALLELE = {"chrom": "string", "pos": "int64", "ref": "string", "alt": "string"}
_GROUPS = ("global", "afr", "ami", "amr", "asj", "eas", "fin", "nfe", "oth", "sas")
GNOMAD = {**_ALLELE, **{f"af_{group}": "float" for group in _GROUPS}, "filter": "string", "schema_version": "string"}
CLINVAR = {**_ALLELE, "clinical_significance": "string", "review_status": "string", "gene_symbol": "string"}
CLINVAR |= {"clinvar_id": "int64", "schema_version": "string"}
#: ClinVar alleles of chr17 that are held out, rows of ``world.clinvar``, and their starts; one is in a flank only.
HELD_ROWS = (3, 10, 30)
HELD = tuple(350 + 500 * row for row in HELD_ROWS)
LONG = 17


def gnomad_with_a_long_allele() -> pa.Table:
    start = 400
    ref = world.SEQUENCES["chr17"][start : start + LONG].decode()
    row = {"chrom": "chr17", "pos": start + 1, "ref": ref, "alt": ref[0], "filter": "PASS", "af": 0.5}
    rows = [*world.gnomad("chr17").to_pylist(), row]
    return world.table(sorted(rows, key=lambda each: each["pos"]), GNOMAD_VARIANTS.arrow)


def corpus_beside_a_held_allele() -> dict[str, pa.Table]:
    """Return corpora of which one has two windows more: bases around a held-out allele, and the allele, reversed."""
    bases, at = world.SEQUENCES["chr17"][HELD[0] - 300 : HELD[0] + 300], 300
    alt = world.clinvar("chr17")["alt"][3].as_py().encode()
    made = bases[:at] + alt + bases[at + 1 :]
    texts = [
        *world.corpora()["mrna_evo2"]["sequence"].to_pylist(),
        bases.decode(),
        world.reverse_complement(made.decode()),
    ]
    return world.corpora() | {"mrna_evo2": world.corpus("mrna_evo2", texts)}


def held_alleles() -> pa.Table:
    """Return the held-out alleles of chr17, and all ClinVar alleles of the contigs that are held out."""
    rows = world.clinvar("chr17").to_pylist()
    of_contigs = [
        ("holdout-chr", role, row)
        for contig, role in (("chr20", "validation"), ("chr21", "test"))
        for row in world.clinvar(contig).to_pylist()
    ]
    return world.held_alleles(*(("holdout-temporal", "test", rows[n]) for n in HELD_ROWS), *of_contigs)


def without_corpus() -> dict[str, Any]:
    """Return changes of the sources: no corpus, and a stretch of chr17 without an allele of gnomAD."""
    rows = [row for row in world.gnomad("chr17").to_pylist() if not 8_000 < row["pos"] < 12_000]
    gnomad = {"chr17": world.table(rows, GNOMAD_VARIANTS.arrow)}
    return {"corpus": {}, "corpus_rows": world.held_corpus(), "gnomad": gnomad, "alleles": held_alleles()}


CHANGES: dict[str, Any] = {"gnomad": {"chr17": gnomad_with_a_long_allele(), "chr20": world.gnomad("chr20")}}
CHANGES |= {"alleles": held_alleles()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> AuditedWorld:
    """Return a package without states whose corpus shows a held-out allele; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    return make_audited_world(folder, corpus=corpus_beside_a_held_allele(), **CHANGES)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_train(package: Path) -> list[dict[str, Any]]:
    return open_tables(package).windows(Split.TRAIN).to_pylist()


def is_near_a_held_allele(window: dict[str, Any]) -> bool:
    margin = world.PROFILE.margin_bp
    return any(window["start"] - margin <= at < window["end"] + margin for at in HELD)


def test_it_holds_what_may_train_and_counts_the_rest(made: AuditedWorld, tmp_path: Path) -> None:
    exported = export_package(made.package, tmp_path / "out")
    rows, windows = lines(tmp_path / "out/carbon/reference.jsonl"), of_train(made.package)
    placed = [row for row in windows if row["origin"] == "reference"]
    clear = [row for row in placed if not is_near_a_held_allele(row)]
    assert [(row["chrom"], row["start_bp"], row["sequence"]) for row in rows] == [
        (row["contig"], row["start"], row["sequence"]) for row in clear
    ]
    assert 0 < len(clear) < len(placed)
    corpus = lines(tmp_path / "out/carbon/corpus.jsonl")
    ours = {row["sequence"] for row in windows if row["origin"] != "reference"}
    assert len(ours - {row["sequence"] for row in corpus}) == 2
    assert {row["chrom"] for row in corpus} == {None}
    assert {row["record_id"] for row in corpus}.isdisjoint({"mrna_evo2.6", "mrna_evo2.7"})

    def inside(row: dict[str, Any]) -> bool:
        start, end = row["pos"] - 1, row["pos"] - 1 + len(row["ref"])
        return any(each["start"] <= start and end <= each["end"] for each in clear)

    variants = open_tables(made.package).variants(Split.TRAIN).to_pylist()
    for source, schema, path in (("gnomad", GNOMAD, "4.1"), ("clinvar", CLINVAR, world.RELEASE)):
        table = pq.ParquetFile(tmp_path / f"out/{source}/{path}/variants.parquet").read()
        assert {field.name: str(field.type) for field in table.schema} == schema
        wanted = [row for row in variants if row["source"] == source and (row["label"] or "P") in {"P", "LP"}]
        wanted = [row for row in wanted if inside(row) and len(row["ref"]) < LONG]
        assert table.select(list(_ALLELE)).to_pylist() == [{name: row[name] for name in _ALLELE} for row in wanted]
        if source == "gnomad":
            assert table["af_global"].to_pylist() == [row["af"] for row in wanted]
        else:
            same = ("clinical_significance", "label"), ("clinvar_id", "clinvar_id")
            assert all(table[theirs].to_pylist() == [row[ours] for row in wanted] for theirs, ours in same)
    counts = exported.counts
    assert counts["windows.reference.shows_held_out"] == len(placed) - len(clear)
    assert counts["windows.corpus.shows_held_out"] == 2
    assert counts["alleles.gnomad.over_16_bp"] == 1
    n_of = {source: sum(row["source"] == source for row in variants) for source in ("gnomad", "clinvar")}
    for source, n in n_of.items():
        assert sum(value for name, value in counts.items() if name.startswith(f"alleles.{source}")) == n


def test_an_audit_finds_nothing_held_out(made: AuditedWorld, tmp_path: Path) -> None:
    export_package(made.package, tmp_path / "out")
    report = audit_package(tmp_path / "out", made.fasta, clinvar=made.vcf, holdouts=made.package / "holdouts")
    assert {result.kind: result.found.keys for result in report if result.found.keys} == {}
    searched = (LeakKind.HELD_INTERVAL, LeakKind.FALSE_PLACE, LeakKind.HELD_SEQUENCE, LeakKind.HELD_ALLELE)
    assert {report[kind].verdict for kind in (*searched, LeakKind.WRONG_LABEL)} == {Verdict.CLEAN}
    assert report.release == world.RELEASE
    # The shards say that they state VariationIDs, and the wording of their stars is compared too.
    path = tmp_path / f"out/clinvar/{world.RELEASE}/variants.parquet"
    table = pq.ParquetFile(path).read()
    at = table.column_names.index("review_status")
    pq.write_table(table.set_column(at, "review_status", pa.array(["practice_guideline"] * len(table))), path)
    report = audit_package(tmp_path / "out", made.fasta, clinvar=made.vcf, holdouts=made.package / "holdouts")
    assert report[LeakKind.WRONG_LABEL].found.keys


def test_without_a_corpus_each_window_has_the_alleles_that_its_trainer_needs(tmp_path: Path) -> None:
    made = make_audited_world(tmp_path, **without_corpus())
    exported = export_package(made.package, tmp_path / "out")
    rows = lines(tmp_path / "out/placed/reference.jsonl")
    assert not (tmp_path / "out/carbon").exists()
    starts = [pos - 1 for pos in without_corpus()["gnomad"]["chr17"]["pos"].to_pylist()]
    clear = [row for row in of_train(made.package) if not is_near_a_held_allele(row)]
    enough = [row for row in clear if sum(row["start"] <= at < row["end"] for at in starts) >= 3]
    assert [row["start_bp"] for row in rows] == [row["start"] for row in enough]
    assert exported.counts["windows.reference.under_3_gnomad"] == len(clear) - len(enough) > 0


def test_states_are_those_of_the_windows_that_are_exported(tmp_path: Path) -> None:
    root = Root(tmp_path / "root")
    root.claim("tiny", world.GENOME_DIGEST)
    texts = world.corpora()["mrna_evo2"]["sequence"].to_pylist()
    sources = world.with_pieces(
        root, world.make_sources(corpus={"mrna_evo2": world.corpus("mrna_evo2", [*texts, texts[0]])})
    )
    refs = []
    for name, piece in sources.pieces.items():
        cache = publish_cache(root, piece)
        key, n = cache.directory.name.partition(".")[0], cache.manifest.counts["windows"]
        sha256 = str(cache.manifest.recipe["windows_sha256"])
        refs.append(CacheRef(name, key, n, sha256, cache.manifest.sha256, f"embeddings/{key}"))
    package = world.publish(root, replace(sources, caches=tuple(refs))).directory
    exported, out = export_package(package, tmp_path / "out"), tmp_path / "out"
    hashes = [hashlib.sha256(row["sequence"].encode()) for path in out.glob("carbon/*") for row in lines(path)]
    assert exported.counts["states.same_sequence"] == 1 == len(hashes) - len({each.digest() for each in hashes})
    shard = "embeddings/org__tiny/2/global_mean_0/chrchr17_0.parquet"
    table = pq.ParquetFile(sources.pieces["chr17"].file("windows.parquet")).read()
    states, n_tokens = states_of(table), token_counts(table)
    mean = {
        digest.as_py(): np.repeat(state.astype(float), 16, axis=0)[:n].mean(axis=0)
        for digest, state, n in zip(table["window_hash"], states, n_tokens, strict=True)
    }
    found = pq.ParquetFile(out / shard).read().to_pylist()
    assert [row["start_bp"] for row in found] == [row["start_bp"] for row in lines(out / "carbon/reference.jsonl")]
    for row in found:
        np.testing.assert_allclose(row["embedding"], mean[row["window_hash"]], rtol=2e-3, atol=1e-3)
    index = sqlite3.connect(out / "embeddings/index.sqlite").execute("SELECT * FROM window_index").fetchall()
    assert {row[0] for row in index} == {each.hexdigest() for each in hashes}
    for digest, _, *_, path, offset, _ in index:
        assert pq.ParquetFile(out / path).read()["window_hash"][offset].as_py().hex() == digest
    bare = export_package(package, tmp_path / "bare", with_states=False)
    assert not any(path.startswith("embeddings") for path in bare.rows)


def test_the_command(made: AuditedWorld, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "new/out"
    words = ("package", "export", made.package, out, "--layout", "geno-lewm")
    done = command(*words, "--json")
    assert done.code == 0
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    manifest = json.loads((out / "dataset_manifest.json").read_text())
    assert json.loads(done.out)["counts"] == manifest["counts"]
    sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        str(path.relative_to(out)): hashlib.sha256(data).hexdigest()
        for path, data in first.items()
        if path.name != "SHA256SUMS"
    }
    assert {entry["path"] for entry in manifest["files"]} == {path for path in sums if "/" in path}
    again = command(*words)
    assert again.code == 2
    assert "a folder of that name exists" in again.err
    # What a killed export left is removed, and a running one is waited for by nobody.
    left = tmp_path / ".again.export"
    left.mkdir()
    (left / "part").touch()
    with locked_folder(left), pytest.raises(BusyError):
        export_package(made.package, tmp_path / "again")
    export_package(made.package, tmp_path / "again")
    assert {path.relative_to(out): data for path, data in first.items()} == {
        path.relative_to(tmp_path / "again"): path.read_bytes()
        for path in (tmp_path / "again").rglob("*")
        if path.is_file()
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "new"]


def test_what_is_refused(made: AuditedWorld, package: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match="no audit of the package is here"):
        export_package(package, tmp_path / "out")
    export_package(package, tmp_path / "out", allow_unaudited=True)
    checks = json.loads((tmp_path / "out/split_integrity.json").read_text())["leakage_checks"]
    assert {check["status"] for check in checks} == {"not_run"}
    bare = make_audited_world(tmp_path / "bare", gnomad={})
    with pytest.raises(InputError, match=r"no row of alleles\.gnomad may be exported, and geno-lewm does not train"):
        export_package(bare.package, tmp_path / "none")
    assert not list(tmp_path.glob("*none*"))


@pytest.fixture
def package(made: AuditedWorld, tmp_path: Path) -> Path:
    """Return a copy of the package, without its audit."""
    return Path(shutil.copytree(made.package, tmp_path / "package"))
