from __future__ import annotations

import os
from pathlib import Path

import pytest

from genolewm_assets.store.arrays.memory import usable_memory_bytes

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def usable(tmp_path: Path, groups: str, limits: dict[str, str]) -> int:
    (tmp_path / "groups").write_text(groups)
    for name, text in limits.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(text)
    return usable_memory_bytes(proc=tmp_path / "groups", cgroup=tmp_path / "cgroup")


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("", {}, PHYSICAL),
        ("0::/\n", {"memory.max": "1000000\n"}, 1_000_000),
        ("0::/\n", {"memory.max": "max\n"}, PHYSICAL),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "2000\n", "memory.max": "3000"}, 2000),
        ("0::/not/visible\n", {"memory.max": "3000"}, 3000),
        ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "5000", "memory/memory.limit_in_bytes": "9000"}, 5000),
        ("4:memory:/x\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, PHYSICAL),
        ("3:cpuset:/x\n4:cpu,memory:/y\n0::/\n", {"memory/y/memory.limit_in_bytes": "7"}, 7),
        ("0::/a:b\n", {"a:b/memory.max": "11"}, 11),
    ],
)
def test_the_lowest_limit_counts(tmp_path: Path, groups: str, limits: dict[str, str], expected: int) -> None:
    assert usable(tmp_path, groups, limits) == expected


def test_this_process_may_use_something() -> None:
    assert 0 < usable_memory_bytes() <= PHYSICAL
