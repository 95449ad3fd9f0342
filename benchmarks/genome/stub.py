"""Replacements in a measured process: an encoder that computes nothing, digests that count bytes, fonts in memory."""

from __future__ import annotations

import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import EncoderIdentity, StateDtype
from genolewm_assets.genome import TOKEN_BP

#: Values of a state, a quarter of Carbon's.
HIDDEN = 256
_ROWS = 1 << 12
#: Modules whose digests are of whole files or contigs; others make ids of windows and records.
_OF_FILES = tuple(
    f"genolewm_assets.{room}" for room in ("store", "sources", "packages", "package_build.writer", "encoders", "defs")
)


class StubEncoder:
    """Gives each block a row of a fixed table, chosen by the CRC of its bases: equal blocks have equal states."""

    def __init__(self) -> None:
        nothing = "0" * 64
        self.identity = EncoderIdentity("stub", None, nothing, nothing, 1, 64, StateDtype.FLOAT16, HIDDEN)
        self.hidden_size = HIDDEN
        self._table = np.random.default_rng(0).standard_normal((_ROWS, HIDDEN), np.float32).astype(np.float16)

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[np.float16]:
        """Return states, shape (n_windows, n_blocks, HIDDEN); NaN past the end of a shorter window."""
        block_bp = self.identity.block_tokens * TOKEN_BP
        n_blocks = n_blocks or max(-(-len(each) // block_bp) for each in sequences)
        states = np.full((len(sequences), n_blocks, HIDDEN), np.nan, np.float16)
        for row, sequence in enumerate(sequences):
            bases = sequence.encode()
            codes = [zlib.crc32(bases[at : at + block_bp]) % _ROWS for at in range(0, len(bases), block_bp)]
            states[row, : len(codes)] = self._table[codes]
        return states

    encode_edited = encode_windows

    def in_float32(self) -> StubEncoder:
        """Return itself: nothing is rounded."""
        return self

    def describe_run(self, **_: float) -> Mapping[str, str]:
        """Return the device: none."""
        return {"device": "none: states are written, not computed"}


def keep_fonts() -> None:
    """Let matplotlib read its fonts from memory: it reads the glyphs of a picture again and again from their files."""
    from matplotlib import font_manager

    open_font = font_manager.ft2font.FT2Font
    contents = cache(lambda path: Path(path).read_bytes())

    def from_memory(path: str, *given: Any, **named: Any) -> Any:
        return open_font(io.BytesIO(contents(str(path))), *given, **named)

    font_manager.ft2font = SimpleNamespace(**{**vars(font_manager.ft2font), "FT2Font": from_memory})


def install_encoder() -> None:
    """Let every workspace of this process have the stub as its encoder."""
    from genolewm_assets.defs.runtime.workspace import Workspace

    stub = StubEncoder()
    Workspace.encoder_identity = property(lambda _: stub.identity)  # type: ignore[assignment, method-assign]
    Workspace.load_encoder = lambda *_, **__: stub  # type: ignore[assignment, method-assign, return-value]


class HashedBytes:
    """Counts the bytes of files that the product gives to functions of ``hashlib`` in this process."""

    def __init__(self) -> None:
        self.total = 0

    def install(self) -> None:
        """Replace the constructors and ``file_digest``; ids of rows are not counted and cost no more."""
        for name in ("sha256", "md5", "new"):
            setattr(hashlib, name, self._counted(getattr(hashlib, name)))
        of_file = hashlib.file_digest

        def file_digest(file: Any, digest: Any, /) -> Any:
            before = file.tell()
            made = of_file(file, digest)
            self.total += file.tell() - before
            return made

        hashlib.file_digest = file_digest

    def _counted(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def digest(*given: Any, **named: Any) -> Any:
            made = make(*given, **named)
            if not str(sys._getframe(1).f_globals.get("__name__")).startswith(_OF_FILES):
                return made
            return _Digest(made, self)

        return digest

    def add(self, data: Any) -> None:
        """Count the bytes of a buffer."""
        self.total += memoryview(data).nbytes


class _Digest:
    def __init__(self, made: Any, counter: HashedBytes) -> None:
        self._made, self._counter = made, counter

    def update(self, data: Any) -> None:
        self._counter.add(data)
        self._made.update(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)
