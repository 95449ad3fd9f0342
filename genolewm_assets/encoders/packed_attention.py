"""Attention of packed rows, put into a model of transformers in place of its own; imports torch and transformers.

A token attends to two intervals of its row: the shared tokens of the reference, and its own segment up to itself. On
the CPU the row goes through the model in pieces whose intermediate results stay in the processor's caches, and keys and
values that later pieces read are kept; on an accelerator the row goes through at once, and one FlexAttention kernel
skips every block of the two intervals' complement. Nothing is padded, and no key is copied for an edit on the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from genolewm_assets.encoders.packed_rows import PackedRow, Segment
from genolewm_assets.errors import ConfigurationError

#: Name under which transformers finds the attention of this module.
_NAME = "genolewm_packed"
#: Tokens of a piece on the CPU. With 2,048 and more a pass costs 5 to 20 % more per token: its results leave the cache.
_PIECE_TOKENS = 1_024
#: Tokens of a block of FlexAttention, and the sizes to which rows are rounded up there, so that few kernels are built.
_FLEX_BLOCK, _FLEX_ROW = 128, 1_024
#: Keywords that attention may get without a change of its result.
_HARMLESS = {"position_ids", "use_cache", "output_attentions", "output_hidden_states", "return_dict", "is_causal"}


class _Part(NamedTuple):
    """A segment, or a part of one that is too long for a piece; numbers are places of the packed row.

    Attributes
    ----------
    start, stop
        Tokens of the part.
    shared_start, shared_stop
        Tokens of the reference that they attend to.
    own_start
        First token of the segment; the part attends to the segment from there on, causally.
    """

    start: int
    stop: int
    shared_start: int
    shared_stop: int
    own_start: int


class _Pieces(NamedTuple):
    """The pieces of a row, and the keys and values that later pieces read.

    Attributes
    ----------
    pieces
        Consecutive parts that go through the model at once.
    keep
        Number of tokens of the row, from its start, whose keys and values a later piece reads.
    kept
        Keys and values of these tokens by layer, shape (1, heads, keep, head size).
    """

    pieces: list[list[_Part]]
    keep: int
    kept: dict[int, tuple[torch.Tensor, torch.Tensor]]


_Attend = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor, float | None], torch.Tensor]
_ATTEND: ContextVar[_Attend | None] = ContextVar("attend", default=None)


def packed_states(
    model: Any, forward: Callable[..., torch.Tensor], row: PackedRow, device: torch.device, *, fused: bool | None = None
) -> torch.Tensor:
    """Return the states of all tokens of a packed row.

    Parameters
    ----------
    model
        The model, whose attention is exchanged during the call.
    forward
        Returns the states, shape (1, n_tokens, hidden), for ``input_ids`` and ``position_ids`` of that shape.
    row
        The packed row.
    device
        Device of the model.
    fused
        Whether one FlexAttention kernel computes the attention of the row; by default on every device but the CPU.

    Returns
    -------
    Tensor
        Floating, shape (n_tokens, hidden), on the device.

    Raises
    ------
    ConfigurationError
        If the model's attention has a part that is not computed here: a sliding window, sinks, a bias, dropout.
    """
    if fused is None:
        fused = device.type != "cpu"
    ids, positions = (torch.from_numpy(values).to(device)[None] for values in (row.ids, row.positions))
    with _exchanged_attention(model):
        if fused:
            size = -(-len(row.ids) // _FLEX_ROW) * _FLEX_ROW
            padding = (0, size - len(row.ids))
            ids, positions = (torch.nn.functional.pad(values, padding) for values in (ids, positions))
            with _attending(_Fused(row, size, device)):
                return forward(ids, positions)[0, : len(row.ids)]
        cut = _cut(row.segments)
        states = []
        for piece in cut.pieces:
            here = slice(piece[0].start, piece[-1].stop)
            with _attending(_ByPart(piece, cut.keep, cut.kept)):
                states.append(forward(ids[:, here], positions[:, here])[0])
        return torch.cat(states) if len(states) > 1 else states[0]


def _cut(segments: Sequence[Segment]) -> _Pieces:
    """Cut a row into pieces: long segments into equal parts, short ones joined while they fit."""
    parts = list[_Part]()
    keep = 0
    for segment in segments:
        size = segment.stop - segment.start
        n_parts = -(-size // _PIECE_TOKENS)
        keep = max(keep, segment.shared_stop, segment.stop if n_parts > 1 else 0)
        bounds = [segment.start + size * part // n_parts for part in range(n_parts + 1)]
        parts += [
            _Part(start, stop, segment.shared_start, segment.shared_stop, segment.start)
            for start, stop in pairwise(bounds)
        ]
    pieces = list[list[_Part]]()
    for part in parts:
        if not pieces or part.stop - pieces[-1][0].start > _PIECE_TOKENS:
            pieces.append([])
        pieces[-1].append(part)
    return _Pieces(pieces, keep if len(pieces) > 1 else 0, {})


class _ByPart:
    """Attention of a piece, one call per part; a row on the CPU has few, long parts."""

    def __init__(self, parts: Sequence[_Part], keep: int, kept: dict[int, tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._parts, self._keep, self._kept = parts, keep, kept
        self._start, self._stop = parts[0].start, parts[-1].stop
        self._masks = dict[int, torch.Tensor]()

    def __call__(
        self, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """Return the attention of the piece: shape (1, n_tokens, heads, head size)."""
        key_kept, value_kept = self._keep_later(module, key, value)
        results = []
        for part in self._parts:
            reads = ((part.shared_start, part.shared_stop), (part.own_start, part.stop))
            keys, values = (self._read(reads, kept, new) for kept, new in ((key_kept, key), (value_kept, value)))
            own = query[:, :, part.start - self._start : part.stop - self._start]
            mask = self._mask(part, keys.shape[2], query)
            result = scaled_dot_product_attention(
                own,
                keys,
                values,
                attn_mask=mask,
                is_causal=mask is None,
                scale=scale,
                enable_gqa=query.shape[1] != key.shape[1],
            )
            results.append(result.transpose(1, 2))
        return torch.cat(results, dim=1) if len(results) > 1 else results[0]

    def _keep_later(self, module: Any, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy what later pieces read, and return all that was kept of a layer."""
        stop = min(self._stop, self._keep)
        if not self._keep:
            return key, value
        if id(module) not in self._kept:
            keys, values = (new.new_empty((*new.shape[:2], self._keep, new.shape[3])) for new in (key, value))
            self._kept[id(module)] = keys, values
        kept = self._kept[id(module)]
        if self._start < stop:
            for old, new in zip(kept, (key, value), strict=True):
                old[:, :, self._start : stop] = new[:, :, : stop - self._start]
        return kept

    def _read(self, reads: Sequence[tuple[int, int]], kept: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Return the keys or values of two intervals of the row, each kept, or all of this piece."""
        found = [
            kept[:, :, start:stop] if stop <= self._keep else new[:, :, start - self._start : stop - self._start]
            for start, stop in reads
            if start < stop
        ]
        return torch.cat(found, dim=2) if len(found) > 1 else found[0]

    def _mask(self, part: _Part, n_keys: int, query: torch.Tensor) -> torch.Tensor | None:
        """Return 0 where a token attends and -inf elsewhere, the same for all layers; None for plain causal."""
        n_tokens = part.stop - part.start
        if n_keys == n_tokens:
            return None
        if part.start not in self._masks:
            hidden = torch.full((n_tokens, n_keys), -torch.inf, dtype=query.dtype, device=query.device)
            self._masks[part.start] = hidden.triu_(n_keys - n_tokens + 1)
        return self._masks[part.start]


class _Fused:
    """Attention of a whole row by FlexAttention, for any number of edits and windows."""

    def __init__(self, row: PackedRow, size: int, device: torch.device) -> None:
        self._mask = flex_mask(row.segments, size, device)

    def __call__(
        self, module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """Return the attention of the row: shape (1, n_tokens, heads, head size)."""
        del module
        result = _compiled_flex()(
            query, key, value, block_mask=self._mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
        )
        return result.transpose(1, 2)


def flex_mask(segments: Sequence[Segment], size: int, device: torch.device) -> BlockMask:
    """Return the mask of a row for FlexAttention, made on the level of blocks: no matrix of tokens is ever held.

    Parameters
    ----------
    segments
        Segments of the row.
    size
        Tokens of the row with those that fill it up, a multiple of the block; the latter see themselves.
    device
        Device of the mask.
    """
    lengths = torch.tensor([segment.stop - segment.start for segment in segments], device=device)
    columns = torch.tensor(segments, device=device)
    filled = torch.arange(segments[-1].stop, size, device=device)
    own, shared, shared_stop = (
        torch.cat((columns[:, column].repeat_interleave(lengths), filled)).to(torch.int32) for column in (0, 2, 3)
    )

    def attends(batch: Any, head: Any, query: Any, key: Any) -> Any:
        del batch, head
        return ((key >= shared[query]) & (key < shared_stop[query])) | ((key >= own[query]) & (key <= query))

    after = torch.arange(1, size + 1, device=device, dtype=torch.int32)
    blocks = torch.arange(size // _FLEX_BLOCK, device=device, dtype=torch.int32)
    touched, covered = (
        _blocks_in(blocks, shared, shared_stop, whole=whole) | _blocks_in(blocks, own, after, whole=whole)
        for whole in (False, True)
    )
    by_block = (-1, _FLEX_BLOCK, len(blocks))
    some, every = touched.view(by_block).any(dim=1), covered.view(by_block).all(dim=1)
    listed = [_list_blocks(chosen) for chosen in (some & ~every, every)]
    return BlockMask.from_kv_blocks(
        *listed[0], *listed[1], BLOCK_SIZE=_FLEX_BLOCK, mask_mod=attends, seq_lengths=(size, size)
    )


def _blocks_in(blocks: torch.Tensor, start: torch.Tensor, stop: torch.Tensor, *, whole: bool) -> torch.Tensor:
    """Return which blocks lie in intervals, wholly or with a token: bool, shape (n_intervals, n_blocks)."""
    first, last = blocks * _FLEX_BLOCK, (blocks + 1) * _FLEX_BLOCK
    if whole:
        return (first >= start[:, None]) & (last <= stop[:, None])
    return (first < stop[:, None]) & (last > start[:, None]) & (start < stop)[:, None]


def _list_blocks(chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return number and places of the chosen blocks of every row, in the form of ``BlockMask``."""
    order = chosen.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    return chosen.sum(dim=1).to(torch.int32)[None, None], order.to(torch.int32)[None, None]


@cache
def _compiled_flex() -> Callable[..., torch.Tensor]:
    """Compile FlexAttention, once in a process; without compilation it would hold a matrix of tokens."""
    return torch.compile(flex_attention, dynamic=True)


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
