"""Kinds of tests, told by folder and by what a test module uses, and how long all tests of a kind may take."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Literal, cast

import pytest

from genolewm_assets_tests.places import TESTS

Kind = Literal["unit", "property", "crash", "model", "graph", "real", "live"]

#: Seconds of all workers together, as measured on an idle machine with 2 cores, and a third more.
BUDGET_S: dict[str, float] = {
    "unit": 350,
    "property": 70,
    "crash": 205,
    "model": 200,
    "graph": 700,
    "real": 440,
    "live": 2_600,
}

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
    (r"\bLate\(|\bimport encoders\b", "model"),
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
        if marker.name in BUDGET_S:
            return cast("Kind", marker.name)
    kind = module_kind(item.path)
    drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return "property" if drawn and kind == "unit" else kind


def only_units(config: pytest.Config) -> bool:
    """Tell whether a run asks for unit tests and nothing else."""
    return re.match(r"unit\b(?! or\b)", config.getoption("markexpr")) is not None


def heavy_imports() -> set[str]:
    """Return which of the packages that no unit test imports have been imported."""
    return {name for name in HEAVY if name in sys.modules}


def budget_lines(seconds: dict[str, float]) -> list[str]:
    """Return a line for each kind: what its tests took, and a warning where that is more than its budget."""
    return [
        f"{'WARNING: ' if seconds[kind] > budget else ''}{kind}: {seconds[kind]:.0f} s of {budget:.0f} s"
        for kind, budget in BUDGET_S.items()
        if kind in seconds
    ]
