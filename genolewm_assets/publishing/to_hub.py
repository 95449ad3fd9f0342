"""Publish to a data set of the Hugging Face hub: one commit a release, and a tag with the name of the release."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genolewm_assets.hub import content_digest, hub_errors
from genolewm_assets.progress import ByteCount, Progress
from genolewm_assets.publishing.gather import Gathered
from genolewm_assets.publishing.sending import Estimate, differs
from genolewm_assets.releases import INDEX, HubPlace
from genolewm_assets.store.artefacts import FileEntry

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd

_KIND = "dataset"
#: Files and bytes that the client is given at once, so that progress is seen.
_GROUP_FILES, _GROUP_BYTES = 64, 256 << 20


@dataclass(frozen=True, slots=True)
class ToHub:
    """Publication of a release on the hub; the client asks which contents the hub lacks, and sends those alone."""

    place: HubPlace
    release: Gathered

    @property
    def _entries(self) -> dict[str, FileEntry]:
        """Every file, the index among them, by path in the repository."""
        data = self.release.index.to_bytes()
        index = FileEntry(INDEX, len(data), hashlib.sha256(data).hexdigest())
        return {self.place.path_of(entry.path): entry for entry in (*self.release.index.files, index)}

    def estimate(self) -> Estimate:
        """Return what is to be sent; raises as :func:`hub_errors`."""
        from huggingface_hub import HfApi

        with hub_errors(self.place.at(), self.place.url, "", to="write to"):
            exists = HfApi().repo_exists(self.place.repository, repo_type=_KIND)
            stated = self._stated("main") if exists else {}
        new, there = list[FileEntry](), list[FileEntry]()
        contents = set(stated.values())
        for path, entry in self._entries.items():
            same = entry.sha256 in contents or (path in stated and self._is_same(path, entry, stated[path]))
            (there if same else new).append(entry)
        return Estimate(tuple(new), tuple(there), "" if exists else "; a private data set is created")

    def run(self, estimate: Estimate, progress: Progress) -> str:
        """Send what is new as a commit, compare what the hub states of it, tag it, and return the URL of the commit.

        If the hub has another content than was sent, the commit gets no tag.
        """
        from huggingface_hub import CommitOperationDelete, HfApi

        api, name, tag = HfApi(), self.place.repository, self.release.index.name
        with hub_errors(self.place.at(), self.place.url, "", to="write to"):
            api.create_repo(name, repo_type=_KIND, private=True, exist_ok=True)
            head = api.dataset_info(name).sha
            stated, entries = self._stated(head or "main"), self._entries
            adds = [
                self._addition(path, entry)
                for path, entry in entries.items()
                if path not in stated or not self._is_same(path, entry, stated[path])
            ]
            self._send(adds, ByteCount(progress, sum(each.size_bytes for each in estimate.new), "bytes sent"))
            # Files that are nobody's release stay.
            before = self.place.find(head)[0].files if head and INDEX in stated else ()
            gone = {self.place.path_of(entry.path) for entry in before} & stated.keys() - entries.keys()
            deletes = [CommitOperationDelete(path) for path in sorted(gone)]
            commit = head or ""
            if adds or deletes:
                done = api.create_commit(
                    name, [*adds, *deletes], commit_message=f"Release {tag}", repo_type=_KIND, parent_commit=head
                )
                commit = done.oid
            self._check(self._stated(commit))
            tags = self.place.tags()
            if tag in tags and tags[tag] != commit:
                api.delete_tag(name, tag=tag, repo_type=_KIND)
            if tags.get(tag) != commit:
                api.create_tag(name, tag=tag, revision=commit, repo_type=_KIND)
        return f"{self.place.url}@{commit}"

    def _stated(self, revision: str) -> dict[str, str]:
        """Return what the hub states of every file of a revision: SHA-256, or the id of its git blob."""
        from huggingface_hub import HfApi, RepoFile

        tree = HfApi().list_repo_tree(self.place.repository, recursive=True, revision=revision, repo_type=_KIND)
        files = (entry for entry in tree if isinstance(entry, RepoFile))
        return {file.path: file.lfs.sha256 if file.lfs else file.blob_id for file in files}

    def _is_same(self, path: str, entry: FileEntry, stated: str) -> bool:
        return stated == (entry.sha256 if len(stated) == len(entry.sha256) else self._git_blob(path, entry))

    def _git_blob(self, path: str, entry: FileEntry) -> str:
        if path != INDEX:
            return content_digest(self.release.files[entry.path], "0" * 40)
        data = self.release.index.to_bytes()
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def _addition(self, path: str, entry: FileEntry) -> CommitOperationAdd:
        from huggingface_hub import CommitOperationAdd

        content = self.release.index.to_bytes() if path == INDEX else self.release.files[entry.path]
        addition = CommitOperationAdd(path, content)
        # Known already, so the client does not hash the file once more.
        addition.upload_info.sha256 = bytes.fromhex(entry.sha256)
        return addition

    def _send(self, adds: Sequence[CommitOperationAdd], count: ByteCount) -> None:
        """Send contents to large file storage, each once; the commit carries the small texts."""
        from huggingface_hub import HfApi
        from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

        shown = not are_progress_bars_disabled()
        disable_progress_bars()
        try:
            for group in _groups({each.upload_info.sha256: each for each in adds}.values()):
                HfApi().preupload_lfs_files(self.place.repository, group, repo_type=_KIND, free_memory=False)
                count.add(sum(each.upload_info.size for each in group))
        finally:
            if shown:
                enable_progress_bars()

    def _check(self, stated: dict[str, str]) -> None:
        """Compare what the hub states of a commit with what was to be sent."""
        for path, entry in self._entries.items():
            if path not in stated or not self._is_same(path, entry, stated[path]):
                got = stated.get(path, "no such file")
                raise differs(f"{self.place.url}: {path}", f"sha256 {entry.sha256}", got)


def _groups(adds: Iterable[CommitOperationAdd]) -> Iterator[list[CommitOperationAdd]]:
    group: list[CommitOperationAdd] = []
    size = 0
    for each in adds:
        group.append(each)
        size += each.upload_info.size
        if len(group) >= _GROUP_FILES or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
