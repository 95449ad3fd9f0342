"""What a publication sends, and what it found there."""

from __future__ import annotations

from dataclasses import dataclass

from genolewm_assets.errors import ChecksumError, counted
from genolewm_assets.store.artefacts import FileEntry


@dataclass(frozen=True, slots=True)
class Estimate:
    """Files that a publication sends at most, those that are there, and what it creates."""

    new: tuple[FileEntry, ...]
    there: tuple[FileEntry, ...]
    creates: str = ""

    def __str__(self) -> str:
        return f"{_said(self.new)} to send at most, {_said(self.there)} there already{self.creates}"


def _said(entries: tuple[FileEntry, ...]) -> str:
    return f"{counted(len(entries), 'file')} ({counted(sum(each.size_bytes for each in entries), 'byte')})"


def differs(where: str, expected: str, got: str) -> ChecksumError:
    """Return the error of a file that is not there as it was sent."""
    return ChecksumError(
        where,
        "what is there is not what was sent",
        expected=expected,
        got=got,
        remedy="Publish it again, which sends this file again; the release has no name until it is right",
    )
