"""The page of a status: sections with few rows, for a terminal of 100 columns, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from genolewm_assets.defs.display import escaped
from genolewm_assets.defs.status.changes import Figure, Moved
from genolewm_assets.defs.status.costs import Cost, Hours
from genolewm_assets.defs.status.disk import Disk, Size
from genolewm_assets.defs.status.pieces import piece_rows
from genolewm_assets.defs.status.release_table import ReleaseRow
from genolewm_assets.defs.status.report import Status
from genolewm_assets.defs.status.troubles import Trouble
from genolewm_assets.errors import counted, printable

#: Rows of a section that are shown; the others are counted.
_TROUBLES, _MOVED, _SIZES = 6, 4, 3
#: Characters of a list of partitions.
_LISTED = 110

_SERVES = "packages/current serves"


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the page; texts hold printable characters only, and may hold markup that is not meant.

    Attributes
    ----------
    more
        What was left out; empty if nothing.
    is_alarming
        Whether something in it is a reason for exit code 4.
    """

    title: str
    rows: tuple[tuple[str, ...], ...]
    more: str = ""
    is_alarming: bool = False


def headline(status: Status) -> str:
    """Return one line: root, time and the number of troubles by kind."""
    counts = ", ".join(f"{number} {kind}" for kind, number in status.counts.items())
    return _plain(f"{status.root} ({status.catalog}), {_moment(status.time)}: {counts or 'all is well'}")


def sections(status: Status) -> list[Section]:
    """Return the sections of the page; reasons are whole, and the place that shows them folds them."""
    found = [
        Section("Releases", tuple(_release_rows(status))),
        _troubles(status),
        Section("Pieces of the corpus", tuple(piece_rows(status.pieces))),
        Section("What became of the newest releases", tuple(map(_outcome_row, status.latest))),
        _moved(status),
        _sizes(status.disk),
        Section("Hours of states (H100), and what the next builds would take", tuple(_cost_rows(status))),
    ]
    return [
        replace(each, rows=tuple(tuple(map(_plain, row)) for row in each.rows), more=_plain(each.more))
        for each in found
        if each.rows
    ]


