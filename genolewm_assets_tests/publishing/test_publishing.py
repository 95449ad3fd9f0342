"""Packages that are published to a loopback hub and to stores arrive whole, are sent once, and open as they were."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest

from genolewm_assets.errors import (
    ChecksumError,
    CorruptResourceError,
    FetchError,
    InputError,
    MissingResourceError,
    RejectedResourceError,
)
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.publishing.gather import gather
from genolewm_assets.publishing.to_hub import ToHub
from genolewm_assets.publishing.to_store import ToStore
from genolewm_assets.releases import HubPlace, fetch_release, open_place
from genolewm_assets.store.files import canonical_json
from genolewm_assets.training import GenoLeWMDataset, GenoLeWMValDataset
from genolewm_assets_tests.publishing.conftest import HUB, S3, digests, versions
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.servers.hub import Hub
from genolewm_assets_tests.worlds.lewm.frozen_world import assert_same
from genolewm_assets_tests.worlds.lewm.package_world import RELEASE
from genolewm_assets_tests.worlds.lewm.recorded_audits import record_audit

# The hub's client still sends contents in a way that its HTTP library is to drop.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def send(package: Path, target: str, **how: bool) -> str:
    place, _ = open_place(target)
    release = gather(package, **how)
    publication = ToHub(place, release) if isinstance(place, HubPlace) else ToStore(place, release)
    return publication.run(publication.estimate(), NO_PROGRESS)


@pytest.fixture
def copied(releases: tuple[Path, Path], tmp_path: Path) -> Path:
    shutil.copytree(releases[0].parents[2], tmp_path / "root", symlinks=True)
    return tmp_path / "root" / releases[0].relative_to(releases[0].parents[2])


#: In every kind of place nightly, in a folder more often.
in_places = pytest.mark.parametrize(
    "target",
    [pytest.param(HUB, marks=pytest.mark.nightly), pytest.param(S3, marks=pytest.mark.nightly), "file"],
    indirect=True,
)


@pytest.fixture(params=[HUB, pytest.param(S3, marks=pytest.mark.nightly), "file"])
def target(request: pytest.FixtureRequest, hub: Hub, tmp_path: Path) -> str:
    """Return the URL of a place without releases."""
    if request.param == S3:
        request.getfixturevalue("s3")
    return f"file://{tmp_path}/store" if request.param == "file" else request.param


def test_what_is_fetched_is_what_was_published(
    target: str, releases: tuple[Path, Path], tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.part_bytes = 5_000  # some contents are sent in parts
    package = releases[0].resolve()
    root = package.parents[3]
    published = send(package, target)
    fetched = fetch_release(target)
    assert digests(fetched.package) == digests(package)
    assert digests(fetched.folder / "audits" / RELEASE) == digests(root / "audits" / RELEASE)
    caches = [ref["path"] for ref in json.loads((package / "package.json").read_text())["caches"]]
    assert len(caches) == 7
    for path in caches:
        assert digests(fetched.folder / path) == digests(root / path)
    # The tags, names and digests of the release mean the same, and nothing of it names the machine.
    name = fetched.folder.name.partition(".")[0]
    for reference in (RELEASE, name, name[-12:], published.rpartition("@")[2]):
        assert fetch_release(f"{target}@{reference}") == fetched
        assert fetch_release(target, reference=reference) == fetched
    texts = [path.read_text() for path in fetched.folder.rglob("*") if path.suffix in (".json", ".md")]
    assert not [text for text in texts if str(root) in text or str(tmp_path) in text]
    # Batches are the same, states among them, and without the network once a name was fetched.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for kind, options in ((GenoLeWMDataset, ()), (GenoLeWMValDataset, ("holdout-chr",))):
        ours = kind(package, *options, windows_per_batch=8, min_left_context_bp=96)
        theirs = kind(published, *options, windows_per_batch=8, min_left_context_bp=96)
        assert_same(list(theirs), list(ours))


@in_places
def test_a_second_release_sends_only_what_changed(
    target: str, releases: tuple[Path, Path], hub: Hub, request: pytest.FixtureRequest
) -> None:
    first, second = (gather(package).index for package in releases)
    send(releases[0], target)
    before = set(hub.arrived)
    send(releases[1], target)
    changed = second.contents.keys() - first.contents.keys()
    assert 0 < len(changed) < len(second.contents) / 2
    if target == HUB:
        assert set(hub.arrived) - before <= changed
        assert set(hub.arrived.values()) == {1}
        assert len(hub.repositories["datasets", "me/lewm"].commits) == 3
        tags = hub.repositories["datasets", "me/lewm"].tags
        assert set(tags) == {first.name, second.name}
    if target == S3:
        assert set(versions(request.getfixturevalue("s3")).values()) == {1}
    # And equal files of both are one file on this machine.
    folders = [fetch_release(target, reference=index.name).folder for index in (first, second)]
    same = {entry.path for entry in first.files} & {entry.path for entry in second.files if entry.sha256 not in changed}
    shared = [path for path in same if (folders[0] / path).samefile(folders[1] / path)]
    assert len(shared) > len(same) / 2
    # Published once more, nothing is sent.
    before, requests = hub.arrived.copy(), len(hub.requests)
    send(releases[1], target)
    assert hub.arrived == before
    assert not [path for method, path in hub.requests[requests:] if "/commit/" in path or "/tag/" in path]
    with pytest.raises(MissingResourceError, match="no such release"):
        fetch_release(target, reference="2020-01-01")


@in_places
def test_states_may_be_left_out_and_follow_later(target: str, releases: tuple[Path, Path]) -> None:
    send(releases[0], target, states=False)
    with pytest.raises(MissingResourceError, match="the cache that the package refers to is missing"):
        GenoLeWMDataset(target)
    tables = GenoLeWMDataset(target, with_states=False, windows_per_batch=8)
    send(releases[0], target)
    assert GenoLeWMDataset(target).package.caches.keys() == GenoLeWMDataset(releases[0]).package.caches.keys()
    other = GenoLeWMDataset(releases[0], with_states=False, windows_per_batch=8)
    assert_same(list(tables), list(other))


def flipped(data: bytes, at: int = -1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


@in_places
def test_what_arrives_otherwise_than_it_was_verified_gets_no_name(target: str, copied: Path) -> None:
    place, _ = open_place(target)
    release = gather(copied)
    publication = ToHub(place, release) if isinstance(place, HubPlace) else ToStore(place, release)
    victim = next(copied.glob("pieces/**/*.parquet"))
    content = victim.read_bytes()
    victim.write_bytes(flipped(content))
    with pytest.raises(ChecksumError, match=rf"{victim.name}: what is there is not what was sent"):
        publication.run(publication.estimate(), NO_PROGRESS)
    with pytest.raises(MissingResourceError, match="no such release"):
        fetch_release(target)


@in_places
def test_a_byte_that_flips_on_the_way_down_is_found_and_fetched_again(
    target: str, releases: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(releases[0], target)
    place = type(open_place(target)[0])
    blocks = place.blocks

    def changed(self: object, entry: object, *rest: object) -> Iterator[bytes]:
        for block in blocks(self, entry, *rest):
            yield flipped(block) if entry.path.endswith("train.parquet") else block

    with monkeypatch.context() as patch:
        patch.setattr(place, "blocks", changed)
        with pytest.raises(ChecksumError, match=r"\w+/\S*train.parquet: what arrived is not what was published"):
            fetch_release(target)
    fetched = fetch_release(target)
    # A file that changes on this machine is fetched again.
    file = next(fetched.package.glob("**/train*.parquet"))
    content = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(flipped(content))
    with pytest.raises(CorruptResourceError, match=r"train.*content differs"):
        GenoLeWMDataset(fetched.package, fetched.folder)
    assert fetch_release(target) == fetched
    assert file.read_bytes() == content


def test_a_content_without_an_end_is_given_up_behind_its_size(
    tmp_path: Path, releases: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(releases[0], target := f"file://{tmp_path}/store")
    place = type(open_place(target)[0])
    # Every block is as large as the file; a third one, which cannot be written, is not asked for.
    monkeypatch.setattr(place, "blocks", lambda _, entry, *__: iter([bytes(entry.size_bytes)] * 2 + [None]))
    with pytest.raises(ChecksumError, match="what arrived is not what was published"):
        fetch_release(target)


@in_places
def test_a_download_goes_on_in_the_middle_of_a_file(
    target: str, releases: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(releases[0], target)
    place, starts = type(open_place(target)[0]), list[int]()
    blocks = place.blocks

    def broken(self: object, entry: object, *rest: object) -> Iterator[bytes]:
        for block in blocks(self, entry, *rest):
            yield block[: len(block) // 2]
            raise FetchError(entry.path, "the connection broke")

    def counted(self: object, entry: object, start: int, *rest: object) -> Iterator[bytes]:
        starts.append(start)
        return blocks(self, entry, start, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(place, "blocks", broken)
        with pytest.raises(FetchError, match="the connection broke"):
            fetch_release(target)
    monkeypatch.setattr(place, "blocks", counted)
    assert digests(fetch_release(target).package) == digests(releases[0].resolve())
    assert sum(start > 0 for start in starts) >= 1


def test_only_whole_audited_packages_are_published(copied: Path) -> None:
    root, manifest = copied.parents[2], (copied / "manifest.json").read_bytes()
    card = (copied / "README.md").read_bytes()
    (copied / "README.md").write_bytes(flipped(card, 100))
    with pytest.raises(CorruptResourceError, match=r"README.md: content differs"):
        gather(copied)
    (copied / "README.md").write_bytes(card)
    state = next((root / "embeddings").glob("*/states.bin"))
    named = [ref["path"] for ref in json.loads((copied / "package.json").read_text())["caches"]]
    state = root / named[0] / "states.bin"
    content = state.read_bytes()
    state.write_bytes(flipped(content))
    with pytest.raises(CorruptResourceError, match=r"states.bin: content differs"):
        gather(copied)
    assert len(gather(copied, states=False).index.files) > 50
    state.write_bytes(content)
    audit = root / "audits" / RELEASE / "report.json"
    audit.write_text("{ }\n")
    with pytest.raises(CorruptResourceError, match="the audit does not verify"):
        gather(copied)
    record_audit(root, RELEASE, hashlib.sha256(manifest).hexdigest(), passed=False)
    with pytest.raises(RejectedResourceError, match="audit of the package failed"):
        gather(copied)
    for folder in ("rejected", "audits"):
        shutil.rmtree(root / folder)
    with pytest.raises(MissingResourceError, match="no audit of the package is here"):
        gather(copied)


@each_row("asset", ["forensic/profiles", "mito/tokens", "embeddings/cache", "tuples/frozen"])
def test_other_artefacts_are_refused_by_name(asset: str, copied: Path) -> None:
    manifest = copied / "manifest.json"
    document = json.loads(manifest.read_text())
    manifest.write_bytes(canonical_json({**document, "asset": asset}, "manifest"))
    with pytest.raises(InputError, match=f"only packages are published.*got {asset}"):
        gather(copied)


def test_a_hub_that_cannot_be_read_is_named(hub: Hub, releases: tuple[Path, Path]) -> None:
    hub.add("datasets", "me/other", "0123456789" * 4, releases[0])
    with pytest.raises(MissingResourceError, match="no such dataset"):
        fetch_release(HUB)
    with pytest.raises(InputError, match="is no release of a package"):
        fetch_release("hf://datasets/me/other@main")
    with pytest.raises(MissingResourceError, match="no such release is published here"):
        fetch_release("hf://datasets/me/other")
    with pytest.raises(FetchError, match="cannot be read or written"):
        fetch_release("nonsense://a/b")
