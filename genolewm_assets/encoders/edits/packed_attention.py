"""Attention of packed rows, put into a model of transformers in place of its own; imports torch and transformers.

A token attends to the tokens of the reference before its segment, and to its segment up to itself. On the CPU a row
goes through the model in pieces that fit the caches, with one buffer of keys and values per layer; on CUDA at once,
with one kernel for sequences of all lengths, which gives a token the bits that it has in a whole window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from genolewm_assets.encoders.edits.packed_rows import PackedRow, Segment
from genolewm_assets.errors import ConfigurationError

#: Name under which transformers finds the attention of this module.
_NAME = "genolewm_packed"
#: Tokens of a piece on the CPU. With 2,048 and more a pass costs 5 to 20 % more per token: its results leave the cache.
_PIECE_TOKENS = 1_024
#: Tokens that attend at once there: with more, more keys are multiplied that the mask then hides.
_PART_TOKENS = 320
#: Name of the mask of the kernel for float32 in which the last query attends to all keys.
_CAUSAL_FROM_THE_END = 2
#: Keywords that attention may get without a change of its result.
_HARMLESS = {"position_ids", "use_cache", "output_attentions", "output_hidden_states", "return_dict", "is_causal"}


class _Part(NamedTuple):
    """Tokens that attend at once: a segment, or a part of one."""

    #: ``start``, ``stop``: places in the packed row.
    start: int
    stop: int
    #: First slot of the window in the buffers of keys and values.
    slots: int
    #: Place in the window of the first token; it attends to all before it.
    first: int


#: Keys and values of a layer, shape (1, heads, n_slots, head size).
_KeysAndValues: TypeAlias = tuple[torch.Tensor, torch.Tensor]

_Attend: TypeAlias = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor, float | None], torch.Tensor]
_ATTEND: ContextVar[_Attend | None] = ContextVar("attend", default=None)


def packed_states(
    model: Any, forward: Callable[..., torch.Tensor], row: PackedRow, device: torch.device, *, fused: bool | None = None
) -> torch.Tensor:
    """Return the states of all tokens of a packed row: shape (n_tokens, hidden), on the device.

    The attention of ``model`` is exchanged during the call; ``forward`` returns states, shape (1, n_tokens, hidden),
    for ``input_ids`` and ``position_ids`` of that shape. ``fused``: one kernel computes the attention of the row; by
    default on a CUDA device. Raises :class:`ConfigurationError` if the model's attention has a part that is not
    computed here: a sliding window, sinks, a bias, dropout.
    """
    if fused is None:
        fused = device.type == "cuda"
    ids, positions = (torch.from_numpy(values).to(device)[None] for values in (row.ids, row.positions))
    with _exchanged_attention(model):
        if fused:
            with _attending(_AtOnce(row, device)):
                return forward(ids, positions)[0]
        pieces, n_slots = _cut(row.segments)
        buffers = dict[int, _KeysAndValues]()
        states = []
        for piece in pieces:
            here = slice(piece[0].start, piece[-1].stop)
            with _attending(_ByPart(piece, n_slots, buffers)):
                states.append(forward(ids[:, here], positions[:, here])[0])
        return torch.cat(states) if len(states) > 1 else states[0]


def _cut(segments: Sequence[Segment]) -> tuple[list[list[_Part]], int]:
    """Cut a row into parts, join them to the pieces that go through the model at once, and count the buffers' slots."""
    parts, n_slots = list[_Part](), 0
    slots = dict[int, int]()
    for reference, size in _sizes(segments).items():
        slots[reference], n_slots = n_slots, n_slots + size
    for segment in segments:
        size = segment.stop - segment.start
        n_parts = -(-size // _PART_TOKENS)
        bounds = [size * part // n_parts for part in range(n_parts + 1)]
        parts += [
            _Part(segment.start + start, segment.start + stop, slots[segment.reference], segment.first + start)
            for start, stop in pairwise(bounds)
        ]
    pieces = list[list[_Part]]()
    for part in parts:
        if not pieces or part.stop - pieces[-1][0].start > _PIECE_TOKENS:
            pieces.append([])
        pieces[-1].append(part)
    return pieces, n_slots


def _sizes(segments: Sequence[Segment]) -> dict[int, int]:
    """Return the tokens of the longest window that begins with each reference, by the reference's place in the row."""
    sizes = dict[int, int]()
    for one in segments:
        sizes[one.reference] = max(sizes.get(one.reference, 0), one.first + one.stop - one.start)
    return sizes


class _ByPart:
    """Attention of a piece, one call per part; a row on the CPU has few, long parts.

    Keys and values have one slot per place of a window. A tail overwrites those of the reference right of its prefix,
    which no later tail reads, so that each part attends to one stretch of slots without a copy.
    """

    def __init__(self, parts: Sequence[_Part], n_slots: int, buffers: dict[int, _KeysAndValues]) -> None:
        self._parts, self._n_slots, self._buffers = parts, n_slots, buffers
        self._masks = dict[int, torch.Tensor]()

    def __call__(
        self, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """Return the attention of the piece: shape (1, n_tokens, heads, head size)."""
        if id(module) not in self._buffers:
            keys, values = (new.new_empty((*new.shape[:2], self._n_slots, new.shape[3])) for new in (key, value))
            self._buffers[id(module)] = keys, values
        keys, values = self._buffers[id(module)]
        result = value.new_empty((1, query.shape[2], query.shape[1], value.shape[3]))
        for part in self._parts:
            here = slice(part.start - self._parts[0].start, part.stop - self._parts[0].start)
            own = part.slots + part.first
            seen = slice(part.slots, own + part.stop - part.start)
            keys[:, :, own : seen.stop], values[:, :, own : seen.stop] = key[:, :, here], value[:, :, here]
            mask = self._mask(part, query)
            attended = scaled_dot_product_attention(
                query[:, :, here],
                keys[:, :, seen],
                values[:, :, seen],
                attn_mask=mask,
                is_causal=mask is None,
                scale=scale,
                enable_gqa=query.shape[1] != key.shape[1],
            )
            result[:, here] = attended.transpose(1, 2)
        return result

    def _mask(self, part: _Part, query: torch.Tensor) -> torch.Tensor | None:
        """Return 0 where a token attends and -inf elsewhere, the same for all layers; None at the start of a window."""
        if part.first == 0:
            return None
        if part.start not in self._masks:
            n_tokens = part.stop - part.start
            mask = query.new_zeros((n_tokens, part.first + n_tokens))
            mask[:, part.first :].fill_(-torch.inf).triu_(1)
            self._masks[part.start] = mask
        return self._masks[part.start]


class _AtOnce:
    """Attention of a whole row in one call: a segment's tokens attend to the reference before them and their own."""

    def __init__(self, row: PackedRow, device: torch.device) -> None:
        segments = row.segments
        keys = [
            np.concatenate((np.arange(one.reference, one.reference + one.first), np.arange(one.start, one.stop)))
            for one in segments
        ]
        sizes = np.array([[one.stop - one.start for one in segments], [len(each) for each in keys]])
        self._keys = torch.from_numpy(np.concatenate(keys)).to(device)
        ends = torch.from_numpy(np.pad(sizes.cumsum(axis=1), ((0, 0), (1, 0))).astype(np.int32)).to(device)
        self._sequences = Sequences(ends[0], ends[1], *sizes.max(axis=1).tolist())

    def __call__(
        self, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """Return the attention of the row: shape (1, n_tokens, heads, head size)."""
        del module
        keys, values = (each[0].transpose(0, 1).index_select(0, self._keys) for each in (key, value))
        return attend_sequences(query[0].transpose(0, 1).contiguous(), keys, values, self._sequences, scale)[None]


class Sequences(NamedTuple):
    """Where sequences end among all their tokens, and the longest."""

    #: ``query_ends``, ``key_ends``: int32, shape (n_sequences + 1,), on the device: 0, then the number of queries or
    #: keys up to each sequence's end.
    query_ends: torch.Tensor
    key_ends: torch.Tensor
    #: ``longest_query``, ``longest_key``: queries and keys of the longest sequences.
    longest_query: int
    longest_key: int


def attend_sequences(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sequences: Sequences, scale: float | None
) -> torch.Tensor:
    """Return the attention of sequences of all lengths on a CUDA device: shape (n_queries, heads, head size).

    The last query of a sequence attends to all its keys, each one before it to one key less. PyTorch's ``varlen_attn``
    calls the same kernel for bfloat16, but its parameters differ between the releases supported here, and float32 has
    no public function.
    """
    if query.dtype is torch.float32:
        shared = query.shape[1] // key.shape[1]
        keys, values = (each.repeat_interleave(shared, dim=1) if shared > 1 else each for each in (key, value))
        attended: torch.Tensor = torch.ops.aten._efficient_attention_forward(
            query[None], keys[None], values[None], None, *sequences, 0.0, _CAUSAL_FROM_THE_END, scale=scale
        )[0][0]
    else:
        attended = torch.ops.aten._flash_attention_forward(
            query, key, value, *sequences, 0.0, is_causal=True, return_debug_mask=False, scale=scale
        )[0]
    return attended


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: object,
) -> tuple[torch.Tensor, None]:
    """Attention in the form that transformers asks for."""
    attend = _ATTEND.get()
    unknown = sorted(name for name, given in others.items() if given is not None and name not in _HARMLESS)
    if attend is None or attention_mask is not None or dropout or unknown:
        raise ConfigurationError(
            "packed attention",
            "the model's attention has a part that is not computed here",
            expected="no mask, no dropout, no sliding window, sinks or bias",
            got=", ".join(unknown) or "a mask or dropout",
        )
    if torch.is_autocast_enabled(query.device.type):
        # Position codes are float32, which makes queries and keys so, but not values.
        low = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(low), key.to(low), value.to(low)
    return attend(module, query, key, value, scaling).contiguous(), None


@contextmanager
def _exchanged_attention(model: Any) -> Iterator[None]:
    """Make every layer of a model use the attention of this module; transformers then makes no mask."""
    AttentionInterface.register(_NAME, _attend)
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}.values()
    former = [config._attn_implementation for config in configs]
    try:
        for config in configs:
            config._attn_implementation = _NAME
        yield
    finally:
        for config, name in zip(configs, former, strict=True):
            config._attn_implementation = name


@contextmanager
def _attending(attend: _Attend) -> Iterator[None]:
    token = _ATTEND.set(attend)
    try:
        yield
    finally:
        _ATTEND.reset(token)
