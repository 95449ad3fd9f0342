"""Indexes of releases, their names, and URLs of places."""

from __future__ import annotations

import json
import re

import pytest

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.releases import open_place, parse_index
from genolewm_assets.releases.index import ReleaseIndex, choose_name
from genolewm_assets.store.artefacts import FileEntry
from genolewm_assets_tests.rows import each_row

MANIFEST = "ab" * 32
PATHS = ("audits/2026-02-26/manifest.json", "embeddings/0a/states.bin", "package/a b/[1].npy", "package/manifest.json")
INDEX = ReleaseIndex("2026-02-26", MANIFEST, tuple(FileEntry(path, 7, MANIFEST) for path in (*PATHS, "root.json")))


def test_an_index_is_read_as_it_was_written() -> None:
    assert parse_index(INDEX.to_bytes(), "index") == INDEX
    assert [entry.path for entry in INDEX.without_states().files] == [PATHS[0], *PATHS[2:], "root.json"]
    assert [entry.path for entry in INDEX.contents.values()] == [PATHS[0]]


@each_row(
    ("change", "error"),
    [
        ({"path": "data/../../x"}, "lists a file that no release has"),
        ({"path": "package/../../x"}, "lists a file that no release has"),
        ({"path": "package/./x"}, "lists a file that no release has"),
        ({"path": "package//x"}, "lists a file that no release has"),
        ({"path": "/etc/passwd"}, "lists a file that no release has"),
        ({"path": "package/a\\b"}, "lists a file that no release has"),
        ({"path": "work/lock"}, "lists a file that no release has"),
        ({"path": "package/..\n"}, "lists a file that no release has"),
        ({"path": PATHS[0]}, "lists a path twice"),
        ({"sha256": "../" + "0" * 61}, "lists a file that no release has"),
        ({"size_bytes": -1}, "lists a file that no release has"),
        ({"size_bytes": None}, "is no index"),
        ({"sha256": "0" * 64}, "names another package"),
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(change: dict[str, object], error: str) -> None:
    document = json.loads(INDEX.to_bytes())
    manifest = next(each for each in document["files"] if each["path"] == "package/manifest.json")
    if change == {"sha256": "0" * 64}:
        manifest.update(change)
    else:
        document["files"].append({**manifest, "path": "package/x", **change})
    document["files"].sort(key=lambda each: each["path"])
    with pytest.raises(CorruptResourceError, match=error):
        parse_index(json.dumps(document).encode(), "index")


def test_another_version_of_the_index_is_named() -> None:
    document = json.loads(INDEX.to_bytes()) | {"schema_version": "2.0"}
    with pytest.raises(CorruptResourceError, match=r"expected genolewm.release 1.x, got genolewm.release 2.0"):
        parse_index(json.dumps(document).encode(), "index")


NAMES = ("2025-01-05-0123456789ab", "2026-02-26-00112233445a", "2026-02-26-ffffffffffff", "v1", "main")


@each_row(
    ("names", "reference", "found"),
    [
        (NAMES, "2025-01-05", 0),
        (NAMES, "0123456789ab", 0),
        (NAMES, "0123456789ab" + "c" * 52, 0),
        (NAMES, NAMES[2], 2),
        (NAMES[:2], None, 1),
        (NAMES, None, None),
        (NAMES, "2026-02-26", None),
        (NAMES, "0123456789ac", None),
        (NAMES, "v1", None),
        ((), None, None),
    ],
)
def test_a_reference_means_one_release(names: tuple[str, ...], reference: str | None, found: int | None) -> None:
    if found is not None:
        assert choose_name(names, reference, "here") == names[found]
    else:
        with pytest.raises(MissingResourceError, match=r"here: (several builds|no such release)"):
            choose_name(names, reference, "here")


@each_row(
    "url",
    ["lewm", "hf://models/me/lewm", "hf://datasets/me", "s3://", "hf://datasets/me/x/data", "data@1", "s3://b/f@"],
)
def test_urls_of_other_things_are_refused(url: str) -> None:
    with pytest.raises(InputError, match=re.escape(url)):
        open_place(url)


@each_row(
    ("url", "base", "reference"),
    [
        ("hf://datasets/me/lewm@main", "hf://datasets/me/lewm", "main"),
        ("s3://bucket/a@b/lewm/", "s3://bucket/a@b/lewm", None),
        ("file:///mnt/lewm@2026-02-26", "file:///mnt/lewm", "2026-02-26"),
    ],
)
def test_a_url_has_a_place_and_a_reference(url: str, base: str, reference: str | None) -> None:
    place, found = open_place(url)
    assert (place.url, found) == (base, reference)
