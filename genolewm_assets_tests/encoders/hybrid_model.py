"""A tiny encoder whose vocabulary has Carbon's shape."""

from __future__ import annotations

from pathlib import Path

from genolewm_assets.encoders.tiny_llama import wrap_vocabulary, write_model
from genolewm_assets.encoders.tokens import N_KMERS, TAGS
from genolewm_assets.genome import TOKEN_BP

#: The embedding's rows come in multiples of this in Carbon; the surplus ids stand for nothing.
_CARBON_ALIGNMENT = 128


def write_hybrid_fixture(folder: Path) -> None:
    """Write an encoder whose vocabulary has Carbon's shape: BPE pieces in front, tags and 6-mers behind.

    As in Carbon, the 6-mers stand in no list: ``dna_config.json`` numbers them behind the pieces of ``tokenizer.json``,
    and a piece may be spelled like a 6-mer.
    """
    pieces = [chr(code) for code in range(33, 127)] + ["AA", "AAAA", "AAAAAA", "the"]
    merges = [["A", "A"], ["AA", "AA"], ["AAAA", "AA"]]
    used = len(pieces) + len(TAGS) + N_KMERS
    vocab_size = -(-used // _CARBON_ALIGNMENT) * _CARBON_ALIGNMENT
    tokenizer = wrap_vocabulary({"type": "BPE", "vocab": {p: i for i, p in enumerate(pieces)}, "merges": merges})
    config = {"k": TOKEN_BP, "dna_start_id": len(pieces), "dna_vocab_size": vocab_size - len(pieces)}
    config |= {"dna_special_tokens": list(TAGS), "auto_dna_tags": False}
    names = {"name": "tiny-hybrid-random", "vocab_size": vocab_size}
    write_model(folder, **names, tokenizer=tokenizer, extra={"dna_config.json": config})
