"""An S3 server on 127.0.0.1, in a process of its own, and the environment in which clients find it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import s3fs

#: Ends when its standard input does, so also when the tests are killed.
_SERVER = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def running_s3() -> Iterator[s3fs.S3FileSystem]:
    """Serve S3 and yield a client of its own, as an uploader is; whatever speaks to S3 meanwhile finds this server."""
    import s3fs

    command = [sys.executable, "-c", _SERVER]
    with (
        pytest.MonkeyPatch.context() as patch,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port, f"the S3 server ended with {server.wait()}"
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        s3fs.S3FileSystem.clear_instance_cache()
        try:
            yield s3fs.S3FileSystem(skip_instance_cache=True)
        finally:
            s3fs.S3FileSystem.clear_instance_cache()
            server.stdin.close()
