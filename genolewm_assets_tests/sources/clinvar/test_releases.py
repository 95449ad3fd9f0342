from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, FetchError, MissingResourceError, ResourceError
from genolewm_assets.sources.clinvar.listing import ListedFile, Listing, read_listing
from genolewm_assets.sources.clinvar.releases import (
    LEDGER,
    RegisteredRelease,
    choose_releases,
    find_release,
    listed_releases,
    offered_releases,
    read_ledger,
    register_releases,
)
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.sources.release_files import publish

OLD, NEW = "clinvar_20201107.vcf.gz", "clinvar_20260226.vcf.gz"
MITO = "clinvar_20260226.chrM.vcf.gz"
A, B, C = ("a" * 32, "b" * 32, "c" * 32)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


def listing(*files: tuple[str, str]) -> Listing:
    days = {name: f"{name[8:12]}-{name[12:14]}-{name[14:16]}" for name, _ in files}
    return Listing("place", tuple(ListedFile(days[name], f"place/{name}", identity) for name, identity in files), {})


def keys(releases: tuple[RegisteredRelease, ...]) -> dict[str, tuple[str, str]]:
    return {release.key: (release.file_name, release.identity) for release in releases}


def test_releases_are_registered_in_the_order_of_their_dates(root: Path) -> None:
    assert read_ledger(root) == ()
    known = register_releases(root, listing((OLD, A), (NEW, B)))
    assert known == (RegisteredRelease("2020-11-07", OLD, A), RegisteredRelease("2026-02-26", NEW, B))
    late = register_releases(root, listing(("clinvar_20240107.vcf.gz", C)))
    assert list(keys(late)) == ["2020-11-07", "2024-01-07", "2026-02-26"]
    assert read_ledger(root) == late


