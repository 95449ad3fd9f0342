"""State encoder based on a Hugging Face language model; it imports torch and transformers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.context import check_window_fits, context_tokens, longest_window_bp
from genolewm_assets.encoders.edit_likelihood import EditLikelihood, open_likelihood
from genolewm_assets.encoders.edits import PrefixEncoder
from genolewm_assets.encoders.identity import Compute, StateDtype, identify
from genolewm_assets.encoders.model_files import locate_model
from genolewm_assets.encoders.model_loading import check_model_tokenizer, is_causal, usable_device
from genolewm_assets.encoders.network import Batches, StateNetwork
from genolewm_assets.encoders.vocabularies import read_tokens
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, SequenceError
from genolewm_assets.genome import TOKEN_BP, encode_sequence
from genolewm_assets.states import BLOCK_TOKENS, block_count, check_spans
from genolewm_assets.store.files import JsonValue

#: Windows of the first forward pass on an accelerator, unless a number is given.
BATCH_WINDOWS = 64

#: Tokens of edited windows that go through the model at once on the CPU; eight times as many on an accelerator.
_PACKED_TOKENS = 16_384


class CausalLMStateEncoder:
    """Encoder that computes block-pooled hidden states of a causal or masked language model.

    Several threads may use it. The vocabulary may be tagged 6-mers, other 6-mers or single bases; see
    ``encoders.vocabularies``. A masked model, such as one of ``EsmForMaskedLM``, reads a window from both sides, so an
    edit changes the states of all blocks.

    Parameters
    ----------
    model, revision
        Folder in Hugging Face format, which is used without the network, or hub id with the full commit hash.
    layer
        Index of the hidden state: 0 the embeddings, -1 the last, after the final norm.
    block_tokens
        6-mers per block. A block is the mean of the states of its tokens: with one base per token, of 6 times as many.
    dtype, compute
        Dtype of the returned states, ``float32`` or ``float16``, and precision of the forward pass, ``float32`` or
        ``bfloat16``, whatever the dtype of the weights; see :class:`~genolewm_assets.encoders.identity.Compute`.
    device
        Torch device that runs the model; ``auto`` is the first CUDA device, or the CPU if there is none.
    trusted_code
        The value of ``model`` again, to allow the model's own Python code to run; the token ids are then compared with
        those of the model's tokenizer. None: the code may not run.
    batch_windows
        Largest number of windows per forward pass on an accelerator; by default 64. It is halved whenever the memory of
        the device is too small. On the CPU always one, so that the bits of a window's states do not depend on the other
        windows.
    cpu_threads
        Threads of a forward pass on the CPU. With one, the default, the bits of the states do not depend on the number
        of cores, and processes that share the cores do not slow each other down.
    compiler
        Backend of ``torch.compile``, such as ``inductor``, that makes one kernel of each element-wise part of the
        layers of a Llama on an accelerator; None: nothing is compiled.
    window_bp
        Bases of the longest window that will be encoded; the model is not loaded if its context is shorter. None: the
        length of each window is compared when it is encoded.

    Raises
    ------
    ConfigurationError
        If a parameter is out of range, the context is too short, the vocabulary is of no known kind, or its ids differ
        from those of the model's own tokenizer.
    DeviceError
        If the accelerator fails, or its memory is too small.
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
        compute: str = Compute.FLOAT32,
        device: str = "cpu",
        trusted_code: str | None = None,
        batch_windows: int | None = None,
        cpu_threads: int = 1,
        compiler: str | None = None,
        window_bp: int | None = None,
    ) -> None:
        self._again = partial(
            CausalLMStateEncoder,
            model,
            revision=revision,
            layer=layer,
            block_tokens=block_tokens,
            device=device,
            trusted_code=trusted_code,
            batch_windows=batch_windows,
            cpu_threads=cpu_threads,
        )
        files = locate_model(model, revision=revision, trusted_code=trusted_code)
        #: DNA tokens of the model's vocabulary.
        self.tokens = read_tokens(files.folder)
        if window_bp is not None:
            check_window_fits(files, self.tokens, window_bp)
        #: Everything that the states depend on; device and batch size are not part of it.
        self.identity = identify(files, layer=layer, block_tokens=block_tokens, dtype=dtype, compute=compute)
        #: Length of one state.
        self.hidden_size = self.identity.hidden_size
        self._where = f"encoder {files.model_id}"
        device_used = usable_device(device, self._where)
        self._with_head = partial(open_likelihood, files, self.tokens, str(device_used))
        on_cpu, tokens_per_block = device_used.type == "cpu", block_tokens * self.tokens.per_six_mer
        wanted = BATCH_WINDOWS if batch_windows is None else batch_windows
        for name, count in (("batch_windows", wanted), ("cpu_threads", cpu_threads)):
            if count < 1:
                raise ConfigurationError(
                    f"{self._where}: {name}", "out of range", expected="at least 1", got=f"{count}"
                )
        check_model_tokenizer(files, self.tokens)
        self._context = context_tokens(files)
        #: Whether states depend only on what is before them; False for masked models, and if no file says so.
        self.is_causal = is_causal(files)
        #: Bases of the longest window that fits the model's context; None if it has no limit.
        self.longest_window_bp = longest_window_bp(files, self.tokens)
        self._network = StateNetwork(
            files,
            layer=self.identity.layer,
            device=device_used,
            cpu_threads=cpu_threads,
            compute=self.identity.compute,
            # On the CPU a compiler would change the bits of states.
            compiler=None if on_cpu else compiler,
        )
        self._batches = Batches(
            partial(self._network.start_blocks, block_tokens=tokens_per_block, places=self.tokens.places),
            1 if on_cpu else wanted,
            self._where,
        )
        rows = self._network.vocabulary_rows
        if self.tokens.largest_id >= rows:
            raise ConfigurationError(
                self._where,
                "the vocabulary file does not match the weights",
                expected=f"token ids below {rows:,}",
                got=f"{self.tokens.largest_id:,}",
            )
        self._prefixes = PrefixEncoder(
            self._network,
            self.tokens.kmer_ids,
            leading=self.tokens.leading,
            trailing=self.tokens.trailing,
            tokens_per_block=tokens_per_block,
            context=self._context,
            compute=self.identity.compute,
            max_tokens=_PACKED_TOKENS if on_cpu else 8 * _PACKED_TOKENS,
            one_source=on_cpu,
        )

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
            the tokens of its 6-mers ``b * block_tokens`` to ``(b + 1) * block_tokens - 1``, special tokens excluded;
            the last block may have fewer. Blocks past the end of a shorter window are NaN.

        Raises
        ------
        SequenceError
            If a window has fewer than 6 bases or a symbol outside the IUPAC alphabet, or is longer than the model's
            context or than ``n_blocks`` blocks.
        ConfigurationError, CorruptResourceError
            If a state exceeds the range of float16; if a state is not finite.
        """
        groups = _rows_by_length(sequences)
        widths = self._check_lengths(groups, n_blocks)
        rows = np.full(
            (len(sequences), max(widths, default=0) if n_blocks is None else n_blocks, self.hidden_size),
            np.nan,
            dtype=self.identity.dtype.value,
        )
        ids = [
            self.tokens.encode_codes(encode_sequence("".join(sequences[row] for row in group)).reshape(len(group), -1))
            for group in groups.values()
        ]
        for group, width, given in zip(groups.values(), widths, ids, strict=True):
            rows[group, :width] = store_states(self._batches.run(given), self.identity.dtype, where=self._where)
        return rows

    def in_float32(self) -> CausalLMStateEncoder:
        """Return this encoder with states that are computed and stored in float32; the model is loaded once more."""
        return self._again()

    def load_likelihood(self) -> EditLikelihood | None:
        """Load the model once more, with its language-model head, on the same device; None if it has none."""
        return self._with_head()

    def describe_run(self, *, n_windows: int, seconds: float, window_bp: int) -> dict[str, JsonValue]:
        """Return what encoded some windows of at most ``window_bp`` bases, and how fast."""
        n_tokens = self._count_tokens(window_bp)
        figures = self._network.describe_run(n_windows=n_windows, seconds=seconds, n_tokens=n_tokens)
        return {**figures, "dtype": self.identity.dtype.value, "batch_windows": self._batches.windows}

    def _count_tokens(self, size_bp: int) -> int:
        """Return the number of tokens of a window, special tokens included."""
        return size_bp // TOKEN_BP * self.tokens.per_six_mer + self.tokens.n_special

    def encode_edited(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        """Compute the block states of edited windows, the targets of training; see :meth:`encode_windows`.

        They are rounded to the stored dtype as the cached states are, so that blocks that an edit does not affect equal
        the cached blocks. Where the unedited windows are at hand, :meth:`encode_edits` computes the same for a fraction
        of the work.
        """
        return self.encode_windows(sequences, n_blocks=n_blocks)

    @property
    def full_path_reason(self) -> str | None:
        """Why :meth:`encode_edits` encodes whole windows, such as a model that is not causal; None if it does not."""
        return self._prefixes.obstacle

    def encode_edits(
        self, sources: Sequence[str], edited: Sequence[str], source_of: NDArray[np.int64], spans: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Compute the block states of edited windows from the first token that an edit changes.

        Parameters, result and errors are those of :class:`~genolewm_assets.states.edited.EditEncoder` and
        :meth:`encode_windows`. The states are those of :meth:`encode_windows` up to the rounding of the computation. A
        model for which that does not hold encodes whole windows; see :attr:`full_path_reason`.
        """
        self._check_lengths(_rows_by_length(edited), None)
        n_blocks = [block_count(len(one) // TOKEN_BP, self.identity.block_tokens) for one in edited]
        inside = check_spans(n_blocks, len(sources), source_of, spans)
        if not edited or self.full_path_reason is not None:
            rows = self.encode_windows(edited)
            rows[~inside] = np.nan
            return rows
        before, after = ([self.tokens.encode(one) for one in windows] for windows in (sources, edited))
        blocks = self._prefixes.block_states(before, after, source_of, spans)
        rows = np.full((*inside.shape, self.hidden_size), np.nan, dtype=self.identity.dtype.value)
        rows[inside] = store_states(blocks, self.identity.dtype, where=self._where)
        return rows

    def _check_lengths(self, groups: Mapping[int, Sequence[int]], n_blocks: int | None) -> list[int]:
        """Return the number of blocks of the windows of each length, given their rows by length in bases."""
        context, widths = self._context, []
        for size_bp, (row, *_) in groups.items():
            if size_bp < TOKEN_BP:
                raise SequenceError(
                    f"window {row}", "too short to encode", expected=f"at least {TOKEN_BP} bp", got=f"{size_bp} bp"
                )
            n_tokens, width = self._count_tokens(size_bp), block_count(size_bp // TOKEN_BP, self.identity.block_tokens)
            if context is not None and n_tokens > context:
                raise SequenceError(
                    f"window {row}",
                    f"longer than the context of {self._where}",
                    expected=f"at most {context:,} tokens, {self.tokens.n_special} of them special",
                    got=f"{n_tokens:,}",
                )
            if n_blocks is not None and width > n_blocks:
                raise SequenceError(
                    f"window {row}", "has more blocks than a row", expected=f"at most {n_blocks}", got=f"{width}"
                )
            widths.append(width)
        return widths


def _rows_by_length(sequences: Sequence[str]) -> dict[int, list[int]]:
    """Return the rows of windows by their length in bases; windows of one length need no padding."""
    rows = defaultdict[int, list[int]](list)
    for row, sequence in enumerate(sequences):
        rows[len(sequence)].append(row)
    return rows


def store_states(states: NDArray[np.float32], dtype: StateDtype, *, where: str) -> NDArray[Any]:
    """Round finite states, float32, to their stored dtype."""
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
