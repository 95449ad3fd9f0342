"""``provenance.json``: when, where and by which run a directory was built.

No digest covers it, and no reader may decide anything by it; what has to be the same in every build is in
``manifest.py``.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import genolewm_assets
from genolewm_assets.store.atomic import write_atomic
from genolewm_assets.store.manifest import PROVENANCE, JsonValue, canonical_json


def write_provenance(directory: Path, *, run_id: str | None, duration_s: float) -> None:
    """Write ``directory/provenance.json``.

    Parameters
    ----------
    run_id
        Identifier that the orchestrator gave the run, if there was one.
    duration_s
        Wall-clock seconds the build took.
    """
    record: Mapping[str, JsonValue] = {
        "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "duration_s": round(duration_s, 3),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "run_id": run_id,
        "version": genolewm_assets.__version__,
    }
    write_atomic(directory / PROVENANCE, canonical_json(record, PROVENANCE))
