"""Loss of a Hugging Face causal language model on DNA windows; it imports torch and transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from genolewm_assets.encoders.context import context_tokens
from genolewm_assets.encoders.model_files import locate_model
from genolewm_assets.encoders.model_loading import is_causal, load_model, named_classes, usable_device
from genolewm_assets.encoders.network import exact_products
from genolewm_assets.encoders.vocabularies import read_tokens
from genolewm_assets.errors import ConfigurationError, SequenceError

#: Tokens whose logits over the whole vocabulary are in memory at once: 160 MB for 155,776 tokens.
_TOKENS_AT_ONCE = 256


class CausalLMLoss:
    """The loss of a causal language model: minus the logarithm of the probability that it gives to each next token.

    Parameters
    ----------
    model
        Folder in Hugging Face format; it is read without the network, and its own code never runs.
    device
        As for ``CausalLMStateEncoder``; on the CPU one thread computes.

    Raises
    ------
    ConfigurationError
        If the vocabulary is of no known kind, the model is not a causal language model, or the device cannot be used.
    MissingResourceError, CorruptResourceError
        If the model's files are missing or damaged.
    """

    def __init__(self, model: str | Path, *, device: str = "cpu") -> None:
        files = locate_model(model)
        self._where = f"encoder {files.model_id}"
        self._device = usable_device(device, self._where)
        self._tokens, self._context = read_tokens(files.folder), context_tokens(files)
        if not is_causal(files):
            raise ConfigurationError(
                f"{self._where} (config.json)",
                "not a causal language model, so it has no loss of the next token",
                expected="architectures with a class such as LlamaForCausalLM",
                got=", ".join(named_classes(files)) or "none",
                remedy="Leave the loss out; states can be computed with masked models too",
            )
        self._model = load_model(files, transformers.AutoModelForCausalLM).to(self._device)
        self._head = self._model.get_output_embeddings()
        if self._tokens.largest_id >= int(self._head.weight.shape[0]):
            raise ConfigurationError(self._where, "the vocabulary file does not match the weights")

    def nats_per_base(self, sequences: Sequence[str]) -> NDArray[np.float64]:
        """Compute the mean loss of each window, given its bases as IUPAC symbols in either case.

        Returns
        -------
        ndarray
            float64, shape (n_windows,): loss of the tokens of known bases in nats, divided by their bases. Uniform
            guessing among 4,096 6-mers, or 4 bases, gives ln 4 = 1.386. NaN for a window without such a token. A model
            without a special token in front does not predict the first token, which is left out.

        Raises
        ------
        SequenceError
            If a window has fewer than 6 bases or a symbol outside the IUPAC alphabet, or exceeds the model's context.
        """
        return np.array([self._loss(sequence) for sequence in sequences], dtype=np.float64)

    def _loss(self, sequence: str) -> float:
        each = self.nats_per_token(sequence)
        each = each[~np.isnan(each)]
        return float(each.mean()) / self._tokens.bp_per_token if each.size else float("nan")

    def nats_per_token(self, sequence: str, *, first: int = 0) -> NDArray[np.float64]:
        """Compute the loss of each token of bases of a window from token ``first`` on, in nats; NaN if not known.

        Errors, and what becomes of a first token, are those of :meth:`nats_per_base`; float64, (n_tokens - first,).
        """
        context, tokens = self._context, self._tokens
        ids = tokens.encode(sequence)
        if context is not None and len(ids) > context:
            expected = f"at most {context:,} tokens, {tokens.n_special} of them special"
            raise SequenceError("window", f"longer than the context of {self._where}", expected=expected)
        # What follows the bases is not predicted; a token is predicted from those before it, and the first from none.
        ids = ids[: len(ids) - len(tokens.trailing)]
        begin = len(tokens.leading) + first
        skipped = max(1, begin)
        given = torch.from_numpy(ids).to(self._device)
        losses = [torch.full((skipped - begin,), torch.nan)]
        with exact_products(self._device.type, 1):
            states = self._model.base_model(input_ids=given[None], use_cache=False).last_hidden_state[0]
            for at in range(skipped, len(given), _TOKENS_AT_ONCE):
                wanted = given[at : at + _TOKENS_AT_ONCE]
                logits = self._head(states[at - 1 : at - 1 + len(wanted)])
                losses.append(torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="none").cpu())
        each: NDArray[np.float64] = torch.cat(losses).numpy().astype(np.float64)
        each[ids[begin:] == tokens.oov_id] = np.nan
        return each
