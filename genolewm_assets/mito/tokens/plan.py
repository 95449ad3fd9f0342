"""Tokenisation of one genome: the settings that all genomes of a call share, and checks of levels and coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.errors import ConfigurationError, InputError, SequenceError
from genolewm_assets.genome import Codes, encode_sequence
from genolewm_assets.mito.tokens.vocabulary import Ids, KmerVocabulary

#: A sequence as text, as ASCII bytes, or as uint8 base codes.
Bases: TypeAlias = str | bytes | Codes
#: Rule that reduces the levels of a token's k bases to one: their mean, or the level of the first base.
HetPool: TypeAlias = Literal["mean", "start"]


class TokenRow(NamedTuple):
    """Token arrays of one genome."""

    #: int16 (int32 for k = 8), shape (n_tokens,).
    input_ids: Ids
    #: float32, shape (n_tokens,), 0 to 1: share of the copies that differ from the sequence; None: 0 for all tokens.
    het: NDArray[np.float32] | None
    #: int32, shape (n_tokens,): 0-based coordinate of each token's first base; None: multiples of the stride from 0.
    position_ids: NDArray[np.int32] | None


@dataclass(frozen=True, slots=True)
class TokenPlan:
    """Settings shared by all genomes of a call.

    The parameters are those of :func:`~genolewm_assets.mito.tokens.tokenize.tokenize_sequence`.

    Raises
    ------
    ConfigurationError
        If ``k`` is not the vocabulary's, ``max_seq_len`` is less than 1, or ``het_pool`` is unknown.
    SequenceError
        If ``stride`` is less than 1.
    """

    vocabulary: KmerVocabulary
    k: int | None = None
    stride: int = 1
    max_seq_len: int | None = None
    circular: bool = True
    het_pool: HetPool = "mean"
    truncation: bool = False

    def __post_init__(self) -> None:
        if self.k not in {None, (k := self.vocabulary.k)}:
            raise ConfigurationError("k", "differs from the k of the vocabulary", expected=f"{k}", got=f"{self.k}")
        if self.het_pool not in {"mean", "start"}:
            raise ConfigurationError("het_pool", "unknown", expected="'mean' or 'start'", got=repr(self.het_pool))
        if self.max_seq_len is not None and self.max_seq_len < 1:
            raise ConfigurationError("max_seq_len", "out of range", expected="at least 1", got=f"{self.max_seq_len}")
        if self.stride < 1:
            raise SequenceError("k-mers", "stride out of range", expected="at least 1", got=f"{self.stride}")

    def count(self, n_bases: int, where: str) -> int:
        """Return the number of tokens of a genome, or raise SequenceError if they are too many and not truncated."""
        starts = n_bases if self.circular else max(0, n_bases - self.vocabulary.k + 1)
        n_tokens = -(-starts // self.stride)
        if self.max_seq_len is None or n_tokens <= self.max_seq_len:
            return n_tokens
        if not self.truncation:
            expected = f"at most {self.max_seq_len} (max_seq_len)"
            remedy = "Read windows with MtDNADataset, or pass truncation=True"
            raise SequenceError(where, "too many tokens", expected=expected, got=f"{n_tokens}", remedy=remedy)
        return self.max_seq_len

    def width(self, counts: Sequence[int], *, padding: bool) -> int:
        """Return the length of the rows of a batch in tokens; ConfigurationError if they differ without ``padding``."""
        longest = max(counts, default=0)
        if padding:
            return longest if self.max_seq_len is None else self.max_seq_len
        if min(counts, default=0) != longest:
            problem, got = "have different numbers of tokens", f"{min(counts)} to {longest}"
            raise ConfigurationError("genomes", problem, expected="equal numbers", got=got, remedy="Pass padding=True")
        return longest

    def own_positions(self, n_tokens: int) -> NDArray[np.int32]:
        """Return the positions of tokens in a genome without reference coordinates: int32, shape (n_tokens,)."""
        return np.arange(0, n_tokens * self.stride, self.stride, dtype=np.int32)

    def row(self, seq: Bases, levels: ArrayLike | None, coordinates: ArrayLike | None, where: str) -> TokenRow:
        """Tokenise one genome, which ``where`` names in errors; these are those of ``tokenize_sequence``."""
        codes = seq if isinstance(seq, np.ndarray) else encode_sequence(seq)
        count = self.count(len(codes), where)
        ids = self.vocabulary.encode_array(codes, stride=self.stride, circular=self.circular)[:count]
        het = None if levels is None else self._het(levels, len(codes), where)[:count]
        if coordinates is None:
            return TokenRow(ids, het, None)
        return TokenRow(ids, het, _checked_coordinates(coordinates, len(codes), where)[:: self.stride][:count])

    def _het(self, levels: ArrayLike, n_bases: int, where: str) -> NDArray[np.float32]:
        """Return the level of each token: float32, shape (n_tokens,), before truncation."""
        checked = check_levels(levels, n_bases, where)
        if self.circular:
            checked = np.concatenate((checked, checked[: self.vocabulary.k - 1]))
        if len(checked) < self.vocabulary.k:
            return np.zeros(0, dtype=np.float32)
        return pool_levels(checked, self.vocabulary.k, self.het_pool)[:: self.stride].astype(np.float32)


def check_levels(levels: ArrayLike, n_bases: int, where: str) -> NDArray[np.floating[Any]]:
    """Return levels as floats, shape (n_bases,); InputError if they are not numbers of this shape from 0 to 1."""
    found = np.asarray(levels)
    if found.shape != (n_bases,) or found.dtype.kind not in "fiub":
        expected, got = f"numbers of shape ({n_bases},)", f"{found.dtype} of shape {found.shape}"
        raise InputError(f"{where}, het_levels", "not one level per base", expected=expected, got=got)
    # Written so that NaN, which compares as false, is caught too.
    wrong = np.flatnonzero(~((found >= 0) & (found <= 1)))
    if wrong.size:
        place, got = f"{where}, base {wrong[0]} (0-based)", f"{found[wrong[0]]}"
        raise InputError(place, "heteroplasmy level out of range", expected="0 to 1", got=got)
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def _checked_coordinates(coordinates: ArrayLike, n_bases: int, where: str) -> NDArray[np.int32]:
    """Return coordinates as int32, shape (n_bases,); raise InputError if they are not one valid integer per base."""
    found = np.asarray(coordinates)
    fits = found.dtype.kind in "iu" and not (found.size and not 0 <= found.min() <= found.max() < 1 << 31)
    if found.shape != (n_bases,) or not fits:
        expected = f"integers from 0 to 2**31 - 1 of shape ({n_bases},)"
        got = f"{found.dtype} of shape {found.shape}"
        raise InputError(f"{where}, coordinates", "not one coordinate per base", expected=expected, got=got)
    return found.astype(np.int32)


def pool_levels(levels: NDArray[np.floating[Any]], k: int, het_pool: HetPool) -> NDArray[np.float64]:
    """Return the pooled level of every run of k bases: float64, shape (..., n - k + 1) for levels of shape (..., n)."""
    n = levels.shape[-1] - k + 1
    total = levels[..., :n].astype(np.float64)
    if het_pool == "mean":
        # A sum per token; the rounding of a running sum would depend on the base at which the genome begins.
        for offset in range(1, k):
            total += levels[..., offset : offset + n]
        total /= k
    return total


def one_each(what: str, given: Sequence[ArrayLike | None] | None, n_genomes: int) -> Sequence[ArrayLike | None]:
    """Return one array or None per genome; None if ``given`` is None; InputError if it has not one entry per genome."""
    if given is None:
        return [None] * n_genomes
    if len(given) != n_genomes:
        raise InputError(what, "not one per genome", expected=f"{n_genomes}", got=f"{len(given)}")
    return given
