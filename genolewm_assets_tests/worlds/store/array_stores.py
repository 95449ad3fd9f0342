"""Small array stores for tests: rows that are a function of their number, written in any grouping."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genolewm_assets.store import ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.arrays.layout import COMMIT_LOG, ArraySpec, complete_text, crc32c
from genolewm_assets.store.arrays.log import _line
from genolewm_assets.store.files.canonical_json import JsonValue

ARRAYS = (ArraySpec("states", (3, 5), "float16"), ArraySpec("mask", (7,), "int8"), ArraySpec("scale", (), "float32"))
CONFIG: Mapping[str, JsonValue] = {"encoder": "tiny", "block_tokens": 64}
FINGERPRINT = compute_fingerprint(CONFIG, {"windows/index[chr21]": "a" * 64})


def open_writer(directory: Path, *, commit_rows: int = 8, **changes: Any) -> ArrayStoreWriter:
    settings: dict[str, Any] = {"arrays": ARRAYS, "key_config": CONFIG, "sidecars": ("panel", "allele")}
    settings |= {"commit_rows": commit_rows, "commit_ms": None, "batch_rows": commit_rows}
    settings |= {"columns": {"contig": "string", "start": "int64"}}
    return ArrayStoreWriter(directory, **{**settings, **changes})


def values(first: int, stop: int) -> dict[str, npt.NDArray[Any]]:
    """Arrays of rows ``first`` to ``stop``: every bit of a row depends on its number."""
    generators = [np.random.default_rng(row) for row in range(first, stop)]
    return {
        "states": np.array([g.standard_normal((3, 5)) for g in generators], np.float16).reshape(-1, 3, 5),
        "mask": np.array([g.integers(-128, 128, 7) for g in generators], np.int8).reshape(-1, 7),
        "scale": np.array([g.random() for g in generators], np.float32),
    }


def key(row: int) -> str:
    return f"chr21:{row * 8192}"


def meta(row: int) -> dict[str, JsonValue]:
    return {"contig": "chr21", "start": row * 8192, **({"note": f"é {row}"} if row % 5 == 0 else {})}


def sidecars(row: int) -> dict[str, str]:
    panel = {"panel": row // 6, "loci": ["D3", "vWA"]}
    # Every other row spells the same value with its keys the other way round.
    spelled = panel if row % 2 else dict(reversed(panel.items()))
    return {"panel": json.dumps(spelled)} | ({"allele": f"[{row % 3}]"} if row % 4 else {})


def write_rows(writer: ArrayStoreWriter, first: int, stop: int) -> None:
    rows = range(first, stop)
    keys, metas, texts = [key(r) for r in rows], [meta(r) for r in rows], [sidecars(r) for r in rows]
    writer.write_batch(values(first, stop), keys=keys, metas=metas, sidecars=texts)


def finish(directory: Path, n_rows: int, **changes: Any) -> Path:
    """Write a whole store, continuing what is there, in one session of the writer, and finish it in another."""
    with open_writer(directory, **changes) as writer:
        write_rows(writer, writer.n_rows, n_rows)
    with open_writer(directory, **changes) as writer:
        writer.finalize(FINGERPRINT)
    return directory


def restate(directory: Path, **changes: JsonValue) -> None:
    """Make the log of an unfinished store state something else in its header, as another version's would."""
    path = directory / COMMIT_LOG
    header, *records = path.read_bytes().splitlines(keepends=True)
    document = {**json.loads(header)["record"], **changes}
    path.write_bytes(b"".join([_line(document), *records]))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def seal(directory: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    """Give what is there valid checksums, after a change of ``crc.json``; a result of it takes its place."""
    document = json.loads((directory / "crc.json").read_bytes())
    for name in document["files"]:
        if (directory / name).is_file():
            document["files"][name] = f"{crc32c((directory / name).read_bytes()):08x}"
    instead = change(document)
    data = instead if isinstance(instead, bytes) else json.dumps(document if instead is None else instead).encode()
    (directory / "crc.json").write_bytes(data)
    (directory / "_COMPLETE").write_bytes(complete_text(data))
