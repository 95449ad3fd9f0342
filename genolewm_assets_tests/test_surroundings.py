"""Names of files, locales, ports and servers as people have them: what works, and what is refused at the start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from genolewm_assets import ui_server
from genolewm_assets.errors import BusyError, RootError
from genolewm_assets.launch import WORKING_FOLDER, prepare_environment, ui_command
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.locks import LeaseOwner
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.programs import free_port
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.small_root import create

#: Locales in which Python reads names of files as ASCII, unless it is told otherwise.
PLAIN_LOCALE = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ['it\'s "quoted" {braces} ${HOME} $(id)', "a#b&c;d=e,f:g@h !~|<>^`", "ü \u20ac \U0001f600 [a]* b\\n"]
)
def test_a_world_is_built_at_a_strange_path(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    world = BuiltWorld(tmp_path / name)
    world.keep_history()
    try:
        for assets, partition in (
            (("reference/genome",), None),
            (("gnomad/shard",), "chr17"),
            (("windows/index", "embeddings/cache"), "chr17"),
            (("corpus/records",), "mrna_evo2"),
            (("corpus/windows",), "mrna_evo2"),
            (("clinvar/release", "clinvar/shard"), "2025-01-05"),
        ):
            assert world.materialize(*assets, partition=partition).success, assets
    finally:
        world.instance.dispose()


@pytest.mark.parametrize("name", ["50 %", "%41", "what?"])
def test_a_path_at_which_dagster_keeps_no_database_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "demo", "--root", tmp_path / name) == 3
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"{tmp_path / name}: Dagster cannot keep its databases")
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\x1b[31m", "\x7f"])
def test_a_path_with_control_characters_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for command in ("demo", "verify", "gc", "status", "cache-windows"):
        assert run(monkeypatch, command, "--root", tmp_path / name) == 3
        (line,) = capfd.readouterr().err.splitlines()
        assert "control character" in line
    assert not (tmp_path / name).exists()


def test_a_path_that_is_not_utf8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = tmp_path / os.fsdecode(b"a\xffb")
    for command in (["demo", "--root"], ["verify", "--root"], ["package", "verify"], ["cache", "inspect"]):
        assert run(monkeypatch, *command, name) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert line.endswith("udcffb': holds bytes that are not UTF-8. Rename it or use a link to it.")
    # Where the working directory has such a name.
    name.mkdir()
    monkeypatch.chdir(name)
    assert run(monkeypatch, "verify", "--root", "data") == 3
    with pytest.raises(RootError, match="not UTF-8"):
        Root(Path("data"))


def test_a_locale_without_utf8(tmp_path: Path) -> None:
    root = tmp_path / "ü"
    create(root)
    vcf = root / "absent.vcf"
    words = [sys.executable, "-m", "genolewm_assets"]
    environment = {**os.environ, **PLAIN_LOCALE}
    verified = subprocess.run([*words, "verify", "--root", root], env=environment, capture_output=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, b"")
    refused = subprocess.run(
        [*words, "prepare-clinvar", "--input-vcf", vcf, "--release", "2025-01-05", "--output", root],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert refused.returncode == 2
    assert f"{vcf}: does not exist".encode() in refused.stderr


#: Runs the help of every command, and commands on a root, each in a process of its own, with full and closed streams.
EACH_COMMAND = """
import os, sys, typer.main
from genolewm_assets import cli

def commands(group, *words):
    for name, each in group.commands.items():
        yield (*words, name, "--help")
        if hasattr(each, "commands"):
            yield from commands(each, *words, name)

