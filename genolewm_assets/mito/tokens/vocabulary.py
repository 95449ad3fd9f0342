"""The k-mer vocabulary: six special tokens, then every k-mer over ACGT in lexicographic order.

It depends on k alone, so equal k gives equal ids in every project and on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError, SequenceError
from genolewm_assets.genome import NO_KMER, Codes, decode_kmer, encode_kmers, encode_sequence
from genolewm_assets.store.files import JsonValue, make_directories, open_regular, write_atomic

MAX_K = 8

#: Tokens that are not k-mers, in the order of their ids.
SPECIAL_TOKENS = ("[PAD]", "[CLS]", "[MASK]", "[UNK]", "[SEP]", "[HET]")
PAD_ID, CLS_ID, MASK_ID, UNK_ID, _, _ = range(len(SPECIAL_TOKENS))
#: Id of the first k-mer, which consists of k A.
FIRST_KMER_ID = len(SPECIAL_TOKENS)

VOCABULARY_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "vocab_config.json", "tokenizer.json", "tokenizer_config.json"
_LETTERS = "ACGTN"
_FORMAT, _FORMAT_VERSION = "genolewm.kmer_vocabulary", 1

#: Array of token ids: int16 for k up to 7, else int32.
Ids: TypeAlias = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class KmerVocabulary:
    """Token ids of k-mers.

    Raises
    ------
    ConfigurationError
        If k is not 1 to 8.

    Examples
    --------
    >>> vocabulary = KmerVocabulary.build(k=6)
    >>> len(vocabulary), vocabulary.encode("AAAAAC"), vocabulary.decode(4101)
    (4102, 7, 'TTTTTT')
    """

    k: int

    def __post_init__(self) -> None:
        if type(self.k) is not int or not 1 <= self.k <= MAX_K:
            raise ConfigurationError(
                "k-mer vocabulary", "k out of range", expected=f"a whole number from 1 to {MAX_K}", got=repr(self.k)
            )

    @classmethod
    def build(cls, k: int = 6) -> Self:
        """Return the vocabulary of all k-mers."""
        return cls(k)

    def __len__(self) -> int:
        """Return the number of tokens, special tokens included."""
        return FIRST_KMER_ID + self.n_kmers

    @property
    def n_kmers(self) -> int:
        """Number of k-mers, 4**k; their ids begin at 6."""
        return int(4**self.k)

    @property
    def id_dtype(self) -> type[np.int16 | np.int32]:
        """Dtype of the ids, int16 if every id fits (k up to 7), else int32."""
        return np.int16 if len(self) <= np.iinfo(np.int16).max else np.int32

    def encode(self, token: str) -> int:
        """Return the id of a k-mer (either case, U as T) or of a special token.

        A k-mer with a base other than A, C, G or T has id 3 ([UNK]).

        Raises
        ------
        SequenceError
            If the number of bases is not k, or a symbol is outside the IUPAC nucleotide alphabet.
        """
        if token in SPECIAL_TOKENS:
            return SPECIAL_TOKENS.index(token)
        if len(token) != self.k:
            raise SequenceError("k-mer", "wrong length", expected=f"{self.k} bases", got=repr(token))
        return int(self.encode_array(token)[0])

    def decode(self, token_id: int) -> str:
        """Return the k-mer or special token of an id.

        Raises
        ------
        SequenceError
            If the id is not in the vocabulary.
        """
        if not 0 <= token_id < len(self):
            raise SequenceError("token id", "no such id", expected=f"0 to {len(self) - 1}", got=f"{token_id}")
        if token_id < FIRST_KMER_ID:
            return SPECIAL_TOKENS[token_id]
        return decode_kmer(int(token_id) - FIRST_KMER_ID, self.k)

    def encode_array(self, sequence: str | bytes | Codes, *, stride: int = 1, circular: bool = False) -> Ids:
        """Return the ids of a sequence's k-mers: :attr:`id_dtype`, shape (n_kmers,), in genome order.

        A k-mer with a base other than A, C, G or T has id 3 ([UNK]).

        Parameters
        ----------
        sequence
            Bases of the IUPAC alphabet, either case, U as T; or their uint8 codes (:mod:`genolewm_assets.genome`).
        stride
            Step between k-mer starts in bases.
        circular
            Wrap the last k - 1 k-mers round the origin.

        Raises
        ------
        SequenceError
            If a symbol is outside the IUPAC nucleotide alphabet, ``stride`` is less than 1, or a circular sequence is
            shorter than k.
        """
        codes = sequence if isinstance(sequence, np.ndarray) else encode_sequence(sequence)
        ids = encode_kmers(codes, k=self.k, stride=stride, circular=circular, dtype=self.id_dtype)
        ids += FIRST_KMER_ID
        unknown = np.flatnonzero(ids == NO_KMER + FIRST_KMER_ID)
        ids[unknown] = UNK_ID
        return ids

    def save_pretrained(self, folder: Path | str) -> None:
        """Write, atomically, ``vocab_config.json`` and two files from which ``AutoTokenizer`` gives equal ids."""
        folder = Path(folder)
        make_directories(folder)
        for name, document in {**self._tokenizer_files(), VOCABULARY_FILE: self._document()}.items():
            write_atomic(folder / name, (json.dumps(document, indent=1) + "\n").encode())

    @classmethod
    def from_pretrained(cls, folder: Path | str) -> Self:
        """Read the vocabulary from a local folder; names on a model hub are not supported.

        Raises
        ------
        MissingResourceError
            If the folder or ``vocab_config.json`` does not exist or cannot be read.
        CorruptResourceError
            If a file was altered, has an unsupported version, or ``tokenizer.json`` has other ids.
        """
        path = Path(folder) / VOCABULARY_FILE
        found = _read_object(path)
        if found.get("format") != _FORMAT or found.get("format_version") != _FORMAT_VERSION:
            expected = f"format {_FORMAT!r}, version {_FORMAT_VERSION}"
            got = f"{found.get('format')!r}, {found.get('format_version')!r}"
            raise _corrupt(path, "not a vocabulary that this code can read", expected, got)
        try:
            vocabulary = cls(found.get("k"))  # type: ignore[arg-type]
        except ConfigurationError as err:
            raise _corrupt(path, "k out of range", err.expected, err.got) from err
        for name, value in vocabulary._document().items():
            if found.pop(name, None) != value:
                raise _corrupt(path, f"altered in {name!r}: the file was damaged or edited")
        if found:
            raise _corrupt(path, "unknown entries", "none", f"{sorted(found)}")
        beside = path.with_name(TOKENIZER_FILE)
        if beside.is_file() and listed_tokens(_read_object(beside)) != {
            token: number for number, token in enumerate(vocabulary._tokens())
        }:
            raise _corrupt(beside, f"its ids are not those of the vocabulary beside it (k = {vocabulary.k})")
        return vocabulary

    def _tokens(self) -> list[str]:
        """Return every token in the order of ids."""
        return [self.decode(token_id) for token_id in range(len(self))]

    def _document(self) -> dict[str, JsonValue]:
        """Return the content of ``vocab_config.json``; ``sha256`` covers the entries and all tokens."""
        document: dict[str, JsonValue] = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "k": self.k,
            "n_tokens": len(self),
            "special_tokens": list(SPECIAL_TOKENS),
        }
        content = json.dumps(document, sort_keys=True) + "\n" + "\n".join(self._tokens())
        return {**document, "sha256": hashlib.sha256(content.encode()).hexdigest()}

    def _tokenizer_files(self) -> dict[str, JsonValue]:
        """Return the content of the two JSON files that ``AutoTokenizer`` reads without this package."""
        ids: dict[str, JsonValue] = {token: number for number, token in enumerate(self._tokens())}
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        names = {token.strip("[]").lower(): token for token in SPECIAL_TOKENS}
        return {
            TOKENIZER_FILE: {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": [{"id": ids[token], "content": token, **flags} for token in SPECIAL_TOKENS],
                "normalizer": {"type": "Sequence", "normalizers": _spell_kmers(self.k)},
                "pre_tokenizer": {"type": "WhitespaceSplit"},
                "post_processor": None,
                "decoder": None,
                "model": {"type": "WordLevel", "vocab": ids, "unk_token": names["unk"]},
            },
            TOKENIZER_CONFIG_FILE: {
                "tokenizer_class": "PreTrainedTokenizerFast",
                **{f"{name}_token": token for name, token in names.items() if name != "het"},
                "additional_special_tokens": [names["het"]],
                "clean_up_tokenization_spaces": False,
                "model_input_names": ["input_ids", "attention_mask"],
            },
        }


def listed_tokens(tokenizer: Mapping[str, Any]) -> dict[str, object]:
    """Return the token ids of a parsed ``tokenizer.json``, by token; empty if it has no vocabulary."""
    model = tokenizer.get("model")
    listed = model.get("vocab") if isinstance(model, dict) else None
    return listed if isinstance(listed, dict) else {}


def _read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; a missing or invalid file raises."""
    remedy = "Save a vocabulary there with save_pretrained; names on a model hub are not looked up"
    try:
        with open_regular(path, links=True) as handle:
            value = json.loads(handle.read())
    except OSError as err:
        raise MissingResourceError(str(path), f"cannot be read ({err.strerror})", remedy=remedy) from err
    except (ValueError, RecursionError) as err:
        raise _corrupt(path, f"not readable as JSON ({err})") from err
    if not isinstance(value, dict):
        raise _corrupt(path, "not a JSON object")
    return value


