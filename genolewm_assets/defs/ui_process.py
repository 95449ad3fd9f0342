"""Ends Dagster's web server and daemon when the process of ``genolewm ui`` that started them was killed.

They would keep the port, and a second daemon would join the old one on the root's database at the next start.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

#: Environment variable with the process id of ``genolewm ui``.
UI_PROCESS = "_GENOLEWM_UI_PROCESS"

#: Option that ``dagster dev`` passes to its web server and its daemon, and to no other process.
_CHILD_OPTION = "--shutdown-pipe"
_POLL_S, _STOP_S = 0.5, 10.0


def end_with_ui() -> None:
    """End this process soon after ``genolewm ui``, if it is a web server or daemon that ``genolewm ui`` started."""
    parent = os.environ.get(UI_PROCESS, "")
    if parent.isdecimal() and _CHILD_OPTION in sys.orig_argv:
        threading.Thread(target=_end_after, args=(int(parent),), name="end with genolewm ui", daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    # As Ctrl-C does; a server that does not end by it in time is killed.
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_STOP_S)
    os.kill(os.getpid(), signal.SIGKILL)
