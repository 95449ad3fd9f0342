"""Publish to a folder of any fsspec URL: contents first, each read back, then the index that names them."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from genolewm_assets.progress import ByteCount, Progress
from genolewm_assets.publishing.gather import Gathered
from genolewm_assets.publishing.sending import Estimate, differs
from genolewm_assets.releases import StorePlace, store_errors
from genolewm_assets.store.artefacts import FileEntry

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ToStore:
    """Publication of a release in a store.

    A content that is there with its size is not sent again. What no index has yet is read back in full before the
    index is written, whichever run sent it: so each content that an index names was compared once.
    """

    place: StorePlace
    release: Gathered

    def estimate(self) -> Estimate:
        """Return what is to be sent; raises as :func:`store_errors`."""
        with store_errors(self.place.url):
            found = self.place.filesystem.find(f"{self.place.folder}/blobs", detail=True)
        sizes = {path.rpartition("/")[2]: entry["size"] for path, entry in found.items()}
        new, there = list[FileEntry](), list[FileEntry]()
        for entry in self.release.index.contents.values():
            (there if sizes.get(entry.sha256) == entry.size_bytes else new).append(entry)
        return Estimate(tuple(new), tuple(there))

    def run(self, estimate: Estimate, progress: Progress) -> str:
        """Send what is new, read it back, write the index, and return the URL of the release.

        Raises :class:`ChecksumError` if a content arrived changed: it is removed, and no index names it.
        """
        place, index = self.place, self.release.index
        with store_errors(place.url):
            compared = {sha256 for name in place.names() for sha256 in place.read_index(name).contents}
        new = {entry.sha256 for entry in estimate.new}
        entries = [entry for entry in index.contents.values() if entry.sha256 in new or entry.sha256 not in compared]
        count = ByteCount(progress, sum(entry.size_bytes for entry in entries), "bytes sent and read back")

        def send(entry: FileEntry) -> None:
            blob = place.blob(entry.sha256)
            if entry.sha256 in new:
                with store_errors(f"{place.url}: {entry.path}"):
                    place.filesystem.put_file(str(self.release.files[entry.path]), blob)
            digest = hashlib.sha256()
            for block in place.blocks(entry, 0):
                digest.update(block)
                count.add(len(block))
            if digest.hexdigest() != entry.sha256:
                with store_errors(blob):
                    place.filesystem.rm_file(blob)
                raise differs(f"{place.url}: {entry.path}", f"sha256 {entry.sha256}", f"sha256 {digest.hexdigest()}")

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(send, entries))
        with store_errors(place.url):
            place.filesystem.pipe_file(place.index_path(index.name), index.to_bytes())
            if (found := place.filesystem.cat_file(place.index_path(index.name))) != index.to_bytes():
                raise differs(place.index_path(index.name), f"{len(index.to_bytes())} bytes", f"{len(found)} others")
        return f"{place.url}@{index.name}"
