"""Genomes to token arrays: ids, attention mask, positions in genome order, heteroplasmy; and back to the sequence.

Not here: ids (``vocabulary``), windows of a genome (``windows``), alignment to rCRS, whose result comes in as
``coordinates``.
"""

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
    """Token arrays of one genome, shape (n_tokens,), or of several, shape (n_genomes, n_tokens).

    Attributes
    ----------
    input_ids
        int16, or int32 for k = 8; 0 where padded.
    attention_mask
        int8; 1 for a token, 0 for padding.
    position_ids
        int32; 0-based coordinate of the token's first base; 0 where padded.
    het_values
        float32, 0 to 1; fraction of the genome's copies that differ from its sequence; 0 where padded.
    """

    input_ids: Ids
    attention_mask: NDArray[np.int8]
    position_ids: NDArray[np.int32]
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
        Bases of the IUPAC alphabet, either case, U as T; or their uint8 codes.
    vocabulary
        Gives the ids.
    k
        Bases per token, which must be the vocabulary's; None: the vocabulary's.
    stride
        Step between tokens in bases.
    max_seq_len
        The most tokens that are accepted; None: any number.
    circular
        Wrap the last k - 1 tokens round the origin, so that a genome of L bases has L tokens (with stride 1); else it
        has L - k + 1.
    het_levels
        Heteroplasmy of every base of this genome, from its own calls: 0 to 1, shape (n_bases,). None: 0.
    het_pool
        ``mean`` over the k bases that a token reads, or the level of its first base (``start``).
    coordinates
        0-based coordinate of every base on the reference, as alignment gives it, shape (n_bases,); None: its own
        place.
    truncation
        Cut what is longer than ``max_seq_len`` instead of refusing it.
    padding
        Lengthen to ``max_seq_len``, where it is given, with id 0, attention 0, position 0, het 0.

    Returns
    -------
    Tokens
        Own arrays of shape (n_tokens,), in genome order.

    Raises
    ------
    ConfigurationError
        If ``k`` is not the vocabulary's, or a limit or ``het_pool`` is impossible.
    SequenceError
        On a strange symbol, a stride under 1, a circular genome shorter than k, or more tokens than ``max_seq_len``.
    InputError
        If ``het_levels`` or ``coordinates`` have another length than the genome, or a level is NaN or outside 0 to 1.
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
    """Tokenise genomes into one set of arrays; each row is what :func:`tokenize_sequence` gives for its genome.

    Parameters
    ----------
    het_levels, coordinates
        One per genome, or None.
    padding
        Lengthen to ``max_seq_len``, or without one to the longest genome; needed where lengths differ.

    Returns
    -------
    Tokens
        Shape (n_genomes, n_tokens). Arrays whose rows are all alike (attention and positions of genomes of one
        length, het without levels) hold one row and are read-only; copy one before writing to it.

    Raises
    ------
    ConfigurationError, SequenceError, InputError
        As :func:`tokenize_sequence`; also if lengths differ without ``padding``, or another number of levels or
        coordinates comes in than of genomes.
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
    """Return the sequence that tokens of stride 1 were made from.

    Parameters
    ----------
    input_ids
        Shape (n_tokens,); of a whole genome where ``circular``. A special token says nothing about its bases.

    Returns
    -------
    str
        Upper-case bases; N where no k-mer reads the base, such as an ambiguous base: its neighbours stand in others.

    Raises
    ------
    SequenceError
        If an id is none of the vocabulary's, or two k-mers disagree about a base.
    """
    ids, k = np.asarray(input_ids), vocabulary.k
    if ids.ndim != 1 or (ids.size and not (ids.min() >= 0 and ids.max() < len(vocabulary))):
        raise SequenceError(
            "tokens", "not the vocabulary's", expected=f"ids from 0 to {len(vocabulary) - 1}", got="others"
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
            said = "ACGT"[codes[base]], "ACGT"[bases[wrong[0]]]
            raise SequenceError(f"base {base} (0-based)", "two k-mers disagree about it", expected=said[0], got=said[1])
        codes[at] = bases
    return decode_sequence(codes)


def _zeros(shape: tuple[int, ...], dtype: type[_Value]) -> NDArray[_Value]:
    """Return an array of zeros, its memory handed out at once where the system can.

    One page fault for every 4 kB costs more than the k-mers on them: on virtual machines three times as much.
    """
    size_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if size_bytes < _LARGE_BYTES or not hasattr(mmap, "MAP_POPULATE"):
        return np.zeros(shape, dtype=dtype)
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
