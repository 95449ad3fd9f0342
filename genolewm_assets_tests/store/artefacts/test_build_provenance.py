from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from genolewm_assets.store.artefacts.build import write_provenance


def test_what_differs_between_two_runs_is_recorded(tmp_path: Path) -> None:
    write_provenance(tmp_path, run_id=None, duration_s=1.23456)
    record = json.loads((tmp_path / "provenance.json").read_bytes())
    assert (record["duration_s"], record["run_id"]) == (1.235, None)
    age = datetime.now(UTC) - datetime.fromisoformat(record["built_at"])
    assert 0 <= age.total_seconds() < 60
    assert set(record) == {"built_at", "duration_s", "host", "platform", "python", "run_id", "version"}
