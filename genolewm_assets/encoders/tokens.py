"""DNA token ids of a window, and the vocabulary of tagged 6-mers: ``<dna>``, non-overlapping 6-mers, ``</dna>``.

A 6-mer with a base other than A, C, G and T is ``<oov>``. The ids differ between models and are read from the files
beside the weights. Not here: other kinds of vocabulary (:mod:`.vocabularies`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.model_files import read_json_object
from genolewm_assets.errors import ConfigurationError, SequenceError
from genolewm_assets.genome import NO_KMER, TOKEN_BP, Codes, decode_kmer, encode_kmers, encode_sequence

#: Special tokens: begin and end of DNA, and a 6-mer with a base other than A, C, G and T.
OPEN_TAG, CLOSE_TAG, OOV = "<dna>", "</dna>", "<oov>"
TAGS = (OPEN_TAG, CLOSE_TAG, OOV)

#: Input of a model of tagged 6-mers for the sequence of a window.
PROMPT_TEMPLATE = f"{OPEN_TAG}{{sequence}}{CLOSE_TAG}"

#: Number of 6-mers over ACGT.
N_KMERS = 4**TOKEN_BP

#: Order of the bases in Carbon's tokenizer, which numbers 6-mers as ``itertools.product("ATCG", repeat=6)`` does.
CARBON_BASE_ORDER = "ATCG"

#: File that numbers the 6-mers of Carbon's hybrid vocabulary.
DNA_CONFIG = "dna_config.json"
_SHIFTS = np.arange(2 * TOKEN_BP - 2, -2, -2)


@dataclass(frozen=True, slots=True, eq=False)
class DnaTokens:
    """The DNA tokens of a model: ids of 6-mers or of single bases, and the special tokens around a sequence.

    ``kmer_ids``: int64, shape (4096,) or (4,): the token id of each 6-mer or base, indexed by its lexicographic rank
    over ACGT.
    """

    kmer_ids: NDArray[np.int64]
    oov_id: int
    leading: tuple[int, ...]
    trailing: tuple[int, ...]
    prompt_template: str

    @classmethod
    def checked(
        cls,
        where: str,
        kmer_ids: Sequence[int],
        oov_id: int,
        *,
        leading: Sequence[tuple[str, int]],
        trailing: Sequence[tuple[str, int]],
    ) -> Self:
        """Return the tokens after a check of their ids."""
        ids = np.array(kmer_ids, dtype=np.int64)
        before, after = (tuple(ident for _, ident in special) for special in (leading, trailing))
        others = {oov_id, *before, *after}
        if len({*others, *ids.tolist()}) != len(ids) + len(others):
            raise ConfigurationError(where, "two DNA tokens have the same id")
        ids.flags.writeable = False
        template = "{sequence}".join("".join(name for name, _ in special) for special in (leading, trailing))
        return cls(ids, oov_id, before, after, template)

    @classmethod
    def from_tokenizer_files(cls, folder: Path) -> Self:
        """Read the tokens of a model of tagged 6-mers; ``vocabularies.read_tokens`` reads those of every kind.

        ``dna_config.json`` belongs to Carbon's hybrid tokenizer, whose 6-mers are in no list: their ids follow those of
        a BPE vocabulary.
        """
        source = next((name for name in (DNA_CONFIG, "tokenizer.json") if (folder / name).is_file()), "vocab.json")
        where = f"{folder.name} ({source})"
        value = read_json_object(folder / source)
        if source == DNA_CONFIG:
            return cls._from_ids(where, _numbered_ids(where, value))
        added = folder / "added_tokens.json"
        listed = listed_ids(where, value) if source == "tokenizer.json" else list(value.items())
        if source == "vocab.json" and added.is_file():
            listed += read_json_object(added).items()
        return cls._from_ids(where, _unambiguous(where, listed))

    @classmethod
    def _from_ids(cls, where: str, ids: Mapping[str, int]) -> Self:
        missing = [token for token in _dna_tokens() if token not in ids]
        if missing:
            raise ConfigurationError(
                where,
                "not the vocabulary of a 6-mer DNA model",
                expected=f"{', '.join(TAGS)} and {N_KMERS:,} 6-mers",
                got=f"{len(missing):,} of them missing, such as {missing[0]!r}",
            )
        if len({ids[tag] for tag in TAGS}) != len(TAGS):
            raise ConfigurationError(where, "two DNA tokens have the same id")
        kmer_ids = [ids[decode_kmer(rank, TOKEN_BP)] for rank in range(N_KMERS)]
        leading, trailing = ([(tag, ids[tag])] for tag in (OPEN_TAG, CLOSE_TAG))
        return cls.checked(where, kmer_ids, ids[OOV], leading=leading, trailing=trailing)

    @property
    def bp_per_token(self) -> int:
        """Bases per token, 6 or 1; both divide :data:`TOKEN_BP`."""
        return 1 if len(self.kmer_ids) == len("ACGT") else TOKEN_BP

    @property
    def per_six_mer(self) -> int:
        """Number of tokens of 6 bases; a block has ``block_tokens`` times as many."""
        return TOKEN_BP // self.bp_per_token

    @property
    def n_special(self) -> int:
        """Number of special tokens around a sequence."""
        return len(self.leading) + len(self.trailing)

    @property
    def places(self) -> slice:
        """Places of the DNA tokens among the ids of a window, without the special tokens."""
        return slice(len(self.leading), -len(self.trailing) or None)

    @property
    def is_tagged(self) -> bool:
        """Whether the tokens are tagged 6-mers; their tags are part of the text, not added by the tokenizer."""
        return self.prompt_template == PROMPT_TEMPLATE

    @property
    def largest_id(self) -> int:
        """Largest DNA token id; the model's embedding must have more rows than this."""
        return max(int(self.kmer_ids.max()), self.oov_id, *self.leading, *self.trailing)

    def encode(self, sequence: str) -> NDArray[np.int64]:
        """Return the token ids of a sequence, special tokens included: shape (n_tokens,)."""
        if len(sequence) < TOKEN_BP:
            raise SequenceError(
                "window", "too short to encode", expected=f"at least {TOKEN_BP} bp", got=f"{len(sequence)} bp"
            )
        ids: NDArray[np.int64] = self.encode_codes(encode_sequence(sequence)[None])[0]
        return ids

    def encode_codes(self, codes: Codes) -> NDArray[np.int64]:
        """Return the token ids of windows of equal length, special tokens included: shape (n_windows, n_tokens).

        ``codes``: uint8 base codes, shape (n_windows, n_bases), at least 6 bases; those after the last whole 6-mer are
        dropped.
        """
        n_windows, n_tokens = len(codes), codes.shape[1] // TOKEN_BP * self.per_six_mer
        whole = np.ascontiguousarray(codes[:, : n_tokens * self.bp_per_token]).reshape(-1)
        kmers = encode_kmers(whole, k=self.bp_per_token, stride=self.bp_per_token).reshape(n_windows, n_tokens)
        first, after = len(self.leading), len(self.leading) + n_tokens
        ids = np.empty((n_windows, n_tokens + self.n_special), dtype=np.int64)
        ids[:, :first], ids[:, after:] = self.leading, self.trailing
        ids[:, first:after] = np.where(kmers == NO_KMER, self.oov_id, self.kmer_ids[kmers])
        return ids


