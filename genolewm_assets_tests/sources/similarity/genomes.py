"""Random contigs, changed copies, and windows of them to search with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pysam

from genolewm_assets.holdouts import WindowKey
from genolewm_assets_tests.worlds.sources.queries import Query


def random_bases(rng: np.random.Generator, n: int) -> bytes:
    return bytes(np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, n)])


def changed(rng: np.random.Generator, bases: bytes, identity: float) -> bytes:
    """Return bases of which a share of ``1 - identity`` is substituted."""
    out = np.frombuffer(bases, np.uint8).copy()
    at = np.flatnonzero(rng.random(out.size) >= identity)
    out[at] = [
        ord("ACGT".replace(chr(base), "")[pick])
        for base, pick in zip(out[at], rng.integers(0, 3, at.size), strict=True)
    ]
    return out.tobytes()


def write_fasta(path: Path, contigs: dict[str, bytes]) -> Path:
    path.write_bytes(b"".join(b">%s\n%s\n" % (name.encode(), bases) for name, bases in contigs.items()))
    pysam.faidx(str(path))
    return path


def query(name: str, bases: bytes, *, transcribed: bool = False) -> Query:
    return Query(WindowKey("eukaryote_generator", record_id=name), bases, transcribed)
