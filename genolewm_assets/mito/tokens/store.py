"""An array store of tokenised genomes, written from a table of genomes and checked against it.

Not here: what the rows of such a store are (``token_rows``), the table of genomes (``genome_table``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.errors import SequenceError
from genolewm_assets.mito.genomes import CirclePlacement, lay_out, parse_names
from genolewm_assets.mito.tokens.plan import HetPool
from genolewm_assets.mito.tokens.rows import N_TOKENS, SPLIT, StoredTokens, stored_row, token_arrays
from genolewm_assets.mito.tokens.tokenize import decode_tokens, tokenize_sequence
from genolewm_assets.mito.tokens.vocabulary import FIRST_KMER_ID, KmerVocabulary
from genolewm_assets.store.arrays import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema, column

#: Names of the checks of :func:`check_tokens`, in its order.
TOKEN_CHECKS = (
    "rows_are_the_genomes",
    "tokens_spell_genomes",
    "positions_are_the_references",
    "levels_within_bounds",
)

#: What a reader of the store sees; all but the arrays lies in ``index.parquet``.
MITO_TOKENS = TableSchema(
    "mito_tokens",
    "tokenised mitochondrial genome",
    pa.schema(
        [
            column("row", pa.int64(), "row of the genome in its table"),
            column("key", pa.string(), "name of the genome"),
            column(N_TOKENS, pa.int32(), "tokens of the genome; what follows in the row is padding"),
            column(SPLIT, pa.string(), "train, validation or test"),
            column("input_ids", pa.list_(pa.int16()), "k-mer ids (int32 for k = 8), 0 where padded"),
            column("het", pa.list_(pa.float32()), "share of the genome's copies that differ from its bases, 0 to 1"),
            column("position_ids", pa.list_(pa.int32()), "0-based reference position of each token's first base"),
        ]
    ),
    ("row",),
)

TABLES: tuple[TableSchema, ...] = (MITO_TOKENS,)


class LevelledGenome(NamedTuple):
    """A genome with the heteroplasmy of its bases: float32, shape (n_bases,); None: 0 everywhere."""

    name: str
    split: str
    placement: CirclePlacement
    levels: NDArray[np.float32] | None


def read_placements(table: pa.Table, reference: str) -> Iterator[tuple[str, str, CirclePlacement]]:
    """Yield name, split and placement of each genome of a table of ``genome_table``."""
    for batch in table.select(["name", "split", "differences"]).to_batches(max_chunksize=256):
        for name, split, names in zip(*(values.to_pylist() for values in batch.columns), strict=True):
            yield name, split, lay_out(reference, parse_names(names, where=name))


def write_tokens(
    directory: Path,
    config: Mapping[str, JsonValue],
    genomes: Iterable[LevelledGenome],
    vocabulary: KmerVocabulary,
    *,
    het_pool: HetPool,
    max_tokens: int,
    sources: Mapping[str, str],
) -> int:
    """Tokenise genomes into a store, finish it and return its rows.

    Parameters
    ----------
    directory
        New or empty.
    config
        All that decides the store; has ``k``.
    max_tokens
        Of the longest genome.
    sources
        SHA-256 of what the genomes came from, by name.
    """
    arrays = token_arrays(vocabulary, max_tokens, coordinates=True)
    rows = 0
    columns = {N_TOKENS: "int32", SPLIT: "string"}
    with ArrayStoreWriter(directory, arrays, key_config=config, columns=columns) as writer:
        for genome in genomes:
            tokens = tokenize_sequence(
                genome.placement.sequence,
                vocabulary,
                het_levels=genome.levels,
                het_pool=het_pool,
                coordinates=genome.placement.coordinates,
            )
            row, meta = stored_row(tokens, arrays)
            writer.write(row, key=genome.name, meta={**meta, SPLIT: genome.split})
            rows += 1
        writer.finalize(compute_fingerprint(config, sources))
    return rows


def check_tokens(directory: Path, table: pa.Table, reference: str, vocabulary: KmerVocabulary) -> list[CheckResult]:
    """Read every row back and hold it against the table of genomes."""
    reader = ArrayStoreReader(directory, check=True)
    rows = StoredTokens(reader, vocabulary)
    misnamed, misspelt, misplaced, out_of_bounds, het_tokens = [], [], [], [], 0
    sequences = table["sequence"]
    # Data sets go by the side that the store says: a wrong one would hand out a holdout as training.
    stored = zip(*(reader.index[name].to_pylist() for name in ("key", SPLIT)), strict=True)
    genomes = read_placements(table, reference)
    for number, (said, (name, split, placement)) in enumerate(zip(stored, genomes, strict=False)):
        row = rows[number]
        if said != (name, split):
            misnamed.append(name)
        if not _spells(row.input_ids, sequences[number].as_py(), vocabulary):
            misspelt.append(name)
        if row.position_ids is None or not np.array_equal(row.position_ids, placement.coordinates):
            misplaced.append(name)
        if row.het is not None:
            het_tokens += int(np.count_nonzero(row.het))
            if not ((row.het >= 0) & (row.het <= 1)).all():
                out_of_bounds.append(name)
    whole = len(rows.counts) == table.num_rows
    found = zip(TOKEN_CHECKS, (misnamed, misspelt, misplaced, out_of_bounds), strict=True)
    figures: dict[str, JsonValue] = {"genomes": len(rows.counts), "tokens_with_heteroplasmy": het_tokens}
    return [
        CheckResult(
            check,
            passed=whole and not wrong,
            figures={**figures, "wrong": len(wrong), "first_wrong": wrong[0] if wrong else "none"},
        )
        for check, wrong in found
    ]


def _spells(ids: NDArray[np.signedinteger], sequence: str, vocabulary: KmerVocabulary) -> bool:
    """Tell whether tokens give a genome back: known where all their bases are, and then with those bases."""
    try:
        decoded = np.frombuffer(decode_tokens(ids, vocabulary).encode("ascii"), dtype=np.uint8)
    except SequenceError:
        return False
    bases = np.frombuffer(sequence.encode("ascii"), dtype=np.uint8)
    if len(ids) != len(bases):
        return False
    plain = np.isin(bases, np.frombuffer(b"ACGT", dtype=np.uint8))
    readable = np.ones(len(bases), dtype=np.bool_)
    for offset in range(vocabulary.k):
        readable &= np.roll(plain, -offset)
    read = decoded != ord("N")
    return bool(np.array_equal(ids >= FIRST_KMER_ID, readable) and np.array_equal(decoded[read], bases[read]))
