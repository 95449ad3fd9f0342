"""The PyTorch dataset of single-base variants, each in the middle of a window of one genome; imports torch.

The genome is tokenised once, and the k tokens that each variant changes are computed for all variants together.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Dataset

from genolewm_assets.errors import AlleleError, InputError, ReferenceMismatchError, WindowError
from genolewm_assets.genome import GRCH38, Codes, Variant, decode_sequence, encode_sequence, start_from_pos
from genolewm_assets.mito.tokens import Bases, HetPool, Ids, KmerVocabulary, TokenPlan, check_levels, pool_levels
from genolewm_assets.mito.training.windows import WINDOW_TOKENS, Item, WindowItems, WindowTiling

#: Names of the mitochondrial contig.
_NAMES = (GRCH38["chrM"].name, *GRCH38["chrM"].aliases)


class MtDNAVariantDataset(Dataset[Item]):
    """Windows with a variant, each with the tokens of the same window without the variant.

    Parameters
    ----------
    sequence
        A complete circular genome, such as rCRS; ``pos`` of a variant is 1-based in this sequence.
    variants
        Substitutions of one base.
    labels
        One integer per variant; None: items have no labels.
    het_levels
        Heteroplasmy level of each base of the genome, 0 to 1; None: 0.
    variant_levels
        Heteroplasmy level at the base of each variant, 0 to 1; NaN or None: the genome's level is kept.
    het_pool
        As in :func:`~genolewm_assets.mito.tokens.tokenize.tokenize_sequence`.
    window_tokens
        Tokens per window, without ``[CLS]``; the variant's base is the first base of token ``window_tokens // 2``.
    add_cls
        Begin every window with ``[CLS]``.

    Raises
    ------
    AlleleError
        If a variant is not a substitution of one base.
    ReferenceMismatchError
        If ``ref`` of a variant differs from the genome.
    WindowError
        If the genome is shorter than a window, or a window has fewer than ``2 * k`` tokens.
    SequenceError, InputError
        If the genome or its levels are invalid, a variant is on another contig or beyond the genome, or labels or
        levels are not one per variant.

    Notes
    -----
    An item has the entries of an item of :class:`~genolewm_assets.mito.training.dataset.MtDNADataset`, with the variant
    in ``input_ids`` and ``het_values``; ``window_index`` is the number of the variant. It also has ``reference_ids``,
    the ids without the variant, and ``labels`` (int64) if labels were passed.
    """

    def __init__(
        self,
        sequence: Bases,
        variants: Sequence[Variant],
        vocabulary: KmerVocabulary,
        *,
        labels: ArrayLike | None = None,
        het_levels: ArrayLike | None = None,
        variant_levels: ArrayLike | None = None,
        het_pool: HetPool = "mean",
        window_tokens: int = WINDOW_TOKENS,
        add_cls: bool = True,
    ) -> None:
        super().__init__()
        codes = sequence if isinstance(sequence, np.ndarray) else encode_sequence(sequence)
        if not 2 * vocabulary.k <= window_tokens <= len(codes):
            expected = f"{2 * vocabulary.k} to {len(codes)} tokens (the genome)"
            raise WindowError("windows around variants", "size out of range", expected=expected, got=f"{window_tokens}")
        self._row = TokenPlan(vocabulary, het_pool=het_pool).row(codes, het_levels, None, "genome")
        starts = np.array([start_from_pos(variant.pos) for variant in variants], dtype=np.int64)
        self._ids = substitute_bases(codes, starts, _alternates(variants, codes), vocabulary)
        self._het = None
        if variant_levels is not None:
            own = np.zeros(len(codes)) if het_levels is None else check_levels(het_levels, len(codes), "genome")
            levels = _variant_levels(variant_levels, own[starts])
            self._het = substitute_levels(own, starts, levels, vocabulary.k, het_pool)
        middle = window_tokens // 2
        self._firsts: list[int] = ((starts - middle) % len(codes)).tolist()
        self._labels = None if labels is None else _checked_labels(labels, len(variants))
        tiling = WindowTiling(window_tokens, window_tokens)
        self._form = WindowItems(tiling, add_cls=add_cls, longest=len(codes), id_dtype=vocabulary.id_dtype)
        stop = self._form.lead + middle + 1
        self._changed = slice(stop - vocabulary.k, stop)

    def __len__(self) -> int:
        """Return the number of variants."""
        return len(self._firsts)

    def __getitem__(self, index: SupportsIndex) -> Item:
        """Return the item of a variant; raises IndexError if ``index`` is negative or too large."""
        index = operator.index(index)
        if not 0 <= index < len(self._firsts):
            raise IndexError(f"no variant {index}: there are {len(self._firsts)}")
        item = self._form.item(self._row, self._firsts[index], index)
        item["reference_ids"] = item["input_ids"].copy()
        item["input_ids"][self._changed] = self._ids[index]
        if self._het is not None:
            item["het_values"][self._changed] = self._het[index]
        if self._labels is not None:
            item["labels"] = self._labels[index]
        return item


def _alternates(variants: Sequence[Variant], codes: Codes) -> Codes:
    """Return the codes of the alternate bases; raise if a variant is not a substitution in this genome."""
    for variant in variants:
        where, ref = str(variant), variant.ref
        if variant.chrom not in _NAMES:
            expected, got = ", ".join(_NAMES), repr(variant.chrom)
            raise InputError(where, "is not on the mitochondrial genome", expected=expected, got=got)
        if len(ref) != 1 or len(variant.alt) != 1:
            remedy = "Remove insertions, deletions and longer alleles"
            raise AlleleError(where, "not a substitution of one base", remedy=remedy)
        if variant.pos > len(codes):
            expected = f"pos up to {len(codes)}"
            raise InputError(where, "pos is beyond the genome", expected=expected, got=f"{variant.pos}")
        if (base := decode_sequence(codes[variant.pos - 1 : variant.pos])) != ref:
            problem, remedy = "ref differs from the genome", "Pass the genome that the variants were called on"
            raise ReferenceMismatchError(where, problem, expected=repr(ref), got=repr(base), remedy=remedy)
    return encode_sequence("".join(variant.alt for variant in variants))


def _variant_levels(given: ArrayLike, own: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the level of each variant; NaN is replaced by the genome's own level at the base."""
    levels = np.asarray(given, dtype=np.float64)
    if levels.shape != own.shape:
        raise InputError("variant_levels", "not one per variant", expected=f"{len(own)}", got=f"shape {levels.shape}")
    return check_levels(np.where(np.isnan(levels), own, levels), len(own), "variant_levels")


