"""Block states of edited windows from the tokens that an edit changes; imports torch.

Only the tokens from the first that differs to the end of the pooled blocks go through the model, after those of the
reference window, which all its edits share. Not here: which tokens make up a row (``packed_rows``), attention
(``packed_attention``), rounding to the stored dtype (``causal_lm``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from genolewm_assets.encoders.network import StateNetwork
from genolewm_assets.encoders.packed_rows import Ids, PackedRow, find_tails, pack_row, plan_rows
from genolewm_assets.encoders.tokens import DnaTokens
from genolewm_assets.errors import ConfigurationError

#: Tokens of the windows that show whether a model can be computed from a prefix.
_PROBE_TOKENS = 96
#: Rotary position codes that change with the length of the input, so that no prefix can be shared.
_LENGTH_DEPENDENT_ROPE = {"dynamic", "longrope"}


class PrefixEncoder:
    """Computes block states of edited windows from those tokens of their reference windows that an edit leaves alone.

    Parameters
    ----------
    network
        The model.
    tokens
        Its DNA tokens.
    block_tokens
        DNA tokens per block.
    max_tokens
        Tokens that go through the model at once; what the device's memory cannot hold is divided further.
    one_source
        Whether edits of several windows are computed apart, so that no bit of a state depends on other windows.
    """

    def __init__(
        self, network: StateNetwork, tokens: DnaTokens, *, block_tokens: int, max_tokens: int, one_source: bool
    ) -> None:
        self._network, self._tokens = network, tokens
        self._block_tokens, self._max_tokens, self._one_source = block_tokens, max_tokens, one_source

    @cached_property
    def obstacle(self) -> str | None:
        """Why the model cannot be computed from a prefix; None if it can. The first access runs the model.

        The last token of a window is changed, which must leave every earlier state as it is, and the states that the
        packed row gives are compared with those of whole windows.
        """
        try:
            return self._probe()
        except (ConfigurationError, RuntimeError, TypeError, ValueError, AttributeError) as err:
            # A model of another build fails in its own way; whole windows can still be encoded.
            return f"{type(err).__name__}: {err}"

    def block_states(
        self, sources: Sequence[Ids], edited: Sequence[Ids], source_of: NDArray[np.int64], spans: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Compute block states of edited windows.

        Parameters
        ----------
        sources, edited
            Token ids of the unedited and edited windows, int64, shape (n_tokens,), tags included.
        source_of
            int64, shape (n_edits,): the source of every edited window.
        spans
            int64, shape (n_edits, 2): first block and block after the last one, 0-based half-open.

        Returns
        -------
        ndarray
            float32, shape (n_blocks, hidden): the blocks of the first edited window, then those of the second, and so
            on.

        Raises
        ------
        OutOfMemoryError
            If the device cannot hold the tokens of one edit.
        """
        n_dna = np.array([len(ids) - 2 for ids in edited], dtype=np.int64)
        # Places of tokens count the opening tag. Nothing after the last pooled token is needed.
        stops = 1 + np.minimum(spans[:, 1] * self._block_tokens, n_dna)
        tails = find_tails(sources, edited, source_of, stops)
        counts = spans[:, 1] - spans[:, 0]
        first_row = np.cumsum(counts) - counts
        blocks = np.empty((int(counts.sum()), self._network.hidden_size), dtype=np.float32)
        waiting = plan_rows(tails, max_tokens=self._max_tokens, one_source=self._one_source)
        while waiting:
            edits = waiting.pop()
            try:
                means = self._block_means(pack_row(tails, edits), spans[edits], stops[edits])
            except torch.OutOfMemoryError:
                if len(edits) == 1:
                    raise
                waiting += np.array_split(edits, 2)
                continue
            places = [np.arange(first_row[edit], first_row[edit] + counts[edit]) for edit in edits]
            blocks[np.concatenate(places)] = means
        return blocks

    def _block_means(self, row: PackedRow, spans: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the means of the blocks of every edit of a row, one edit after the other."""
        counts = spans[:, 1] - spans[:, 0]
        of_edit = np.repeat(np.arange(len(counts)), counts)
        block = np.arange(len(of_edit)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(spans[:, 0], counts)
        first = 1 + block * self._block_tokens
        last = np.minimum(first + self._block_tokens, stops[of_edit])
        states = self._network.packed_states(row)
        prefix = row.prefixes[of_edit]
        reference, tail = row.reference_at[of_edit], row.tail_at[of_edit] - prefix
        # A block's tokens are one interval of the reference and one of the tail, either of which may be empty.
        bounds = np.stack(
            (
                reference + np.minimum(first, prefix),
                reference + np.minimum(last, prefix),
                tail + np.maximum(first, prefix),
                tail + np.maximum(last, prefix),
            )
        )
        means: NDArray[np.float32] = (_interval_sums(states, bounds) / (last - first)[:, None]).astype(np.float32)
        return means

    def _probe(self) -> str | None:
        network = self._network
        if not _LENGTH_DEPENDENT_ROPE.isdisjoint(network.rope_types):
            return "its position codes depend on the length of the window"
        n_tokens = min(_PROBE_TOKENS, network.context or _PROBE_TOKENS)
        rng = np.random.default_rng(0)
        body = self._tokens.kmer_ids[rng.integers(0, len(self._tokens.kmer_ids), (4, n_tokens))]
        body[:, 0], body[:, -1] = self._tokens.open_id, self._tokens.close_id
        source, other = body[0], body[1]
        last = source.copy()
        last[-2] = other[-2] if other[-2] != source[-2] else body[2, -2]
        snv, shifted = source.copy(), np.concatenate((source[: n_tokens // 3], body[3, n_tokens // 3 :]))
        snv[n_tokens // 2] = other[n_tokens // 2]
        edited = [snv, shifted, source]
        whole = [network.token_states(ids[None])[0].double() for ids in (source, last, snv, shifted)]
        tolerance = 2 * torch.finfo(network.compute_dtype).eps ** 0.5
        if _largest_difference(whole[0][:-2], whole[1][:-2]) > 1e-4:
            return "its states depend on later tokens: it is not causal"
        origin, stops = np.zeros(3, dtype=np.int64), np.full(3, n_tokens - 1)
        tails = find_tails([source], edited, origin, stops)
        row = pack_row(tails, np.arange(3))
        states = network.packed_states(row).double()
        found = [(states[: row.segments[0].stop], whole[0][: row.segments[0].stop])]
        for expected, at, prefix in zip(whole[2:], row.tail_at[:2], row.prefixes[:2], strict=True):
            size = int(n_tokens - 1 - prefix)
            found.append((states[at : at + size], expected[prefix : prefix + size]))
        if max(_largest_difference(here, expected) for here, expected in found) > tolerance:
            return "its states computed from a prefix are not those of the whole window"
        return None


def _interval_sums(states: torch.Tensor, bounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return sums of states over pairs of intervals: float64, shape (n, hidden).

    ``bounds``, shape (4, n), has start and stop of the first interval, then of the second.
    """
    edges, at = np.unique(np.concatenate(([0, len(states)], bounds.ravel())), return_inverse=True)
    lengths = torch.from_numpy(np.diff(edges)).to(states.device)
    between = torch.segment_reduce(states.to(torch.float64), "sum", lengths=lengths, axis=0)
    before = torch.cat((between.new_zeros((1, between.shape[1])), between.cumsum(dim=0)))
    start, stop, other_start, other_stop = before[torch.from_numpy(at[2:].reshape(bounds.shape)).to(before.device)]
    sums: NDArray[np.float64] = (stop - start + other_stop - other_start).cpu().numpy()
    return sums


def _largest_difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference of a token's states as a share of their length; NaN counts as infinite."""
    share = (found - expected).norm(dim=1) / expected.norm(dim=1).clamp_min(torch.finfo(torch.float32).tiny)
    return float(share.nan_to_num(nan=torch.inf).max())
