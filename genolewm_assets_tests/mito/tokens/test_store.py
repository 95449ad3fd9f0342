"""Token stores: what is written is the genomes, each check fails on the fault it is there for, sides are kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets import mito
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.mito import KmerVocabulary
from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.split import SplitPolicy
from genolewm_assets.mito.genomes.table import MITO_GENOMES, genome_tables, place_genomes
from genolewm_assets.mito.tokens.rows import StoredTokens, stored_row, token_arrays
from genolewm_assets.mito.tokens.store import (
    MITO_TOKENS,
    TOKEN_CHECKS,
    LevelledGenome,
    check_tokens,
    read_placements,
    write_tokens,
)
from genolewm_assets.mito.tokens.tokenize import tokenize_sequence
from genolewm_assets.mito.tokens.vocabulary import UNK_ID
from genolewm_assets.store import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.arrays.report import verify_array_store
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.mito.genome_world import GENOMES, QC, REFERENCE

ROWS, SPELLING, POSITIONS, LEVELS = TOKEN_CHECKS
LONGEST = 4_010
SIDES = ("train", "validation", "test")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    records = [genome.record(number) for number, genome in enumerate(GENOMES, 1)]
    placed = place_genomes(records, CircularAligner(REFERENCE), QC)
    _, tables = genome_tables(placed.genomes, REFERENCE, SplitPolicy(validation=0.25, test=0.25))
    return pa.concat_tables(tables)


def levelled(table: pa.Table) -> list[LevelledGenome]:
    """Return the genomes, every second with levels of its bases."""
    rng = np.random.default_rng(5)
    return [
        LevelledGenome(
            name, split, placement, rng.random(len(placement.sequence), dtype=np.float32) if number % 2 else None
        )
        for number, (name, split, placement) in enumerate(read_placements(table, REFERENCE))
    ]


def write(folder: Path, genomes: Sequence[LevelledGenome], vocabulary: KmerVocabulary) -> Path:
    config = {"k": vocabulary.k}
    written = write_tokens(folder, config, genomes, vocabulary, het_pool="mean", max_tokens=LONGEST, sources={})
    assert written == len(genomes)
    return folder


def failed(folder: Path, table: pa.Table, vocabulary: KmerVocabulary) -> set[str]:
    checks = check_tokens(folder, table, REFERENCE, vocabulary)
    assert tuple(check.name for check in checks) == TOKEN_CHECKS
    return {check.name for check in checks if not check.passed}


@pytest.fixture(scope="module")
def store(table: pa.Table, vocabulary: KmerVocabulary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tokens") / "store", levelled(table), vocabulary)


def test_the_store_holds_what_is_declared(store: Path, table: pa.Table, vocabulary: KmerVocabulary) -> None:
    assert failed(store, table, vocabulary) == set()
    verify_array_store(store)
    reader = ArrayStoreReader(store, check=True)
    assert reader.index["key"].to_pylist() == [genome.name for genome in GENOMES]
    assert reader.index["split"].to_pylist() == table["split"].to_pylist()
    assert reader.index["n_tokens"].to_pylist() == table["length_bp"].to_pylist()
    for name in ("row", "key", "n_tokens", "split"):
        assert reader.index.schema.field(name).type == MITO_TOKENS.arrow.field(name).type
    for name, array in reader.arrays.items():
        assert pa.from_numpy_dtype(array.dtype) == MITO_TOKENS.arrow.field(name).type.value_type
    assert set(MITO_TOKENS.columns) == {"row", "key", "n_tokens", "split", *reader.arrays}


def test_the_figures_count_tokens_with_heteroplasmy(store: Path, table: pa.Table, vocabulary: KmerVocabulary) -> None:
    checks = check_tokens(store, table, REFERENCE, vocabulary)
    rows = StoredTokens(ArrayStoreReader(store), vocabulary)
    levels = sum(int(np.count_nonzero(rows[number].het)) for number in range(len(rows.counts)))
    assert levels > 0
    assert {check.figures["tokens_with_heteroplasmy"] for check in checks} == {levels}


@pytest.mark.parametrize("how", ["another", "unknown"])
def test_genomes_with_another_base(tmp_path: Path, table: pa.Table, vocabulary: KmerVocabulary, how: str) -> None:
    genomes = levelled(table)
    bases = genomes[2].placement.sequence
    base = "N" if how == "unknown" else "ACGT"["ACGT".index(bases[50]) ^ 1]
    other = bases[:50] + base + bases[51:]
    genomes[2] = genomes[2]._replace(placement=genomes[2].placement._replace(sequence=other))
    folder = write(tmp_path / "store", genomes, vocabulary)
    assert failed(folder, table, vocabulary) == {SPELLING}
    (check,) = (c for c in check_tokens(folder, table, REFERENCE, vocabulary) if c.name == SPELLING)
    assert (check.figures["wrong"], check.figures["first_wrong"]) == (1, genomes[2].name)


def test_genomes_with_other_coordinates(tmp_path: Path, table: pa.Table, vocabulary: KmerVocabulary) -> None:
    genomes = levelled(table)
    placement = genomes[3].placement
    shifted = np.minimum(placement.coordinates + 1, len(REFERENCE) - 1).astype(np.int32)
    genomes[3] = genomes[3]._replace(placement=placement._replace(coordinates=shifted))
    assert failed(write(tmp_path / "store", genomes, vocabulary), table, vocabulary) == {POSITIONS}


@pytest.mark.parametrize("level", [1.5, -0.25, np.nan])
def test_an_impossible_level(tmp_path: Path, table: pa.Table, vocabulary: KmerVocabulary, level: float) -> None:
    # The tokeniser refuses such a level, so the rows are written without it.
    config = {"k": vocabulary.k}
    arrays = token_arrays(vocabulary, LONGEST, coordinates=True)
    columns = {"n_tokens": "int32", "split": "string"}
    with ArrayStoreWriter(tmp_path / "store", arrays, key_config=config, columns=columns) as writer:
        for genome in levelled(table):
            placement = genome.placement
            tokens = tokenize_sequence(placement.sequence, vocabulary, coordinates=placement.coordinates)
            if genome.name == "u5":
                tokens["het_values"][7] = level
            row, meta = stored_row(tokens, arrays)
            writer.write(row, key=genome.name, meta={**meta, "split": genome.split})
        writer.finalize(compute_fingerprint(config, {}))
    assert failed(tmp_path / "store", table, vocabulary) == {LEVELS}


def test_a_genome_of_another_name_or_another_side(tmp_path: Path, table: pa.Table, vocabulary: KmerVocabulary) -> None:
    first = levelled(table)[0]
    assert first.split != "validation"
    for number, changed in enumerate((first._replace(name="other"), first._replace(split="validation"))):
        genomes = [changed, *levelled(table)[1:]]
        assert failed(write(tmp_path / f"{number}", genomes, vocabulary), table, vocabulary) == {ROWS}


def test_genomes_in_another_order(tmp_path: Path, table: pa.Table, vocabulary: KmerVocabulary) -> None:
    folder = write(tmp_path / "store", levelled(table)[::-1], vocabulary)
    assert failed(folder, table, vocabulary) >= {ROWS, SPELLING}


@pytest.mark.parametrize("lacking", ["store", "table"])
def test_a_genome_too_few_fails_all(tmp_path: Path, table: pa.Table, vocabulary: KmerVocabulary, lacking: str) -> None:
    fewer = table.slice(0, table.num_rows - 1)
    folder = write(tmp_path / "store", levelled(fewer if lacking == "store" else table), vocabulary)
    assert failed(folder, fewer if lacking == "table" else table, vocabulary) == set(TOKEN_CHECKS)


def of_side(dataset: mito.MtDNADataset) -> list[dict[str, object]]:
    return [cast("dict[str, object]", item) for item in map(dataset.__getitem__, range(len(dataset)))]


@each_row("side", [*SIDES, None])
def test_a_side_is_that_of_its_genomes(
    store: Path, table: pa.Table, vocabulary: KmerVocabulary, side: str | None
) -> None:
    genomes = [genome for genome in levelled(table) if side in {None, genome.split}]
    assert genomes
    sequences, coordinates, _ = zip(*(genome.placement for genome in genomes), strict=True)
    levels = [genome.levels for genome in genomes]
    direct = mito.MtDNADataset(sequences, vocabulary, het_levels=levels, coordinates=coordinates)
    stored = mito.MtDNADataset.from_store(store, vocabulary, split=side)
    assert len(stored) == len(direct) > 0
    for ours, theirs in zip(of_side(stored), of_side(direct), strict=True):
        assert set(ours) == set(theirs)
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])


def test_an_unknown_side_names_those_there_are(store: Path, vocabulary: KmerVocabulary) -> None:
    with pytest.raises(ConfigurationError, match="this split: expected test, train, validation, got 'valid'"):
        mito.MtDNADataset.from_store(store, vocabulary, split="valid")


@pytest.mark.parametrize(("k", "kind"), [(3, "int16"), (8, "int32")])
def test_other_sizes_of_token(tmp_path: Path, table: pa.Table, k: int, kind: str) -> None:
    vocabulary = KmerVocabulary.build(k)
    few = pa.concat_tables([table.slice(0, 2), table.slice(table.num_rows - 1)])
    folder = write(tmp_path / "store", levelled(few), vocabulary)
    assert failed(folder, few, vocabulary) == set()
    assert ArrayStoreReader(folder).arrays["input_ids"].dtype == kind
    assert mito.MtDNADataset.from_store(folder, vocabulary)[0]["input_ids"].dtype == kind


def test_unknown_bases_alone_are_unknown_tokens(store: Path, table: pa.Table, vocabulary: KmerVocabulary) -> None:
    number = [genome.name for genome in GENOMES].index("n5")
    ids = ArrayStoreReader(store).get_row(number)["input_ids"][: table["length_bp"][number].as_py()]
    # The placeholder before them is in no genome.
    unknown = [site - offset - 1 for site in (3_500, 3_520) for offset in range(6)]
    assert np.flatnonzero(ids == UNK_ID).tolist() == sorted(unknown)


def test_a_store_without_genomes(tmp_path: Path, vocabulary: KmerVocabulary) -> None:
    folder = write(tmp_path / "store", [], vocabulary)
    assert failed(folder, MITO_GENOMES.empty(), vocabulary) == set()
    assert len(mito.MtDNADataset.from_store(folder, vocabulary)) == 0
    with pytest.raises(ConfigurationError, match="expected None: the store has no splits, got 'train'"):
        mito.MtDNADataset.from_store(folder, vocabulary, split="train")
