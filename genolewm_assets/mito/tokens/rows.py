"""Format of the array store of tokens: one row per genome, read by the datasets.

All rows have the length of the longest genome; the index has the number of tokens of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, InputError
from genolewm_assets.mito.tokens.plan import TokenRow
from genolewm_assets.mito.tokens.tokenize import Tokens
from genolewm_assets.mito.tokens.vocabulary import PAD_ID, KmerVocabulary
from genolewm_assets.store.arrays import ArraySpec, ArrayStoreReader

#: Names of the arrays of a store; ``position_ids`` is optional, for genomes with reference coordinates.
INPUT_IDS, HET, POSITION_IDS = "input_ids", "het", "position_ids"
#: Column of the index, int32: number of tokens of the row's genome.
N_TOKENS = "n_tokens"
#: Optional column of the index, string: train, validation or test.
SPLIT = "split"
#: Entry of the store's configuration: bases per k-mer.
K = "k"


def token_arrays(vocabulary: KmerVocabulary, max_tokens: int, *, coordinates: bool = False) -> list[ArraySpec]:
    """Return the arrays of a store for up to ``max_tokens`` tokens; ``coordinates``: positions are not 0, 1, 2, ..."""
    kinds = {INPUT_IDS: np.dtype(vocabulary.id_dtype).name, HET: "float32"}
    kinds |= {POSITION_IDS: "int32"} if coordinates else {}
    return [ArraySpec(name, (max_tokens,), dtype) for name, dtype in kinds.items()]


def stored_row(tokens: Tokens, arrays: Iterable[ArraySpec]) -> tuple[dict[str, NDArray[np.generic]], dict[str, int]]:
    """Return one genome's row, padded with 0, and index columns; InputError if it has more tokens than a row."""
    ids, het, positions = tokens["input_ids"], tokens["het_values"], tokens["position_ids"]
    values: dict[str, NDArray[np.generic]] = {INPUT_IDS: ids, HET: het, POSITION_IDS: positions}
    row = {}
    for spec in arrays:
        if len(ids) > (most := spec.shape[0]):
            raise InputError(spec.name, "too long for a row", expected=f"at most {most} tokens", got=f"{len(ids)}")
        row[spec.name] = np.pad(values[spec.name], (0, most - len(ids)), constant_values=PAD_ID)
    return row, {N_TOKENS: len(ids)}


class StoredTokens:
    """Token rows read from an array store, with the number of tokens of each genome in ``counts``.

    Parameters
    ----------
    reader
        Reader of a store with the arrays ``input_ids``, ``het`` and optionally ``position_ids``, the index column
        ``n_tokens`` and the configuration entry ``k``.
    split
        Only genomes of this split; None: all genomes.

    Raises
    ------
    CorruptResourceError
        If the store is of another kind, or its k differs from the vocabulary's.
    ConfigurationError
        If no genome is in the split.
    """

    def __init__(self, reader: ArrayStoreReader, vocabulary: KmerVocabulary, *, split: str | None = None) -> None:
        self._reader = reader
        names, where = set(reader.arrays), str(reader.directory)
        if not {INPUT_IDS, HET} <= names <= {INPUT_IDS, HET, POSITION_IDS} or N_TOKENS not in reader.index.column_names:
            expected = f"arrays {INPUT_IDS!r} and {HET!r}, and a column {N_TOKENS!r}"
            remedy = "Build asset mito/tokens, or open the folder of its store"
            raise CorruptResourceError(
                where, "not a store of tokens", expected=expected, got=f"{sorted(names)}", remedy=remedy
            )
        config = reader.fingerprint["config"]
        k = config.get(K) if isinstance(config, Mapping) else None
        if k != vocabulary.k:
            raise CorruptResourceError(where, "ids of another vocabulary", expected=f"k = {vocabulary.k}", got=f"{k}")
        counts: list[int] = reader.index.column(N_TOKENS).to_pylist()
        self._numbers = list(range(len(counts))) if split is None else _rows_of(reader, split)
        self.counts = [counts[number] for number in self._numbers]
        self._has_positions = POSITION_IDS in names

    def __getitem__(self, genome: int) -> TokenRow:
        """Return the tokens of a genome by number, from 0, without padding."""
        n_tokens, row = self.counts[genome], self._reader.get_row(self._numbers[genome])
        positions = row[POSITION_IDS][:n_tokens] if self._has_positions else None
        return TokenRow(row[INPUT_IDS][:n_tokens], row[HET][:n_tokens], positions)


def _rows_of(reader: ArrayStoreReader, split: str) -> list[int]:
    """Return the numbers of the rows whose genome is in a split."""
    splits = reader.index.column(SPLIT).to_pylist() if SPLIT in reader.index.column_names else []
    rows = [row for row, found in enumerate(splits) if found == split]
    if not rows:
        expected = ", ".join(sorted(set(splits))) or "None: the store has no splits"
        where = f"{reader.directory}, split"
        raise ConfigurationError(where, "no genome has this split", expected=expected, got=repr(split))
    return rows
