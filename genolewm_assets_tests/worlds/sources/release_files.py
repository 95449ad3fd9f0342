"""Files that pass for ClinVar releases where only their names and checksums matter."""

from __future__ import annotations

import hashlib
from pathlib import Path


def md5_line(content: bytes, name: str) -> bytes:
    return f"{hashlib.md5(content).hexdigest()}  {name}\n".encode()


def publish(folder: Path, name: str, content: bytes = b"x") -> str:
    """Write a file with its checksum beside it; returns the MD5."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    (folder / f"{name}.md5").write_bytes(md5_line(content, name))
    return hashlib.md5(content).hexdigest()


def directory_page(names: list[str]) -> bytes:
    rows = "".join(f'<a href="{name}">{name}</a>   2026-02-27 10:11  183M\n' for name in names)
    head = '<html><head><title>Index of /pub</title></head><body><h1>Index of /pub</h1><pre><a href="/">Parent</a>\n'
    return f"{head}{rows}</pre></body></html>\n".encode()
