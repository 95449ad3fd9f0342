from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from genolewm_assets.store.locks.processes import boot_id, is_running, is_same_process, pid_namespace, started_ticks


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_the_same_as_long_as_it_lives(child: subprocess.Popen[bytes]) -> None:
    ticks = started_ticks(child.pid)
    assert ticks is not None
    assert is_same_process(child.pid, ticks)
    assert is_same_process(child.pid, None)
    assert not is_same_process(child.pid, ticks - 1)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_same_process(child.pid, ticks), "dead, and nobody has asked how it ended"
    assert not is_running(child.pid, time.time())
    child.wait()
    assert not is_same_process(child.pid, ticks)
    assert started_ticks(child.pid) is None


def test_a_name_with_blanks_and_parentheses_is_read_past(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 ("
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "600"])
    try:
        ticks = started_ticks(process.pid)
        assert ticks is not None
        assert is_same_process(process.pid, ticks)
        assert is_running(process.pid, time.time())
        assert not is_running(process.pid, time.time() - 3600)
    finally:
        process.kill()
        process.wait()


def test_a_process_that_is_hidden_counts_as_there(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hide(self: Path, *args: object, **kwargs: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    monkeypatch.setattr(Path, "read_text", hide)
    assert is_same_process(child.pid, 1)
    assert is_running(child.pid, 0.0)
    assert boot_id() == ""
    assert started_ticks(child.pid) is None


def test_this_machine_and_its_numbering_have_names() -> None:
    assert len(boot_id()) == 36
    assert pid_namespace().startswith("pid:[")
