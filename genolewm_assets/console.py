"""Consoles of the commands, which show text from outside as it may be printed, and their progress."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.segment import Segment
from rich.text import Text

from genolewm_assets.errors import printable


class SafeConsole(Console):
    """A console that prints no control character and no password of a URL, wherever in what is printed they are."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text as it is laid out."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the parts of what is printed, also of what is not given as text; controls are the console's own."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=printable(part.text))

    def say(self, *lines: str, style: str | None = None) -> None:
        """Print lines as they are: no markup, no colours of their own, no breaks."""
        for line in lines:
            self.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


# Without emoji: `:A:` in an allele is none.
out = SafeConsole(emoji=False)
err = SafeConsole(stderr=True, emoji=False)

#: Seconds between two progress lines when the output is not a terminal.
_LINE_INTERVAL_S = 10.0


class _ByteSpeed(TransferSpeedColumn):
    """Bytes a second, where bytes are counted."""

    def render(self, task: Task) -> Text:
        """Return the speed of a task."""
        return super().render(task) if str(task.fields["unit"]).startswith("bytes") else Text()


class ConsoleProgress:
    """Progress display of the commands, to be used as a context manager: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, console: SafeConsole) -> None:
        self._console = console
        self._said = time.monotonic()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
            _ByteSpeed(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, unit="")

    def __enter__(self) -> ConsoleProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Move the bar; without a terminal, print a line at most every 10 seconds."""
        self._bar.update(self._task, completed=done, total=total, unit=unit)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said >= _LINE_INTERVAL_S:
            self._said = now
            self._console.print(f"{done:,}{f' of {total:,}' if total else ''} {unit}")

    def say(self, line: str) -> None:
        """Print a line above the bar; the next progress line without a terminal follows after 10 seconds or more."""
        self._said = time.monotonic()
        self._console.say(line)
