"""The report of a move of ``packages/current``: what changed in ClinVar, in the benches and in training, in Markdown.

The text is a function of the two packages and of the ClinVar tables: it names no time, run or folder outside the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from genolewm_assets.defs.display.change_picture import draw_transitions
from genolewm_assets.defs.display.markdown import as_code
from genolewm_assets.defs.display.pictures import GREEN, GREY, ORANGE, VERMILION, draw_composition
from genolewm_assets.errors import counted
from genolewm_assets.genome import CLASSES, Split
from genolewm_assets.packages import Move, PackageDiff, PackageInfo, PackageRef
from genolewm_assets.variants import is_before, transitions

#: What became of an allele of a bench, and the colour of it.
_BENCH_PARTS = {"kept": GREY, "relabelled": ORANGE, "added": GREEN, "removed": VERMILION}
_TRAIN_PARTS = {"added": GREEN, "removed": VERMILION}

_NOT_COMPARED = "## Benches and training\n\nThe packages were not compared: {}."
#: Differences that other parts of the report show, or that only say where states lie.
_NOT_SHOWN = frozenset({"release", "caches", "mix", "sources"})

#: Figures of a move, in the order in which they are shown.
FIGURES = (
    *("clinvar_added", "clinvar_removed", "clinvar_reclassified"),
    *("bench_alleles_added", "bench_alleles_removed", "bench_labels_changed", "train_labels_changed"),
    *(f"{split}_{noun}_{what}" for split in Split for noun in ("alleles", "windows") for what in ("added", "removed")),
)


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """What a report is written from.

    Attributes
    ----------
    info, info_before
        ``package.json`` of the package in use, and of the one before; None if there is none, or it cannot be opened.
    diff
        Comparison of the packages; None as above.
    clinvar
        Counts of ``variants.find_changes`` from the release before to the one in use; None if they were not compared.
    problems
        Why there is no ``diff`` (``package``) or no ``clinvar`` although there is a package before.
    """

    move: Move
    info: PackageInfo
    info_before: PackageInfo | None
    diff: PackageDiff | None
    clinvar: Mapping[str, int] | None
    problems: Mapping[str, str]


def write_title(move: Move) -> str:
    """Return the report's title, one line without Markdown."""
    after, before = move.after, move.before
    if before is None:
        return f"The package of ClinVar {after.release} is in use; no package before it is recorded"
    if before.release == after.release:
        return f"A new build of the package of ClinVar {after.release} is in use"
    if is_before(after.release, before.release):
        return f"The package of ClinVar {after.release} is in use, which is older than {before.release} before it"
    return f"The package of ClinVar {after.release} is in use, after {before.release}"


def move_figures(facts: MoveFacts) -> dict[str, int]:
    """Return the figures of a move; those that could not be compared are left out.

    By split, ``<split>_windows_added`` and so on count rows: an evaluation split has one per holdout that a window or
    allele serves. ``bench_*`` count alleles of all benches, ``train_labels_changed`` ClinVar alleles of training,
    ``clinvar_*`` alleles of ClinVar.
    """
    figures: dict[str, int] = {}
    if facts.clinvar is not None:
        names = {"clinvar_added": "added", "clinvar_removed": "removed", "clinvar_reclassified": "class_changed"}
        figures |= {name: facts.clinvar[key] for name, key in names.items()}
    if facts.diff is not None:
        benches, tables = facts.diff.benches, {table.table: table for table in facts.diff.tables}
        figures |= {
            "bench_alleles_added": sum(bench.added for bench in benches),
            "bench_alleles_removed": sum(bench.removed for bench in benches),
            "bench_labels_changed": sum(bench.relabelled for bench in benches),
            "train_labels_changed": sum(facts.diff.train.relabelled.values()),
        }
        for split in Split:
            for noun in ("alleles", "windows"):
                table = tables[f"{noun}, {split}"]
                figures |= {f"{split}_{noun}_added": table.added, f"{split}_{noun}_removed": table.removed}
    return figures


def write_report(facts: MoveFacts) -> str:
    """Return the report as Markdown with embedded pictures; equal facts give equal text."""
    sections = [f"# {write_title(facts.move)}", _packages(facts.move)]
    if facts.move.before is not None:
        sections += [
            _clinvar(facts),
            *(
                _differences(facts, facts.diff)
                if facts.diff
                else [_NOT_COMPARED.format(as_code(facts.problems["package"]))]
            ),
        ]
    sections += ["## Splits", _splits(facts)]
    return "\n\n".join(section for section in sections if section) + "\n"


