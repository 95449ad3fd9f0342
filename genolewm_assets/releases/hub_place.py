"""Releases in a data set of the Hugging Face hub: a commit each, under a tag with the name of the release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, Self

from genolewm_assets.errors import InputError
from genolewm_assets.hub import COMMIT, HubRepository, hub_errors
from genolewm_assets.releases.index import BLOCK_BYTES, INDEX, PACKAGE, ReleaseIndex, choose_name, parse_index
from genolewm_assets.store.artefacts import FileEntry

_URL = re.compile(r"hf://datasets/([\w.-]+/[\w.-]+)")
_KIND: Literal["dataset"] = "dataset"


@dataclass(frozen=True, slots=True)
class HubPlace:
    """A data set of the hub; the package is at its top, so that the hub shows its card and reads its tables."""

    repository: str

    @classmethod
    def parse(cls, url: str) -> Self | None:
        """Return the place of ``hf://datasets/OWNER/NAME``; None for another URL."""
        match = _URL.fullmatch(url)
        return cls(match[1]) if match else None

    @property
    def url(self) -> str:
        """URL of the data set."""
        return f"hf://datasets/{self.repository}"

    def at(self, revision: str = "main") -> HubRepository:
        """Return the repository at a revision, for messages."""
        return HubRepository(_KIND, self.repository, revision)

    @staticmethod
    def path_of(path: str) -> str:
        """Return the path in the repository of a path of a release."""
        return path.removeprefix(f"{PACKAGE}/")

    def tags(self) -> dict[str, str]:
        """Return the commits of all tags, by name; errors are those of the hub's client."""
        from huggingface_hub import HfApi

        refs = HfApi().list_repo_refs(self.repository, repo_type=_KIND)
        return {tag.name: tag.target_commit for tag in refs.tags}

    def find(self, reference: str | None) -> tuple[ReleaseIndex, str]:
        """Return the index of the release that a tag, branch, commit, name or digest means, and its commit.

        Raises
        ------
        InputError, MissingResourceError, FetchError, CorruptResourceError
            As :func:`hub_errors`, :func:`choose_name` and :func:`parse_index`.
        """
        from huggingface_hub import HfApi

        revision = reference or "main"
        with hub_errors(self.at(revision), self.url, INDEX):
            if reference is not None and COMMIT.fullmatch(reference):
                commit = reference
            else:
                tags = self.tags()
                if reference in tags:
                    commit = tags[reference]
                elif reference == "main":
                    commit = HfApi().dataset_info(self.repository, revision=reference).sha or ""
                else:
                    commit = tags[choose_name(tags, reference, self.url)]
            try:
                with self._open(INDEX, commit) as file:
                    data = file.read()
            except FileNotFoundError:
                problem, remedy = "is no release of a package", f"Its releases are the tags at {self.at().page}/refs"
                raise InputError(f"{self.url}@{commit}", problem, expected=INDEX, remedy=remedy) from None
        return parse_index(data, f"{self.url}@{commit}/{INDEX}"), commit

    def blocks(self, entry: FileEntry, start: int, commit: str | None) -> Iterator[bytes]:
        """Yield the content of a file of a release from a byte on; raises as :func:`hub_errors`."""
        path = self.path_of(entry.path)
        with (
            hub_errors(self.at(commit or "main"), f"{self.url}@{commit}/{path}", path),
            self._open(path, commit) as file,
        ):
            file.seek(start)
            while block := file.read(BLOCK_BYTES):
                yield block

    def _open(self, path: str, commit: str | None) -> BinaryIO:
        from huggingface_hub import HfFileSystem

        opened: BinaryIO = HfFileSystem().open(f"datasets/{self.repository}@{commit}/{path}", "rb")
        return opened
