"""Comparison of our token ids with those of the model's own tokenizer; it imports transformers."""

from __future__ import annotations

from pathlib import Path

import transformers
from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

from genolewm_assets.encoders.model_files import ModelFiles, read_json_object
from genolewm_assets.encoders.model_loading import silent_loading
from genolewm_assets.encoders.tokens import CLOSE_TAG, DNA_CONFIG, OPEN_TAG, DnaTokens
from genolewm_assets.encoders.vocabularies import PROBE
from genolewm_assets.errors import ConfigurationError

#: Sequence for code that tags 6-mers: all bases, lower case, ambiguity codes. Other tokenizers treat these otherwise.
_TAGGED_PROBE = "ACGTTGCAAGCTTTTTTTNNNNNNGATTACACGTNRacgtgaCCGGATCTGACT"


def check_model_tokenizer(files: ModelFiles, tokens: DnaTokens) -> None:
    """Raise :class:`ConfigurationError` unless the model's own tokenizer gives the same ids.

    It is asked if its class is part of transformers, or if the model's own code may run; else nothing is compared.
    """
    if not files.code_trusted and not _is_native(files.folder):
        return
    where = f"encoder {files.model_id}"
    probe = _TAGGED_PROBE if tokens.is_tagged and files.code_trusted else PROBE
    text = f"{OPEN_TAG}{probe}{CLOSE_TAG}" if tokens.is_tagged else probe
    try:
        with silent_loading():
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                files.folder, local_files_only=True, trust_remote_code=files.code_trusted
            )
            theirs = list(tokenizer(text, add_special_tokens=not tokens.is_tagged)["input_ids"])
    except Exception as err:
        raise ConfigurationError(
            where,
            f"the model's own tokenizer does not work ({err})",
            remedy="Omit trusted_code" if files.code_trusted else "Copy the tokenizer files again",
        ) from err
    ours = tokens.encode(probe).tolist()
    if theirs != ours:
        raise ConfigurationError(
            where, "token ids differ from those of the model's own tokenizer", expected=f"{theirs}", got=f"{ours}"
        )


def _is_native(folder: Path) -> bool:
    """Tell whether transformers has the class of a model's tokenizer; Carbon's hybrid one is code of the model."""
    path = folder / "tokenizer_config.json"
    if not path.is_file() or (folder / DNA_CONFIG).is_file():
        return False
    config = read_json_object(path)
    name = config.get("tokenizer_class")
    return "auto_map" not in config and isinstance(name, str) and tokenizer_class_from_name(name) is not None
