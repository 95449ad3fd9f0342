"""An encoder that gives random states: equal windows have equal ones, and they cost next to nothing."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import EncoderIdentity, StateDtype


class SimulatedEncoder:
    """Encodes windows of one length as random float16.

    Parameters
    ----------
    hidden
        Length of a state.
    """

    def __init__(self, hidden: int) -> None:
        nothing = "0" * 64
        self.identity = EncoderIdentity("simulated", None, nothing, nothing, 1, 64, StateDtype("float16"), hidden)

    def encode_windows(self, sequences: Sequence[str]) -> NDArray[np.float16]:
        """Return block states: shape (n_windows, blocks of a window, hidden)."""
        shape = self.identity.row_shape(len(sequences[0]))
        rows = [np.random.default_rng(zlib.crc32(each.encode())) for each in sequences]
        return np.stack([rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for rng in rows])
