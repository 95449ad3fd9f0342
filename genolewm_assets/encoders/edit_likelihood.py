"""How much less likely an edit makes a window, by the model's own language-model head; imports torch, transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from genolewm_assets.encoders.causal_lm_loss import CausalLMLoss
from genolewm_assets.encoders.model_files import ModelFiles
from genolewm_assets.encoders.model_loading import is_causal, load_model, mask_token, named_classes
from genolewm_assets.encoders.network import exact_products
from genolewm_assets.encoders.tokens import DnaTokens

#: Bases behind an edit whose probability under a causal model counts: those that states are pooled over.
_BEHIND_BP = 1_536

#: Loss in nats of the tokens of a window, first to last (0-based half-open); NaN of a token that is not known.
TokenLosses: TypeAlias = Callable[[str, int, int], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class EditLikelihood:
    """The zero-shot score of a language model: minus the logarithm of the likelihood ratio of edited to unedited.

    Of a ``causal`` model the bases from the edit to 1,536 behind it count, each predicted from all before it. Of a
    ``masked`` one the tokens that the alleles of an edit cover are masked, all at once, and predicted from the others.
    """

    kind: Literal["causal", "masked"]
    tokens: DnaTokens
    losses: TokenLosses

    def losses_of_edits(
        self, sources: Sequence[str], edited: Sequence[str], source_of: NDArray[np.int64], spans: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Compute by how many nats each edit lowers the log-likelihood of its window.

        Parameters
        ----------
        sources, edited
            Bases of the unedited windows and of the n edited ones.
        source_of
            int64, shape (n,): index in ``sources`` of the window that each was made from.
        spans
            int64, shape (n, 2): bases of the window that the alleles of each edit cover, 0-based half-open.

        Returns
        -------
        ndarray
            float64, shape (n,): above 0 where the edited window is less likely. Tokens of unknown bases are left out.
        """
        last, whole = -1, np.empty(0)
        found = np.empty(len(edited))
        for row, (after, source, (start, end)) in enumerate(
            zip(edited, source_of.tolist(), spans.tolist(), strict=True)
        ):
            before, size = sources[source], self.tokens.bp_per_token
            counted = end if self.kind == "masked" else end + _BEHIND_BP
            first, stop = start // size, min(-(-counted // size), len(after) // size)
            if self.kind == "masked":
                unedited = self.losses(before, first, stop)
            else:
                # All edits of a window share the losses of the unedited one.
                if source != last:
                    last, whole = source, self.losses(before, 0, len(before) // size)
                unedited = whole[first:stop]
            found[row] = np.nansum(self.losses(after, first, stop)) - np.nansum(unedited)
        return found


def open_likelihood(files: ModelFiles, tokens: DnaTokens, device: str) -> EditLikelihood | None:
    """Load a model with its head; None if its files name no head, or no token that masks."""
    if is_causal(files):
        loss = CausalLMLoss(files.folder, device=device)
        size = tokens.bp_per_token
        return EditLikelihood(
            "causal", tokens, lambda window, first, stop: loss.nats_per_token(window[: stop * size], first=first)
        )
    mask = mask_token(files) if set(named_classes(files)) & set(MODEL_FOR_MASKED_LM_MAPPING_NAMES.values()) else None
    if mask is None:
        return None
    model = load_model(files, transformers.AutoModelForMaskedLM).to(device)

    def masked_losses(window: str, first: int, stop: int) -> NDArray[np.float64]:
        ids = torch.from_numpy(tokens.encode(window)).to(device)
        hidden, at = ids.clone(), slice(len(tokens.leading) + first, len(tokens.leading) + stop)
        hidden[at] = mask
        with exact_products(torch.device(device).type, 1):
            logits = model(input_ids=hidden[None]).logits[0, at]
            each = torch.nn.functional.cross_entropy(logits.float(), ids[at], reduction="none").cpu()
        losses: NDArray[np.float64] = each.numpy().astype(np.float64)
        losses[ids[at].cpu().numpy() == tokens.oov_id] = np.nan
        return losses

    return EditLikelihood("masked", tokens, masked_losses)
