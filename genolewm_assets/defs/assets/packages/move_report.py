"""The report of a move of ``packages/current``: made from the published tables, and kept beside the packages.

::

    <root>/packages/reports/<move>.md      the report, Markdown with embedded pictures
    <root>/packages/reports/<move>.json    its figures, and a SHA-256 of both; absent where something was not compared
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genolewm_assets.defs.assets import count_changes
from genolewm_assets.defs.runtime import Workspace
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.packages import CURRENT_FILE, REPORTS, Move, PackageRef, compare_packages, folder_of, open_tables
from genolewm_assets.progress import Progress
from genolewm_assets.store.files import canonical_json, naming, read_document, read_record, write_atomic

if TYPE_CHECKING:
    from genolewm_assets.defs.display import MoveFacts
    from genolewm_assets.packages import Package

#: Raised when the same packages give another report.
REPORT_VERSION = "1"

#: Errors after which the rest of a report is made all the same.
_NOT_READ = (GenoLeWMError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a move."""

    #: The Markdown file, relative to the root.
    path: str
    #: As ``display.move_figures`` returns them.
    figures: Mapping[str, int]
    #: The text.
    markdown: str
    #: What could not be compared, and why, by name.
    problems: Mapping[str, str]


def report_move(workspace: Workspace, move: Move, progress: Progress) -> Report:
    """Return the report of a move; a report that was kept is read, others are made and kept."""
    kept = _read_kept(workspace, move)
    if kept is not None:
        return kept
    from genolewm_assets.defs.display import move_figures, write_report

    facts = _gather(workspace, move, progress)
    report = Report(f"{REPORTS}/{move.name}.md", move_figures(facts), write_report(facts), facts.problems)
    _keep(workspace, report)
    return report


def _gather(workspace: Workspace, move: Move, progress: Progress) -> MoveFacts:
    from genolewm_assets.defs.display import MoveFacts

    new = _open(workspace, move.after)
    old, diff, clinvar, problems = None, None, None, dict[str, str]()
    if move.before is not None:
        try:
            old = _open(workspace, move.before)
            diff = compare_packages(old, new)
        except _NOT_READ as err:
            old, problems["package"] = None, _reason(err)
        if move.before.release != move.after.release:
            try:
                clinvar = count_changes(workspace, move.before.release, move.after.release, progress)
            except _NOT_READ as err:
                problems["clinvar"] = _reason(err)
    return MoveFacts(move, new.info, old.info if old else None, diff, clinvar, problems)


def _open(workspace: Workspace, ref: PackageRef) -> Package:
    """Open a package to read its tables, if it is the one that the reference names; only sizes are compared."""
    folder = folder_of(
        workspace.root.path, ref, named_by=CURRENT_FILE, remedy="Materialise packages/split for its release"
    )
    return open_tables(folder, contents="sizes", allow_unaudited=True)


def _reason(error: Exception) -> str:
    """Return an error in words that are the same wherever the root lies."""
    return error.problem if isinstance(error, GenoLeWMError) else f"a file cannot be read ({type(error).__name__})"


def _read_kept(workspace: Workspace, move: Move) -> Report | None:
    """Return the kept report of a move if it is whole and of this version, else None."""
    path = f"{REPORTS}/{move.name}.md"
    file = workspace.root.path / path
    with suppress(*_NOT_READ):
        stated = read_document(file.with_suffix(".json"), remedy="")
        text = read_record(file, remedy="")
        if isinstance(stated, dict) and isinstance(figures := stated.get("figures"), dict):
            counted = {str(name): n for name, n in figures.items() if type(n) is int}
            if stated == _statement(counted, text):
                return Report(path, counted, text.decode(), {})
    return None


def _keep(workspace: Workspace, report: Report) -> None:
    file = workspace.root.path / report.path
    text = report.markdown.encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    # Without it a report is made again, so it is written last, and not for a report that lacks something.
    stated = file.with_suffix(".json")
    with naming(file.parent):
        stated.unlink(missing_ok=True)
        write_atomic(file, text)
        if not report.problems:
            write_atomic(stated, canonical_json(_statement(report.figures, text), str(stated)))


def _statement(figures: Mapping[str, int], text: bytes) -> dict[str, object]:
    return {
        "figures": dict(figures),
        "sha256": hashlib.sha256(canonical_json(dict(figures), "figures") + text).hexdigest(),
        "report_version": REPORT_VERSION,
    }
