"""Loading of a Hugging Face model without the network: layers, device and tokenizer; imports torch, transformers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

from genolewm_assets.encoders.model_files import ModelFiles, read_json_object
from genolewm_assets.encoders.tokens import CLOSE_TAG, DNA_CONFIG, OPEN_TAG, DnaTokens
from genolewm_assets.encoders.vocabularies import PROBE
from genolewm_assets.errors import ConfigurationError, CorruptResourceError

#: Parts of a network that no hidden state depends on. Checkpoints of masked models often lack them.
_NOT_USED = ("pooler.", "contact_head.")
#: Tokens of the forward pass that compares the cut model with the whole one.
_PROBE_TOKENS = 24


def load_model(files: ModelFiles, kind: Any = transformers.AutoModel) -> Any:
    """Load the weights of a class of transformers as float32, without the network and output on the terminal."""
    try:
        with silent_loading():
            model, report = kind.from_pretrained(
                files.folder,
                dtype=torch.float32,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=files.code_trusted,
                output_loading_info=True,
            )
    except (ImportError, KeyError, ValueError) as err:
        raise ConfigurationError(
            f"encoder {files.model_id}",
            f"the model cannot be built ({err})",
            remedy="Use an architecture that transformers supports; a model's own code runs only with trusted_code",
        ) from err
    except Exception as err:
        raise CorruptResourceError(
            f"encoder {files.model_id}",
            f"the model cannot be loaded ({err})",
            remedy="Copy or download the whole model again",
        ) from err
    # transformers initialises missing tensors with random numbers and raises no error.
    missing = sorted(name for name in report["missing_keys"] if not name.startswith(_NOT_USED))
    if missing:
        raise CorruptResourceError(
            f"encoder {files.model_id}",
            "the weight files lack tensors of the model",
            got=", ".join(missing[:3]),
            expected="every tensor",
            remedy="Copy or download the whole model again",
        )
    return model.eval().requires_grad_(requires_grad=False)


def named_classes(files: ModelFiles) -> list[str]:
    """Return the classes of transformers that ``config.json`` names for a model; empty if it names none."""
    named = files.config.get("architectures")
    return [str(name) for name in named] if isinstance(named, list) else []


def is_causal(files: ModelFiles) -> bool:
    """Tell whether ``config.json`` names a class that predicts the next token from those before it."""
    return bool(set(named_classes(files)) & set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()))


def find_layers(model: Any, n_layers: int) -> tuple[nn.Module, str, nn.ModuleList] | None:
    """Return the owner and name of the first ``ModuleList`` with ``n_layers`` members, and the list, if any."""
    for owner in model.modules():
        for name, child in owner.named_children():
            if isinstance(child, nn.ModuleList) and len(child) == n_layers:
                return owner, name, child
    return None


def cut_layers(model: Any, layer: int) -> bool:
    """Remove everything after a hidden state of a float32 model on the CPU; False, unchanged, if a bit differs."""
    if layer == model.config.num_hidden_layers:
        return True
    found = find_layers(model, model.config.num_hidden_layers)
    if found is None:
        return False
    owner, name, layers = found
    former = dict(owner.named_children())
    after = list(former)[list(former).index(name) + 1 :]
    ids = torch.arange(_PROBE_TOKENS)[None] % int(model.get_input_embeddings().weight.shape[0])
    with torch.inference_mode():
        wanted = model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states[layer]
        setattr(owner, name, layers[:layer])
        for norm in after:
            if "norm" in type(former[norm]).__name__.lower():
                setattr(owner, norm, nn.Identity())
        try:
            same = torch.equal(model(input_ids=ids, use_cache=False).last_hidden_state, wanted)
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
            same = False
    if not same:
        for child, module in former.items():
            setattr(owner, child, module)
    return same


def usable_device(device: str, where: str) -> torch.device:
    """Return the torch device of a name; raise ConfigurationError if it cannot be used."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as err:
        raise ConfigurationError(
            f"{where}: device", f"cannot be used ({err})", got=repr(device), expected="a torch device of this machine"
        ) from err
    return chosen


@contextmanager
def silent_loading() -> Iterator[None]:
    """Suppress progress bars, warnings and reports of transformers; :func:`load_model` raises the errors in them."""
    log: Any = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.set_verbosity_error()
        log.disable_progress_bar()
        try:
            yield
        finally:
            log.set_verbosity(level)
            if bars:
                log.enable_progress_bar()


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


def mask_token(files: ModelFiles) -> int | None:
    """Return the id of the token that stands for a hidden one; None if the model's tokenizer is not asked or has none.

    It is asked under the conditions of :func:`check_model_tokenizer`.
    """
    if not files.code_trusted and not _is_native(files.folder):
        return None
    with silent_loading():
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            files.folder, local_files_only=True, trust_remote_code=files.code_trusted
        )
    found = tokenizer.mask_token_id
    return found if isinstance(found, int) else None


def _is_native(folder: Path) -> bool:
    """Tell whether transformers has the class of a model's tokenizer; Carbon's hybrid one is code of the model."""
    path = folder / "tokenizer_config.json"
    if not path.is_file() or (folder / DNA_CONFIG).is_file():
        return False
    config = read_json_object(path)
    name = config.get("tokenizer_class")
    return "auto_map" not in config and isinstance(name, str) and tokenizer_class_from_name(name) is not None
