"""Hours of states and what moved, where the history holds more than is read."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets.defs.status import changes, costs
from genolewm_assets.defs.status.page import as_markdown
from genolewm_assets.defs.status.report import read_status
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS


def count(built: BuiltWorld) -> tuple[int, bool]:
    hours = costs.count_hours(costs.Past(built.instance, time.time()), PUBLISHING.values())
    return hours.steps, hours.is_all


def test_hours_of_unread_steps_are_told_as_at_least(built: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count(built) == (7, True)
    monkeypatch.setattr(costs, "_STEPS", 2)
    # Two of each kind of states.
    assert count(built) == (4, False)
    assert "4 steps at least" in as_markdown(read_status(built.workspace(), built.instance, PUBLISHING))


def test_a_section_of_one_row_is_a_table(built: BuiltWorld) -> None:
    status = read_status(built.workspace(), built.instance, PUBLISHING)
    page = as_markdown(replace(status, moved=status.moved[:1]))
    _, _, head, rule, row, after, *_ = page[page.index("### Moved in the last 24 h") :].splitlines()
    assert status.moved[0].asset in row
    assert head.count("|") == rule.count("|") == row.count("|")
    assert after == ""


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["_COMPARED", "_LOOK_BACK"])
def test_builds_not_looked_at_are_told_as_more(built: BuiltWorld, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def line() -> str:
        status = read_status(built.workspace(), built.instance, PUBLISHING)
        moved = tuple(each for each in status.moved if each.asset == "gnomad/shard")
        return next(line for line in as_markdown(replace(status, moved=moved)).splitlines() if "gnomad/shard" in line)

    assert f"| {len(CONTIGS)} partitions |" in line()
    monkeypatch.setattr(changes, name, 2)
    assert "| 2 partitions at least |" in line()
