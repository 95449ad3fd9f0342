"""Two runs of a program that meet in a folder and take turns, over nothing but the file system.

A run rewrites its file in place and the reader opens it anew for every look: a network file system shows that soon.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from genolewm_assets.errors import GenoLeWMError, MissingResourceError, ResourceError
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import ROOT_FILE
from genolewm_assets.store.files import check_plain_folder, read_document, remove_tree
from genolewm_assets.store.locks import LeaseOwner

#: Seconds of one look.
POLL_S = 0.02
# Seconds after which a silent run counts as ended, and after which its files are removed.
_SILENT_S, _LEFT_S = 45.0, 120.0
_NOTE_BYTES = 1 << 14


class Run:
    """One of two runs that take turns; each turn says a JSON value and returns what the other run says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.owner = folder, LeaseOwner.of_this_process("checks the root")
        self.token, self.partner = self.owner.token, dict[str, Any]()
        # ``choice`` counts the choices of a partner, ``seen`` is the partner's choice that this run has agreed to.
        self._note: dict[str, Any] = {
            **{"owner": asdict(self.owner), "beat": 0, "partner": "", "choice": 0, "seen": 0},
            **{"step": 0, "said": {}},
        }

    def beat(self) -> None:
        """Rewrite the file of this run in place: a run whose file stays the same has ended."""
        self._note["beat"] += 1
        raw = json.dumps(self._note).encode().ljust(_NOTE_BYTES)
        descriptor = os.open(self.path_of(self.token), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            os.pwrite(descriptor, raw, 0)
        finally:
            os.close(descriptor)

    def path_of(self, token: str) -> Path:
        """Return the file of a run."""
        return self.folder / f"run.{token}.json"

    def meet(self, wait_s: float, progress: Progress) -> None:
        """Wait for another run and agree with it; :class:`MissingResourceError` if none comes."""
        began, first_beats = time.monotonic(), dict[str, int]()
        while (waited := time.monotonic() - began) < wait_s:
            self.beat()
            self._sweep()
            notes = {path.name: _read(path) for path in self.folder.glob("run.*.json")}
            found = {note["owner"]["token"]: note for note in notes.values() if note}
            for token, note in found.items():
                first_beats.setdefault(token, note["beat"])
            # The file of a killed run does not change.
            if self._agree(
                {t: note for t, note in found.items() if t != self.token and note["beat"] != first_beats[t]}
            ):
                if self._take_turn(None) is not None:
                    return
                self._note |= {"step": 0, "said": {}}
                self._choose("")
            progress.advance(int(waited), int(wait_s), "s waited for the other run")
            # Runs that look at the same times could choose one another in a circle for ever.
            time.sleep(random.uniform(5, 15) * POLL_S)
        raise MissingResourceError(
            str(self.folder.parents[1]),
            f"no second run of this check was seen within {wait_s:g} s",
            remedy="Run the command on another machine that mounts this root while this one waits (--wait). If it was "
            "running there, the two do not mount the same folder, or names are kept in a cache for longer than that",
        )

    def _agree(self, alive: Mapping[str, dict[str, Any]]) -> bool:
        """Choose a partner, or see whether the chosen one has chosen this run; return whether both have."""
        wanted = self._note["partner"]
        if wanted in alive and alive[wanted]["partner"] in {self.token, ""}:
            self.partner = alive[wanted]
            self._note["seen"] = self.partner["choice"]
            return bool(self.partner["partner"])
        # Those that have chosen this run come first. A choice is withdrawn only if the other one chose a third.
        choosing = sorted(t for t, note in alive.items() if note["partner"] == self.token)
        free = sorted(t for t, note in alive.items() if not note["partner"])
        self._choose(next(iter([*choosing, *free]), ""))
        return False

    def _choose(self, token: str) -> None:
        if token != self._note["partner"]:
            self._note |= {"partner": token, "choice": self._note["choice"] + 1}

    def say(self, value: object) -> Any:
        """Take one turn; :class:`ResourceError` if the other run has ended."""
        answer = self._take_turn(value)
        if answer is None:
            owner = self.partner["owner"]
            raise ResourceError(
                str(self.folder.parents[1]),
                f"the other run (process {owner['pid']} on {owner['host']}) ended in the middle of the check",
                remedy="See what it said there, and run both again",
            )
        return answer["said"][str(self._note["step"])]

    def part(self) -> None:
        """Wait until the other run needs nothing more of this one."""
        self._take_turn(None)

    def _take_turn(self, value: object) -> dict[str, Any] | None:
        """Return the other run's note once it has taken the same turn; None if it has ended or chosen another run."""
        self._note["step"] = step = self._note["step"] + 1
        self._note["said"] = {k: v for k, v in self._note["said"].items() if int(k) >= step - 1} | {str(step): value}
        path, beat, changed = self.path_of(self.partner["owner"]["token"]), -1, time.monotonic()
        while True:
            self.beat()
            note = _read(path)
            if note is not None and note["choice"] != self._note["seen"]:
                return None
            if note is not None and note["step"] >= step and note["seen"] == self._note["choice"]:
                return note
            if note is not None and note["beat"] != beat:
                beat, changed = note["beat"], time.monotonic()
            if time.monotonic() - changed > (_SILENT_S if path.exists() else 1.0):
                return None
            time.sleep(POLL_S)

    def _sweep(self) -> None:
        """Remove what killed runs left, judged by the clock of the file system."""
        with suppress(OSError):
            now = self.path_of(self.token).stat().st_mtime
            for note in self.folder.glob("run.*.json"):
                if now - note.stat().st_mtime > _LEFT_S:
                    remove_tree(self.folder / f"try.{note.name.split('.')[1]}")
                    note.unlink()


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a run says; None if its file is missing, or was read while it was written."""
    with suppress(GenoLeWMError, TypeError, LookupError):
        note: dict[str, Any] = read_document(path, remedy="")
        if isinstance(note["owner"]["token"], str):
            return note
    return None


@contextmanager
def joined(folder: Path) -> Iterator[Run]:
    """Enter the folder of the runs, and remove every trace of this one at the end."""
    run = Run(folder)
    for part in (folder.parent, folder):
        check_plain_folder(part)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        run.beat()
        yield run
    finally:
        with suppress(OSError):
            remove_tree(folder / f"try.{run.token}")
            run.path_of(run.token).unlink(missing_ok=True)
            folder.rmdir()
            if not (folder.parents[1] / ROOT_FILE).exists():
                folder.parent.rmdir()
