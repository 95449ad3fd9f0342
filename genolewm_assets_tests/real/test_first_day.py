"""``genolewm build grch38-chr21`` against loopback servers: one command from nothing to an audited package."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from genolewm_assets.lewm import GenoLeWMDataset
from genolewm_assets_tests.servers.hub import running_hub
from genolewm_assets_tests.servers.public_servers import PublicServers, serve_slices
from genolewm_assets_tests.servers.web_server import running_server
from genolewm_assets_tests.worlds.graph.tiny_world import bytes_of

_QUICK = "genolewm_assets_tests.worlds.graph.quick_dagster"
_UNITS = {"bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


@pytest.fixture
def servers(shared_data: Path, tmp_path: Path) -> Iterator[PublicServers]:
    with running_server() as site, running_hub() as hub:
        yield serve_slices(site, hub, shared_data, tmp_path)


def command(servers: PublicServers, root: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", _QUICK, "build", str(servers.catalog), "--root", str(root), *options]


def environment(servers: PublicServers, cache: Path) -> dict[str, str]:
    return {**os.environ, **servers.hub.environment(cache), "COLUMNS": "200"}


def run(servers: PublicServers, root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(servers, root, *options),
        env=environment(servers, root.parent / "cache"),
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
        stdin=subprocess.DEVNULL,
    )


class Peak:
    """The most bytes that some folders had, looked at ten times a second while the block runs."""

    def __init__(self, *folders: Path) -> None:
        self._folders, self._ended, self.most = folders, threading.Event(), 0
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            found: dict[tuple[int, int], int] = {}
            for folder in self._folders:
                for place, _, names in os.walk(folder):
                    for name in names:
                        with suppress(OSError):  # files come and go
                            status = Path(place, name).lstat()
                            found[status.st_dev, status.st_ino] = status.st_blocks * 512
            self.most = max(self.most, sum(found.values()))


def stated(text: str, pattern: str) -> int:
    match = re.search(pattern, text)
    assert match, text
    return int(float(match[1].replace(",", "")) * _UNITS[match[2]])


def published(root: Path) -> Mapping[str, bytes]:
    """Return all published bytes but the pages that tell of times."""
    return {name: content for name, content in bytes_of(root).items() if not name.startswith("platform/")}


def test_one_command_from_nothing_to_a_package_with_states(servers: PublicServers, tmp_path: Path) -> None:
    root = tmp_path / "root"
    refused = run(servers, root)
    assert refused.returncode == 3
    assert "Add --yes" in refused.stderr
    assert "never stored" in refused.stderr
    assert not servers.hub.downloads().get("model.safetensors")
    disk = stated(refused.stderr, r"take up to ([\d.,]+) (\w+) of disk")
    total = stated(refused.stderr, r"([\d.,]+) (\w+) are downloaded")
    with Peak(root, tmp_path / "cache") as peak:
        done = run(servers, root, "--yes")
    assert done.returncode == 0, done.stderr
    assert peak.most <= disk
    sent = sum(servers.site.sent_of.values()) + sum(servers.hub.sent.values())
    assert 0.9 * total < sent < 1.15 * total
    for path in (servers.gnomad, servers.newest):
        assert servers.site.sent_of[path] <= 1.05 * len(servers.site.files[path])
    assert not [name for name in published(root) if name.startswith("clinvar/2020")]
    card = next(text for name, text in published(root).items() if name.endswith("README.md")).decode()
    assert "**This is a teaching package.** Blocks of 100,000 bp" in card
    batch = next(iter(GenoLeWMDataset.current(root, seed=0)))
    assert batch.source_states is not None
    again = run(servers, root)
    assert again.returncode == 0, again.stderr
    assert "are downloaded" not in again.stderr
    assert "built" not in again.stdout
    # What is there but would be built otherwise now is downloaded, and so announced.
    text = servers.catalog.read_text()
    assert "min_af" not in text
    servers.catalog.write_text(text.replace("gnomad:\n", "gnomad:\n  min_af: 0.02\n"))
    stale = run(servers, root)
    assert stale.returncode == 3
    assert [name for name in ("gnomad.sources.chr17", "genome.fasta", "corpus.sources") if name in stale.stderr] == [
        "gnomad.sources.chr17"
    ]


def test_killed_ten_times_it_ends_the_same(servers: PublicServers, tmp_path: Path) -> None:
    undisturbed, root, draw = tmp_path / "undisturbed", tmp_path / "root", random.Random(38)
    whole = run(servers, undisturbed, "--yes", "--without-states")
    assert whole.returncode == 0, whole.stderr
    servers.site.sent_of.clear()
    servers.site.rate, servers.site.slow = 20_000.0, servers.gnomad
    size, scanned = len(servers.site.files[servers.gnomad]), servers.site.sent_of
    for number in range(10):
        process = subprocess.Popen(
            command(servers, root, "--yes", "--without-states"),
            env=environment(servers, tmp_path / "cache"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Five times while the VCF is scanned, at any time before and behind it.
        if number % 2 and scanned[servers.gnomad] < size:
            limit = scanned[servers.gnomad] + draw.uniform(0.05, 0.2) * size
            while scanned[servers.gnomad] < limit and process.poll() is None:
                time.sleep(0.05)
        else:
            time.sleep(draw.uniform(2, 10 + 4 * number))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = run(servers, root, "--yes", "--without-states")
    assert done.returncode == 0, done.stderr
    assert published(root) == published(undisturbed)
    # What came since the state was saved, at most two seconds of five scans, and what is read ahead. Of so small a file
    # that is more than a twentieth: sources/gnomad/test_streamed measures larger ones.
    assert scanned[servers.gnomad] <= size + 5 * 3.0 * servers.site.rate
    assert not servers.hub.downloads().get("model.safetensors")
    batch = next(iter(GenoLeWMDataset.current(root, seed=0, with_states=False)))
    assert batch.source_states is None
    assert batch.target_tokens.shape[0] == len(batch.edits)


def test_servers_that_fail_as_real_ones_do_end_in_success_or_one_line(servers: PublicServers, tmp_path: Path) -> None:
    root, site, options = tmp_path / "root", servers.site, ("--yes", "--without-states")
    fasta = next(path for path in site.files if path.endswith("analysis_set.fna.gz"))
    whole = site.files[fasta]
    site.files[fasta] = whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:]
    done = run(servers, root, *options)
    assert done.returncode == 4
    (line,) = {line for line in done.stderr.splitlines() if "MD5 of the download differs" in line}
    assert fasta in line
    assert "windows/index[chr17] waits: reads reference/genome, which is not there" in done.stderr
    assert "Traceback" not in done.stderr
    # Too many requests, an overloaded server, and a file that moved to another host.
    site.files[fasta], site.statuses, site.retry_after = whole, [429, 503], "1"
    with running_server() as other:
        other.files["elsewhere"] = site.files[servers.gnomad]
        site.moved[f"/{servers.gnomad}"] = other.url("elsewhere")
        # The connection breaks, and before the rest is asked for, the file is replaced.
        other.cuts.append(200_000)
        other.on_request[3] = lambda: setattr(other, "etag", '"v2"')
        done = run(servers, root, *options)
    assert "Traceback" not in done.stderr
    assert done.returncode == 4, done.stderr
    assert any("no longer the version first opened" in line for line in done.stderr.splitlines())
    site.moved.clear()
    done = run(servers, root, *options)
    assert done.returncode == 0, done.stderr
