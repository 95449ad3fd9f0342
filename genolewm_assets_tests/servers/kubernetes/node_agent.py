"""Process of a node: starts the pods that it reads from its standard input, and writes what became of them.

Uses nothing but the standard library; ``--node=NAME`` is for whoever reads the process tree.
"""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import sys

_LOOK_S = 0.05
_SETPRIV = shutil.which("setpriv") or "/usr/bin/setpriv"


def main() -> None:
    """Serve until standard input is closed."""
    pods: dict[str, subprocess.Popen[bytes]] = {}
    # Without a buffer, in which an order could lie unseen.
    orders = open(0, "rb", buffering=0)  # noqa: SIM115
    while True:
        readable, _, _ = select.select([orders], [], [], _LOOK_S)
        if readable:
            line = orders.readline()
            if not line:
                return
            _start(json.loads(line), pods)
        for uid, process in list(pods.items()):
            if (code := process.poll()) is not None:
                del pods[uid]
                _tell(pod=uid, exit=code if code >= 0 else 128 - code)


def _start(order: dict[str, object], pods: dict[str, subprocess.Popen[bytes]]) -> None:
    uid, command, environment = str(order["pod"]), order["command"], order["environment"]
    assert isinstance(command, list)
    assert isinstance(environment, dict)
    # A pod ends with its node.
    wrapped = [_SETPRIV, "--pdeathsig=KILL", *command]
    try:
        with open(str(order["log"]), "ab") as log:  # noqa: PTH123
            pods[uid] = subprocess.Popen(
                wrapped,
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _tell(pod=uid, pid=pods[uid].pid)
    except OSError as err:
        _tell(pod=uid, error=str(err))


def _tell(**news: str | int) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
