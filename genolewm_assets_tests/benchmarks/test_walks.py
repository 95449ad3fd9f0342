"""The trace of a walk: its figures follow from what was entered."""

from __future__ import annotations

from benchmarks.walks import Trace, trace
from genolewm_assets.forensic.dataset.annotations import AlleleAnnotation
from genolewm_assets.forensic.panels import Panel


def test_returns_are_counted_in_order_of_the_first_entry() -> None:
    found = Trace(dict.fromkeys(["store/files/a.py", "errors.py", "store/files/b.py", "store/c.py", "store/d.py"]))
    assert found.stays == ["store/files", ".", "store/files", "store"]
    assert found.figures == {"modules": 5, "rooms": 3, "functions": 0, "returns": 1, "depth": 0}


def test_a_walk_through_two_rooms() -> None:
    panel, annotation = Panel("made", ()), AlleleAnnotation({})
    found = trace(lambda: (panel.as_json(), annotation.as_json(), annotation.from_json([])))
    assert found.stays == ["forensic/panels", "forensic/dataset"]
    assert (found.figures["functions"], found.figures["returns"]) == (3, 0)
