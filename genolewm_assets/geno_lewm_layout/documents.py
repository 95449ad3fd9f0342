"""The documents of a data folder that `geno-lewm-train --carbon-preflight` compares with its files.

Their fields, and the tools that ``generated_by`` names, are those that the preflight demands; ``written_by`` names this
platform.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from genolewm_assets.geno_lewm_layout.columns import SCHEMA_VERSION
from genolewm_assets.packages import IS_CONCLUSIVE, NO_LEAK_FOUND, PACKAGE_FILE, PLANTED_LEAKS_FOUND, Package
from genolewm_assets.progress import ByteCount, Progress
from genolewm_assets.store.files import measure_file

_MANIFEST, _CARD, _SUMS = "dataset_manifest.json", "data_card.md", "SHA256SUMS"
_PACKAGE, _INTEGRITY = "dataset_package.json", "split_integrity.json"
_INPUTS, _SNAPSHOT = "dataset_input_check_report.json", "dataset_snapshot_report.json"
_Document: TypeAlias = dict[str, Any]
_AUDIT = (NO_LEAK_FOUND, PLANTED_LEAKS_FOUND, IS_CONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote: rows by path of each data file, counts by table and outcome, whether an audit passed."""

    rows: Mapping[str, int]
    counts: Mapping[str, int]
    audited: bool


def write_documents(folder: Path, package: Package, exported: Exported, progress: Progress) -> None:
    """Write all documents of a data folder whose data files are complete."""
    count = ByteCount(progress, sum((folder / path).stat().st_size for path in exported.rows))
    files = [
        {"path": path, "split": "train", "records": n, "description": _noun(path), **_identity(folder, path, count)}
        for path, n in sorted(exported.rows.items())
    ]
    source = _identity(package.directory, PACKAGE_FILE)
    snapshot = f"genolewm-{package.info.release}-{source['sha256'][7:19]}"
    for name, document in (
        (_MANIFEST, _manifest(package, exported, files)),
        (_PACKAGE, {"generated_by": "tools.release.dataset_package", "files": files}),
        (_INPUTS, _inputs(files, source)),
    ):
        _write(folder / name, snapshot, document)
    # These state digests of the documents before.
    _write(folder / _INTEGRITY, snapshot, _integrity(_identity(folder, _MANIFEST), audited=exported.audited))
    _write(folder / _SNAPSHOT, snapshot, _snapshot_report(files, source, _identity(folder, _INPUTS)))
    (folder / _CARD).write_text(_card(snapshot, exported), encoding="utf-8")
    named = [*files, *({"path": name, **_identity(folder, name)} for name in _documents())]
    (folder / _SUMS).write_text("".join(f"{each['sha256'][7:]}  {each['path']}\n" for each in named))


def _documents() -> Iterable[str]:
    return _MANIFEST, _PACKAGE, _INTEGRITY, _INPUTS, _SNAPSHOT, _CARD


def _write(path: Path, snapshot: str, document: _Document) -> None:
    same = {"schema_version": SCHEMA_VERSION, "snapshot_id": snapshot, "written_by": "genolewm package export"}
    path.write_text(json.dumps(same | document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _identity(folder: Path, path: str, count: ByteCount | None = None) -> _Document:
    found = measure_file(folder / path, count)
    return {"sha256": f"sha256:{found.sha256}", "size_bytes": found.size_bytes}


def _noun(path: str) -> str:
    folder = path.partition("/")[0]
    return {"placed": "windows", "carbon": "windows", "embeddings": "states"}.get(folder, folder)


def _manifest(package: Package, exported: Exported, files: list[_Document]) -> _Document:
    # The preflight wants a split of evaluation to be named; its rows stay in the package.
    splits: _Document = {"train": dict(exported.rows), "evaluation": {}}
    facts = {name: getattr(package.info, name) for name in ("release", "genome_digest", "margin_bp")}
    return {"files": files, "splits": splits, "counts": dict(exported.counts), **facts}


def _inputs(files: list[_Document], source: _Document) -> _Document:
    inputs = [
        {"source_path": PACKAGE_FILE, "staged_path": each["path"], "split": each["split"], **source}
        | {"description": each["description"]}
        for each in files
    ]
    return {"generated_by": "tools.release.dataset_snapshot.check_inputs", "inputs": inputs}


def _snapshot_report(files: list[_Document], source: _Document, inputs: _Document) -> _Document:
    of_source = {"source_path": PACKAGE_FILE, **{f"source_{name}": value for name, value in source.items()}}
    return {
        "generated_by": "tools.release.dataset_snapshot",
        "report_path": _SNAPSHOT,
        "metadata_path": _PACKAGE,
        "input_check_path": _INPUTS,
        "input_check": {"path": _INPUTS, **inputs},
        "files": [{name: each[name] for name in ("path", "split", "description")} | of_source for each in files],
    }


def _integrity(manifest: _Document, *, audited: bool) -> _Document:
    status = "passed" if audited else "not_run"
    checks: list[_Document] = [{"name": str(check), "status": status} for check in _AUDIT]
    return {"manifest_sha256": manifest["sha256"], "leakage_checks": checks}


def _card(snapshot: str, exported: Exported) -> str:
    counts = "".join(f"| `{name}` | {n:,} |\n" for name, n in sorted(exported.counts.items()))
    audit = "An audit of the package passed." if exported.audited else "**No audit of the package was asked for.**"
    return f"""# {snapshot}

Training rows of a package of genolewm_assets in the layout of geno-lewm 0.2.1. {audit}
Nothing of an evaluation is in this folder: no held-out window or allele, and no window with a held-out allele in it or
in its flanks, because geno-lewm edits every base and filters nothing. Evaluate on the package itself.

| rows | number |
|---|---|
{counts}
`exported` rows are here; each other line counts rows that were left out, by the first reason that holds.
"""
