"""Kinds of vocabulary of DNA language models, recognised by the tokenizer files of the model's folder.

Which special tokens stand around a sequence is what the model's own tokenizer adds. No model code runs here;
:mod:`.model_loading` compares the ids with those of the tokenizer class.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from genolewm_assets.encoders.model_files import read_json_object
from genolewm_assets.encoders.tokens import DNA_CONFIG, N_KMERS, TAGS, DnaTokens, listed_ids
from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.genome import TOKEN_BP, decode_kmer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BASES = "ACGT"

#: Sequence for comparing tokenizers: 68 6-mers of A, C, G and T, in which merged bases would show.
PROBE = "".join(decode_kmer(rank, TOKEN_BP) for rank in range(0, N_KMERS, 61))

_TOKENIZER, _VOCABULARY, _LINES, _CONFIG = "tokenizer.json", "vocab.json", "vocab.txt", "tokenizer_config.json"
_SPECIAL = "special_tokens_map.json"
_KINDS = (
    "<dna>, </dna>, <oov> and 6-mers; a tokenizer.json with one token for each 6-mer or for each base; a vocab.txt of "
    "EsmTokenizer; or tokenizer_class HyenaDNATokenizer, or ByteTokenizer with byte_level true"
)
#: IUPAC symbols, and letters that vocabularies of bases hold besides.
_BASE_LETTERS = frozenset("ACGTURYSWKMBDHVN")


def read_tokens(folder: Path) -> DnaTokens:
    """Read the DNA tokens of a model, by the first file that it has of those that tell the kind of vocabulary."""
    have = {name for name in (DNA_CONFIG, _TOKENIZER, _VOCABULARY, _LINES, _CONFIG) if (folder / name).is_file()}
    if DNA_CONFIG in have or not have:
        return DnaTokens.from_tokenizer_files(folder)
    if _TOKENIZER in have:
        where = f"{folder.name} ({_TOKENIZER})"
        listed = listed_ids(where, read_json_object(folder / _TOKENIZER))
        tagged = any(token in TAGS for token, _ in listed)
        return DnaTokens.from_tokenizer_files(folder) if tagged else _from_own_tokenizer(where, folder / _TOKENIZER)
    if _VOCABULARY in have:
        return DnaTokens.from_tokenizer_files(folder)
    config = read_json_object(folder / _CONFIG) if _CONFIG in have else {}
    if _LINES in have and config.get("tokenizer_class") == "EsmTokenizer":
        return _from_esm(folder, config)
    if _LINES not in have and config.get("tokenizer_class") == "HyenaDNATokenizer":
        # The class numbers [CLS] [SEP] [BOS] [MASK] [PAD] [RESERVED] [UNK] A C G T N, and adds [SEP] alone.
        return DnaTokens.checked(_place(folder, _CONFIG), range(7, 11), 11, leading=[], trailing=[("[SEP]", 1)])
    if _LINES not in have and config.get("tokenizer_class") == "ByteTokenizer" and config.get("byte_level") is True:
        return DnaTokens.checked(_place(folder, _CONFIG), list(BASES.encode()), ord("N"), leading=[], trailing=[])
    raise _no_kind(
        _place(folder, _LINES if _LINES in have else _CONFIG), f"tokenizer_class {config.get('tokenizer_class')!r}"
    )


def _from_own_tokenizer(where: str, path: Path) -> DnaTokens:
    """Ask the tokenizer of a ``tokenizer.json`` for the ids of all 6-mers, or of the bases, and for what it adds."""
    # Imported here because vocabularies of tagged 6-mers do not need it.
    from tokenizers import Tokenizer

    try:
        own = Tokenizer.from_file(str(path))
    except Exception as err:
        raise CorruptResourceError(where, f"not readable as a tokenizer ({err})", remedy="Copy it again") from err
    own.no_truncation()
    own.no_padding()
    name = getattr(own.model, "unk_token", None)
    unknown = own.token_to_id(name) if isinstance(name, str) else None
    kmer_ids, k = _one_token_each(own, TOKEN_BP, unknown), TOKEN_BP
    if kmer_ids is None:
        kmer_ids, k = _one_token_each(own, 1, unknown), 1
    whole, bare = own.encode(PROBE), own.encode(PROBE, add_special_tokens=False)
    if kmer_ids is None or len(bare.ids) * k != len(PROBE):
        pieces = " ".join(bare.tokens[:4])
        raise _no_kind(where, f"tokens {pieces} ... for {PROBE[: 2 * TOKEN_BP]}...")
    first = next((at for at in range(len(whole.ids)) if whole.ids[at : at + len(bare.ids)] == bare.ids), None)
    if first is None:
        raise _no_kind(where, "a post-processor that changes the tokens of a sequence")
    added = list(zip(whole.tokens, whole.ids, strict=True))
    # Of single bases, another base than A, C, G and T is the token N, if there is one.
    n = own.encode("N", add_special_tokens=False).ids if k == 1 else []
    oov_id = n[0] if len(n) == 1 else unknown
    if oov_id is None:
        raise ConfigurationError(
            where, "no token for a base that is not known", expected="N or an unknown token", got=f"unk_token {name!r}"
        )
    return DnaTokens.checked(where, kmer_ids, oov_id, leading=added[:first], trailing=added[first + len(bare.ids) :])


def _one_token_each(own: Tokenizer, k: int, unknown: int | None) -> list[int] | None:
    """Return the ids of all k-mers in lexicographic order; None unless each is one known token of its own."""
    ids = []
    for rank in range(4**k):
        found = own.encode(decode_kmer(rank, k), add_special_tokens=False).ids
        if len(found) != 1 or found[0] == unknown:
            return None
        ids += found
    return ids if len(set(ids)) == len(ids) else None


def _from_esm(folder: Path, config: Mapping[str, object]) -> DnaTokens:
    """Read ``vocab.txt`` as ``EsmTokenizer`` does: the id of a token is its line; the class adds ``<cls>``, ``<eos>``.

    The class splits a 6-mer with another base into letters, which would move all tokens after it to other places. Here
    such a 6-mer is the unknown token, so that token i is always bases 6 i to 6 i + 5.
    """
    where = _place(folder, _LINES)
    try:
        lines = (folder / _LINES).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as err:
        raise CorruptResourceError(where, f"not readable as text ({err})", remedy="Copy it again") from err
    ids = {line.strip(): number for number, line in enumerate(lines)}
    stated = {**(read_json_object(folder / _SPECIAL) if (folder / _SPECIAL).is_file() else {}), **config}
    special = {name: _content(stated.get(f"{name}_token", f"<{name}>")) for name in ("cls", "eos", "unk")}
    missing = [token for name, token in special.items() if token not in ids and (name, token) != ("eos", None)]
    if missing:
        raise ConfigurationError(
            where,
            "a special token of the tokenizer is not in the vocabulary",
            expected=f"a line {missing[0]!r}",
            got=f"{len(lines):,} lines without it",
            remedy=f"If the model has no such token, write null for it in {_CONFIG}",
        )
    sixes = [decode_kmer(rank, TOKEN_BP) for rank in range(N_KMERS)]
    chosen = sixes if all(kmer in ids for kmer in sixes) else list(BASES)
    other = [token for token in ids if _is_other(token, len(chosen[0]))]
    if other or not all(kmer in ids for kmer in chosen):
        raise _no_kind(where, f"the token {other[0]!r}" if other else "a vocabulary without A, C, G and T")
    oov = special["unk"] if len(chosen) == N_KMERS or "N" not in ids else "N"
    leading, trailing = (
        [(token, ids[token]) for token in (special[name],) if token is not None] for name in ("cls", "eos")
    )
    return DnaTokens.checked(where, [ids[kmer] for kmer in chosen], ids[str(oov)], leading=leading, trailing=trailing)


def _is_other(token: str, k: int) -> bool:
    """Tell whether a token is a letter of another alphabet, or a piece of DNA of another length than 1 and k."""
    if len(token) == 1:
        return token.isalpha() and token.upper() not in _BASE_LETTERS
    return len(token) > 1 and len(token) != k and set(token) <= set(BASES)


def _content(token: object) -> str | None:
    """Return the text of a special token, which tokenizer files write as text, as an object, or as null."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _place(folder: Path, name: str) -> str:
    return f"{folder.name} ({name})"


def _no_kind(where: str, got: str) -> ConfigurationError:
    return ConfigurationError(
        where,
        "not a DNA vocabulary of a known kind",
        expected=_KINDS,
        got=got,
        remedy="See docs/models.md",
    )
