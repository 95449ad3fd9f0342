"""Debian's nginx with the shipped configuration, a certificate of its own, and an ear between it and the web server."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from genolewm_assets_tests.deploy.installation import DEPLOY
from genolewm_assets_tests.live.harness import wait_until
from genolewm_assets_tests.servers.programs import free_port, program

NAME = "genolewm.example.org"
USER, PASSWORD = "ada", "correct horse battery"
_FIRST_S, _MORE_S = 30.0, 4.0

#: What Debian's own nginx.conf has round a site, and nothing else.
_NGINX_CONF = """
{user}
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log {folder}/access.log;
    default_type application/octet-stream;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include sites-enabled/*;
}}
"""


@dataclass
class Ear:
    """Passes connections on to the web server and keeps what was asked of it."""

    to_port: int
    port: int = field(default_factory=free_port)
    heard: list[bytes] = field(default_factory=list)

    @contextmanager
    def listening(self) -> Iterator[Ear]:
        with socket.create_server(("127.0.0.1", self.port)) as server:
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            yield self
            # close() alone does not wake the thread that waits in accept().
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = server.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.to_port))
                except ConnectionRefusedError:
                    near.close()
                    continue
                threading.Thread(target=self._pass_on, args=(near, far, self.heard), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(far, near, None), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, heard: list[bytes] | None) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if heard is not None:
                    heard.append(data)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@dataclass(frozen=True)
class Proxy:
    folder: Path
    http_port: int
    https_port: int
    ear: Ear

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "genolewm/tls/certificate.pem"))

    def ask(self, request: bytes, *, encrypted: bool = True) -> bytes:
        """Send bytes as they are; return what comes back until the connection is closed or nothing more comes."""
        port = self.https_port if encrypted else self.http_port
        with socket.create_connection(("127.0.0.1", port), timeout=_FIRST_S) as plain:
            channel = self.context.wrap_socket(plain, server_hostname=NAME) if encrypted else plain
            with channel:
                channel.sendall(request)
                answer = b""
                with suppress(ConnectionResetError, TimeoutError):
                    while data := channel.recv(1 << 16):
                        answer += data
                        channel.settimeout(_MORE_S)
                return answer


def write_site(folder: Path, http_port: int, https_port: int, upstream_port: int) -> None:
    """Lay the shipped files where Debian's nginx has them; names, ports and certificate are this machine's."""
    site = folder / "genolewm"
    (site / "tls").mkdir(parents=True)
    (folder / "sites-enabled").mkdir()
    shutil.copyfile(DEPLOY / "nginx/genolewm.conf", folder / "sites-enabled/genolewm")
    exchanged = {
        "listen_http.conf": {":80;": f":{http_port};", " 80;": f" 127.0.0.1:{http_port};"},
        "listen_https.conf": {":443 ": f":{https_port} ", " 443 ": f" 127.0.0.1:{https_port} "},
        "upstream.conf": {"127.0.0.1:3000": f"127.0.0.1:{upstream_port}"},
    }
    for name, changes in exchanged.items():
        text = (DEPLOY / "nginx" / name).read_text()
        for old, new in changes.items():
            assert text.count(old) == 1
            text = text.replace(old, new)
        (site / name).write_text(text.replace("[::]", "[::1]"))
    _make_certificate(site / "tls")
    _make_users(site / "users")
    user = "user root;" if (folder.stat().st_uid == 0) else ""
    (folder / "nginx.conf").write_text(_NGINX_CONF.format(user=user, folder=folder))


def _make_certificate(folder: Path) -> None:
    command = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2"]
    command += ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    command += ["-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def _make_users(path: Path) -> None:
    command = [program("htpasswd"), "-nbB", USER, PASSWORD]
    path.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)


@contextmanager
def proxy_before(web_port: int, folder: Path) -> Iterator[Proxy]:
    with Ear(web_port).listening() as ear:
        proxy = Proxy(folder, free_port(), free_port(), ear)
        write_site(folder, proxy.http_port, proxy.https_port, ear.port)
        nginx = [program("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")]
        subprocess.run([*nginx, "-t"], check=True, capture_output=True)
        process = subprocess.Popen([program("setpriv"), "--pdeathsig=TERM", *nginx])
        try:
            wait_until(lambda: _answers(proxy), "nginx to listen")
            yield proxy
        finally:
            process.terminate()
            process.wait(20)


def _answers(proxy: Proxy) -> bool:
    with suppress(OSError):
        return bool(proxy.ask(b"GET / HTTP/1.0\r\n\r\n", encrypted=False))
    return False
