"""Loading of a Hugging Face model without the network, its layers, and its device; imports torch and transformers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from genolewm_assets.encoders.model_files import ModelFiles
from genolewm_assets.errors import ConfigurationError, CorruptResourceError

#: Parts of a network that no hidden state depends on. Checkpoints of masked models often lack them.
_NOT_USED = ("pooler.", "contact_head.")
#: Tokens of the forward pass that compares the cut model with the whole one.
_PROBE_TOKENS = 24


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


def find_layers(model: Any, n_layers: int) -> tuple[nn.Module, str, nn.ModuleList] | None:
    """Return the module that holds the layers of a model, the name of their list, and the list; None if there is none.

    The list is the first ``ModuleList`` with ``n_layers`` members.
    """
    for owner in model.modules():
        for name, child in owner.named_children():
            if isinstance(child, nn.ModuleList) and len(child) == n_layers:
                return owner, name, child
    return None


def cut_layers(model: Any, layer: int) -> bool:
    """Remove everything after a hidden state, which is then the model's ``last_hidden_state``, and return True.

    ``model``: model in float32 on the CPU. False: it is as it was, because the state would differ in a bit.
    """
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
