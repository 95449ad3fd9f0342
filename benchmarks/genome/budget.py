"""Budgets of growth, ``growth_budget.toml``, and which of them builds break."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.genome.report import Build, exponent
from benchmarks.genome.steps import FIRST, SECOND

Budget = Mapping[str, Mapping[str, float]]
_AUDIT, _MIB = "packages/audit", 1 << 20


def read_budget() -> Budget:
    """Read the budgets: numbers by section and key."""
    return tomllib.loads((Path(__file__).parents[1] / "growth_budget.toml").read_text())


def broken(builds: Sequence[Build], budget: Budget) -> Iterator[str]:
    """Yield a line for each figure over its budget: the budget's name, where, the figure and what it may be."""
    for section, key, where, got, most in _judged(builds, budget):
        if got > most:
            yield f"{section}.{key}: {where}: {got:.3g}, at most {most:g}"


def _judged(builds: Sequence[Build], budget: Budget) -> Iterator[tuple[str, str, str, float, float]]:
    """Yield section and key of each budget, where it holds, the figure and the budget."""
    for build in builds:
        kind, name, total = build.shape.kind, build.shape.name, build.total(FIRST)
        for release in (FIRST, SECOND):
            for step, cost in build.costs(release).items():
                where = f"{name}, release {release}, {step}"
                yield "peak_mib", kind, where, cost.anonymous / _MIB, budget["peak_mib"][kind]
        for key, share in build.second_shares().items():
            yield "second_release", key, name, share, budget["second_release"][key]
        if kind in budget["wall_minutes"]:
            yield "wall_minutes", kind, name, total.wall_s / 60, budget["wall_minutes"][kind]
        cpu = budget["cpu_minutes"]
        if kind == "scale" and build.shape.scale >= cpu["from_scale"]:
            audit = build.costs(FIRST).get(_AUDIT)
            for key, spent in (("all", total.cpu_s), ("audit", audit.cpu_s if audit else 0)):
                yield "cpu_minutes", key, name, spent / 60, cpu[key] * build.shape.scale / cpu["at_scale"]
    if len(builds) > 1:
        yield from _exponents(builds[0], builds[-1], budget["exponent"])


def _exponents(small: Build, large: Build, budget: Mapping[str, float]) -> Iterator[tuple[str, str, str, float, float]]:
    ratio = large.shape.scale / small.shape.scale
    for release in (FIRST, SECOND):
        before, after = small.costs(release), large.costs(release)
        for name in before.keys() & after.keys():
            where = f"{small.shape.name} -> {large.shape.name}, release {release}, {name}"
            was, now = before[name], after[name]
            if now.cpu_s >= budget["from_cpu_s"]:
                yield "exponent", "cpu", where, exponent(was.cpu_s, now.cpu_s, ratio), budget["cpu"]
            if now.anonymous / _MIB >= budget["from_mib"]:
                yield "exponent", "memory", where, exponent(was.anonymous, now.anonymous, ratio), budget["memory"]