def carbon_ranks() -> NDArray[np.int64]:
    """Return each 6-mer's rank in Carbon's order: int64, shape (4096,), indexed by lexicographic rank over ACGT."""
    digits = np.arange(N_KMERS, dtype=np.int64)[:, None] >> _SHIFTS & 3
    carbon_digit = np.array([CARBON_BASE_ORDER.index(base) for base in "ACGT"], dtype=np.int64)
    ranks: NDArray[np.int64] = (carbon_digit[digits] << _SHIFTS).sum(axis=1)
    return ranks


def _dna_tokens() -> Iterator[str]:
    yield from TAGS
    for index in range(N_KMERS):
        yield decode_kmer(index, TOKEN_BP)


def _numbered_ids(where: str, config: Mapping[str, object]) -> dict[str, int]:
    """Assign ids as Carbon's tokenizer does: special tokens from ``dna_start_id`` on, then the 6-mers."""
    k, first, size = (config.get(name) for name in ("k", "dna_start_id", "dna_vocab_size"))
    special = config.get("dna_special_tokens", list(TAGS))
    if (
        k != TOKEN_BP
        or not isinstance(first, int)
        or not isinstance(size, int)
        or not isinstance(special, list)
        or first < 0
        or size < len(special) + N_KMERS
    ):
        raise ConfigurationError(
            where,
            "not the vocabulary of a 6-mer DNA model",
            expected=f"k 6, a dna_start_id, and a dna_vocab_size for the special tokens and {N_KMERS:,} 6-mers",
            got=f"k {k!r}, dna_start_id {first!r}, dna_vocab_size {size!r}, dna_special_tokens {special!r}",
        )
    ids = {str(token): first + place for place, token in enumerate(special)}
    ranks = carbon_ranks() + first + len(special)
    return ids | {decode_kmer(index, TOKEN_BP): int(ident) for index, ident in enumerate(ranks)}


def listed_ids(where: str, tokenizer: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return the (token, id) pairs of a ``tokenizer.json``: the model's vocabulary and the tokens added to it."""
    model, added = tokenizer.get("model"), tokenizer.get("added_tokens", [])
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, list):  # A Unigram model lists [piece, score] pairs in the order of their ids.
        vocab = {piece[0]: ident for ident, piece in enumerate(vocab)}
    if not isinstance(vocab, dict) or not isinstance(added, list):
        raise ConfigurationError(where, "has no vocabulary", expected="model.vocab and added_tokens")
    return [*vocab.items(), *((token["content"], token["id"]) for token in added)]


def _unambiguous(where: str, listed: list[tuple[str, object]]) -> dict[str, int]:
    """Return the ids of the DNA tokens; a token with two ids is an error, since only the model's code could choose."""
    wanted = set(_dna_tokens())
    ids: dict[str, int] = {}
    for token, ident in listed:
        if token not in wanted:
            continue
        if not isinstance(ident, int) or ident < 0 or ids.setdefault(token, ident) != ident:
            got = f"{ids[token]} and {ident!r}" if token in ids else repr(ident)
            raise ConfigurationError(
                where, f"token {token!r} has no unique id", expected="one non-negative integer", got=got
            )
    return ids
