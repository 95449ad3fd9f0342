"""Plugin of pytest: at its end a run states the calls that it compiled kernels for. And the list of such calls."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from genolewm_assets.own_caches import kernels

#: Variable that names the file.
COMPILED = "GENOLEWM_COMPILED_CALLS"
_LIST = Path(kernels.__file__).with_name("signatures.json")


def pytest_sessionfinish() -> None:
    """Write the argument types of the calls that no cache had, by kernel; of modules that the run imported."""
    found = {}
    for name, kernel in kernels.find_kernels():
        if name.split(":")[0] in sys.modules:
            missed = [call for call in kernel.stats.cache_misses if not any(hasattr(a, "literal_value") for a in call)]
            if missed:
                found[name] = [[kernels.state_type(each) for each in call] for call in missed]
    Path(os.environ[COMPILED]).write_text(json.dumps(found))


def write_signatures(more: dict[str, list[kernels.Stated]]) -> None:
    """Add calls to the list of the package, and leave out kernels that are gone."""
    listed = json.loads(_LIST.read_text())
    blocks = []
    for name in sorted(name for name, _ in kernels.find_kernels()):
        calls = sorted({json.dumps(call) for call in (*listed.get(name, []), *more.get(name, []))})
        blocks.append(f'"{name}": [\n  ' + ",\n  ".join(calls) + "\n]")
    _LIST.write_text("{\n" + ",\n".join(blocks) + "\n}\n")