root, kept = sys.argv[1], os.dup(2)
calls = [*commands(typer.main.get_command(cli.app)), ("--version",), ("verify", "--root", root), ("gc", "--root", root)]
for call in (*calls, ("catalog", "check", "grch38", "--offline")):
    for full in (True, False)[: 1 + ("--help" not in call)]:
        sys.stdout.flush()
        if not (child := os.fork()):
            os.close(0)
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1) if full else os.close(1)
            os.dup2(kept, 2)
            sys.argv = ["genolewm", *call]
            cli.main()
        print(*call, full, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_no_command_ends_in_a_traceback_without_home_terminal_locale_and_streams(tmp_path: Path) -> None:
    create(tmp_path)
    bare = {"LC_ALL": "C", "TMPDIR": "/nonexistent", "HOME": "/nonexistent", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", EACH_COMMAND, tmp_path],
        env={"PATH": os.environ["PATH"], **bare},
        capture_output=True,
        text=True,
        check=True,
    )
    calls = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    assert len(calls) > 35
    told = done.stderr.splitlines()
    assert {line[:26] for line in told} == {"standard output: cannot be"}
    assert [line for *line, full, code in calls if code != ("4" if full == "True" else "0")] == []
    assert len(told) == sum(full == "True" for _, full, _ in calls)


@pytest.mark.parametrize("place", ["root", "dagster", "packages", "work"])
def test_a_file_in_the_place_of_a_folder(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    if place != "root":
        create(root)
    target = root if place == "root" else root / place
    if target.is_dir():
        target.rename(tmp_path / "aside")
    target.write_text("a file")
    for command in (["demo"], ["verify"], ["gc"], ["package", "pin", "2025-01-05"], ["cache", "index"]):
        code = run(monkeypatch, *command, "--root", root)
        said = capfd.readouterr().err
        assert code in {0, 3, 4}, (command, said)
        assert said.count("\n") <= 1, (command, said)


@pytest.mark.nightly
@pytest.mark.parametrize("free_bytes", [0, 200 << 10])
def test_a_full_disk_at_the_first_writes(free_bytes: int, tmp_path: Path) -> None:
    def demo(disk: SmallDisk) -> object:
        (disk.folder / "filled").write_bytes(bytes(1 << 20))
        disk.leave(free_bytes)
        words = [sys.executable, "-m", "genolewm_assets", "demo", "--root", str(disk.folder / "root")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.count("\n"), "Traceback" in done.stderr, done.stderr[-300:]

    said = on_small_disk(tmp_path / "disk", demo)
    assert said.startswith(("(3, 1, False", "(4, 1, False")), said


@pytest.mark.parametrize("own", ["", "{here}", ":{here}", "lib:{here}:"])
def test_children_import_this_package_and_nothing_from_the_folder_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", own.format(here=REPOSITORY))
    environment = {**os.environ, **prepare_environment(tmp_path / "root", "sample")}
    code = "import click, sys, genolewm_assets; print(genolewm_assets.__file__); print(*sys.path, sep=':')"
    for folder in (tmp_path, WORKING_FOLDER):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
        package, path = done.stdout.splitlines()
        assert Path(package).parents[1] == REPOSITORY
        assert {str(tmp_path), "", "."}.isdisjoint(path.split(":"))
        assert (str(tmp_path / "lib") in path.split(":")) == own.startswith("lib")


class ServersStartedError(Exception):
    """Raised in place of the start of Dagster's servers; holds their command."""


@pytest.fixture
def no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(program: str, command: list[str], environment: dict[str, str]) -> None:
        raise ServersStartedError(command)

    monkeypatch.setattr(os, "execve", start)
    monkeypatch.setattr(os, "chdir", lambda folder: None)


def refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], code: int, *options: object) -> str:
    """Return the one line of a ``genolewm ui`` that is refused."""
    assert run(monkeypatch, "ui", *options) == code
    (line,) = capfd.readouterr().err.splitlines()
    return line


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", port)) as server:
        yield server


@contextmanager
def other_ui(home: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that holds the lock of a root's UI; it is killed if it is there at the end."""
    code = (
        "import sys, time; from pathlib import Path; from genolewm_assets.ui_server import serving\n"
        "with serving(Path(sys.argv[1]), int(sys.argv[2])): print(flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(home), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "\n"
            yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("no_servers")
def test_a_second_ui_of_a_root_is_refused_until_the_first_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root, port, another = tmp_path / "root", free_port(), free_port()
    with other_ui(root / "dagster", port) as first:
        for asked in (port, another):
            line = refused(monkeypatch, capfd, 4, "--root", root, "--port", asked)
            assert line.startswith(f"{root}: the UI of this root is already served at http://127.0.0.1:{port} by ")
            assert f"process {first.pid} on {os.uname().nodename}, since 20" in line
            assert line.endswith(f"Open http://127.0.0.1:{port}, or end it (kill {first.pid}) and run this again.")
        with pytest.raises(BusyError, match=f"kill {first.pid}"), ui_server.serving(root / "dagster", another):
            pass
        first.send_signal(signal.SIGKILL)
        first.wait()
        with pytest.raises(ServersStartedError) as started:
            run(monkeypatch, "ui", "--root", root, "--port", port)
        assert started.value.args == (ui_command(port),)
        with ui_server.serving(root / "dagster", port):
            pass


@pytest.mark.parametrize(
    ("changed", "end"),
    [
        ({}, f"end it (kill {os.getpid()})"),
        ({"boot_id": "another start"}, f"end it on {os.uname().nodename}"),
        ({"pid_namespace": "pid:[1]"}, f"end it on {os.uname().nodename}"),
        ({"host": "other"}, "end it on other"),
    ],
    ids=["ours", "another start", "another namespace", "another host"],
)
def test_a_process_id_is_named_only_where_it_is_one_of_ours(changed: dict[str, str], end: str, tmp_path: Path) -> None:
    owner = replace(LeaseOwner.of_this_process(), **changed)
    home, url = tmp_path / "root/dagster", ui_server.url_of(3000)
    assert str(ui_server._served(home, replace(owner, note=url))).endswith(f"Open {url}, or {end} and run this again.")
    assert str(ui_server._served(home, owner)).endswith(f"{end.capitalize()} and run this again.")


@pytest.mark.usefixtures("no_servers")
def test_a_port_in_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    with listening(port):
        line = refused(monkeypatch, capfd, 4, "--root", tmp_path / "root", "--port", port)
    said, _, other = line.rpartition(" --port ")
    assert said == f"127.0.0.1:{port}: another program listens on this port. End it, or choose another port:"
    assert port < int(other.rstrip(".")) <= port + 100
    assert not (tmp_path / "root/dagster/ui").exists()


def test_the_port_of_a_ui_that_was_killed_is_waited_for(tmp_path: Path) -> None:
    home, port = tmp_path / "root/dagster", free_port()
    with other_ui(home, port) as killed:
        pass
    assert killed.returncode == -signal.SIGKILL
    with listening(port) as left:
        threading.Timer(1.0, left.close).start()
        before = time.monotonic()
        ui_server.check_can_serve(home, port)
    assert 0.5 < time.monotonic() - before < 10
    # The port of another program is not waited for.
    with listening(another := free_port()), pytest.raises(BusyError, match="another program listens"):
        before = time.monotonic()
        ui_server.check_can_serve(home, another)
    assert time.monotonic() - before < 1


@pytest.mark.usefixtures("no_servers")
def test_a_root_of_another_catalogue_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    create(tmp_path / "root")
    line = refused(monkeypatch, capfd, 3, "--root", tmp_path / "root", "--port", free_port())
    assert line.startswith(f"{tmp_path / 'root'}: the root belongs to another catalog: expected 'sample', got 'small'.")
    assert not (tmp_path / "root/dagster").exists()


def test_the_address_is_printed_when_it_answers_and_not_before(capfd: pytest.CaptureFixture[str]) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if ready.is_set() and self.path == "/server_info" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    port, ready = free_port(), threading.Event()
    announcing = threading.Thread(target=ui_server._announce, args=(port,), daemon=True)
    announcing.start()
    with HTTPServer(("127.0.0.1", port), Answer) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        announcing.join(1.0)
        assert (announcing.is_alive(), capfd.readouterr().out) == (True, "")
        ready.set()
        announcing.join(10.0)
        server.shutdown()
    assert capfd.readouterr().out == f"Open http://127.0.0.1:{port}\n"
