"""Convert genomes to token arrays (ids, attention mask, positions, heteroplasmy), and tokens back to the sequence."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome import AMBIGUOUS, decode_sequence
from genolewm_assets.mito.tokens.plan import Bases, HetPool, TokenPlan, one_each
from genolewm_assets.mito.tokens.vocabulary import FIRST_KMER_ID, PAD_ID, Ids, KmerVocabulary

_LARGE_BYTES = 1 << 20
_Value = TypeVar("_Value", bound=np.generic)


class Tokens(TypedDict):
    """Token arrays of one genome, shape (n_tokens,), or of several, shape (n_genomes, n_tokens)."""

    #: int16, or int32 for k = 8; 0 for padding.
    input_ids: Ids
    #: int8; 1 for a token, 0 for padding.
    attention_mask: NDArray[np.int8]
    #: int32; 0-based coordinate of the token's first base; 0 for padding.
    position_ids: NDArray[np.int32]
    #: float32, 0 to 1; share of the sample's mtDNA copies that differ from the sequence, pooled over the token's bases;
    #: 0 for padding.
    het_values: NDArray[np.float32]


def tokenize_sequence(
    seq: Bases,
    vocabulary: KmerVocabulary,
    k: int | None = None,
    *,
    stride: int = 1,
    max_seq_len: int | None = None,
    circular: bool = True,
    het_levels: ArrayLike | None = None,
    het_pool: HetPool = "mean",
    coordinates: ArrayLike | None = None,
    truncation: bool = False,
    padding: bool = False,
) -> Tokens:
    """Tokenise one genome.

    Parameters
    ----------
    seq
        Bases of the IUPAC alphabet, either case, U as T; or their uint8 codes, shape (n_bases,).
    vocabulary
        Vocabulary that assigns the token ids.
    k
        Bases per token, equal to the vocabulary's k; None: the vocabulary's k.
    stride
        Step between tokens in bases.
    max_seq_len
        Largest number of tokens; None: no limit.
    circular
        If true, the last k - 1 tokens wrap round the origin, so that a genome of L bases has L tokens (with stride 1).
        If false, it has L - k + 1.
    het_levels
        Heteroplasmy level of every base, from the genome's own calls: 0 to 1, shape (n_bases,). None: 0.
    het_pool
        Level of a token: the mean over its k bases (``mean``), or the level of its first base (``start``).
    coordinates
        0-based reference coordinate of every base, from the alignment: integers, shape (n_bases,). None: the base's
        index in the genome.
    truncation
        Drop tokens past ``max_seq_len`` instead of raising an error.
    padding
        Extend the arrays to ``max_seq_len``, if that is given, with id 0, attention 0, position 0 and het 0.

    Returns
    -------
    Tokens
        Writable arrays of shape (n_tokens,), in genome order.

    Raises
    ------
    ConfigurationError
        If ``k`` is not the vocabulary's, ``max_seq_len`` is less than 1, or ``het_pool`` is unknown.
    SequenceError
        If the sequence has a symbol outside the IUPAC alphabet or too many tokens, ``stride`` is less than 1, or a
        circular genome is shorter than k.
    InputError
        If ``het_levels`` or ``coordinates`` do not have one value per base, a level is NaN or outside 0 to 1, or a
        coordinate is not an integer from 0 to 2**31 - 1.
    """
    plan = TokenPlan(vocabulary, k, stride, max_seq_len, circular, het_pool, truncation)
    ids, het, positions = plan.row(seq, het_levels, coordinates, "genome")
    count, width = len(ids), plan.width([len(ids)], padding=padding)
    filler = (0, width - count)
    return {
        "input_ids": np.pad(ids, filler, constant_values=PAD_ID) if filler[1] else ids,
        "attention_mask": (np.arange(width) < count).astype(np.int8),
        "position_ids": np.pad(plan.own_positions(count) if positions is None else positions, filler),
        "het_values": np.zeros(width, dtype=np.float32) if het is None else np.pad(het, filler),
    }


def tokenize_batch(
    seqs: Sequence[Bases],
    vocabulary: KmerVocabulary,
    k: int | None = None,
    *,
    stride: int = 1,
    max_seq_len: int | None = None,
    circular: bool = True,
    het_levels: Sequence[ArrayLike | None] | None = None,
    het_pool: HetPool = "mean",
    coordinates: Sequence[ArrayLike | None] | None = None,
    truncation: bool = False,
    padding: bool = False,
) -> Tokens:
    """Tokenise several genomes into one set of arrays; each row equals the result of :func:`tokenize_sequence`.

    Parameters not listed here are those of :func:`tokenize_sequence`.

    Parameters
    ----------
    het_levels, coordinates
        One entry per genome, which may be None; or None for all genomes.
    padding
        Extend all rows to ``max_seq_len``, or if that is None to the longest genome; required if lengths differ.

    Returns
    -------
    Tokens
        Arrays of shape (n_genomes, n_tokens). An array whose rows are all equal (attention and positions of genomes of
        one length, het without levels) stores one row and is read-only; copy it before writing.

    Raises
    ------
    ConfigurationError, SequenceError, InputError
        As :func:`tokenize_sequence`. ConfigurationError also if lengths differ without ``padding``; InputError also if
        ``het_levels`` or ``coordinates`` do not have one entry per genome.
    """
    plan = TokenPlan(vocabulary, k, stride, max_seq_len, circular, het_pool, truncation)
    levels = one_each("het_levels", het_levels, len(seqs))
    places = one_each("coordinates", coordinates, len(seqs))
    counts = [plan.count(len(seq), f"genome {number}") for number, seq in enumerate(seqs)]
    width = plan.width(counts, padding=padding)
    shape = (len(seqs), width)
    ids = _zeros(shape, vocabulary.id_dtype)  # zero is [PAD]
    het = None if all(each is None for each in levels) else _zeros(shape, np.float32)
    alike = all(each is None for each in places) and all(count == width for count in counts)
    positions = None if alike else _zeros(shape, np.int32)
    own = plan.own_positions(width)
    for row, (seq, count) in enumerate(zip(seqs, counts, strict=True)):
        found, pooled, placed = plan.row(seq, levels[row], places[row], f"genome {row}")
        ids[row, :count] = found
        if positions is not None:
            positions[row, :count] = own[:count] if placed is None else placed
        if het is not None and pooled is not None:
            het[row, :count] = pooled
    filled = np.arange(width) < np.array(counts, dtype=np.int64)[:, np.newaxis]
    return {
        "input_ids": ids,
        "attention_mask": np.broadcast_to(np.int8(1), shape) if filled.all() else filled.astype(np.int8),
        "position_ids": np.broadcast_to(own, shape) if positions is None else positions,
        "het_values": np.broadcast_to(np.float32(0), shape) if het is None else het,
    }


def decode_tokens(input_ids: Ids, vocabulary: KmerVocabulary, *, circular: bool = True) -> str:
    """Return the sequence, in upper case, of tokens that were made with stride 1.

    A base that no k-mer contains is N, because special tokens give no information about their bases. An ambiguous base
    is always N; its neighbours are known from k-mers that do not contain it.

    Parameters
    ----------
    circular
        Whether the tokens are those of a complete circular genome.

    Raises
    ------
    SequenceError
        If ``input_ids`` is not one-dimensional, an id is not in the vocabulary, or two k-mers disagree about a base.
    """
    ids, k = np.asarray(input_ids), vocabulary.k
    if ids.ndim != 1 or (ids.size and not (ids.min() >= 0 and ids.max() < len(vocabulary))):
        raise SequenceError(
            "tokens",
            "not ids of the vocabulary",
            expected=f"shape (n_tokens,), ids from 0 to {len(vocabulary) - 1}",
            got=f"shape {ids.shape}" + (f", ids {ids.min()} to {ids.max()}" if ids.size else ""),
        )
    n_bases = len(ids) if circular or not len(ids) else len(ids) + k - 1
    codes = np.full(n_bases, AMBIGUOUS, dtype=np.uint8)
    known = np.flatnonzero(ids >= FIRST_KMER_ID)
    ranks = ids[known].astype(np.int32) - FIRST_KMER_ID
    for offset in range(k):
        at = (known + offset) % max(1, n_bases)
        bases = (ranks >> 2 * (k - 1 - offset) & 3).astype(np.uint8)
        wrong = np.flatnonzero((codes[at] != AMBIGUOUS) & (codes[at] != bases))
        if wrong.size:
            base = int(at[wrong[0]])
            found = "ACGT"[codes[base]], "ACGT"[bases[wrong[0]]]
            raise SequenceError(
                f"base {base} (0-based)", "two k-mers disagree about it", expected=found[0], got=found[1]
            )
        codes[at] = bases
    return decode_sequence(codes)


def _zeros(shape: tuple[int, ...], dtype: type[_Value]) -> NDArray[_Value]:
    """Return an array of zeros whose pages are allocated in one call on Linux; page faults would take longer."""
    size_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if size_bytes < _LARGE_BYTES or not hasattr(mmap, "MAP_POPULATE"):
        return np.zeros(shape, dtype=dtype)
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
