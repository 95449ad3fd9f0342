"""The commands that publish and fetch, in processes that are killed; tokens; the hub's tables in ``datasets``."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from genolewm_assets_tests.publishing.conftest import HUB, S3, digests, versions
from genolewm_assets_tests.servers.hub import TOKEN, Hub
from genolewm_assets_tests.servers.processes import watching

pytestmark = pytest.mark.nightly


def command(*words: object, hub: Hub, home: Path, token: str = TOKEN, **more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **hub.environment(home), "GENOLEWM_CACHE": str(home / "cache"), **more}
    return subprocess.Popen(
        [sys.executable, "-m", "genolewm_assets", "package", *map(str, words)],
        env={**environment, "HF_TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str], code: int = 0) -> str:
    output, errors = process.communicate()
    assert process.returncode == code, errors
    return output + errors


def test_a_publication_that_is_killed_five_times_arrives_and_sends_nothing_twice(
    releases: tuple[Path, Path], hub: Hub, tmp_path: Path
) -> None:
    drawn = random.Random(5)
    hub.part_bytes = 20_000
    events = [("upload", drawn.randint(2, 12)) for _ in range(3)] + [("commit/main", 1), ("/tag/", 1)]
    for where, number in events:
        process, seen = command("publish", HUB, "--package", releases[0], "--yes", hub=hub, home=tmp_path), Counter()

        def kill(path: str, where=where, number=number, process=process, seen=seen) -> None:
            seen[where] += where in path
            if seen[where] == number:
                process.kill()

        hub.watch = kill
        process.communicate()
        assert process.returncode == -9, (where, number)
    hub.watch = len
    assert "published and compared" in finished(
        command("publish", HUB, "--package", releases[0], "--yes", hub=hub, home=tmp_path)
    )
    assert set(hub.arrived.values()) == {1}
    assert len(hub.repositories["datasets", "me/lewm"].commits) == 2
    # A fetch that is killed does not ask again for what it has.
    blobs = tmp_path / "cache/packages/blobs"
    process, seen = command("fetch", HUB, hub=hub, home=tmp_path), Counter()

    def kill_fetch(path: str) -> None:
        seen["storage"] += "/storage/" in path
        if seen["storage"] == 60:
            process.kill()

    hub.watch = kill_fetch
    process.communicate()
    assert process.returncode == -9
    hub.watch = len
    whole = {path.name for path in blobs.rglob("*") if path.is_file() and path.suffix != ".part"}
    assert len(whole) > 20
    begun = len(hub.requests)
    package = json.loads(finished(command("fetch", HUB, "--json", hub=hub, home=tmp_path)))["package"]
    assert digests(Path(package)) == digests(releases[0].resolve())
    served = [Path(path.removeprefix("/storage")) for _, path in hub.requests[begun:] if path.startswith("/storage")]
    assert served
    assert not {digest for path in served for digest in digests(path.parent).values() if path.name in whole}


def test_a_publication_to_s3_that_is_killed_goes_on(
    releases: tuple[Path, Path],
    hub: Hub,
    s3: object,
    tmp_path: Path,
) -> None:
    for limit in (5, 30, 60, 90, 110):
        process = command("publish", S3, "--package", releases[0], "--yes", hub=hub, home=tmp_path)
        while process.poll() is None:
            with suppress(FileNotFoundError):
                s3.invalidate_cache()
                if len(s3.find("bucket/lewm")) >= limit:
                    process.kill()
        process.communicate()
        assert process.returncode == -9, limit
    output = finished(command("publish", S3, "--package", releases[0], "--yes", hub=hub, home=tmp_path))
    assert "published and compared" in output
    assert set(versions(s3).values()) == {1}
    package = json.loads(finished(command("fetch", S3, "--json", hub=hub, home=tmp_path)))["package"]
    assert digests(Path(package)) == digests(releases[0].resolve())


@pytest.mark.parametrize("token", [TOKEN, "hf_not_the_right_secret"])
def test_a_token_is_never_shown(token: str, releases: tuple[Path, Path], hub: Hub, tmp_path: Path) -> None:
    shown: list[tuple[int, list[bytes]]] = []

    def note(pid: int, words: list[bytes]) -> None:
        if any(token.encode() in word for word in words):
            shown.append((pid, words))

    with watching(note):
        right = token == TOKEN
        outputs = [
            finished(command(*words, hub=hub, home=tmp_path, token=token, HF_DEBUG="1"), code)
            for words, code in (
                (("publish", HUB, "--package", releases[0]), 2),
                (("publish", HUB, "--package", releases[0], "--yes"), 0 if right else 4),
                (("fetch", HUB), 0 if right else 4),
            )
        ]
    assert shown == []
    assert not [text for text in outputs if token in text]
    assert "nobody can be asked" in outputs[0] if right else "HF_TOKEN" in outputs[1]
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not [path for path in files if token.encode() in path.read_bytes()]


_LOADED = """
import sys, json, datasets
for name in json.loads(sys.argv[2]):
    for split, rows in datasets.load_dataset(sys.argv[1], name).items():
        streamed = datasets.load_dataset(sys.argv[1], name, split=split, streaming=True)
        print(json.dumps([name, split, rows.to_list(), list(streamed)], default=repr))
"""


def test_the_hub_s_tables_are_read_by_datasets(releases: tuple[Path, Path], hub: Hub, tmp_path: Path) -> None:
    finished(command("publish", HUB, "--package", releases[0], "--yes", hub=hub, home=tmp_path))
    package = releases[0]
    card = (package / "README.md").read_text().split("---")[1]
    configs = {config["config_name"]: config["data_files"] for config in yaml.safe_load(card)["configs"]}
    environment = {**os.environ, **hub.environment(tmp_path), "HF_TOKEN": TOKEN}
    loaded = subprocess.run(
        [sys.executable, "-c", _LOADED, "me/lewm", json.dumps(sorted(configs))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    compared = 0
    for line in loaded.stdout.splitlines():
        name, split, rows, streamed = json.loads(line)
        (paths,) = [each["path"] for each in configs[name] if each["split"] == split]
        patterns = [paths] if isinstance(paths, str) else paths
        files = [file for pattern in patterns for file in sorted(package.glob(pattern))]
        wanted = [row for file in files for row in pq.read_table(file).to_pylist()]
        assert json.loads(json.dumps(wanted, default=repr)) == rows == streamed
        compared += len(rows)
    assert compared > 100
