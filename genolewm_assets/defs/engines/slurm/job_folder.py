"""The folder of one job on the shared root: context, messages and output; a job that starts without it ends at once."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster_pipes import PIPES_PROTOCOL_VERSION_FIELD, PipesDefaultMessageWriter, PipesParams

#: Executes its arguments; a job script has to be a script.
_SCRIPT = '#!/bin/sh\nexec "$@"\n'


class Tail:
    """Reads what was added to a file, opened anew each time because NFS shows what others wrote only then.

    With ``is_text``, zeros are what has not arrived yet.
    """

    def __init__(self, path: Path, take: Callable[[str], None], *, is_text: bool = False) -> None:
        self._path, self._take, self._offset, self._is_text = path, take, 0, is_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> None:
        """Pass what is new in the file, if anything is, to ``take``."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while piece := self._arrived(file.read(1 << 20)):
                    self._offset += len(piece)
                    self._take(self._decoder.decode(piece))
                    file.seek(self._offset)
        except FileNotFoundError:
            return

    def _arrived(self, piece: bytes) -> bytes:
        return piece.partition(b"\0")[0] if self._is_text else piece


class FileMessageReader(dg.PipesMessageReader):
    """Reads the messages of a job from a file, whole lines only, whenever it is asked to.

    ``dg.PipesFileMessageReader`` looks at the file 100 times a second and takes half a line for a line.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._partial = path, ""
        self._handler: dg.PipesMessageHandler | None = None
        self._tail = Tail(path, self._take, is_text=True)

    @contextmanager
    def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[PipesParams]:
        """Take messages for a handler while the block lasts."""
        self._handler = handler
        self._path.touch()
        yield {PipesDefaultMessageWriter.FILE_PATH_KEY: str(self._path)}

    @property
    def expected_writer_count(self) -> int:
        """One: the job."""
        return 1

    @property
    def closed(self) -> bool:
        """Whether the job has said that there will be no further message."""
        return self._handler is not None and self._handler.received_closed_message

    def read(self) -> None:
        """Handle the messages that have arrived."""
        self._tail.read()

    def no_messages_debug_text(self) -> str:
        """Return where messages were expected."""
        return f"Attempted to read messages from {self._path}."

    def _take(self, text: str) -> None:
        *lines, self._partial = (self._partial + text).split("\n")
        for line in filter(None, lines):
            self._handle(line)

    def _handle(self, line: str) -> None:
        assert self._handler is not None
        try:
            message = json.loads(line)
            if PIPES_PROTOCOL_VERSION_FIELD not in message:
                raise TypeError("no message of Dagster Pipes")  # noqa: TRY301
            self._handler.handle_message(message)
        except Exception as err:  # noqa: BLE001
            # What is no message says nothing, so the job cannot succeed by it.
            dg.get_dagster_logger().warning("the job wrote what is no message (%s): %.200s", err, line)


class JobFolder:
    """Paths of one job: its context, messages, output and batch script."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.context, self.messages = path / "context.json", path / "messages.jsonl"
        self.output, self.script = path / "output.log", path / "job.sh"

    def create(self) -> None:
        """Make the folder, for its owner alone, with the script in it."""
        self.path.mkdir(parents=True, mode=0o700)
        self.script.write_text(_SCRIPT)

    def last_line(self) -> str:
        """Return the last line that the job printed, of at most 300 characters; empty if it printed none."""
        try:
            with self.output.open("rb") as file:
                file.seek(max(0, self.output.stat().st_size - 4_096))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
