"""Does a tutorial in a folder of its own: runs its snippets, compares what they print and draw.

Blocks of ``bash`` run in one session and blocks of ``python`` in one interpreter, in their order, with ``genolewm`` on
the path. A block of ``text`` directly after one is what it prints, standard error included; ``...`` stands for any
text, and white space for any white space, as in doctest. A picture of ``../images/tutorials`` has the name of a file
that a snippet made. Of libraries for this, Sybil has no session of bash, and doctest wants prompts.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from PIL import Image, ImageChops, ImageStat

from genolewm_assets_tests.places import REPOSITORY

TUTORIALS = sorted((REPOSITORY / "docs/tutorials").glob("[0-9]*.md"))
PICTURES = REPOSITORY / "docs/images/tutorials"

_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: Of 255, between thumbnails of a picture and the committed one: other processors round otherwise, pages show the time.
_DIFFERENCE = 4.0

#: Each reads names of files from standard input, runs them, and answers with a line; what they print is beside them.
_SESSIONS: Mapping[str, Sequence[str]] = {
    "bash": ("bash", "-e", "-o", "pipefail", "-c",
             'while read -r block; do . "$block" >"$block.out" 2>&1 </dev/null; echo; done'),
    "python": (sys.executable, "-c", """
import sys, contextlib
names = {"__name__": "__main__"}
for line in sys.stdin:
    file = line.strip()
    code = compile(open(file).read(), file, "exec")
    with open(file + ".out", "w", 1) as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        exec(code, names)
    print(flush=True)
"""),
}  # fmt: skip


@dataclass(frozen=True)
class Snippet:
    """A block that is run, the line where it begins, and what it prints, if the tutorial says it."""

    language: str
    text: str
    line: int
    printed: str | None


@dataclass(frozen=True)
class Picture:
    """A picture that an earlier snippet made."""

    name: str


def read_steps(page: Path) -> list[Snippet | Picture]:
    """Return the snippets and pictures of a tutorial in their order."""
    steps: list[Snippet | Picture] = []
    tokens = MarkdownIt().parse(page.read_text())
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "fence" and token.info in _SESSIONS:
            assert token.map is not None
            shown = following.content if following and (following.type, following.info) == ("fence", "text") else None
            steps.append(Snippet(token.info, token.content, token.map[0] + 1, shown))
        for child in token.children or ():
            if child.type == "image":
                folder, _, name = str(child.attrs["src"]).rpartition("/")
                assert (page.parent / folder).resolve() == PICTURES, f"{page.name}: {child.attrs['src']}"
                steps.append(Picture(name))
    return steps


def _blocks(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.blocks")


def _block_file(folder: Path, snippet: Snippet) -> Path:
    return _blocks(folder) / f"line_{snippet.line}"


def _printed(folder: Path, snippet: Snippet) -> str:
    file = _block_file(folder, snippet)
    return file.with_name(f"{file.name}.out").read_text(errors="replace")


class Reader:
    """Someone at a terminal in a folder, with two sessions."""

    def __init__(self, folder: Path, environment: Mapping[str, str], stand_ins: Mapping[str, str]) -> None:
        self.folder, self._environment, self._stand_ins = folder, environment, stand_ins
        self._sessions: dict[str, subprocess.Popen[str]] = {}

    def run(self, snippet: Snippet) -> None:
        """Run a snippet to its end."""
        session, text = self._session(snippet.language), snippet.text
        for word, stand_in in self._stand_ins.items():
            text = text.replace(word, stand_in)
        file = _block_file(self.folder, snippet)
        file.write_text(text)
        assert session.stdin is not None
        assert session.stdout is not None
        session.stdin.write(f"{file}\n")
        session.stdin.flush()
        answered = session.stdout.readline()
        assert answered, f"line {snippet.line} failed:\n{text}\n{_printed(self.folder, snippet)}"

    def _session(self, language: str) -> subprocess.Popen[str]:
        if language not in self._sessions:
            self._sessions[language] = subprocess.Popen(
                _SESSIONS[language],
                cwd=self.folder,
                env=dict(self._environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        return self._sessions[language]

    def leave(self) -> None:
        """End both sessions, and what they left running."""
        for session in self._sessions.values():
            session.communicate()
            with suppress(ProcessLookupError):
                os.killpg(session.pid, signal.SIGKILL)


@contextmanager
def reading(
    folder: Path, *, stand_ins: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Reader]:
    """Sit down in a folder as in a checkout whose environment is active.

    Parameters
    ----------
    stand_ins
        Words of snippets that mean something else here, such as a catalogue over servers of the test.
    environment
        Added to that of the sessions.
    """
    folder.mkdir(exist_ok=True)
    programs = folder.with_name(f"{folder.name}.bin")
    programs.mkdir()
    _blocks(folder).mkdir()
    for name, words in {"genolewm": "-m genolewm_assets_tests.worlds.graph.quick_dagster", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    for name in ("docs", "deploy"):
        (folder / name).symlink_to(REPOSITORY / name)
    own = {name: value for name, value in os.environ.items() if name not in ("GENOLEWM_ROOT", "GENOLEWM_CATALOG")}
    own |= {"PATH": f"{programs}:{own['PATH']}", "PYTHONPATH": str(REPOSITORY), "COLUMNS": "100", "MPLBACKEND": "agg"}
    reader = Reader(folder, own | dict(environment or {}), stand_ins or {})
    try:
        yield reader
    finally:
        reader.leave()


def check_printed(snippet: Snippet, folder: Path) -> None:
    """Compare what a snippet printed in a folder with what the tutorial says."""
    if snippet.printed is not None:
        printed = _printed(folder, snippet)
        # A line of dots stands for any number of lines, none included.
        wanted = re.sub(r"^\.\.\.\n", "...", snippet.printed, flags=re.MULTILINE)
        same = doctest.OutputChecker().check_output(wanted, printed, _LIKE)
        assert same, f"line {snippet.line}: expected\n{snippet.printed}\ngot\n{printed}"


def check_picture(made: Path) -> None:
    """Compare a picture with the committed one of its name; with ``GENOLEWM_WRITE_PICTURES=1`` commit it."""
    assert made.stat().st_size < 60_000, made
    committed = PICTURES / made.name
    if os.environ.get("GENOLEWM_WRITE_PICTURES"):
        shutil.copyfile(made, committed)
    if made.suffix == ".svg":
        assert made.read_bytes() == committed.read_bytes(), f"{made.name} differs from the committed one"
        return
    with Image.open(made) as ours, Image.open(committed) as theirs:
        assert ours.size == theirs.size, made.name
        small = [image.convert("L").resize((48, 48), Image.Resampling.BOX) for image in (ours, theirs)]
        (difference,) = ImageStat.Stat(ImageChops.difference(*small)).mean
        assert difference < _DIFFERENCE, f"{made.name} differs by {difference:.1f} of 255"
