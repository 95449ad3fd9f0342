"""Token masking for pre-training: choice of target tokens, and replacement of their ids in the input.

Random numbers depend on seed, epoch and window alone, so batches are the same for any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError, InputError
from genolewm_assets.genome import start_from_pos
from genolewm_assets.mito.tokens import FIRST_KMER_ID, MASK_ID, PAD_ID, KmerVocabulary
from genolewm_assets.mito.training.windows import Item

if TYPE_CHECKING:
    from torch import Tensor

#: Bases of rCRS.
RCRS_LENGTH = 16_569
#: Error-prone intervals of sequencing, 0-based half-open: the homopolymers at 303-315 and 16,184-16,193 (1-based).
BLACKLIST = tuple((start_from_pos(first), last) for first, last in ((303, 315), (16_184, 16_193)))
#: Label of a token that is not a target; torch's cross entropy ignores it by default.
IGNORED = -100

_ONE = 1 << 24


@dataclass(frozen=True, slots=True)
class MaskingRules:
    """Rules that choose target tokens and replace their ids.

    Parameters
    ----------
    vocabulary
        Vocabulary of the token ids.
    share
        Probability that an eligible token is a target, 0 to 1.
    mask_share, random_share
        Probabilities that a target becomes ``[MASK]`` or a uniformly drawn k-mer; other targets keep their id.
    blacklist
        Intervals of the reference, 0-based half-open; a k-mer that contains a base of one is never a target.
    length
        Bases of the circular reference.

    Raises
    ------
    ConfigurationError
        If a share, or the sum of the last two, is outside 0 to 1, or an interval is outside the reference.
    """

    vocabulary: KmerVocabulary
    share: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    blacklist: tuple[tuple[int, int], ...] = BLACKLIST
    length: int = RCRS_LENGTH
    _listed: NDArray[np.bool_] = field(init=False, repr=False, compare=False)
    _readers: NDArray[np.bool_] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shares = (self.share, self.mask_share, self.random_share, self.mask_share + self.random_share)
        if not all(0 <= share <= 1 for share in shares):
            raise ConfigurationError("masking", "shares out of range", expected="0 to 1", got=f"{shares[:3]}")
        listed = np.zeros(self.length, dtype=np.bool_)
        for start, end in self.blacklist:
            if not 0 <= start <= end <= self.length:
                expected, got = f"within 0 to {self.length}", f"{start} to {end}"
                raise ConfigurationError("blacklist", "outside the reference", expected=expected, got=got)
            listed[start:end] = True
        readers = np.logical_or.reduce([np.roll(listed, -offset) for offset in range(self.vocabulary.k)])
        object.__setattr__(self, "_listed", listed)
        object.__setattr__(self, "_readers", readers)

    def may_be_targets(self, input_ids: NDArray[Any], position_ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which tokens of windows may be targets, from ids and 0-based positions of shape (n_windows, n_tokens).

        Special tokens are not eligible. A k-mer is excluded if the k reference positions from its own contain a
        blacklisted base, or, as for k-mers that span a deletion, if one of the k - 1 tokens after it begins at one. The
        latter is not seen for the last k - 1 tokens of a window, which also occur in the next window.
        """
        k = self.vocabulary.k
        # Positions in a genome without reference coordinates may exceed the reference's length.
        inside = position_ids < self.length
        at = np.where(inside, position_ids, 0)
        reads = self._readers[at] & inside
        # Padding has position 0, which is not the position of a base; [UNK] has the position of its first base.
        listed = self._listed[at] & inside & (input_ids != PAD_ID)
        for offset in range(1, k):
            reads[:, :-offset] |= listed[:, offset:]
        return (input_ids >= FIRST_KMER_ID) & ~reads

    def mask(
        self, input_ids: NDArray[Any], position_ids: NDArray[Any], words: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return masked input ids and labels, each int64, from 64 random bits (``words``) per token.

        The label is the original id of a target, and -100 for all other tokens.
        """
        chance = (words >> np.uint64(40)).astype(np.int64)
        target = (chance < round(self.share * _ONE)) & self.may_be_targets(input_ids, position_ids)
        seen = input_ids.astype(np.int64)
        labels = np.where(target, seen, IGNORED)
        drawn = words[target]
        action = (drawn >> np.uint64(16)).astype(np.int64) & (_ONE - 1)
        kmer = FIRST_KMER_ID + ((drawn & np.uint64(0xFFFF)).astype(np.int64) * self.vocabulary.n_kmers >> 16)
        masked = round(self.mask_share * _ONE)
        random = masked + round(self.random_share * _ONE)
        seen[target] = np.where(action < masked, MASK_ID, np.where(action < random, kmer, seen[target]))
        return seen, labels


def draw_words(seed: int, epoch: int, windows: Iterable[int], n_tokens: int) -> NDArray[np.uint64]:
    """Return 64 random bits per token, by Philox (Salmon et al. 2011): uint64, shape (n_windows, n_tokens)."""
    key = np.array([seed, epoch], dtype=np.uint64)
    drawn = [np.random.Philox(key=key, counter=[0, 0, 0, window]).random_raw(n_tokens) for window in windows]
    return np.stack(drawn)


class MaskingCollator:
    """Makes a batch of masked windows from items of :class:`~genolewm_assets.mito.training.dataset.MtDNADataset`.

    Parameters
    ----------
    seed, epoch
        Seed of every draw, and first epoch (see :meth:`set_epoch`): 0 to 2**63 - 1.

    Raises
    ------
    ConfigurationError
        If seed or epoch is out of range.

    Notes
    -----
    Pass a collator to a loader as ``collate_fn``. A batch has tensors of shape (n_windows, n_tokens): ``input_ids``,
    ``attention_mask``, ``position_ids`` and ``labels`` (int64), ``het_values`` (float32). A window that occurs twice in
    an epoch is masked in the same way both times.
    """

    def __init__(self, rules: MaskingRules, *, seed: int = 0, epoch: int = 0) -> None:
        from torch import int64, zeros

        self.rules, self._seed = rules, _not_negative("seed", seed)
        # In shared memory, so that persistent workers see the next epoch too.
        self._epoch: Tensor = zeros(1, dtype=int64).share_memory_()  # type: ignore[no-untyped-call]
        self.set_epoch(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, which has its own masks; call this before the loader's iterator is created."""
        self._epoch[0] = _not_negative("epoch", epoch)

    def __call__(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Return the masked batch of items, as tensors by name; raise InputError if an item has no ``window_index``."""
        from torch import from_numpy

        if any("window_index" not in item for item in items):
            problem = "has no 'window_index', which seeds its mask"
            remedy = (
                "Pass items of MtDNADataset unchanged; with a Hugging Face Trainer, set remove_unused_columns=False"
            )
            raise InputError("item of a batch", problem, remedy=remedy)
        names = ("input_ids", "attention_mask", "position_ids", "het_values")
        batch = {name: np.stack([item[name] for item in items]) for name in names}
        positions = batch["position_ids"].astype(np.int64)
        windows = [item["window_index"] for item in items]
        words = draw_words(self._seed, int(self._epoch[0]), windows, positions.shape[1])
        batch["input_ids"], batch["labels"] = self.rules.mask(batch["input_ids"], positions, words)
        batch |= {"attention_mask": batch["attention_mask"].astype(np.int64), "position_ids": positions}
        return {name: from_numpy(array) for name, array in batch.items()}


def _not_negative(name: str, value: int) -> int:
    if not 0 <= value < 1 << 63:
        raise ConfigurationError(name, "out of range", expected="0 to 2**63 - 1", got=f"{value}")
    return value
