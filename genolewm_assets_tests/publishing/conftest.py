from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from genolewm_assets_tests.servers.hub import TOKEN, Hub, running_hub, use_hub
from genolewm_assets_tests.servers.s3_server import running_s3
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package
from genolewm_assets_tests.worlds.lewm.package_world import clinvar
from genolewm_assets_tests.worlds.once import built_once

HUB = "hf://datasets/me/lewm"
S3 = "s3://bucket/lewm"
#: A later release: labels of one contig differ.
LATER = "2025-02-09"


def _build(folder: Path) -> None:
    publish_package(folder, in_pieces=True)
    labels = {"chr17": clinvar("chr17", "LP P B LB VUS OTHER"), "chr20": clinvar("chr20"), "chr21": clinvar("chr21")}
    publish_package(folder / "later", in_pieces=True, release=LATER, clinvar=labels)


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "provenance.json"
    }


def versions(s3: object) -> dict[str, int]:
    """Return how often each object was written."""
    listed = s3.call_s3("list_object_versions", Bucket="bucket")["Versions"]
    found: dict[str, int] = {}
    for each in listed:
        found[each["Key"]] = found.get(each["Key"], 0) + 1
    return found


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return two packages that share pieces, each in a root, with audits and states."""
    folder = built_once(tmp_path_factory, "published_releases", _build)
    first = folder / "root/packages/2025-01-05/sample"
    return first, folder / f"later/root/packages/{LATER}/sample"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as hub:
        use_hub(hub, tmp_path / "home", monkeypatch, token=TOKEN)
        monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "cache"))
        yield hub


@pytest.fixture
def s3(hub: Hub) -> Iterator[object]:
    """Serve a bucket that keeps every version of its objects."""
    with running_s3() as s3:
        s3.mkdir("bucket")
        s3.call_s3("put_bucket_versioning", Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
        yield s3
