"""The layers of a model that a hidden state needs; imports torch.

Not here: loading (``model_loading``), the forward pass (``network``).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

#: Tokens of the forward pass that compares the cut model with the whole one.
_PROBE_TOKENS = 24


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
    """Remove everything after a hidden state, which is then the model's ``last_hidden_state``.

    Parameters
    ----------
    model
        Model in float32 on the CPU.
    layer
        Index of the hidden state: 0 the embeddings, ``num_hidden_layers`` the last, after the final norm.

    Returns
    -------
    bool
        Whether ``last_hidden_state`` is now the hidden state. False: the model is as it was, because the state after
        cutting differs in a bit from the one before, or the model does not run without the layers.
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