def _packages(move: Move) -> str:
    rows = [("in use", move.after), *([("before", move.before)] if move.before else [])]
    return _table(
        ("", "ClinVar", "folder", "manifest (SHA-256)"),
        [(name, ref.release, f"`{ref.path}`", f"`{ref.manifest_sha256[:12]}`") for name, ref in rows],
        figures_from=4,
    )


def _clinvar(facts: MoveFacts) -> str:
    assert facts.move.before is not None
    after, before = facts.move.after.release, facts.move.before.release
    if after == before:
        return f"## ClinVar\n\nBoth packages are of ClinVar {after}."
    head = f"## ClinVar {before} to {after}"
    if facts.clinvar is None:
        return f"{head}\n\nThe releases were not compared: {as_code(facts.problems['clinvar'])}."
    n = facts.clinvar
    text = (
        f"{_count(n['added'], 'allele')} appeared, **{n['removed']:,}** disappeared and **{n['class_changed']:,}** got "
        f"another class. Of the {n['persisting']:,} in both releases, {n['stars_changed']:,} got other review stars "
        f"and {n['unchanged']:,} stayed as they were."
    )
    matrix = transitions(n)
    kept = matrix.diagonal()
    rows = [
        (
            name,
            int(matrix[i].sum()),
            int(matrix[-1, i]),
            int(matrix[i, -1]),
            int(matrix[:-1, i].sum() - kept[i]),
            int(matrix[i, :-1].sum() - kept[i]),
            int(matrix[:, i].sum()),
        )
        for i, name in enumerate(CLASSES)
    ]
    header = ("class", before, "new", "gone", "from another class", "to another class", after)
    picture = draw_transitions(matrix, earlier=before, later=after)
    return "\n\n".join([head, text, _table(header, rows), _markdown(picture)])


def _differences(facts: MoveFacts, diff: PackageDiff) -> Iterator[str]:
    yield _benches(diff)
    yield _training(facts, diff)
    if diff.moved:
        yield "## Moved between splits\n\n" + _table(("what", "rows"), diff.moved.items())
    settings = {name: values for name, values in diff.settings.items() if name not in _NOT_SHOWN}
    if rows := [
        (as_code(name), as_code(old), as_code(new)) for name, (old, new) in (*_sources(facts), *settings.items())
    ]:
        yield "## Settings and sources\n\n" + _table(("setting", "before", "now"), rows, figures_from=3)


def _sources(facts: MoveFacts) -> list[tuple[str, tuple[str, str]]]:
    """Return every source whose release differs, with its releases before and now; ClinVar is in the title."""
    old = {} if facts.info_before is None else facts.info_before.sources
    pairs = {
        name: (old.get(name, "none"), facts.info.sources.get(name, "none")) for name in {*old, *facts.info.sources}
    }
    return [(name, pair) for name, pair in sorted(pairs.items()) if pair[0] != pair[1] and name != "clinvar"]


def _benches(diff: PackageDiff) -> str:
    total = sum(bench.alleles for bench in diff.benches)
    if all(bench.is_equal for bench in diff.benches):
        return f"## Benches\n\nAll benches are equal: **{total:,}** alleles with the same labels, stars and outcomes."
    changed = [bench for bench in diff.benches if not bench.is_equal]
    added, removed, relabelled, others = (
        sum(numbers) for numbers in zip(*((b.added, b.removed, b.relabelled, b.changed) for b in changed), strict=True)
    )
    equal = len(diff.benches) - len(changed)
    text = (
        f"{_count(added, 'allele')} joined the benches, **{removed:,}** left and **{relabelled:,}** got another label; "
        f"{others - relabelled:,} got other stars or another outcome only. "
        f"{equal} of {len(diff.benches)} benches stayed equal: only on those can scores before and after be compared."
    )
    rows = [
        (
            b.holdout,
            b.split,
            b.alleles - b.added + b.removed,
            b.added,
            b.removed,
            b.relabelled,
            b.changed - b.relabelled,
            b.alleles,
        )
        for b in diff.benches
    ]
    header = ("holdout", "split", "before", "added", "removed", "other label", "other stars or outcome", "now")
    parts = {
        f"{b.holdout}, {b.split}": {
            "kept": b.alleles - b.added - b.relabelled,
            "relabelled": b.relabelled,
            "added": b.added,
            "removed": b.removed,
        }
        for b in diff.benches
    }
    picture = draw_composition({"alleles": parts}, title="Alleles of the benches", parts=_BENCH_PARTS)
    return "\n\n".join(["## Benches", text, _table(header, rows, figures_from=2), _markdown(picture)])


