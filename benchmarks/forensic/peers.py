"""Other readers of instrument files: ``python -m benchmarks.forensic.peers PEER FOLDER``.

This module imports nothing but the peer, because the peers' environment has nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.stopwatch import serve_tasks

REPEATS = 5


def _biopython() -> tuple[Callable[[Path], Any], str]:
    """Return a reader of all tags; the traces of a scrambled file are None."""
    from Bio import SeqIO

    def read(path: Path) -> Any:
        return SeqIO.read(str(path), "abi").annotations["abif_raw"]

    return read, metadata.version("biopython")


def _dnanet() -> tuple[Callable[[Path], Any], str]:
    """Return DNANet's reader of all tags; installed from its repository."""
    from dnanet.data.parsing.hid import parse_hid

    return parse_hid, metadata.version("dnanet")


PEERS: dict[str, Callable[[], tuple[Callable[[Path], Any], str]]] = {"biopython": _biopython, "dnanet": _dnanet}


def main() -> None:
    peer, folder = sys.argv[1:]
    read, version = PEERS[peer]()
    paths = sorted(Path(folder).rglob("*.hid"))

    def run() -> int:
        for path in paths * REPEATS:
            assert read(path)
        return REPEATS * len(paths)

    serve_tasks({"run": run}, version=version)


if __name__ == "__main__":
    main()
