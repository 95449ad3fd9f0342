"""Block states of edited windows from the tokens that an edit changes; imports torch.

Not here: which tokens make up a row (:mod:`.packed_rows`), attention (:mod:`.packed_attention`), rounding to the stored
dtype (``causal_lm``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from genolewm_assets.encoders.edits.packed_rows import Ids, PackedRow, find_tails, pack_row, plan_rows
from genolewm_assets.errors import ConfigurationError

#: Tokens of the windows that show whether a model can be computed from a prefix.
_PROBE_TOKENS = 96
#: Largest difference of a state before a change, as a share: what differs more depends on later tokens.
_CAUSAL_TOLERANCE = 1e-4
#: Rotary position codes that change with the length of the input, so that no prefix can be shared.
_LENGTH_DEPENDENT_ROPE = {"dynamic", "longrope"}


class PackedNetwork(Protocol):
    """Interface of a model that computes token states, such as ``encoders.network.StateNetwork``."""

    @property
    def rope_types(self) -> set[str]:
        """Kinds of rotary position codes of the model's layers; empty if it has none."""

    def token_states(self, ids: Ids) -> torch.Tensor:
        """Return the states of windows of equal length: float32, shape (n_windows, n_tokens, hidden), on a device."""

    def packed_states(self, row: PackedRow) -> torch.Tensor:
        """Return the states of a packed row: float32, shape (n_tokens, hidden), on a device."""


class PrefixEncoder:
    """Computes block states of edited windows from those tokens of their reference windows that an edit leaves alone.

    ``kmer_ids``, ``leading``, ``trailing``: ids of DNA tokens, at least two, and of the special tokens before and after
    those of a window. ``context``: most tokens of a window, None if the model states none. ``compute``: dtype of matrix
    products, ``float32`` or ``bfloat16``. ``max_tokens`` go through the model at once; lowered if the device's memory
    does not hold them. ``one_source``: edits of several windows are computed apart, so that no bit of a state depends
    on other windows.
    """

    def __init__(
        self,
        network: PackedNetwork,
        kmer_ids: Ids,
        *,
        leading: Sequence[int],
        trailing: Sequence[int],
        tokens_per_block: int,
        context: int | None,
        compute: str,
        max_tokens: int,
        one_source: bool,
    ) -> None:
        self._network, self._kmer_ids = network, kmer_ids
        self._leading, self._trailing = tuple(leading), tuple(trailing)
        self._tokens_per_block, self._context, self._compute = tokens_per_block, context, compute
        self._max_tokens, self._one_source = max_tokens, one_source

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
        """Compute block states of edited windows, those of one behind those of another: float32, (n_blocks, hidden).

        ``sources``, ``edited``: token ids of the unedited and edited windows, tags included. ``source_of``, ``spans``:
        shapes (n_edits,) and (n_edits, 2): the source of every edited window, and its blocks, 0-based half-open.
        Raises OutOfMemoryError if the device cannot hold the tokens of one edit.
        """
        sizes = np.array([len(ids) - len(self._trailing) for ids in edited], dtype=np.int64)
        # Places of tokens count the special ones before them. Nothing after the last pooled token is needed.
        stops = np.minimum(len(self._leading) + spans[:, 1] * self._tokens_per_block, sizes)
        tails = find_tails(sources, edited, source_of, stops)
        counts = spans[:, 1] - spans[:, 0]
        first_row = np.cumsum(counts) - counts
        parts = list[tuple[NDArray[np.int64], NDArray[np.float32]]]()
        waiting = plan_rows(tails, max_tokens=self._max_tokens, one_source=self._one_source)
        while waiting:
            edits = waiting.pop()
            row = pack_row(tails, edits)
            try:
                means = self._block_means(row, spans[edits], stops[edits])
            except torch.OutOfMemoryError:
                if len(edits) == 1:
                    raise
                self._max_tokens = min(self._max_tokens, len(row.ids)) // 2
                waiting += np.array_split(edits, 2)
                continue
            places = [np.arange(first_row[edit], first_row[edit] + counts[edit]) for edit in edits]
            parts.append((np.concatenate(places), means))
        order = np.concatenate([places for places, _ in parts]).argsort()
        blocks: NDArray[np.float32] = np.concatenate([means for _, means in parts])[order]
        return blocks

    def _block_means(self, row: PackedRow, spans: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the means of the blocks of every edit of a row, one edit after the other."""
        counts = spans[:, 1] - spans[:, 0]
        of_edit = np.repeat(np.arange(len(counts)), counts)
        block = np.arange(len(of_edit)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(spans[:, 0], counts)
        first = len(self._leading) + block * self._tokens_per_block
        last = np.minimum(first + self._tokens_per_block, stops[of_edit])
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
        source, last, *changed = self._probe_windows()
        whole, moved, *wanted = (network.token_states(ids[None])[0].double() for ids in (source, last, *changed))
        before = len(source) - len(self._trailing) - 1
        if _largest_difference(whole[:before], moved[:before]) > _CAUSAL_TOLERANCE:
            return "its states depend on later tokens: it is not causal"
        n_edits = len(changed) + 1
        stops = np.full(n_edits, len(source) - len(self._trailing))
        tails = find_tails([source], [*changed, source], np.zeros(n_edits, dtype=np.int64), stops)
        row = pack_row(tails, np.arange(n_edits))
        states = network.packed_states(row).double()
        differences = [_largest_difference(states[: stops[0]], whole[: stops[0]])]
        for expected, at, prefix in zip(wanted, row.tail_at, row.prefixes, strict=False):
            tail = states[at : at + stops[0] - prefix]
            differences.append(_largest_difference(tail, expected[prefix : stops[0]]))
        dtype = torch.bfloat16 if self._compute == "bfloat16" else torch.float32
        if max(differences) > 2 * torch.finfo(dtype).eps ** 0.5:
            return "its states computed from a prefix are not those of the whole window"
        return None

    def _probe_windows(self) -> list[Ids]:
        """Return a window, the same with another last token, with one in the middle, and all new from a third on."""
        special = len(self._leading) + len(self._trailing)
        n_dna = min(_PROBE_TOKENS, self._context or _PROBE_TOKENS) - special
        picks = np.random.default_rng(0).integers(0, len(self._kmer_ids), (2, n_dna))
        picks[1] += picks[1] == picks[0]
        here, other = self._kmer_ids[picks % len(self._kmer_ids)]
        windows = [here.copy() for _ in range(4)]
        for window, change in zip(windows[1:], (slice(-1, None), [n_dna // 2], slice(n_dna // 3, None)), strict=True):
            window[change] = other[change]
        return [np.concatenate((self._leading, window, self._trailing)).astype(np.int64) for window in windows]


def _interval_sums(states: torch.Tensor, bounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return sums of states over pairs of intervals, the rows of ``bounds``: float64, shape (n, hidden)."""
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
