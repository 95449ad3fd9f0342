"""``python -m genolewm_assets.store.inspect PATH``: describe the array stores at or below a path."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.store.arrays import find_caches, inspect_cache


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the reports to standard output and an error to standard error; return the exit code (``errors.py``)."""
    parser = argparse.ArgumentParser(
        prog="python -m genolewm_assets.store.inspect",
        description="Describe array stores: rows, sizes, index schema, side-cars, memory to load them.",
        epilog="example: python -m genolewm_assets.store.inspect data/embeddings",
    )
    parser.add_argument("path", type=Path, help="an array store, or a folder of array stores")
    parser.add_argument("--json", action="store_true", help="print one JSON list instead of text")
    options = parser.parse_args(arguments)
    try:
        reports = [inspect_cache(directory) for directory in find_caches(options.path)]
    except GenoLeWMError as err:
        sys.stderr.write(f"{err}\n")
        return err.exit_code
    as_text = "\n\n".join(report.as_text() for report in reports)
    as_json = json.dumps([report.as_dict() for report in reports], indent=2, ensure_ascii=False)
    sys.stdout.write(f"{as_json if options.json else as_text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