def _training(facts: MoveFacts, diff: PackageDiff) -> str:
    tables = {table.table: table for table in diff.tables}
    windows, alleles = (tables[f"{noun}, {Split.TRAIN}"] for noun in ("windows", "alleles"))
    now, train = facts.info.splits[Split.TRAIN], diff.train
    relabelled = sum(train.relabelled.values())
    text = (
        f"Training gained {_count(windows.added, 'window')} and lost **{windows.removed:,}**: it now has "
        f"{now.windows:,}. It gained {_count(alleles.added, 'allele')} and lost **{alleles.removed:,}**: it now has "
        f"{now.variants:,}. "
        f"{_count(relabelled, 'ClinVar allele')} of training got another label."
    )
    parts = ["## Training", text]
    if not train.is_empty:
        classes = [name for name in CLASSES if name in {*train.added, *train.removed}]
        gained = {name: (train.added.get(name, 0), train.removed.get(name, 0)) for name in classes}
        if classes:
            parts.append(_table(("ClinVar alleles", "added", "removed"), [(k, *pair) for k, pair in gained.items()]))
            stacks = {name: dict(zip(_TRAIN_PARTS, pair, strict=True)) for name, pair in gained.items()}
            title = "ClinVar alleles that training gained and lost, by class"
            parts.append(_markdown(draw_composition({"alleles": stacks}, title=title, parts=_TRAIN_PARTS)))
        if relabelled:
            parts.append(_table(("other label in training", "ClinVar alleles"), train.relabelled.items()))
    return "\n\n".join([*parts, _mix(facts)])


def _mix(facts: MoveFacts) -> str:
    """Return the shares of the tuples of an epoch before and now, as a table."""
    epochs = [info.epoch for info in (facts.info_before, facts.info) if info is not None and info.epoch is not None]
    if len(epochs) < 2 or any(epoch.error for epoch in epochs):
        return ""
    old, new = (epoch.planned for epoch in epochs)
    rows = [
        (what, name, f"{before.get(name, 0.0):.1%}", f"{after.get(name, 0.0):.1%}")
        for what, before, after in (("windows", old.windows, new.windows), ("edits", old.edits, new.edits))
        for name in sorted({*before, *after})
    ]
    return "Shares of the tuples of an epoch:\n\n" + _table(("of", "source", "before", "now"), rows, figures_from=2)


def _splits(facts: MoveFacts) -> str:
    """Return windows and alleles of every split, with what was added and removed if that is known."""
    tables = {} if facts.diff is None else {table.table: table for table in facts.diff.tables}
    rows: list[tuple[object, ...]] = []
    for split in Split:
        info = facts.info.splits[split]
        for noun, now in (("windows", info.windows), ("alleles", info.variants)):
            table = tables.get(f"{noun}, {split}")
            rows.append(
                (split, noun, now)
                if table is None
                else (split, noun, now - table.added + table.removed, table.added, table.removed, table.changed, now)
            )
    header = ("split", "rows of", "before", "added", "removed", "changed", "now") if tables else ("split", "of", "rows")
    return _table(header, rows, figures_from=2)


def _table(header: Sequence[str], rows: Iterable[Sequence[object]], *, figures_from: int = 1) -> str:
    """Return a Markdown table whose columns from number ``figures_from`` on (0-based) are aligned to the right."""
    lines = [" | ".join(header), " | ".join("---:" if i >= figures_from else "---" for i in range(len(header)))]
    lines += [" | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def _count(n: int, noun: str) -> str:
    number, _, name = counted(n, noun).partition(" ")
    return f"**{number}** {name}"


def _markdown(picture: dg.MetadataValue) -> str:
    assert isinstance(picture, dg.MarkdownMetadataValue)
    return picture.value or ""


def describe_ref(ref: PackageRef | None) -> str:
    """Return release and folder of a package in a few words."""
    return "none is recorded" if ref is None else f"{ref.release} ({ref.path})"
