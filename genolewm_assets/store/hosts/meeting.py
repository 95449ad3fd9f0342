"""Two processes on different machines find each other in a shared folder and take turns, through that folder alone.

::

    <folder>/run.<token>.json    one per run: who it is, whom it has met, what it says; written by that run only
    <folder>/pair.<token>/       where the two try things; the token is that of the leader

A run changes its file in place and never replaces it, and the reader opens it anew for every look. A network file
system shows that soon (close-to-open consistency), also where it keeps names and listings in a cache for a minute.
Every run rewrites its file twice a second; a run whose file stays the same has ended.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from genolewm_assets.errors import GenoLeWMError, MissingResourceError, ResourceError
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import ROOT_FILE
from genolewm_assets.store.files import JsonValue, check_plain_folder, read_document, remove_tree
from genolewm_assets.store.locks import LeaseOwner

_BEAT_S, _POLL_S, _LOOK_S = 0.5, 0.01, 0.2
# Seconds without a change after which a run counts as ended, and after which its files may be removed.
_SILENT_S, _LEFT_S = 20.0, 120.0
_FILE_BYTES = 1 << 14
_PAIR, _RUN = "pair.", "run."


@dataclass(slots=True)
class Note:
    """What one run says in its file.

    Attributes
    ----------
    owner
        The process, in the form of a lock's owner.
    beat
        Number of this version of the file.
    partner
        Token of the run that this one wants to work with; empty for none.
    step
        Number of turns taken.
    said
        What was said in the last two turns, by turn.
    """

    owner: dict[str, Any]
    beat: int = 0
    partner: str = ""
    step: int = 0
    said: dict[str, JsonValue] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """Token of the run."""
        return str(self.owner["token"])


class Meeting:
    """One run's part in a meeting of two; as a context manager, it removes its files on exit.

    Parameters
    ----------
    folder
        A folder that both machines mount; created if missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        is_root = (folder.parents[1] / ROOT_FILE).exists()
        self._emptied = [folder] if is_root else [folder, folder.parent]
        self.owner = LeaseOwner.of_this_process("checks the root")
        self._note, self._writing, self._stopped = Note(asdict(self.owner)), threading.Lock(), threading.Event()
        self._partner: Note | None = None

    def __enter__(self) -> Self:
        try:
            for part in (self.folder.parent, self.folder):
                check_plain_folder(part)
            self.folder.mkdir(parents=True, exist_ok=True)
            self._publish()
            threading.Thread(target=self._keep_beating, name="root check", daemon=True).start()
        except BaseException as err:
            self.__exit__(type(err), err, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        with self._writing, suppress(OSError):
            if self._partner is not None and (self.leads or error is not None):
                remove_tree(self.place)
            self._path(self._note.token).unlink(missing_ok=True)
            for path in self._emptied:
                # Not empty while the other run is there; the last one removes it.
                path.rmdir()

    @property
    def partner(self) -> Note:
        """The other run; only after :meth:`meet`."""
        assert self._partner is not None, "no partner yet"
        return self._partner

    @property
    def leads(self) -> bool:
        """Whether this run goes first; exactly one of the two does."""
        return self._note.token < self.partner.token

    @property
    def turn(self) -> int:
        """Number of turns taken, which is the same in both runs."""
        return self._note.step

    @property
    def place(self) -> Path:
        """The folder in which the two try things."""
        return self.folder / f"{_PAIR}{min(self._note.token, self.partner.token)}"

    def meet(self, wait_s: float, progress: Progress) -> None:
        """Wait for another run, and agree with it to work together.

        Raises
        ------
        MissingResourceError
            If none comes within ``wait_s`` seconds.
        """
        began, first_beats = time.monotonic(), dict[str, int]()
        while (waited := time.monotonic() - began) < wait_s:
            self._sweep()
            found = {note.token: note for note in self._others()}
            for token, note in found.items():
                first_beats.setdefault(token, note.beat)
            # The file of a killed run does not change.
            alive = {token: note for token, note in found.items() if note.beat != first_beats[token]}
            if self._agree(alive):
                if self.leads:
                    self.place.mkdir()
                self.say(None)
                return
            progress.advance(int(waited), int(wait_s), "s waited for the other run")
            time.sleep(_LOOK_S)
        raise MissingResourceError(
            str(self.folder.parents[1]),
            f"no second run of this check was seen within {wait_s:g} s",
            remedy="Run the command on another machine that mounts this root while this one waits (--wait). If it was "
            "running there, the two do not mount the same folder, or names are kept in a cache for longer than that",
        )

    def _agree(self, alive: dict[str, Note]) -> bool:
        """Choose a partner, or see whether the chosen one has chosen this run; return whether both have."""
        mine, wanted = self._note.token, self._note.partner
        if wanted in alive and alive[wanted].partner == mine:
            self._partner = alive[wanted]
            return True
        if wanted and wanted in alive and not alive[wanted].partner:
            return False
        # Those that have chosen this run come first. A choice is withdrawn only if the other one chose a third.
        choosing = sorted(t for t, note in alive.items() if note.partner == mine)
        free = sorted(t for t, note in alive.items() if not note.partner)
        choice = next(iter([*choosing, *free]), "")
        if choice != wanted:
            self._note.partner = choice
            self._publish()
        return False

    def say(self, value: JsonValue) -> Any:
        """Take one turn: say something, wait until the other run has taken the same turn, and return what it said.

        Raises
        ------
        ResourceError
            If the other run has ended.
        """
        answer = self._take_turn(value)
        if answer is None:
            owner = self.partner.owner
            raise ResourceError(
                str(self.folder.parents[1]),
                f"the other run (process {owner['pid']} on {owner['host']}) ended in the middle of the check",
                remedy="See what it said there, and run both again",
            )
        return answer.said[str(self._note.step)]

    def part(self) -> None:
        """Wait until the other run needs nothing more of this one."""
        self._take_turn(None)

    def _take_turn(self, value: JsonValue) -> Note | None:
        """Say something, and return the other's file once it has taken the same turn; None if it has ended."""
        self._note.step += 1
        step = self._note.step
        self._note.said = {**{k: v for k, v in self._note.said.items() if int(k) >= step - 1}, str(step): value}
        self._publish()
        beat, changed = -1, time.monotonic()
        while True:
            note = _read(self._path(self.partner.token))
            if note is not None and note.step >= step:
                self._partner = note
                return note
            if note is not None and note.beat != beat:
                beat, changed = note.beat, time.monotonic()
            if time.monotonic() - changed > (_SILENT_S if self._path(self.partner.token).exists() else 2 * _BEAT_S):
                return None
            time.sleep(_POLL_S)

    def _path(self, token: str) -> Path:
        return self.folder / f"{_RUN}{token}.json"

    def _others(self) -> Iterator[Note]:
        for path in self.folder.glob(f"{_RUN}*.json"):
            if path != self._path(self._note.token) and (note := _read(path)) is not None:
                yield note

    def _publish(self) -> None:
        with self._writing:
            if self._stopped.is_set():
                return
            self._note.beat += 1
            raw = json.dumps(asdict(self._note)).encode().ljust(_FILE_BYTES)
            descriptor = os.open(self._path(self._note.token), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            try:
                os.pwrite(descriptor, raw, 0)
            finally:
                os.close(descriptor)

    def _keep_beating(self) -> None:
        while not self._stopped.wait(_BEAT_S):
            # A failed write is tried again; the other run waits.
            with suppress(OSError):
                self._publish()

    def _sweep(self) -> None:
        """Remove what killed runs left; their age is told by the clock of the file system."""
        with suppress(OSError):
            now = self._path(self._note.token).stat().st_mtime
            kept = {note.token for note in self._others()}
            for path in self.folder.iterdir():
                token = path.name.split(".")[1] if "." in path.name else ""
                if now - path.stat().st_mtime > _LEFT_S and not (path.name.startswith(_PAIR) and token in kept):
                    remove_tree(path)


def _read(path: Path) -> Note | None:
    """Return what a run says; None if its file is missing, or was read while it was written."""
    with suppress(GenoLeWMError, TypeError, LookupError):
        note = Note(**read_document(path, remedy=""))
        return note if isinstance(note.owner["token"], str) else None
    return None


@contextmanager
def meeting(folder: Path, wait_s: float, progress: Progress) -> Iterator[Meeting]:
    """Meet another run in a folder, and remove every trace of this run at the end; raises as :meth:`Meeting.meet`."""
    with Meeting(folder) as met:
        met.meet(wait_s, progress)
        yield met
