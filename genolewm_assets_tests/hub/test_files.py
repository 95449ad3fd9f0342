"""Files of the hub through the real client, from a hub on 127.0.0.1."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest

from genolewm_assets.errors import ChecksumError, FetchError, GenoLeWMError, InputError, MissingResourceError
from genolewm_assets.hub import HubFiles, hub_errors
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.servers.hub import TOKEN, Hub, running_hub, use_hub

COMMIT, OTHER = "0123456789" * 4, "fedcba9876" * 4
NAME = "owner/corpus"
PATHS = ("README.md", "a/one.parquet", "a/b/two.parquet", "a/b/[x] three.parquet", "a/four.txt", "six.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, path in enumerate((*PATHS, *(f"many/{n:03d}.parquet" for n in range(120)))):
        file = tmp_path / "repository" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(random.Random(seed).randbytes(100 + 200_000 * (path == "a/one.parquet")))
    return tmp_path / "repository"


@pytest.fixture
def hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as hub:
        hub.add("datasets", NAME, COMMIT, folder)
        hub.add("datasets", "owner/gated", COMMIT, folder, gated=True)
        hub.add("datasets", "owner/private", COMMIT, folder, private=True)
        use_hub(hub, tmp_path / "home", monkeypatch)
        yield hub


def url(path: str, name: str = NAME, commit: str = COMMIT) -> str:
    return f"hf://datasets/{name}@{commit}/{path}"


@each_row(
    ("path", "pattern"),
    [
        ("a/one.parquet", "a/one.parquet"),
        ("a", "a/*.parquet"),
        ("a/b/", "a/b/*.parquet"),
        ("", "*.parquet"),
        ("a/*", "a/*"),
        ("a/**/*.parquet", "a/*.parquet|a/*/*.parquet"),
        ("**/t*.parquet", "*/*/t*.parquet"),
        ("many", "many/*.parquet"),
        ("many/**", "many/*"),
        ("*/00[1-3].parquet", "many/00[1-3].parquet"),
    ],
)
def test_files_are_those_that_the_pattern_means(path: str, pattern: str, hub: Hub, folder: Path) -> None:
    found = HubFiles.parse(url(path)).find()
    everything = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
    wanted = sorted(
        name
        for name in everything
        for each in pattern.split("|")
        if fnmatch.fnmatchcase(name, each) and name.count("/") == each.count("/")
    )
    assert [file.path for file in found] == wanted
    for file in found[:5]:
        content = (folder / file.path).read_bytes()
        stated = {"file": Path(file.path).name, "size_bytes": len(content)}
        if file.path.endswith(".txt"):
            git = hashlib.sha1(b"blob 100\0" + content).hexdigest()
            assert file.identity() == {**stated, "git_blob": git}
        else:
            assert file.identity() == {**stated, "sha256": hashlib.sha256(content).hexdigest()}
        assert file.fetch().read_bytes() == content
    assert [file.path for file in HubFiles.parse(url(path)).find(2)] == wanted[:2]


def test_what_is_in_the_cache_is_the_same_without_the_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    files = HubFiles.parse(url("a/**/*.parquet"))
    asked = files.find()
    paths = [file.fetch() for file in asked]
    assert hub.downloads() == {file.name: file.size_bytes for file in asked}
    requests = len(hub.requests)
    assert [file.fetch() for file in files.find()] == paths
    assert [file.place for file in asked] == list(map(str, paths))
    assert len(hub.requests) == requests, "a commit never changes"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert files.find() == asked
    assert [file.fetch() for file in asked] == paths
    with pytest.raises(MissingResourceError) as caught:
        HubFiles.parse(url("many")).find(1)
    command = f"hf download {NAME} --repo-type dataset --revision {COMMIT} --include 'many/*.parquet'"
    assert "HF_HUB_OFFLINE is set" in str(caught.value)
    assert command in str(caught.value)


def test_variables_of_the_client_say_where_the_hub_is(hub: Hub, tmp_path: Path) -> None:
    program = (
        "import sys; from genolewm_assets.hub import HubFiles\n"
        "assert 'huggingface_hub' not in sys.modules\n"
        "for file in HubFiles.parse(sys.argv[1]).find(2): print(file.identity(), file.fetch())"
    )
    command = [sys.executable, "-c", program, url("**/*.parquet")]
    outputs = [
        subprocess.check_output(command, env=os.environ | hub.environment(tmp_path / "own", **more), text=True)
        for more in ({}, {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"})
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == 2
    assert len(hub.downloads()) == 2


def test_a_broken_download_goes_on_where_it_broke(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 10_000)  # the client keeps whole chunks
    (file,) = HubFiles.parse(url("a/one.parquet")).find()
    hub.cuts = [50_000, 100_000]
    file.fetch()
    # No byte is sent twice, and the client asks for the rest only.
    assert hub.downloads() == {"one.parquet": file.size_bytes}
    assert hub.ranges == ["bytes=50000-", "bytes=150000-"]


def test_downloads_are_tried_again_when_the_server_is_busy(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    (file,) = HubFiles.parse(url("a/one.parquet")).find()
    hub.statuses = [429, 503, 502]
    file.fetch()
    assert (hub.statuses, hub.downloads()) == ([], {"one.parquet": file.size_bytes})


@each_row("path", ["a/one.parquet", "a/four.txt"])
def test_a_changed_byte_in_the_cache_is_found(path: str, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = HubFiles.parse(url(f"{path[:3]}*{path[4:]}")).find()
    blob = file.fetch().resolve()
    content = bytearray(blob.read_bytes())
    content[50] ^= 1
    blob.write_bytes(content)
    (again,) = HubFiles.parse(url(f"{path[:3]}*{path[4:]}")).find()
    assert again == file
    with pytest.raises(ChecksumError) as caught:
        again.fetch()
    text = str(caught.value)
    assert text.startswith(f"{blob}: differs from what the hub states of {file.url}: expected {file.digest}, got ")
    assert "Delete this file" in text
    blob.unlink()
    assert again.fetch().read_bytes() != bytes(content)


@each_row(
    ("where", "error", "says"),
    [
        (
            url("a", name="owner/gated"),
            MissingResourceError,
            "https://huggingface.co/datasets/owner/gated and set HF_TOKEN",
        ),
        (url("a", name="owner/private"), MissingResourceError, "no such dataset, or does not show it"),
        (url("a", name="owner/absent"), MissingResourceError, "no such dataset, or does not show it"),
        (url("a", commit=OTHER), InputError, f"{NAME}/commits/main"),
        (url("b"), InputError, f"files are listed at https://huggingface.co/datasets/{NAME}/tree/{COMMIT}"),
        (url("a/*.csv"), InputError, "the commit has no such file"),
        (url("a/five.parquet"), InputError, "the commit has no such file"),
        (url("a", commit="main"), InputError, "a branch or tag may move"),
        (url("a").replace(f"@{COMMIT}", ""), InputError, "a branch or tag may move"),
        (f"hf://owner/model@{COMMIT}/a", InputError, "expected hf://datasets/OWNER/NAME@COMMIT/PATH"),
        (url("../a"), InputError, "expected hf://datasets/OWNER/NAME@COMMIT/PATH"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(where: str, error: type[GenoLeWMError], says: str, hub: Hub) -> None:
    with pytest.raises(error) as caught:
        for file in HubFiles.parse(where).find():
            file.fetch()
    text = str(caught.value)
    assert says in text
    assert "\n" not in text


def test_a_token_is_in_no_message(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    gated = HubFiles.parse(url("a", name="owner/gated"))
    with pytest.raises(MissingResourceError, match="owner/gated and give HF_TOKEN the token of an account"):
        gated.find()[0].fetch()
    with pytest.raises(FetchError) as caught, hub_errors(gated.repository, "here", "*"):
        raise ValueError("Illegal header value b'Bearer hf_other'")
    assert "Bearer …" in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_a_hub_that_does_not_answer_is_told(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchError, match=r"cannot be read from the hub \(.*Connection refused.*HF_ENDPOINT"):
        HubFiles.parse(url("a")).find()


def test_what_is_gated_or_private_is_read_with_a_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for name in ("owner/gated", "owner/private"):
        (file,) = HubFiles.parse(url("a", name=name)).find()
        file.check_readable()
        assert len(file.fetch().read_bytes()) == file.size_bytes
