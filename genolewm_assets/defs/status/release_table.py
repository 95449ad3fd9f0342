"""One row per ClinVar release that a root knows: what became of it, why, and what it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import dagster as dg

from genolewm_assets.defs.display import after_a_click, as_table, escaped
from genolewm_assets.defs.runtime import ReleaseRun, Workspace, latest_runs, recorded_releases
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.packages import not_in_use, read_current, read_latest
from genolewm_assets.store.artefacts import read_manifest, rejection_reason
from genolewm_assets.store.files import resolve_generation
from genolewm_assets.variants import in_order

State: TypeAlias = Literal["served", "built", "refused", "running", "waiting", "offered"]

#: Greatest number of releases that a page shows; the command lists all.
SHOWN = 10
#: Classes of labelled alleles that are told together.
_CLASSES = {"pathogenic": ("P", "LP"), "uncertain": ("VUS",), "benign": ("LB", "B")}

_SHARD, _CHANGES, _HOLDOUTS, _AUDIT = "clinvar/{}/shard", "clinvar/{}/changes", "holdouts/{}", "audits/{}"
#: Root-relative places of what is made of a release, by asset, in order; the package has the place that a record names.
_PLACES = {
    "clinvar/release": "clinvar/{}/vcf",
    "clinvar/shard": _SHARD,
    "clinvar/changes": _CHANGES,
    "holdouts/manifest": _HOLDOUTS,
    "packages/audit": _AUDIT,
}
#: Alleles on which a package is evaluated: of held-out genes, and newly labelled.
_BENCHES = ("holdout-clinvar.bench", "holdout-temporal.new", "holdout-temporal.became_labelled")
#: Figures of a release: where its manifest lies, and counts of it that are added up.
_FIGURES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "added": (_CHANGES, ("added",)),
    "removed": (_CHANGES, ("removed",)),
    "reclassified": (_CHANGES, ("class_changed",)),
    "genes_changed": (_CHANGES, ("genes_changed",)),
    **{name: (_SHARD, tuple(f"label.{each}" for each in kinds)) for name, kinds in _CLASSES.items()},
    "held_out_windows": (_HOLDOUTS, ("windows.held_out",)),
    "bench_alleles": (_HOLDOUTS, tuple(f"alleles.{each}" for each in _BENCHES)),
    "to_training": (_HOLDOUTS, ("moves.to_training",)),
    "from_training": (_HOLDOUTS, ("moves.from_training",)),
}
#: Figures of the table, and their titles.
_COLUMNS = {
    "added": "added",
    "removed": "removed",
    "reclassified": "reclassified",
    "bench_alleles": "on benches",
    "held_out_windows": "windows held out",
    "to_training": "kept from training",
    "from_training": "taken from training",
}

#: Meaning of the entries of :func:`release_metadata`.
RELEASE_ENTRIES = {
    "releases": "what became of the newest releases, why, and what each changed",
    "over_releases": "alleles by class, benches, windows held out and moves between the sides, release by release",
}


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """What became of one release."""

    release: str
    #: ``served``: trainers read its package. ``built``: its package, or without one its shard, is published.
    #: ``refused``: its latest run failed. ``running``, ``waiting``: its run has not ended. ``offered``: nothing was
    #: asked for, as of every release that is older than the newest.
    state: State
    #: One line; empty if the state says all. Of a served release: why a later build of it is not in use.
    why: str
    #: The failed, running or waiting run.
    run_id: str | None
    #: Numbers of what is published of it, by name; a figure of what is not published is left out.
    figures: Mapping[str, int]
    #: Addresses of pages of the UI that tell more, by name, relative to the UI.
    pages: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        told = {"release": self.release, "state": self.state, "why": self.why, "run_id": self.run_id}
        return {**told, **self.figures, "pages": dict(self.pages)}

    def changes(self) -> str:
        """Return what the release changed, in words; empty without a release before it."""
        if "added" not in self.figures:
            return ""
        return ", ".join(f"{self.figures[name]:,} {name}" for name in ("added", "removed", "reclassified"))


def read_release_table(
    workspace: Workspace, instance: dg.DagsterInstance | None, limit: int | None = SHOWN
) -> list[ReleaseRow]:
    """Return the newest releases that a root knows, newest first; the listing is not asked, and nothing is hashed."""
    root = workspace.root.path
    keys = in_order(recorded_releases(workspace).keys)[::-1][:limit]
    runs = latest_runs(instance, keys) if instance else {}
    served, passed_over = None, dict[str, str]()
    with suppress(GenoLeWMError):
        served = read_current(root).release
    with suppress(GenoLeWMError):
        passed_over = dict(not_in_use(root))
    return [_row(workspace, key, runs.get(key), passed_over.get(key, ""), is_served=key == served) for key in keys]


def _row(workspace: Workspace, key: str, run: ReleaseRun | None, passed_over: str, *, is_served: bool) -> ReleaseRow:
    root, figures = workspace.root.path, dict[str, int]()
    counts = {place: _counts(root / place.format(key)) for place in (_CHANGES, _SHARD, _HOLDOUTS)}
    for name, (place, names) in _FIGURES.items():
        if any(each in counts[place] for each in names):
            figures[name] = sum(counts[place].get(each, 0) for each in names)
    product = _SHARD.format(key)
    with suppress(GenoLeWMError):
        product = read_latest(root, key).path if workspace.is_packaged(key) else product
    state: State = "served" if is_served else "built" if (root / product / "manifest.json").is_file() else "offered"
    why = passed_over
    if run is not None and is_served:
        # What is served stays, whatever becomes of a later build of it.
        why = passed_over or run.reason or f"a later build of it is {run.state}"
    elif run is not None:
        state, why = run.state, run.reason
    rejected = _rejected_asset(workspace, key)
    if state == "offered" and rejected:
        place = _PLACES[rejected].format(key)
        state, why = "refused", f"{place}: {rejection_reason(workspace.root, place)}"
    run_id = run.run_id if run else None
    return ReleaseRow(key, state, why, run_id, figures, dict(_pages(root, key, run_id, rejected)))


def _counts(place: Path) -> Mapping[str, int]:
    with suppress(GenoLeWMError, OSError):
        return read_manifest(resolve_generation(place)).counts
    return {}


def _rejected_asset(workspace: Workspace, key: str) -> str:
    """Return the first asset whose latest build for a release was rejected; empty if none was."""
    rejected = (asset for asset, place in _PLACES.items() if workspace.root.is_rejected(place.format(key)))
    return next(rejected, "")


def _pages(root: Path, key: str, run_id: str | None, rejected: str) -> Iterator[tuple[str, str]]:
    if run_id:
        yield "run", f"/runs/{run_id}"
    if rejected:
        yield "failed checks and rows", f"/assets/{rejected}?view=checks"
    for name, asset in (("changes", "clinvar/changes"), ("audit", "packages/audit")):
        if (root / _PLACES[asset].format(key) / "manifest.json").is_file():
            yield name, f"/assets/{asset}?view=partitions&partition={key}"


def as_markdown(rows: Iterable[ReleaseRow]) -> str:
    """Return the table as Markdown, with links to pages that tell more; texts of errors cannot form markup."""
    titles = ("release", "state", "see", *_COLUMNS.values(), "why")
    return as_table([titles, *(tuple(_cells(row)) for row in rows)])


def release_metadata(rows: Sequence[ReleaseRow]) -> dict[str, dg.MetadataValue]:
    """Return table and picture of some releases, newest first, as the UI shows them; empty without a release."""
    from genolewm_assets.defs.display import draw_releases

    if not rows:
        return {}
    past = rows[::-1]
    picture = draw_releases([row.release for row in past], [row.figures for row in past])
    return {"releases": after_a_click(as_markdown(rows)), "over_releases": picture}


def _cells(row: ReleaseRow) -> Iterator[str]:
    yield row.release
    yield row.state
    yield ", ".join(f"[{name}]({page})" for name, page in row.pages.items())
    yield from (f"{row.figures[name]:,}" if name in row.figures else "" for name in _COLUMNS)
    yield escaped(row.why)
