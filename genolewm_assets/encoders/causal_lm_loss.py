"""Loss of a Hugging Face causal language model on DNA windows; it imports torch and transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from genolewm_assets.encoders.model_files import locate_model
from genolewm_assets.encoders.model_loading import load_model, usable_device
from genolewm_assets.encoders.network import exact_products
from genolewm_assets.encoders.tokens import DnaTokens
from genolewm_assets.errors import ConfigurationError, SequenceError
from genolewm_assets.genome import TOKEN_BP

#: Tokens whose logits over the whole vocabulary are in memory at once: 160 MB for 155,776 tokens.
_TOKENS_AT_ONCE = 256


class CausalLMLoss:
    """The loss of a causal language model: minus the logarithm of the probability that it gives to each next 6-mer.

    Parameters
    ----------
    model
        Folder in Hugging Face format; it is read without the network, and its own code never runs.
    device, cpu_threads
        As for ``CausalLMStateEncoder``.

    Raises
    ------
    ConfigurationError
        If the model does not read tagged 6-mers, or the device cannot be used.
    MissingResourceError, CorruptResourceError
        If the model's files are missing or damaged, or it has no head that predicts tokens.
    """

    def __init__(self, model: str | Path, *, device: str = "cpu", cpu_threads: int = 1) -> None:
        files = locate_model(model)
        self._where = f"encoder {files.model_id}"
        self._device, self._cpu_threads = usable_device(device, self._where), cpu_threads
        self._tokens = DnaTokens.from_tokenizer_files(files.folder)
        self._model = load_model(files, transformers.AutoModelForCausalLM).to(self._device)
        self._head = self._model.get_output_embeddings()
        if self._tokens.largest_id >= int(self._head.weight.shape[0]):
            raise ConfigurationError(self._where, "the vocabulary file does not match the weights")

    def nats_per_base(self, sequences: Sequence[str]) -> NDArray[np.float64]:
        """Compute the mean loss of each window.

        Parameters
        ----------
        sequences
            Bases of each window, IUPAC symbols in either case.

        Returns
        -------
        ndarray
            float64, shape (n_windows,): loss of the 6-mers of known bases in nats, divided by their bases. Uniform
            guessing among 4,096 6-mers gives ln 4 = 1.386. NaN for a window without a 6-mer of known bases.

        Raises
        ------
        SequenceError
            If a window has fewer than 6 bases or a symbol outside the IUPAC alphabet, or exceeds the model's context.
        """
        return np.array([self._loss(self._tokens.encode(sequence)) for sequence in sequences], dtype=np.float64)

    def _loss(self, ids: NDArray[np.int64]) -> float:
        context = getattr(self._model.config, "max_position_embeddings", None)
        if context is not None and len(ids) > context:
            expected = f"at most {context:,} tokens, tags included"
            raise SequenceError("window", f"longer than the context of {self._where}", expected=expected)
        # The closing tag is no base; tokens are predicted from those before them, the first from the opening tag.
        given = torch.from_numpy(ids[:-1]).to(self._device)
        losses = list[torch.Tensor]()
        with exact_products(self._device.type, self._cpu_threads):
            states = self._model.base_model(input_ids=given[None], use_cache=False).last_hidden_state[0]
            for first in range(0, len(given) - 1, _TOKENS_AT_ONCE):
                logits = self._head(states[first : min(first + _TOKENS_AT_ONCE, len(given) - 1)])
                wanted = given[first + 1 : first + 1 + len(logits)]
                losses.append(torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="none").cpu())
        known = ids[1:-1] != self._tokens.oov_id
        each: NDArray[np.float64] = torch.cat(losses).numpy().astype(np.float64)[known]
        return float(each.mean()) / TOKEN_BP if each.size else float("nan")
