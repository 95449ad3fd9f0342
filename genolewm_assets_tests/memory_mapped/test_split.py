"""Alleles of the mapped form are those that a trainer read from the tables before, row for row."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.held_sequences import HeldSequences
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.genome import CLASSES, DECIDED, HARMFUL, Split
from genolewm_assets.memory_mapped import allele_writer
from genolewm_assets.memory_mapped.allele_writer import AlleleWriter
from genolewm_assets.memory_mapped.split import MappedSplit, open_mapped
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.reader import Package
from genolewm_assets.packages.schema import VariantSource
from genolewm_assets.store.tables import spool
from genolewm_assets.variants import ALLELE_KEY
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.package_world import make_sources

SPLITS = [
    (Split.TRAIN, None),
    *((split, name) for split in (Split.VALIDATION, Split.TEST) for name in ("holdout-chr", "holdout-temporal")),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Package:
    folder = tmp_path_factory.mktemp("mapped") / "package"
    write_package(folder, make_sources())
    return Package(folder, read_package_info(folder), {})


def listed(arrays: AlleleIndex) -> dict[str, list[tuple[int, str, str]]]:
    found = {name: [arrays.allele(row) for row in range(*own)] for name, own in arrays.contigs.items()}
    return {name: alleles for name, alleles in found.items() if alleles}


@each_row(("split", "holdout"), SPLITS)
def test_alleles_are_those_of_the_tables(package, split, holdout):
    mapped = open_mapped(package, split)
    variants = package.variants(split)
    if holdout:
        variants = variants.filter(pc.equal(variants["holdout"], holdout))
    clinvar = variants.filter(pc.equal(variants["source"], "clinvar"))
    clinvar = clinvar.filter(pc.is_in(clinvar["label"], pa.array(HARMFUL if split is Split.TRAIN else DECIDED)))
    if split is not Split.TRAIN:
        clinvar = clinvar.filter(pc.greater_equal(clinvar["stars"], package.info.policy["min_stars"]))
    tables = {
        VariantSource.GNOMAD: variants.filter(pc.equal(variants["source"], "gnomad")),
        VariantSource.CLINVAR: clinvar,
    }
    for source, table in tables.items():
        own = mapped.real_alleles(source, holdout)
        plain = AlleleIndex.of(table.select(ALLELE_KEY))
        assert listed(own) == listed(plain)
        assert own.longest_bp == plain.longest_bp
    assert sum(map(len, listed(mapped.real_alleles(VariantSource.CLINVAR, holdout)).values())) == clinvar.num_rows
    assert clinvar.num_rows or (split, holdout) == (Split.TEST, "holdout-temporal")
    held = package.holdouts("alleles")
    closed = {"train": ["validation", "test"], "validation": ["test"], "test": []}[split]
    held = held.filter(pc.is_in(held["role"], pa.array(closed, pa.string())))
    plain = AlleleIndex.of(held.select(ALLELE_KEY))
    assert listed(mapped.held_out()) == listed(plain)


@each_row(("split", "holdout"), SPLITS)
def test_classes_are_those_of_the_tables(package, split, holdout):
    mapped = open_mapped(package, split)
    alleles = mapped.real_alleles(VariantSource.CLINVAR, holdout)
    stated = {
        (row["chrom"], row["pos"], row["ref"], row["alt"]): row
        for row in package.variants(split).to_pylist()
        if row["source"] == "clinvar" and row["holdout"] == holdout
    }
    for contig, (start, stop) in alleles.contigs.items():
        facts = alleles.classification.take(np.arange(start, stop))
        for place, row in enumerate(range(start, stop)):
            expected = stated[(contig, *alleles.allele(row))]
            genes = facts.gene_ids[facts.gene_at[place] : facts.gene_at[place + 1]].tolist()
            found = (CLASSES[facts.label[place]], facts.stars[place], facts.clinvar_id[place], genes)
            assert found == tuple(expected[name] for name in ("label", "stars", "clinvar_id", "gene_ids"))


def test_held_sequences_are_those_of_the_contexts(package):
    mapped, made = open_mapped(package, Split.TRAIN).held_sequences(), HeldSequences(package.context_batches())
    assert [part.tolist() for part in mapped.table] == [part.tolist() for part in made.table]
    assert open_mapped(package, Split.TEST).held_sequences() is None


def test_an_unknown_holdout_names_those_that_there_are(package):
    with pytest.raises(ConfigurationError, match=r"test windows of holdout 'holdout-x'.*\['holdout-chr'"):
        open_mapped(package, Split.TEST).view("holdout-x", frozen_only=True)
    with pytest.raises(ConfigurationError, match="the holdout has none"):
        open_mapped(package, Split.TEST).view("holdout-clinvar", frozen_only=True)


def test_a_package_without_the_form_or_with_another_version_of_it_is_refused(package, copied):
    files = tuple(entry for entry in package.info.files if not entry.path.startswith("arrays/"))
    without = replace(package, info=replace(package.info, files=files))
    with pytest.raises(MissingResourceError, match=r"package: lacks the files that trainers map: .*Build the pack"):
        open_mapped(without, Split.TEST)
    index = json.loads((copied / "index.json").read_text())
    (copied / "index.json").write_text(json.dumps(index | {"version": "1.0"}))
    with pytest.raises(CorruptResourceError, match=r"index\.json: cannot be read .*got '1\.0'\. Rebuild the package"):
        MappedSplit(copied)


def _first_of(pickled: bytes) -> list[object]:
    return [pickle.loads(pickled).column("windows/start")[0].tolist()]


def test_a_spawned_process_opens_the_same_split(package):
    split = open_mapped(package, Split.TEST)
    split.column("windows/start")
    assert len(text := pickle.dumps(split)) < 1_000
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(_first_of, [text]) == [_first_of(text)]


def test_a_missing_or_shorter_file_is_found_when_a_split_is_opened(package, tmp_path):
    folder = package.directory / "arrays" / "train"
    for change, error in (
        (Path.unlink, MissingResourceError),
        (lambda path: path.write_bytes(b""), CorruptResourceError),
    ):
        path = folder / "clinvar" / "stars.npy"
        kept = path.read_bytes()
        change(path)
        with pytest.raises(error, match="Rebuild the package"):
            MappedSplit(folder)
        path.write_bytes(kept)


@pytest.fixture
def copied(package, tmp_path) -> Path:
    """Return a copy of the folder of a split, to be damaged."""
    return Path(shutil.copytree(package.directory / "arrays" / "train", tmp_path / "train"))


def test_a_file_that_was_cut_or_removed_after_the_opening_is_not_mapped(copied):
    split = MappedSplit(copied)
    os.truncate(copied / "windows" / "start.npy", 130)
    (copied / "windows" / "contig.npy").unlink()
    with pytest.raises(CorruptResourceError, match=r"start\.npy: is not the array .*Rebuild the package"):
        split.column("windows/start")
    with pytest.raises(MissingResourceError, match=r"contig\.npy: file is missing"):
        split.column("windows/contig")


@pytest.mark.parametrize("rows", [(0, 2**40), (-(2**40), 0), (2, 1)])
@pytest.mark.parametrize("folder", ["gnomad", "held_out"])
def test_rows_past_the_alleles_are_refused_before_a_loop_follows_them(copied, folder, rows):
    path = copied / folder / "rows.npy"
    np.save(path, np.full_like(np.load(path), 0) + np.array(rows))
    split = MappedSplit(copied)
    with pytest.raises(CorruptResourceError, match=rf"{folder}/rows\.npy: names rows that there are not"):
        split.held_out() if folder == "held_out" else split.real_alleles(VariantSource.GNOMAD, None)


@pytest.mark.parametrize("change", [{"kmer_shift": 70}, {"kmer_shift": "a"}, {"n_windows": 2**70}])
def test_an_index_of_impossible_numbers_is_none(copied, change):
    index = json.loads((copied / "index.json").read_text())
    (copied / "index.json").write_text(json.dumps(index | change))
    with pytest.raises(CorruptResourceError, match=r"is no index of a split|is not the array that its index states"):
        MappedSplit(copied)


@pytest.mark.parametrize("change", [{"gnomad": None}, {"clinvar": {"longest_bp": []}}])
def test_an_index_that_lacks_alleles_or_lengths_is_refused(copied, change):
    index = json.loads((copied / "index.json").read_text())
    for folder, values in change.items():
        index["alleles"][folder] = None if values is None else index["alleles"][folder] | values
    index["alleles"] = {folder: names for folder, names in index["alleles"].items() if names is not None}
    (copied / "index.json").write_text(json.dumps(index))
    with pytest.raises(CorruptResourceError, match=r"is no index of a split \((it has alleles of|clinvar has)"):
        MappedSplit(copied)


def simulate(rng: np.random.Generator, n: int) -> pa.Table:
    bases = np.array(["A", "C", "G", "T", "AC", "GGT"])
    return pa.table(
        {
            "chrom": rng.choice(["chr2", "chr10", "chrX"], n),
            "pos": rng.integers(1, 50, n),
            "ref": rng.choice(bases, n),
            "alt": rng.choice(bases, n),
            "holdout": pa.array(rng.choice(["b", "a"], n)),
            "label": rng.choice(["P", "VUS"], n),
            "stars": pa.array([None if k % 3 else 2 for k in range(n)], pa.int8()),
            "clinvar_id": pa.array([None if k % 5 else k for k in range(n)], pa.int64()),
            "gene_ids": pa.array([list(range(k % 4)) for k in range(n)], pa.list_(pa.int64())),
        }
    )


@pytest.mark.parametrize("memory", [0, 48 << 20])
def test_alleles_in_any_order_and_in_parts_are_sorted(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(spool, "_MEMORY_BYTES", memory)
    table = simulate(np.random.default_rng(3), 400)
    with AlleleWriter(tmp_path / "x", with_classes=True) as writer:
        for first in range(0, 400, 70):
            writer.add(table.slice(first, 70))
        names = writer.finish()
    assert (names.holdouts, names.contigs, names.n_alleles) == (("a", "b"), ("chr10", "chr2", "chrX"), 400)
    order = [(name, "ascending") for name in ("holdout", *ALLELE_KEY)]
    expected = table.take(pc.sort_indices(table, sort_keys=order))
    load = {path.stem: np.load(path) for path in (tmp_path / "x").iterdir()}
    assert load["pos"].tolist() == expected["pos"].to_pylist()
    assert load["stars"].tolist() == pc.fill_null(expected["stars"], -1).to_pylist()
    assert load["clinvar_id"].tolist() == pc.fill_null(expected["clinvar_id"], -1).to_pylist()
    genes = [load["gene_ids"][a:b].tolist() for a, b in zip(load["gene_at"], load["gene_at"][1:], strict=False)]
    assert genes == expected["gene_ids"].to_pylist()
    text, at = load["text"].tobytes().decode(), load["at"].tolist()
    words = [text[a:b] for a, b in pairwise(at)]
    assert (words[::2], words[1::2]) == (expected["ref"].to_pylist(), expected["alt"].to_pylist())
    for holdout, bounds in zip("ab", load["rows"].tolist(), strict=True):
        for contig, (start, stop) in zip(names.contigs, bounds, strict=True):
            ours = expected.slice(start, stop - start)
            assert (ours["holdout"].unique().to_pylist(), ours["chrom"].unique().to_pylist()) == ([holdout], [contig])


def test_no_alleles(tmp_path):
    with AlleleWriter(tmp_path / "x") as writer:
        names = writer.finish()
    assert (names.holdouts, names.contigs, names.n_alleles, names.longest_bp) == (("",), (), 0, (0,))
    assert np.load(tmp_path / "x" / "at.npy").tolist() == [0]


def test_texts_beyond_their_offsets_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(allele_writer, "_MOST_BYTES", 7)
    with AlleleWriter(tmp_path / "x") as writer:
        writer.add(simulate(np.random.default_rng(3), 5))
        with pytest.raises(ValueError, match=r"texts too long: expected at most 7 bytes, got \d+"):
            writer.finish()