def test_registering_again_changes_nothing(root: Path) -> None:
    offered = listing((OLD, A), (NEW, B), (MITO, C))
    known = register_releases(root, offered)
    written = (root / LEDGER).stat()
    assert register_releases(root, offered) == known
    assert register_releases(root, listing()) == known
    after = (root / LEDGER).stat()
    assert (after.st_ino, after.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_a_root_can_begin_with_the_newest_release(root: Path) -> None:
    offered = listing(("clinvar_20240107.vcf.gz", C), (OLD, A), (NEW, B), (MITO, C))
    listed = listed_releases(root, offered, newest_first=True)
    begun = register_releases(root, offered, newest_first=True)
    assert keys(begun) == {"2026-02-26": (NEW, B), "2026-02-26.2": (MITO, C)}
    assert begun == listed
    late = listing((OLD, A), (NEW, C), ("clinvar_20260305.vcf.gz", B))
    known = register_releases(root, late, newest_first=True)
    assert list(keys(known)) == ["2026-02-26", "2026-02-26.2", "2026-02-26.3", "2026-03-05"]
    assert register_releases(root, listing(), newest_first=True) == known


def test_a_file_changed_under_its_name_gets_the_next_number(root: Path) -> None:
    register_releases(root, listing((NEW, A)))
    register_releases(root, listing((NEW, B)))
    known = register_releases(root, listing((NEW, C)))
    expected = {"2026-02-26": (NEW, A), "2026-02-26.2": (NEW, B), "2026-02-26.3": (NEW, C)}
    assert keys(known) == expected
    assert keys(register_releases(root, listing((NEW, A)))) == expected  # the first bytes are back
    assert [release.key for release in offered_releases(known, listing((NEW, A)))] == ["2026-02-26"]


def test_two_files_of_one_date(root: Path) -> None:
    known = register_releases(root, listing((NEW, A), (MITO, A)))
    assert keys(known) == {"2026-02-26": (NEW, A), "2026-02-26.2": (MITO, A)}
    assert list(keys(register_releases(root, listing((NEW, A), (MITO, B))))) == [
        "2026-02-26",
        "2026-02-26.2",
        "2026-02-26.3",
    ]


def test_numbers_go_on_behind_the_highest_that_was_given(root: Path) -> None:
    for identity in map(str, range(11)):
        known = register_releases(root, listing((NEW, identity)))
    assert list(keys(known))[-2:] == ["2026-02-26.10", "2026-02-26.11"]
    document = json.loads((root / LEDGER).read_bytes())
    document["releases"] = document["releases"][-1:]
    (root / LEDGER).write_text(json.dumps(document))
    assert list(keys(register_releases(root, listing((NEW, A))))) == ["2026-02-26.11", "2026-02-26.12"]


def _register_in_turn(root: Path, identities: list[str]) -> None:
    for identity in identities:
        register_releases(root, listing((NEW, identity)))


@pytest.mark.slow
def test_processes_that_register_at_once_lose_nothing_and_give_no_key_twice(root: Path) -> None:
    context = multiprocessing.get_context("spawn")
    shared = [f"shared {n}" for n in range(5)]
    workers = [
        context.Process(target=_register_in_turn, args=(root, [*shared, *(f"{name} {n}" for n in range(5))]))
        for name in ("one", "two", "three")
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    known = read_ledger(root)
    assert len(known) == len({release.identity for release in known}) == 20
    assert [release.key for release in known] == ["2026-02-26", *(f"2026-02-26.{n}" for n in range(2, 21))]


def test_a_write_that_is_cut_leaves_the_former_record(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = register_releases(root, listing((OLD, A)))

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(ResourceError, match="the storage refused to write"):
        register_releases(root, listing((OLD, A), (NEW, B)))
    monkeypatch.undo()
    assert read_ledger(root) == known
    assert [path.name for path in (root / "clinvar").iterdir()] == ["releases.json"]


GOOD = {"key": "2026-02-26", "file_name": NEW, "identity": A}
FORM = {"schema": "genolewm.clinvar_releases", "schema_version": "1.0"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b'{"releases": []}',
        json.dumps({**FORM, "schema_version": "2.0", "releases": []}).encode(),
        json.dumps({**FORM, "releases": {}}).encode(),
        *(
            json.dumps({**FORM, "releases": entries}).encode()
            for entries in (
                *(["2026-02-26"], [[]], [{}], [{**GOOD, "more": ""}], [{**GOOD, "identity": None}]),
                *([{**GOOD, "identity": ""}], [{**GOOD, "identity": "a\nb"}], [{**GOOD, "identity": "\ud800"}]),
                *([{**GOOD, "key": "2026-02-27"}], [{**GOOD, "key": "2026-02-26.1"}]),
                *([{**GOOD, "key": "2026-02-26."}], [{**GOOD, "key": "../../etc"}]),
                [{**GOOD, "key": "2026-13-45", "file_name": "clinvar_20261345.vcf.gz"}],
                *([{**GOOD, "file_name": f"../{NEW}"}], [{**GOOD, "file_name": "http://elsewhere.example/x"}]),
                *([{**GOOD, "file_name": f"{NEW}?x=1"}], [GOOD, GOOD], [GOOD, {**GOOD, "key": "2026-02-26.2"}]),
                [GOOD, {**GOOD, "identity": B}],
            )
        ),
    ],
)
def test_hostile_content_is_refused_and_not_overwritten(root: Path, content: bytes) -> None:
    (root / "clinvar").mkdir(parents=True)
    (root / LEDGER).write_bytes(content)
    with pytest.raises(CorruptResourceError, match=r"releases\.json: .*Restore it from a backup"):
        register_releases(root, listing((OLD, A)))
    with pytest.raises(CorruptResourceError):
        read_ledger(root)
    assert (root / LEDGER).read_bytes() == content


def test_a_damaged_download_is_not_mistaken_for_a_free_key(root: Path) -> None:
    generation = root / "clinvar/2026-02-26/.gen/vcf.0123456789ab"
    generation.mkdir(parents=True)
    (generation / "manifest.json").write_bytes(b"{}")
    (root / "clinvar/2026-02-26/vcf").symlink_to(".gen/vcf.0123456789ab")
    with pytest.raises(CorruptResourceError, match=r"manifest\.json"):
        register_releases(root, listing((NEW, A)))
    assert not (root / LEDGER).exists()


def test_what_is_no_file_is_refused(root: Path, tmp_path: Path) -> None:
    place = root / LEDGER
    place.parent.mkdir(parents=True)
    # A pipe would block a reader for ever.
    for make in (place.mkdir, lambda: os.mkfifo(place), lambda: place.symlink_to(tmp_path / "elsewhere.json")):
        make()
        with pytest.raises(CorruptResourceError, match="not a regular file"):
            register_releases(root, listing((OLD, A)))
        place.rmdir() if place.is_dir() else place.unlink()
    assert not (tmp_path / "elsewhere.json").exists()


def test_choosing_registers_and_names_what_is_missing(root: Path, place: Path) -> None:
    place.mkdir()
    with pytest.raises(MissingResourceError, match=r"offers no ClinVar release: expected files named clinvar_YYYY"):
        choose_releases(root, read_listing(str(place)))
    publish(place, OLD)
    publish(place, NEW)
    offered = read_listing(str(place))
    assert [release.key for release in choose_releases(root, offered)] == ["2020-11-07", "2026-02-26"]
    assert [release.key for release in choose_releases(root, offered, ["2026-02-26"])] == ["2026-02-26"]
    assert choose_releases(root, offered, []) == ()
    with pytest.raises(MissingResourceError, match=r"such as 2020-11-07, 2026-02-26, got '2099-01-01'"):
        choose_releases(root, offered, ["2026-02-26", "2099-01-01"])
    (place / MITO.replace("0226", "0305")).write_bytes(b"half")
    with pytest.raises(MissingResourceError, match=r"clinvar_20260305\.chrM\.vcf\.gz has no checksum yet"):
        choose_releases(root, read_listing(str(place)), ["2026-03-05"])


def test_only_what_is_there_now_is_offered(root: Path, place: Path) -> None:
    publish(place, OLD)
    publish(place, NEW)
    choose_releases(root, read_listing(str(place)))
    (place / OLD).unlink()
    publish(place, NEW, b"other bytes")
    assert [release.key for release in choose_releases(root, read_listing(str(place)))] == ["2026-02-26.2"]
    assert len(read_ledger(root)) == 3


def test_a_release_is_found_by_its_key_and_registered_where_it_is_new(root: Path, place: Path) -> None:
    md5 = publish(place, NEW)
    release = find_release(root, str(place), "2026-02-26")
    assert release == RegisteredRelease("2026-02-26", NEW, md5)
    assert release.url_at(f"{place}/") == f"{place}/{NEW}"
    assert read_ledger(root) == (release,)
    with pytest.raises(MissingResourceError, match="one of the 1 offered, such as 2026-02-26, got '2019-01-01'"):
        find_release(root, str(place), "2019-01-01")
    with pytest.raises(MissingResourceError, match=r"got '2026-02-26\.2'"):
        find_release(root, str(place), "2026-02-26.2")


def test_a_key_never_leads_to_other_bytes(root: Path, place: Path) -> None:
    first = publish(place, NEW, b"first")
    find_release(root, str(place), "2026-02-26")
    second = publish(place, NEW, b"second")
    message = (
        rf"the content of release '2026-02-26' is no longer offered: expected {first}, got {second}\. "
        r"Materialise '2026-02-26\.2', the release of the current content"
    )
    with pytest.raises(MissingResourceError, match=message):
        find_release(root, str(place), "2026-02-26")
    assert find_release(root, str(place), "2026-02-26.2").md5 == second
    publish(place, NEW, b"first")
    assert find_release(root, str(place), "2026-02-26").md5 == first


def test_a_release_whose_file_went_or_is_being_replaced(root: Path, place: Path) -> None:
    publish(place, OLD)
    publish(place, NEW)
    find_release(root, str(place), "2026-02-26")
    (place / f"{NEW}.md5").unlink()
    with pytest.raises(MissingResourceError, match=rf"{NEW} has no checksum yet"):
        find_release(root, str(place), "2026-02-26")
    (place / f"{NEW}.md5").write_bytes(b"")
    with pytest.raises(FetchError, match="states no MD5"):
        find_release(root, str(place), "2026-02-26")
    for name in (NEW, f"{NEW}.md5"):
        (place / name).unlink()
    with pytest.raises(MissingResourceError, match="one of the 1 offered, such as 2020-11-07, got '2026-02-26'"):
        find_release(root, str(place), "2026-02-26")


def test_a_file_without_a_published_checksum_is_known_by_its_etag(root: Path, site: WebServer) -> None:
    site.files = {"data/": f'<a href="{NEW}">'.encode(), f"data/{NEW}": b"bytes"}
    release = find_release(root, site.url("data"), "2026-02-26")
    assert release.md5 is None
    assert release.identity == '5 bytes, "v1"'
    assert find_release(root, site.url("data"), "2026-02-26") == release
    site.etag = '"v2"'
    with pytest.raises(MissingResourceError, match=r"Materialise '2026-02-26\.2'"):
        find_release(root, site.url("data"), "2026-02-26")
    del site.files[f"data/{NEW}"]
    with pytest.raises(MissingResourceError, match="was removed while the listing was read"):
        find_release(root, site.url("data"), "2026-02-26.2")
