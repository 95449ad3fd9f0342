"""Kinds of tests, told by folder and by what a test module uses; tiers of tests, and how long each may take."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Literal, cast

import pytest

from genolewm_assets_tests.places import TESTS

Kind = Literal["unit", "property", "crash", "model", "graph", "real", "live"]
KINDS: tuple[Kind, ...] = ("unit", "property", "crash", "model", "graph", "real", "live")

#: Wall-clock seconds of each tier on an idle machine with 2 cores whose kernels compile in 30 s.
BUDGET_S = {"test-fast": 60, "test": 540, "test-nightly": 5_400}

#: The live test of `make test`; all others of these folders run nightly.
SMOKE = TESTS / "live/test_smoke.py"
#: Folders whose unit tests build or compile too much for `make test-fast`.
_SLOW_FOLDERS = (
    "memory_mapped/", "package_build/", "packages/", "training/sampler/", "rooms/", "sample/", "sources/clinvar/",
    "sources/files/", "sources/similarity/", "store/hosts/",
)  # fmt: skip
_NIGHTLY_FOLDERS = ("benchmarks", "browser", "deploy", "live", "real", "tutorials")

#: What no unit test imports: seconds each, in every worker.
HEAVY = ("dagster", "torch")

_FOLDERS: dict[str, Kind] = {
    "browser": "live",
    "deploy": "live",
    "live": "live",
    "real": "real",
    "crash": "crash",
    "defs": "graph",
    "encoders": "model",
}
_USES: tuple[tuple[str, Kind], ...] = (
    (r"\b(kill_points|KillPoints|LossyDisk|on_refusing_disk|on_small_disk)\b", "crash"),
    (r"^import dagster\b|\b(tiny_world|command_line)\b|_assets\.(defs|definitions|cli)\b", "graph"),
    (r"^ *(import|from) (torch|transformers|datasets)\b|importorskip|_assets\.encoders\b", "model"),
    (r"\bLate\(|\bimport encoders\b|\bopen_dataset\b", "model"),
    (r"\b(MtDNA|GenoLeWM|HID)\w*Dataset\b|PreTrained", "model"),
)


@cache
def module_kind(path: Path) -> Kind:
    """Return the kind of the tests of a module, or of a folder, without importing it."""
    folder = path.relative_to(TESTS).parts[0]
    if folder in _FOLDERS:
        return _FOLDERS[folder]
    text = path.read_text() if path.is_file() else ""
    return next((kind for pattern, kind in _USES if re.search(pattern, text, re.MULTILINE)), "unit")


@cache
def is_spread(path: Path) -> bool:
    """Tell whether the tests of a module are long and share nothing, so that several workers may run them."""
    return module_kind(path) in {"crash", "graph"} and 'scope="module"' not in path.read_text()


def kind_of(item: pytest.Item) -> Kind:
    """Return the kind of a test: the one it is marked with, or what follows from its module."""
    for marker in item.iter_markers():
        if marker.name in KINDS:
            return cast("Kind", marker.name)
    kind = module_kind(item.path)
    drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return "property" if drawn and kind == "unit" else kind


@cache
def is_nightly(path: Path) -> bool:
    """Tell whether `make test` runs no test of a module or folder, without importing it."""
    if path.relative_to(TESTS).parts[0] in _NIGHTLY_FOLDERS:
        return path != SMOKE and path not in SMOKE.parents
    if path.suffix != ".py":
        return False
    return re.search(r"^pytestmark = .*\bnightly\b", path.read_text(), re.MULTILINE) is not None


def is_slow(path: Path) -> bool:
    return path.relative_to(TESTS).as_posix().startswith(_SLOW_FOLDERS)


def tier_of(config: pytest.Config) -> str | None:
    """Return which target of the Makefile a run is, told by its marks; None if it is another run."""
    if only_units(config):
        return "test-fast"
    marks = config.getoption("markexpr")
    return "test" if "not nightly" in marks else "test-nightly" if marks else None


def only_units(config: pytest.Config) -> bool:
    return re.match(r"unit\b(?! or\b)", config.getoption("markexpr")) is not None


def heavy_imports() -> set[str]:
    """Return which of the packages that no unit test imports have been imported."""
    return {name for name in HEAVY if name in sys.modules}