def _corrupt(path: Path, problem: str, expected: str | None = None, got: str | None = None) -> CorruptResourceError:
    remedy = "Save the vocabulary again with save_pretrained"
    return CorruptResourceError(str(path), problem, expected=expected, got=got, remedy=remedy)


def _spell_kmers(k: int) -> list[JsonValue]:
    """Return the replacements that turn every word into its k-mers, in the order in which they apply.

    Pieces of a text do not overlap for a tokenizer of the ``tokenizers`` library, but k-mers do. Its normaliser
    therefore writes them out: it inserts a space before every base, and step n, for n from 1 to k - 1, appends to each
    group the first base of the group n places ahead::

        ACGTA  ->   A C G T A  ->   AC CG GT TA A  ->   ACG CGT GTA

    A word is a linear sequence; for a circular genome, append its first k - 1 bases to the text. This takes about 0.1 s
    per genome; ``KmerVocabulary.encode_array`` takes 20 microseconds.
    """

    def replace(pattern: str, content: str) -> JsonValue:
        return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}

    steps = [replace(r"\s+", "\n")]
    steps += [replace(small, large) for small, large in zip("acgtuU", "ACGTTT", strict=True)]
    steps += [replace(r"[^ACGT\n]", "N"), replace(rf"(?=[{_LETTERS}])", " ")]
    for size in range(1, k):
        ahead = rf"(?: [{_LETTERS}]+){{{size - 1}}}"
        steps += [replace(rf"(?<= [{_LETTERS}]{{{size}}})(?={ahead} {base})", base) for base in _LETTERS]
    if k > 1:
        steps.append(replace(rf"(?<= )[{_LETTERS}]{{1,{k - 1}}}(?=[ \n]|$)", ""))
    return steps
