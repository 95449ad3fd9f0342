"""A Hugging Face hub on 127.0.0.1, which speaks what ``huggingface_hub`` asks; LFS files come from a second port."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import huggingface_hub
import huggingface_hub.file_download
import huggingface_hub.utils._http
import pytest
import yaml

from genolewm_assets_tests.servers.web_server import QuietHandler, serving

#: Endings of files that are kept in large file storage.
LFS = (".parquet", ".safetensors", ".npy", ".bin")
#: Entries of a page of a listing.
PAGE = 50
TOKEN = "hf_loopback_token"


@dataclass
class Repository:
    """Folders by commit of a repository of a kind, ``models`` or ``datasets``."""

    commits: dict[str, Path]
    #: Whether files are refused to who has not accepted its terms, whether it is shown to nobody without a token.
    gated: bool = False
    private: bool = False
    #: Commits by tag.
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class Hub:
    """Repositories, and what was asked and sent; tokens other than :data:`TOKEN` may read what is public."""

    url: str = ""
    storage_url: str = ""
    repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    #: Method and path of every request, bytes of content sent of each path, and Range headers that were sent.
    requests: list[tuple[str, str]] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    ranges: list[str] = field(default_factory=list)
    #: Statuses of the next downloads (GET), with ``Retry-After: 0``, and after how many bytes later ones break.
    statuses: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: Where contents and commits that were sent are kept.
    work: Path = Path()
    #: How often each content of large file storage arrived whole, by its digest.
    arrived: Counter[str] = field(default_factory=Counter)
    #: Files above this size are sent in parts of this size; None: none is.
    part_bytes: int | None = None
    #: Called with the path of every request, and once more for each block of a content that has arrived.
    watch: Callable[[str], object] = len

    def content(self, sha256: str) -> Path:
        return self.work / "lfs" / sha256

    def commit(self, repository: Repository, lines: list[dict[str, Any]]) -> str:
        """Make the commit that a client sends as NDJSON: the newest one with some files changed."""
        number = len(list(self.work.glob("commit.*")))
        folder = self.work / f"commit.{number}"
        shutil.copytree(list(repository.commits.values())[-1], folder, copy_function=os.link)
        for value, kind in ((line["value"], line["key"]) for line in lines[1:]):
            path = folder / value["path"]
            path.unlink(missing_ok=True)
            if kind != "deletedFile":
                path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                path.write_bytes(base64.b64decode(value["content"]))
            elif kind == "lfsFile":
                path.hardlink_to(self.content(value["oid"]))
        oid = hashlib.sha1(f"{folder}".encode()).hexdigest()
        repository.commits[oid] = folder
        return oid

    def add(self, kind: str, name: str, commit: str, folder: Path, **how: bool) -> None:
        """Serve a folder as a commit of a repository."""
        repository = self.repositories.setdefault((kind, name), Repository({}, **how))
        repository.commits[commit] = folder

    def downloads(self) -> dict[str, int]:
        """Return the bytes sent by name of file."""
        found: Counter[str] = Counter()
        for path, size in self.sent.items():
            found[path.rpartition("/")[2]] += size
        return dict(found)

    def environment(self, cache: Path, **more: str) -> dict[str, str]:
        """Return the variables of a process that uses this hub and a cache of its own."""
        off = dict.fromkeys(("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET"), "1")
        return {"HF_ENDPOINT": self.url, "HF_HOME": str(cache), **off, **more}


class _Handler(QuietHandler):
    hub: Hub

    def _begun(self) -> list[str]:
        """Record a request, and return the parts of its path."""
        path = unquote(urlsplit(self.path).path)
        self.hub.watch(path)
        with self.hub.lock:
            self.hub.requests.append((self.command, path))
        return path.strip("/").split("/")

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        parts = self._begun()
        if parts[0] == "storage":
            self._send_file(Path("/", *parts[1:]), {})
        elif parts[0] == "api" and parts[-1] == "refs":
            self._answer_refs(parts[1], "/".join(parts[2:4]))
        elif parts[0] == "api" and parts[1] in ("models", "datasets") and len(parts) >= 4:
            self._answer_api(parts[1], "/".join(parts[2:4]), parts[4:])
        elif "resolve" in parts:
            kind = "datasets" if parts[0] == "datasets" else "models"
            at = parts.index("resolve")
            self._resolve(kind, "/".join(parts[at - 2 : at]), unquote(parts[at + 1]), "/".join(parts[at + 2 :]))
        else:
            self._refuse(404, "")

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:  # noqa: N802 - the base class's name
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        parts = self._begun()
        if parts[0] == "api" and parts[-2:-1] == ["paths-info"]:
            commit = self._commit_of(parts[1], "/".join(parts[2:4]), parts[5])
            if commit is not None:
                folder, paths = commit[1], parse_qs(body.decode())["paths"]
                self._send_json([_entry(folder, folder / path) for path in paths if (folder / path).exists()])
        elif parts[0] != "complete" and not self._has_token():
            self._refuse(401, "")
        elif parts[-2:-1] == ["commit"]:
            repository = self.hub.repositories[parts[1], "/".join(parts[2:4])]
            lines = [json.loads(line) for line in body.splitlines()]
            with self.hub.lock:
                if lines[0]["value"].get("parentCommit") not in (None, list(repository.commits)[-1]):
                    self._refuse(412, "")
                    return
                oid = self.hub.commit(repository, lines)
            url = f"{self.hub.url}/{'/'.join(parts[1:4])}/commit/{oid}"
            self._send_json({"commitUrl": url, "commitOid": oid, "success": True})
        else:
            self._write(parts, json.loads(body))

    def _write(self, parts: list[str], asked: dict[str, Any]) -> None:
        """Answer what a client asks before and after it sends contents."""
        hub = self.hub
        match parts:
            case ["api", "repos", "create"]:
                name = f"{asked['organization']}/{asked['name']}"
                status = 409 if ("datasets", name) in hub.repositories else 200
                if status == 200:
                    (hub.work / "empty").mkdir(exist_ok=True)
                    private = asked.get("visibility") == "private"
                    first = hashlib.sha1(name.encode()).hexdigest()
                    hub.add("datasets", name, first, hub.work / "empty", private=private)
                self._send(status, json.dumps({"url": f"{hub.url}/datasets/{name}"}).encode(), {})
            case ["api", "validate-yaml"]:
                yaml.safe_load(asked["content"].split("---")[1])
                self._send_json({"errors": [], "warnings": []})
            case ["api", kind, owner, name, "preupload", revision]:
                found = self._commit_of(kind, f"{owner}/{name}", revision)
                if found is not None:
                    self._send_json({"files": [_mode(found[1], file) for file in asked["files"]]})
            case ["api", kind, owner, name, "tag", revision]:
                tags = hub.repositories[kind, f"{owner}/{name}"].tags
                if asked["tag"] in tags:
                    self._refuse(409, "")
                    return
                tags[asked["tag"]] = revision
                self._send_json({})
            case [*_, "info", "lfs", "objects", "batch"]:
                objects = [self._action(each["oid"], each["size"]) for each in asked["objects"]]
                self._send_json({"transfer": "basic", "objects": objects})
            case ["verify"]:
                content = hub.content(asked["oid"])
                self._send_json({}) if content.exists() else self._refuse(422, "")
            case ["complete", oid]:
                pieces = sorted(hub.work.glob(f"part.{oid}.*"), key=lambda path: int(path.suffix[1:]))
                assert [part["partNumber"] for part in asked["parts"]] == [*range(1, len(pieces) + 1)]
                self._keep(oid, b"".join(path.read_bytes() for path in pieces))
                self._send_json({})
            case _:
                self._refuse(404, "")

    def _action(self, oid: str, size: int) -> dict[str, Any]:
        """Return how a content is sent; no action if it is there."""
        hub, action = self.hub, {"oid": oid, "size": size}
        if hub.content(oid).exists():
            return action
        upload: dict[str, Any] = {"href": f"{hub.storage_url}/upload/{oid}?signature=secret"}
        if hub.part_bytes is not None and size > hub.part_bytes:
            numbers = range(1, -(-size // hub.part_bytes) + 1)
            header = {str(n): f"{hub.storage_url}/upload/{oid}/{n}?signature=secret" for n in numbers}
            upload = {"href": f"{hub.url}/complete/{oid}", "header": {"chunk_size": str(hub.part_bytes), **header}}
        return action | {"actions": {"upload": upload, "verify": {"href": f"{hub.url}/verify"}}}

    def do_PUT(self) -> None:  # noqa: N802 - the base class's name
        """Take a content, or a part of one; what breaks off in the middle is not kept."""
        left, blocks = int(self.headers["Content-Length"]), list[bytes]()
        while left:
            block = self.rfile.read1(min(left, 1 << 16))
            if not block:
                return
            blocks.append(block)
            left -= len(block)
            self.hub.watch(self.path)
        body, (_, oid, *number) = b"".join(blocks), urlsplit(self.path).path.strip("/").split("/")
        if number:
            (self.hub.work / f"part.{oid}.{number[0]}").write_bytes(body)
        else:
            self._keep(oid, body)
        self._send(200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def _keep(self, oid: str, body: bytes) -> None:
        with self.hub.lock:
            self.hub.arrived[oid] += 1
            path = self.hub.content(oid)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(body)

    def do_DELETE(self) -> None:  # noqa: N802 - the base class's name
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        del self.hub.repositories[parts[1], "/".join(parts[2:4])].tags[parts[-1]]
        self._send_json({})

    def _answer_refs(self, kind: str, name: str) -> None:
        if (found := self._commit_of(kind, name, "main")) is not None:
            tags = self.hub.repositories[kind, name].tags
            stated = [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": oid} for tag, oid in tags.items()]
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": found[0]}
            self._send_json({"branches": [main], "converts": [], "tags": stated})

    def _commit_of(self, kind: str, name: str, revision: str) -> tuple[str, Path] | None:
        """Return hash and folder of a commit, or refuse as the hub does."""
        repository = self.hub.repositories.get((kind, name))
        if repository is None or (repository.private and not self._has_token()):
            self._refuse(401, "RepoNotFound")
        elif (commit := repository.tags.get(revision, revision)) in repository.commits:
            return commit, repository.commits[commit]
        elif revision == "main":
            return list(repository.commits.items())[-1]
        else:
            self._refuse(404, "RevisionNotFound")
        return None

    def _has_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _answer_api(self, kind: str, name: str, rest: list[str]) -> None:
        found = self._commit_of(kind, name, unquote(rest[1]) if len(rest) > 1 else "main")
        if found is None:
            return
        commit, root = found
        folder = root / "/".join(unquote(part) for part in rest[2:])
        if not rest or rest[0] == "revision":
            siblings = [{"rfilename": path.relative_to(root).as_posix()} for path in sorted(root.rglob("*"))]
            self._send_json({"id": name, "sha": commit, "siblings": siblings, "private": False, "tags": []})
        elif not folder.is_dir():
            self._refuse(404, "EntryNotFound", commit)
        else:
            query = parse_qs(urlsplit(self.path).query)
            recursive, start = query["recursive"] == ["true"], int(query.get("cursor", ["0"])[0])
            entries = [_entry(root, path) for path in sorted(folder.rglob("*") if recursive else folder.iterdir())]
            following = {}
            if start + PAGE < len(entries):
                base = f"{self.hub.url}{quote(urlsplit(self.path).path, safe='/%')}"
                page = f"{base}?recursive={'true' if recursive else 'false'}&expand=false&cursor={start + PAGE}"
                following = {"Link": f'<{page}>; rel="next"'}
            self._send_json(entries[start : start + PAGE], following)

    def _resolve(self, kind: str, name: str, revision: str, path: str) -> None:
        found = self._commit_of(kind, name, revision)
        if found is None:
            return
        commit, root = found
        if self.hub.repositories[kind, name].gated and not self._has_token():
            self._refuse(403 if "Authorization" in self.headers else 401, "GatedRepo")
            return
        file = root / path
        if not file.is_file():
            self._refuse(404, "EntryNotFound", commit)
            return
        entry, headers = _entry(root, file), {"X-Repo-Commit": commit}
        if "lfs" not in entry:
            self._send_file(file, headers | {"ETag": f'"{entry["oid"]}"'})
            return
        headers |= {"X-Linked-Etag": f'"{entry["lfs"]["oid"]}"', "X-Linked-Size": str(entry["size"])}
        headers |= {"Location": f"{self.hub.storage_url}/storage{quote(str(file))}?signature=secret"}
        self._send(302, b"", headers)

    def _send_file(self, file: Path, headers: dict[str, str]) -> None:
        content, wanted = file.read_bytes(), self.headers.get("Range")
        start, end = 0, len(content)
        if self.command == "GET" and self.hub.statuses:
            self._send(self.hub.statuses.pop(0), b"", {"Retry-After": "0"})
            return
        if wanted is not None:
            self.hub.ranges.append(wanted)
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, end) if last else end
            headers = headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
        body = content[start:end]
        cut = self.hub.cuts.pop(0) if self.command == "GET" and self.hub.cuts else None
        if self.command == "GET":
            with self.hub.lock:
                self.hub.sent[str(file)] += len(body[:cut])
        self._send(200 if wanted is None else 206, body, headers, cut)

    def _refuse(self, status: int, code: str, commit: str | None = None) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": f"refused: {code}"}
        self._send(status, b"", headers if commit is None else headers | {"X-Repo-Commit": commit})

    def _send_json(self, value: Any, headers: dict[str, str] | None = None) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Accept-Ranges": "bytes", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True


def _entry(root: Path, path: Path) -> dict[str, Any]:
    """Return an entry of a listing, as the hub states a file or a folder."""
    name = path.relative_to(root).as_posix()
    if path.is_dir():
        return {"type": "directory", "oid": "0" * 40, "size": 0, "path": name}
    content = path.read_bytes()
    if path.suffix not in LFS or not content:
        oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        return {"type": "file", "oid": oid, "size": len(content), "path": name}
    sha256 = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(content)}\n".encode()
    oid = hashlib.sha1(b"blob %d\0" % len(pointer) + pointer).hexdigest()
    lfs = {"oid": sha256, "size": len(content), "pointerSize": len(pointer)}
    return {"type": "file", "oid": oid, "size": len(content), "path": name, "lfs": lfs}


def _mode(root: Path, file: dict[str, Any]) -> dict[str, Any]:
    """Return how a file is sent, and what is at its path, as the hub says before a commit."""
    path = root / file["path"]
    entry = _entry(root, path) if path.is_file() else {}
    mode = "lfs" if path.suffix in LFS else "regular"
    oid = entry.get("lfs", entry).get("oid")
    return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}


@contextmanager
def running_hub() -> Iterator[Hub]:
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ExitStack() as stack:
        hub.work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hub-", ignore_cleanup_errors=True)))
        ports = [stack.enter_context(serving(handler)) for _ in range(2)]
        hub.url, hub.storage_url = (f"http://127.0.0.1:{port}" for port in ports)
        yield hub


def use_hub(hub: Hub, cache: Path, patch: pytest.MonkeyPatch, *, token: str | None = None) -> None:
    """Let the client in this process, which read its variables when it was imported, use a hub and a cache."""
    constants = huggingface_hub.constants
    patch.setattr(constants, "ENDPOINT", hub.url)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    patch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
    patch.setattr(constants, "HF_TOKEN_PATH", str(cache / "token"))
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    patch.delenv("HF_TOKEN", raising=False)
    if token is not None:
        patch.setenv("HF_TOKEN", token)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        patch.delenv(name, raising=False)
    # Waiting is the client's; tests do not wait.
    patch.setattr(huggingface_hub.utils._http, "time", SimpleNamespace(sleep=lambda _: None))
    patch.setattr(huggingface_hub.file_download, "time", SimpleNamespace(sleep=lambda _: None))
    huggingface_hub.HfFileSystem.clear_instance_cache()
