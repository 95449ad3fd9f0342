"""State encoder based on a Hugging Face causal language model; it imports torch and transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from numpy.typing import NDArray

from genolewm_assets.encoders.edited import PrefixEncoder
from genolewm_assets.encoders.identity import EncoderIdentity, StateDtype, identify
from genolewm_assets.encoders.model_files import ModelFiles, locate_model
from genolewm_assets.encoders.model_loading import usable_device
from genolewm_assets.encoders.network import StateNetwork
from genolewm_assets.encoders.tokens import CLOSE_TAG, OPEN_TAG, DnaTokens
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, SequenceError
from genolewm_assets.lewm.states import BLOCK_TOKENS, block_count, block_means, check_spans, spans_as_mask

#: Sequence for comparing tokenizers: all bases, lower case, ambiguity codes.
_PROBE = "ACGTTGCAAGCTTTTTTTNNNNNNGATTACACGTNRacgtgaCCGGATCTGACT"

#: Tokens of edited windows that go through the model at once, per window of a batch.
_PACKED_TOKENS = 16_384


class CausalLMStateEncoder:
    """Encoder that computes block-pooled hidden states of a causal language model.

    Parameters
    ----------
    model
        Folder in Hugging Face format, or hub id. A folder is used without the network.
    revision
        Full commit hash; required for a hub id.
    layer
        Index of the hidden state: 0 the embeddings, -1 the last, after the final norm.
    block_tokens
        DNA tokens per block; a block is the mean of their states.
    dtype
        Dtype of the returned states, ``float32`` or ``float16``. The model always computes in float32.
    device
        Torch device that runs the model; ``auto`` is the first CUDA device, or the CPU if there is none.
    trusted_code
        The value of ``model`` again, to allow the model's own Python code to run; the token ids are then compared with
        those of the model's tokenizer. None: the code may not run.
    batch_windows
        Windows per forward pass on an accelerator. On the CPU always one, so that the bits of a window's states do not
        depend on the other windows.
    cpu_threads
        Threads of a forward pass on the CPU. With one, the default, the bits of the states do not depend on the number
        of cores, and processes that share the cores do not slow each other down.

    Raises
    ------
    ConfigurationError
        If a parameter is out of range, or the model does not read tagged 6-mers.
    MissingResourceError, CorruptResourceError, FetchError
        If the model's files are missing, damaged, or cannot be downloaded.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        revision: str | None = None,
        layer: int = -1,
        block_tokens: int = BLOCK_TOKENS,
        dtype: str = StateDtype.FLOAT32,
        device: str = "cpu",
        trusted_code: str | None = None,
        batch_windows: int = 8,
        cpu_threads: int = 1,
    ) -> None:
        files = locate_model(model, revision=revision, trusted_code=trusted_code)
        self._identity = identify(files, layer=layer, block_tokens=block_tokens, dtype=dtype)
        self._where = f"encoder {files.model_id}"
        device_used = usable_device(device, self._where)
        for name, count in (("batch_windows", batch_windows), ("cpu_threads", cpu_threads)):
            if count < 1:
                raise ConfigurationError(
                    f"{self._where}: {name}", "out of range", expected="at least 1", got=f"{count}"
                )
        self._batch_windows = 1 if device_used.type == "cpu" else batch_windows
        self._tokens = DnaTokens.from_tokenizer_files(files.folder)
        if files.code_trusted:
            _check_tokenizer(files, self._tokens)
        self._network = StateNetwork(files, layer=self._identity.layer, device=device_used, cpu_threads=cpu_threads)
        self._check_vocabulary()
        self._prefixes = PrefixEncoder(
            self._network,
            self._tokens,
            block_tokens=block_tokens,
            max_tokens=_PACKED_TOKENS * self._batch_windows,
            one_source=device_used.type == "cpu",
        )

    @property
    def identity(self) -> EncoderIdentity:
        """Everything that the states depend on; device and batch size are not part of it."""
        return self._identity

    @property
    def hidden_size(self) -> int:
        """Length of one state."""
        return self._identity.hidden_size

    @property
    def tokens(self) -> DnaTokens:
        """DNA tokens of the model's vocabulary."""
        return self._tokens

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        """Compute the block states of windows.

        Parameters
        ----------
        sequences
            Bases of each window, IUPAC symbols in either case; windows may differ in length.
        n_blocks
            Number of blocks in every row of the result; by default that of the longest window.

        Returns
        -------
        ndarray
            float32 or float16, shape (n_windows, n_blocks, hidden_size). Block ``b`` of a window is the mean state of
            its DNA tokens ``b * block_tokens`` to ``(b + 1) * block_tokens - 1``, tags excluded; the last block may
            have fewer tokens. Blocks past the end of a shorter window are NaN.

        Raises
        ------
        SequenceError
            If a window has fewer than 6 bases or a symbol outside the IUPAC alphabet, or is longer than the model's
            context or than ``n_blocks`` blocks.
        ConfigurationError
            If a state exceeds the range of float16.
        CorruptResourceError
            If a state is not finite.
        """
        ids = [self._tokens.encode(sequence) for sequence in sequences]
        widths = [block_count(len(one) - 2, self._identity.block_tokens) for one in ids]
        self._check_lengths(ids, widths, n_blocks)
        rows = np.full(
            (len(ids), max(widths, default=0) if n_blocks is None else n_blocks, self.hidden_size),
            np.nan,
            dtype=self._identity.dtype.value,
        )
        for batch in _equal_length_batches(ids, self._batch_windows):
            hidden = self._network.token_states(np.stack([ids[row] for row in batch])).cpu().numpy()
            for row, states in zip(batch, hidden, strict=True):
                blocks = block_means(states[1:-1], self._identity.block_tokens)
                rows[row, : len(blocks)] = store_states(blocks, self._identity.dtype, where=self._where)
        return rows

    def encode_edited(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        """Compute the block states of edited windows, the targets of training; see :meth:`encode_windows`.

        Every window is encoded from its first token, with the same rounding to the stored dtype as the cached states.
        Blocks that an edit does not affect are therefore equal to the cached blocks. Where the unedited windows are at
        hand, :meth:`encode_edits` computes the same for a fraction of the work.
        """
        return self.encode_windows(sequences, n_blocks=n_blocks)

    @property
    def encodes_edits_from_prefix(self) -> bool:
        """Whether :meth:`encode_edits` computes only what an edit changes; the first access probes the model."""
        return self.full_path_reason is None

    @property
    def full_path_reason(self) -> str | None:
        """Why :meth:`encode_edits` encodes whole windows, such as a model that is not causal; None if it does not."""
        return self._prefixes.obstacle

    def encode_edits(
        self,
        sources: Sequence[str],
        edited: Sequence[str],
        source_of: NDArray[np.int64],
        spans: NDArray[np.int64],
    ) -> NDArray[Any]:
        """Compute the states of the pooled blocks of edited windows, from the first token that an edit changes.

        Parameters
        ----------
        sources
            Bases of the unedited windows.
        edited
            Bases of the edited windows.
        source_of
            int64, shape (n_edits,): index in ``sources`` of the window that each was made from. Any window may stand
            there: the more tokens both begin with, the less is computed.
        spans
            int64, shape (n_edits, 2): first block and block after the last one that are wanted, 0-based half-open.

        Returns
        -------
        ndarray
            float32 or float16, shape (n_edits, n_blocks of the longest edited window, hidden_size), the form of
            :meth:`encode_windows`, so that the same pooling reads both. Blocks outside of the span are NaN.

        Raises
        ------
        InputError
            If ``source_of`` or ``spans`` have another shape, or name a window or block that is not there.
        SequenceError, ConfigurationError, CorruptResourceError
            As :meth:`encode_windows`.

        Notes
        -----
        The states are those of :meth:`encode_windows` up to the rounding of the computation (relative 1e-6 in
        float32), rounded to the stored dtype. A model that is not causal, or whose layers mix tokens other than by
        attention, encodes whole windows; see :attr:`full_path_reason`.
        """
        ids, of_source = [self._tokens.encode(sequence) for sequence in edited], np.asarray(source_of, dtype=np.int64)
        widths = [block_count(len(one) - 2, self._identity.block_tokens) for one in ids]
        self._check_lengths(ids, widths, None)
        check_spans(widths, len(sources), of_source, spans)
        inside = spans_as_mask(spans, max(widths, default=0))
        if not ids or not self.encodes_edits_from_prefix:
            rows = self.encode_windows(edited)
            rows[~inside] = np.nan
            return rows
        blocks = self._prefixes.block_states([self._tokens.encode(one) for one in sources], ids, of_source, spans)
        rows = np.full((*inside.shape, self.hidden_size), np.nan, dtype=self._identity.dtype.value)
        rows[inside] = store_states(blocks, self._identity.dtype, where=self._where)
        return rows

    def _check_vocabulary(self) -> None:
        rows = self._network.vocabulary_rows
        if self._tokens.largest_id >= rows:
            raise ConfigurationError(
                self._where,
                "the vocabulary file does not match the weights",
                expected=f"token ids below {rows:,}",
                got=f"{self._tokens.largest_id:,}",
            )

    def _check_lengths(self, ids: Sequence[NDArray[np.int64]], widths: Sequence[int], n_blocks: int | None) -> None:
        context = self._network.context
        for row, (one, width) in enumerate(zip(ids, widths, strict=True)):
            if context is not None and len(one) > context:
                raise SequenceError(
                    f"window {row}",
                    f"longer than the context of {self._where}",
                    expected=f"at most {context:,} tokens, tags included",
                    got=f"{len(one):,}",
                )
            if n_blocks is not None and width > n_blocks:
                raise SequenceError(
                    f"window {row}", "has more blocks than a row", expected=f"at most {n_blocks}", got=f"{width}"
                )


def _check_tokenizer(files: ModelFiles, tokens: DnaTokens) -> None:
    """Raise :class:`ConfigurationError` unless the model's own tokenizer gives the same ids as ``tokens``."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            files.folder, local_files_only=True, trust_remote_code=True
        )
        theirs = tokenizer(f"{OPEN_TAG}{_PROBE}{CLOSE_TAG}", add_special_tokens=False)["input_ids"]
    except Exception as err:
        raise ConfigurationError(
            f"encoder {files.model_id}",
            f"the model's own tokenizer does not work ({err})",
            remedy="Omit trusted_code",
        ) from err
    ours = tokens.encode(_PROBE).tolist()
    if list(theirs) != ours:
        raise ConfigurationError(
            f"encoder {files.model_id}",
            "token ids differ from those of the model's own tokenizer",
            expected=f"{list(theirs)}",
            got=f"{ours}",
        )


def _equal_length_batches(ids: Sequence[NDArray[np.int64]], batch_windows: int) -> Iterator[list[int]]:
    """Group rows of equal token count into batches, which then need no padding and no attention mask."""
    by_length: dict[int, list[int]] = {}
    for row, one in enumerate(ids):
        by_length.setdefault(len(one), []).append(row)
    for rows in by_length.values():
        for first in range(0, len(rows), batch_windows):
            yield rows[first : first + batch_windows]


def store_states(states: NDArray[np.float32], dtype: StateDtype, *, where: str) -> NDArray[Any]:
    """Round states to their stored dtype.

    Parameters
    ----------
    states
        float32, any shape.
    dtype
        Stored dtype.
    where
        Start of the error message.

    Raises
    ------
    CorruptResourceError
        If a state is not finite, as with damaged weights.
    ConfigurationError
        If a state exceeds the range of the dtype.
    """
    if not np.isfinite(states).all():
        raise CorruptResourceError(where, "hidden states are not finite", remedy="Check the model's weights")
    largest = float(np.abs(states).max(initial=0.0))
    if dtype is StateDtype.FLOAT16 and largest > float(np.finfo(np.float16).max):
        raise ConfigurationError(
            where,
            "a state exceeds the range of float16",
            expected=f"at most {np.finfo(np.float16).max:g}",
            got=f"{largest:g}",
            remedy="Store the states as float32, or choose a layer after a norm",
        )
    return states.astype(dtype.value)
