"""A repository of the hub at a commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

#: Matches a full commit hash, the only kind of revision whose files never change.
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository of models or data sets at a commit.

    Attributes
    ----------
    kind, name, commit
        Kind of the repository, its hub id ``owner/name``, and 40 hexadecimal digits.
    """

    kind: Literal["model", "dataset"]
    name: str
    commit: str

    @property
    def page(self) -> str:
        """Address of the repository's page, where terms are accepted and commits are listed."""
        return f"https://huggingface.co/{'datasets/' * (self.kind == 'dataset')}{self.name}"

    def download_command(self, files: str) -> str:
        """Return the command that fetches the files of a pattern into the hub's cache."""
        kind = " --repo-type dataset" * (self.kind == "dataset")
        return f"hf download {self.name}{kind} --revision {self.commit} --include '{files}'"
