"""Compare the files of two roots byte by byte: ``python -m benchmarks.compare_roots OLD NEW``.

Use it for changes of the code that must not change its output: build one catalogue with the old and with the new code
into two roots, then compare the roots. Files that differ between any two builds are left out: provenance (times,
hosts), the Dagster instance, and unfinished and rejected builds.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

LEFT_OUT_FOLDERS = frozenset({"dagster", "work", "rejected"})
LEFT_OUT_FILES = frozenset({"provenance.json"})


def read_contents(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each file and the target of each link of a root, by root-relative path."""
    contents = {}
    for folder, folders, files in os.walk(root):
        if Path(folder) == root:
            folders[:] = [name for name in folders if name not in LEFT_OUT_FOLDERS]
        for path in (Path(folder, name) for name in [*folders, *files] if name not in LEFT_OUT_FILES):
            name = str(path.relative_to(root))
            if path.is_symlink():
                contents[name] = f"link to {path.readlink()}"
            elif path.is_file():
                with path.open("rb") as file:
                    contents[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return contents


def find_differences(old: Path, new: Path) -> list[str]:
    """Return one line for each path that only one root has or that differs between the roots."""
    before, after = read_contents(old), read_contents(new)
    gone = [f"only in {old}: {name}" for name in before.keys() - after.keys()]
    added = [f"only in {new}: {name}" for name in after.keys() - before.keys()]
    changed = [f"differs: {name}" for name in before.keys() & after.keys() if before[name] != after[name]]
    return sorted([*gone, *added, *changed])


def main() -> int:
    """Print the differences of two roots; return 0 if there are none, 1 if there are, 2 for wrong arguments."""
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    old, new = map(Path, sys.argv[1:])
    differences = find_differences(old, new)
    print("\n".join(differences) or f"{len(read_contents(old))} files and links are equal")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
