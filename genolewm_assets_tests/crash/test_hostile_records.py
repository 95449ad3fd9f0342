"""Records of a root that a fault or a hand has replaced: every command ends at once, and states what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, MissingResourceError
from genolewm_assets.holdouts.temporal import KEPT_FILE, KeptT0, read_kept
from genolewm_assets.holdouts.temporal import _write as write_kept
from genolewm_assets.packages.pointer import current_folder, find_current, pin_release, read_move
from genolewm_assets.packages.reader import open_package
from genolewm_assets.packages.references import PackageRef, write_latest
from genolewm_assets.sources.clinvar.releases import read_ledger
from genolewm_assets.sources.files.digests import KnownDigests, RecordedDigests
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.store.artefacts.rejected import rejection_reason
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package
from genolewm_assets_tests.worlds.lewm.package_world import RELEASE
from genolewm_assets_tests.worlds.lewm.recorded_audits import record_audit

pytestmark = pytest.mark.nightly

DEEP = "[" * 200_000 + "]" * 200_000
#: Values that no field of a record may have, as JSON.
VALUES = ("null", "-7", "true", '"x"', "[[1]]", '{"a": 1}', '"/etc"', '"../../etc"', '"a\\u0000b"', '"\\ud800"')
NUMBERS = ("NaN", "-Infinity", "1e999", "9" * 9_000, "9" * 4_000)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    package = publish_package(folder)
    root = folder / "root"
    link = package.parent.parent / package.name.rpartition(".")[0]
    write_latest(root, PackageRef(RELEASE, str(link.relative_to(root)), read_manifest(package).sha256))
    record_audit(root, RELEASE, read_manifest(package).sha256)
    pin_release(root, RELEASE)
    return root


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "root", symlinks=True))


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """Let what waits without end fail: SIGALRM ends any call of the operating system."""

    def fail(*_: object) -> None:
        pytest.fail("it waits without end")

    before = signal.signal(signal.SIGALRM, fail)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def package_of(root: Path) -> Path:
    return next(root.glob("packages/*/.gen/*/package.json")).parent


def contents(good: bytes) -> Iterator[tuple[str, bytes]]:
    yield from {"nothing": b"", "half": good[: len(good) // 2], "no UTF-8": b"\xff\xfe\x00" + good}.items()
    yield from {"deep": DEEP.encode(), "null": b"null", "list": b"[]", "empty": b"{}", "huge": b"1e999"}.items()
    try:
        document = json.loads(good)
    except ValueError:
        return
    first = next(iter(document))
    yield "key twice", good.replace(b"{", f'{{"{first}": 1, '.encode(), 1)
    for name in document:
        yield f"without {name}", json.dumps({key: document[key] for key in document if key != name}).encode()
        changed = json.dumps({**document, name: "@@"}, indent=2, sort_keys=True)
        for value in (*VALUES, *NUMBERS, DEEP[199_100:200_900]):
            yield f"{name}={value[:9]}", changed.replace('"@@"', value).encode() + b"\n"


def make_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the name of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(path.name)
    finally:
        os.chdir(before)


KINDS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "socket": make_socket,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
}


def replacements(path: Path) -> Iterator[str]:
    """Put one thing after another into the place of a file, and yield its name."""
    good = path.read_bytes()
    for name, data in contents(good):
        path.write_bytes(data)
        yield name
    for name, make in KINDS.items():
        path.unlink()
        make(path)
        yield name
        if path.is_dir():
            path.rmdir()
            path.touch()
    path.unlink()
    path.write_bytes(good)


#: What reads the small records; each raises house errors only.
READERS: dict[str, Callable[[Path], object]] = {
    "root.json": lambda root: Root(root).claim("tiny", "0" * 64),
    f"packages/{RELEASE}/latest.json": find_current,
    "packages/current.json": lambda root: (current_folder(root), read_move(root)),
    "clinvar/releases.json": read_ledger,
    KEPT_FILE: read_kept,
    "rejected/x/failure.json": lambda root: rejection_reason(Root(root), "x"),
}


@pytest.mark.parametrize("record", READERS)
def test_a_small_record(record: str, root: Path) -> None:
    (root / record).parent.mkdir(parents=True, exist_ok=True)
    if record == KEPT_FILE:
        write_kept(root / record, KeptT0(6, RELEASE, moved=False))
    elif not (root / record).exists():
        (root / record).write_text('{"message": "x", "schema": "genolewm.clinvar_releases", "releases": []}')
    for name in replacements(root / record):
        signal.alarm(20)
        try:
            READERS[record](root)
        except GenoLeWMError as err:
            assert err.exit_code in {3, 4}, name
            assert "\n" not in str(err)
            str(err).encode()


def test_a_recorded_digest(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"bases")
    RecordedDigests(tmp_path / "digests").of(source, "md5")
    (record,) = (tmp_path / "digests").iterdir()
    for _ in replacements(record):
        signal.alarm(20)
        assert isinstance(KnownDigests(tmp_path / "digests").of(source, "md5"), str)


@pytest.mark.parametrize("name", ["manifest.json", "package.json"])
def test_a_record_of_a_package(name: str, root: Path) -> None:
    package = package_of(root)
    for what in replacements(package / name):
        signal.alarm(20)
        with pytest.raises((CorruptResourceError, MissingResourceError)):
            open_package(package, allow_unaudited=True)
            pytest.fail(f"{what} is taken for {name}")
    signal.alarm(20)
    assert open_package(package, allow_unaudited=True).directory == package


def test_no_file_of_a_package_is_waited_for(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    package = package_of(root)
    for path in sorted(file for file in package.rglob("*") if file.is_file() and file.name != "provenance.json"):
        for kind in ("FIFO", "device"):
            path.rename(root / "aside")
            KINDS[kind](path)
            signal.alarm(20)
            code = run(monkeypatch, "package", "verify", package)
            assert (code, kind) == (4, kind), path
            said = capfd.readouterr()
            assert path.name in said.out + said.err
            with pytest.raises((CorruptResourceError, MissingResourceError)):
                open_package(package, allow_unaudited=True)
            path.unlink()
            (root / "aside").rename(path)


@pytest.mark.parametrize(
    "record", ["root.json", "packages/current.json", f"packages/{RELEASE}/latest.json", "manifest"]
)
def test_every_command_ends_with_a_house_error(
    record: str, root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    package, path = package_of(root), root / record
    path = package / "manifest.json" if record == "manifest" else path
    good = path.read_bytes()
    commands = [
        ["verify", "--root", root],
        ["gc", "--root", root],
        ["status", "--root", root],
        ["package", "verify", package],
        ["package", "diff", package, package],
        ["package", "pin", RELEASE, "--root", root],
        ["package", "pin", "--newest", "--root", root],
        ["holdouts", "t0", "--root", root],
        ["cache", "index", "--check", "--root", root],
        ["cache", "find", "0" * 32, "--root", root],
        ["cache", "verify", root / "embeddings"],
    ]
    for data in (DEEP.encode(), b'{"release": 1e999}', None):
        for command in commands:
            path.unlink(missing_ok=True)
            os.mkfifo(path) if data is None else path.write_bytes(data)
            signal.alarm(60)
            assert run(monkeypatch, *command) in {0, 3, 4}, command
            # `cache find` also names the caches of this world that have no look-up.
            said = capfd.readouterr().err.splitlines()
            assert len([line for line in said if not line.startswith("not covered by the index: ")]) <= 1
            path.unlink(missing_ok=True)
            path.write_bytes(good)