def as_markdown(status: Status) -> str:
    """Return the page as Markdown; texts of errors cannot form markup."""
    lines = [f"**{escaped(headline(status))}**", ""]
    if status.note:
        lines += [escaped(_plain(status.note)), ""]
    for section in sections(status):
        width = len(section.rows[0])
        lines += [f"### {section.title}", "", f"|{' |' * width}", f"|{'---|' * width}"]
        lines += [f"| {' | '.join(map(escaped, row))} |" for row in section.rows]
        lines += ["", *([escaped(section.more), ""] if section.more else [])]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return a text in one line, as it may be printed."""
    return printable(" ".join(text.split()))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _release_rows(status: Status) -> Iterator[tuple[str, str]]:
    found = status.releases
    newest = "none is known" if found.newest is None else f"{found.newest}, {_days(found.age_days)} old"
    yield "newest release", newest
    if found.served is None:
        yield _SERVES, "no package is in use"
        return
    since = (
        ""
        if found.served_since is None
        else f", since {_moment(found.served_since)} ({_age(status, found.served_since)})"
    )
    pinned = " (pinned)" if found.pinned else ""
    yield _SERVES, f"{found.served}{pinned}, {_days(found.served_age_days)} old{since}"


def _outcome_row(row: ReleaseRow) -> tuple[str, ...]:
    run = f" (run {row.run_id[:8]})" if row.run_id else ""
    return row.release, row.state, "; ".join(filter(None, [row.changes(), f"{row.why}{run}".strip()]))


def _troubles(status: Status) -> Section:
    told = [each for each in status.troubles if each.kind != "missing"]
    shown, rest = told[:_TROUBLES], told[_TROUBLES:]
    rows = [_trouble_row(status, each) for each in shown]
    if absent := [each for each in status.troubles if each.kind == "missing"]:
        number = sum(len(each.artefacts) for each in absent)
        names = _cut(", ".join(each.subject for each in absent), _LISTED)
        rows.append(("missing", counted(number, "partition"), "", f"nothing is published: {names}"))
    more = f"and {len(rest)} more: genolewm status --json" if rest else ""
    return Section("Failed, late or waiting", tuple(rows), more, not status.is_well)


def _trouble_row(status: Status, trouble: Trouble) -> tuple[str, ...]:
    run = f" (run {trouble.run_id[:8]})" if trouble.run_id else ""
    reason = trouble.reason.removeprefix(f"{trouble.subject}: ")
    since = "" if trouble.since is None else _age(status, trouble.since)
    return trouble.kind, _cut(trouble.subject, 60), since, f"{reason}{run}".strip()


def _moved(status: Status) -> Section:
    shown, rest = status.moved[:_MOVED], status.moved[_MOVED:]
    more = f"and {counted(len(rest), 'more asset')}" if rest else ""
    return Section("Moved in the last 24 h", tuple(map(_moved_row, shown)), more)


def _moved_row(moved: Moved) -> tuple[str, ...]:
    what = moved.asset if moved.partition is None else f"{moved.asset}[{moved.partition}]"
    number = counted(moved.partitions, "partition") + ("" if moved.is_all else " at least")
    return what, number, ", ".join(map(_figure, moved.figures))


def _figure(figure: Figure) -> str:
    name = figure.name.replace("_", " ")
    if figure.is_difference:
        return f"{figure.after:,} {name}"
    if figure.before is None:
        return f"{figure.after:,} {name} (new)"
    return f"{figure.after:,} {name} ({figure.after - figure.before:+,})"


def _sizes(disk: Disk) -> Section:
    shown, rest = disk.sizes[:_SIZES], disk.sizes[_SIZES:]
    rows = [_size_row(each) for each in shown]
    if rest:
        rows.append(_size_row(_sum(counted(len(rest), "other"), rest)))
    rows.append(_size_row(_sum("all", disk.sizes)))
    free = f"{_bytes(disk.free_bytes)} of {_bytes(disk.total_bytes)} free"
    return Section("Sizes, and what was written in the last 24 h", tuple(rows), free)


def _sum(what: str, sizes: tuple[Size, ...]) -> Size:
    return Size(
        what,
        sum(each.partitions for each in sizes),
        sum(each.published_bytes for each in sizes),
        sum(each.superseded_bytes for each in sizes),
        sum(each.grown_bytes for each in sizes),
    )


def _size_row(size: Size) -> tuple[str, ...]:
    superseded = f"{_bytes(size.superseded_bytes)} superseded" if size.superseded_bytes else ""
    grown = f"+{_bytes(size.grown_bytes)}" if size.grown_bytes else ""
    number = counted(size.partitions, "partition") if size.partitions else ""
    return size.what, number, _bytes(size.total_bytes), grown, superseded


def _cost_rows(status: Status) -> Iterator[tuple[str, ...]]:
    if (hours := status.hours) is not None:
        number = counted(hours.steps, "step") + ("" if hours.is_all else " at least")
        figures = f"{hours.day:.2f} h in 24 h, {hours.week:.2f} h in 7 days, {hours.total:.2f} h in total"
        yield f"spent, {hours.device} hours", number, figures
    for cost in status.costs:
        yield _cost_row(cost, hours)


def _cost_row(cost: Cost, hours: Hours | None) -> tuple[str, ...]:
    what = f"next: {cost.what}"
    if not cost.partitions:
        return what, "nothing", ""
    place = "the GPU" if hours is not None and hours.device == "GPU" else "the CPU"
    states = f", {_duration(cost.h100_seconds)} of it for states, on {place}" if cost.h100_seconds else ""
    estimated = f"about {_duration(cost.seconds)}{states}" if cost.unknown < cost.partitions else ""
    unknown = f"{counted(cost.unknown, 'partition')} never built here, no estimate" if cost.unknown else ""
    return what, counted(cost.partitions, "partition"), "; ".join(filter(None, [estimated, unknown]))


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _days(days: int | None) -> str:
    return counted(days or 0, "day")


def _age(status: Status, moment: float) -> str:
    return f"{_duration(max(0.0, status.time - moment))} ago"


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "less than 1 s"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:,.1f} TB"