def _checked_labels(labels: ArrayLike, n_variants: int) -> NDArray[np.int64]:
    found = np.asarray(labels)
    if found.shape != (n_variants,) or found.dtype.kind not in "iub":
        expected, got = f"integers of shape ({n_variants},)", f"{found.dtype} of shape {found.shape}"
        raise InputError("labels", "not one integer per variant", expected=expected, got=got)
    return found.astype(np.int64)


def substitute_bases(codes: Codes, starts: NDArray[np.int64], bases: Codes, vocabulary: KmerVocabulary) -> Ids:
    """Return the ids of the tokens that contain a substituted base, for n independent substitutions: shape (n, k).

    ``codes`` and ``bases`` are uint8 base codes of the genome and of the new bases at the 0-based ``starts``. The
    tokens begin at ``starts - k + 1`` to ``starts``, modulo the length.
    """
    k = vocabulary.k
    around = _around(codes, starts, k)
    around[:, k - 1] = bases
    # All rows are encoded as one sequence; k-mers that span two rows are dropped by the slice below.
    ids = vocabulary.encode_array(np.concatenate((around.ravel(), np.zeros(k - 1, dtype=np.uint8))))
    return ids.reshape(len(starts), 2 * k - 1)[:, :k]


def substitute_levels(
    levels: NDArray[np.floating[Any]],
    starts: NDArray[np.int64],
    replaced: NDArray[np.floating[Any]],
    k: int,
    het_pool: HetPool,
) -> NDArray[np.float32]:
    """Return the heteroplasmy, 0 to 1, of the tokens of :func:`substitute_bases`: float32, shape (n, k).

    ``levels`` are those of the genome's bases, ``replaced`` those of the substituted ones; ``het_pool`` reduces the
    levels of a token's bases to one.
    """
    around = _around(levels, starts, k)
    around[:, k - 1] = replaced
    return pool_levels(around, k, het_pool).astype(np.float32)


def _around(values: NDArray[Any], starts: NDArray[np.int64], k: int) -> NDArray[Any]:
    """Return a copy of the values of the 2k - 1 bases that share a token with each base: shape (n, 2k - 1)."""
    return values.take(starts[:, np.newaxis] + np.arange(1 - k, k), mode="wrap")
