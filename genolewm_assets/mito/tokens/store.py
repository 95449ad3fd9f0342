"""Write the array store of tokenised genomes from the table of genomes, and check the store against the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome import Split
from genolewm_assets.mito.genomes import CirclePlacement, lay_out, parse_names
from genolewm_assets.mito.tokens.plan import HetPool
from genolewm_assets.mito.tokens.rows import N_TOKENS, SPLIT, StoredTokens, stored_row, token_arrays
from genolewm_assets.mito.tokens.tokenize import decode_tokens, tokenize_sequence
from genolewm_assets.mito.tokens.vocabulary import FIRST_KMER_ID, KmerVocabulary
from genolewm_assets.store.arrays import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.artefacts import Check, CheckResult, RowsAtFault
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema, column, one_of

#: Checks of :func:`check_tokens`, in its order.
TOKEN_CHECKS = (
    Check(
        "rows_are_the_genomes",
        "Every row has the name and the split of its genome.",
        "Materialise mito/genomes, then mito/tokens.",
    ),
    Check(
        "tokens_spell_genomes",
        "The decoded tokens of every genome give its sequence, and a token is unknown exactly if one of its bases is.",
    ),
    Check("positions_are_the_references", "Every token has the reference position of its first base."),
    Check(
        "levels_within_bounds",
        "Every heteroplasmy level is between 0 and 1.",
        "The heteroplasmy file states levels outside 0 to 1, such as percentages. Look up the genomes of the rows in "
        "it.",
    ),
)

#: Columns and arrays of the store, for the documentation. The last three are arrays; the others are in
#: ``index.parquet``.
MITO_TOKENS = TableSchema(
    "mito_tokens",
    "tokenised mitochondrial genome",
    pa.schema(
        [
            column("row", pa.int64(), "row of the genome in its table"),
            column("key", pa.string(), "name of the genome"),
            column(N_TOKENS, pa.int32(), "tokens of the genome; what follows in the row is padding"),
            column(SPLIT, pa.string(), one_of(Split)),
            column("input_ids", pa.list_(pa.int16()), "k-mer ids (int32 for k = 8), 0 where padded"),
            column("het", pa.list_(pa.float32()), "share of the genome's copies that differ from its bases, 0 to 1"),
            column("position_ids", pa.list_(pa.int32()), "0-based reference position of each token's first base"),
        ]
    ),
    ("row",),
    closed={SPLIT: tuple(Split)},
)

TABLES: tuple[TableSchema, ...] = (MITO_TOKENS,)


class LevelledGenome(NamedTuple):
    """A genome and the heteroplasmy of its bases."""

    name: str
    split: str
    placement: CirclePlacement
    #: float32, shape (n_bases,), 0 to 1: share of the copies that differ from the sequence; None: 0 for all bases.
    levels: NDArray[np.float32] | None


def read_placements(table: pa.Table, reference: str) -> Iterator[tuple[str, str, CirclePlacement]]:
    """Yield name, split and placement of each genome of a table of schema ``MITO_GENOMES``.

    Parameters
    ----------
    reference
        One turn of the reference circle, upper case.
    """
    for batch in table.select(["name", "split", "differences", "placeholders"]).to_batches(max_chunksize=256):
        for name, split, names, written in zip(*(values.to_pylist() for values in batch.columns), strict=True):
            yield name, split, lay_out(reference, parse_names(names, where=name), written)


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
    """Tokenise genomes into a new array store, finalise it and return the number of its rows.

    Parameters
    ----------
    directory
        Folder of the store, new or empty.
    config
        Configuration of the store, including ``k``; it determines the store's key.
    het_pool
        Rule that reduces the levels of a token's bases to one.
    max_tokens
        Number of tokens of the longest genome.
    sources
        SHA-256 of each source of the genomes, by name.
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
    """Read every row back, compare it with the table of genomes that it was made from, and return :data:`TOKEN_CHECKS`.

    Parameters
    ----------
    reference
        One turn of the reference circle, upper case.
    """
    reader = ArrayStoreReader(directory, check=True)
    rows = StoredTokens(reader, vocabulary)
    misnamed, misspelt, misplaced, out_of_bounds = (RowsAtFault() for _ in TOKEN_CHECKS)
    het_tokens = 0
    sequences = table["sequence"]
    # Datasets select genomes by the split in the store; a wrong one would put a holdout genome into training.
    stored = zip(*(reader.index[name].to_pylist() for name in ("key", SPLIT)), strict=True)
    genomes = read_placements(table, reference)
    for number, (stored_key, (name, split, placement)) in enumerate(zip(stored, genomes, strict=False)):
        row = rows[number]
        if stored_key != (name, split):
            misnamed.add(row=number, genome=name, expected=(name, split), got=stored_key)
        if not _spells(row.input_ids, sequences[number].as_py(), vocabulary):
            misspelt.add(row=number, genome=name, problem="the tokens do not spell the sequence")
        if row.position_ids is None or not np.array_equal(row.position_ids, placement.coordinates):
            misplaced.add(row=number, genome=name, problem="other positions than those of the alignment")
        if row.het is not None:
            het_tokens += int(np.count_nonzero(row.het))
            outside = np.flatnonzero(~((row.het >= 0) & (row.het <= 1)))
            if outside.size:
                level = float(row.het[outside[0]])
                facts = {"tokens": outside.size, "first_token": int(outside[0]), "level": level}
                out_of_bounds.add(row=number, genome=name, **facts, expected="0 to 1")
    sizes = {"problem": "other number of rows", "expected": table.num_rows, "got": len(rows.counts)}
    whole = len(rows.counts) == table.num_rows
    found = zip(TOKEN_CHECKS, (misnamed, misspelt, misplaced, out_of_bounds), strict=True)
    figures: dict[str, JsonValue] = {"genomes": len(rows.counts), "tokens_with_heteroplasmy": het_tokens}
    return [
        CheckResult(
            check,
            passed=whole and not wrong,
            figures={
                **figures,
                "wrong": len(wrong),
                "first_wrong": next((str(row["genome"]) for row in wrong), "none"),
            },
            rows=[*([] if whole else [sizes]), *wrong],
        )
        for check, wrong in found
    ]


def _spells(ids: NDArray[np.signedinteger], sequence: str, vocabulary: KmerVocabulary) -> bool:
    """Return whether tokens decode to a sequence, each being a k-mer exactly if its k bases are all A, C, G or T."""
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
