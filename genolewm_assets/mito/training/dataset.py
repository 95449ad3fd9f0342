"""The PyTorch dataset of windows of mitochondrial genomes; imports torch.

Items are NumPy arrays, because making four tensors takes longer than cutting the window; loaders make tensors.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Self, SupportsIndex

from numpy.typing import ArrayLike
from torch.utils.data import Dataset

from genolewm_assets.mito.tokens import Bases, HetPool, KmerVocabulary, StoredTokens, TokenPlan, TokenRow, one_each
from genolewm_assets.mito.training.windows import STRIDE_TOKENS, WINDOW_TOKENS, Item, WindowItems, WindowTiling
from genolewm_assets.store.arrays import ArrayStoreReader


class MtDNADataset(Dataset[Item]):
    """Overlapping windows of mitochondrial genomes.

    Parameters
    ----------
    sequences
        Sequences of the genomes; :meth:`from_store` reads stored tokens instead.
    het_levels, coordinates
        Per genome, heteroplasmy levels and coordinates of its bases, or None; as in
        :func:`~genolewm_assets.mito.tokens.tokenize.tokenize_sequence`.
    het_pool
        Rule that reduces the levels of a token's bases to one; as in ``tokenize_sequence``.
    window_tokens, stride_tokens
        Tokens per window, without ``[CLS]``, and step between windows in tokens.
    circular
        Whether the genomes are complete circles.
    add_cls
        Begin every window with ``[CLS]``: attention 1, position of the first token, het 0.

    Raises
    ------
    ConfigurationError, WindowError, SequenceError, InputError
        If an option is out of range, or a genome cannot be tokenised.

    Notes
    -----
    Items are ordered by genome, then by window start. An item is a dictionary of arrays of shape
    (window_tokens + add_cls,): ``input_ids`` (int16; int32 for k = 8), ``attention_mask`` (int8), ``position_ids``
    (int32) and ``het_values`` (float32); its ``window_index`` is the number of the item, which seeds the masking.

    Examples
    --------
    >>> vocabulary = KmerVocabulary.build(k=6)
    >>> dataset = MtDNADataset(["ACGT" * 300], vocabulary)
    >>> len(dataset), dataset[4]["position_ids"][[0, 1, 512]].tolist()
    (5, [1024, 1024, 335])
    """

    def __init__(
        self,
        sequences: Sequence[Bases],
        vocabulary: KmerVocabulary,
        *,
        het_levels: Sequence[ArrayLike | None] | None = None,
        coordinates: Sequence[ArrayLike | None] | None = None,
        het_pool: HetPool = "mean",
        window_tokens: int = WINDOW_TOKENS,
        stride_tokens: int = STRIDE_TOKENS,
        circular: bool = True,
        add_cls: bool = True,
    ) -> None:
        levels = one_each("het_levels", het_levels, len(sequences))
        places = one_each("coordinates", coordinates, len(sequences))
        plan = TokenPlan(vocabulary, circular=circular, het_pool=het_pool)
        rows = [
            plan.row(seq, level, place, f"genome {number}")
            for number, (seq, level, place) in enumerate(zip(sequences, levels, places, strict=True))
        ]
        tiling = WindowTiling(window_tokens, stride_tokens, circular)
        self._open(rows, [len(row.input_ids) for row in rows], vocabulary, tiling, add_cls=add_cls)

    @classmethod
    def from_store(
        cls,
        store: Path | str | ArrayStoreReader,
        vocabulary: KmerVocabulary,
        *,
        split: str | None = None,
        window_tokens: int = WINDOW_TOKENS,
        stride_tokens: int = STRIDE_TOKENS,
        circular: bool = True,
        add_cls: bool = True,
    ) -> Self:
        """Create a dataset from an array store of tokens; see ``genolewm_assets.mito.tokens.rows``.

        Other parameters are those of the class.

        Parameters
        ----------
        store
            Folder of the store, which is opened with verification of checksums; or an open reader.
        split
            Only the genomes of this split (train, validation or test); None: all genomes.

        Raises
        ------
        MissingResourceError, CorruptResourceError
            If the store is missing, damaged, of another kind or of another k.
        ConfigurationError
            If the store has no genome of the split.
        """
        reader = store if isinstance(store, ArrayStoreReader) else ArrayStoreReader(Path(store), check=True)
        dataset = cls.__new__(cls)
        tiling = WindowTiling(window_tokens, stride_tokens, circular)
        rows = StoredTokens(reader, vocabulary, split=split)
        dataset._open(rows, rows.counts, vocabulary, tiling, add_cls=add_cls)
        return dataset

    def _open(
        self,
        rows: list[TokenRow] | StoredTokens,
        counts: Sequence[int],
        vocabulary: KmerVocabulary,
        tiling: WindowTiling,
        *,
        add_cls: bool,
    ) -> None:
        super().__init__()
        self.vocabulary, self.tiling = vocabulary, tiling
        self._rows, self._stride = rows, tiling.stride_tokens
        windows = list(map(tiling.count, counts))
        self._firsts = [0, *accumulate(windows)]
        self._length = self._firsts[-1]
        # Human genomes have 65 windows each, although lengths differ; a division is then faster than a search.
        self._windows_each = windows[0] if len(set(windows)) == 1 else None
        items = WindowItems(tiling, add_cls=add_cls, longest=max(counts, default=0), id_dtype=vocabulary.id_dtype)
        self._item = items.item

    def __len__(self) -> int:
        """Return the number of windows of all genomes."""
        return self._length

    def place(self, index: int) -> tuple[int, int]:
        """Return the number of an item's genome, and the first token of the window in that genome, both 0-based.

        Raises
        ------
        IndexError
            If ``index`` is negative or not less than the number of items.
        """
        if not 0 <= index < self._length:
            raise IndexError(f"no window {index}: there are {self._length}")
        if self._windows_each is not None:
            genome, window = divmod(index, self._windows_each)
        else:
            genome = bisect_right(self._firsts, index) - 1
            window = index - self._firsts[genome]
        return genome, window * self._stride

    def __getitem__(self, index: SupportsIndex) -> Item:
        """Return the item of a window; raises IndexError as :meth:`place`."""
        number = operator.index(index)
        if self._windows_each is None or not 0 <= number < self._length:
            genome, first = self.place(number)
        else:  # :meth:`place`, inlined for speed
            genome, window = divmod(number, self._windows_each)
            first = window * self._stride
        return self._item(self._rows[genome], first, number)
