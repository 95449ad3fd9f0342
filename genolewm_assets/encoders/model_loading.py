"""Loading of a Hugging Face model without the network, and the device that runs it; imports torch and transformers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from genolewm_assets.encoders.model_files import ModelFiles
from genolewm_assets.errors import ConfigurationError, CorruptResourceError

#: Parts of a network that no hidden state depends on. Checkpoints of masked models often lack them.
_NOT_USED = ("pooler.", "contact_head.")


def load_model(files: ModelFiles, kind: Any = transformers.AutoModel) -> Any:
    """Load the weights as float32, without the network and without output on the terminal.

    ``kind`` is a class of transformers: a model that gives states, or one with a head that predicts tokens.
    """
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
