"""Tables of the growth of steps: figures, exponents between two scales, and what follows for the whole genome."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from benchmarks.genome.shapes import Shape
from benchmarks.genome.steps import FIRST, SECOND, StepFigures
from genolewm_assets.windows.corpus import parse_piece

#: Assets of which all pieces of a source are a row; of others all partitions are one.
_BY_SOURCE = {"corpus/windows", "embeddings/corpus"}
_LARGEST, _NAMING = {"anonymous", "mapped"}, {"release", "asset", "partition"}
_MIB, _MB = 1 << 20, 1e6
#: Columns of the table: title, field, what it is divided by, format, whether it has an exponent.
_COLUMNS = (
    ("CPU s", "cpu_s", 1, ",.1f", True),
    ("MiB", "anonymous", _MIB, ",.0f", True),
    ("mapped MiB", "mapped", _MIB, ",.0f", False),
    ("read MB", "read", _MB, ",.0f", False),
    ("hashed MB", "hashed", _MB, ",.0f", False),
    ("written MB", "written", _MB, ",.0f", False),
)


@dataclass(frozen=True, slots=True)
class Build:
    """The figures of one shape."""

    shape: Shape
    figures: Sequence[StepFigures]

    def costs(self, release: int) -> Mapping[str, StepFigures]:
        """Return what each step of a release took, in the order of the build: sums, and the largest memory."""
        by_step: dict[str, list[StepFigures]] = {}
        for each in self.figures:
            if each.release == release:
                by_step.setdefault(_row_of(each), []).append(each)
        return {name: together(found) for name, found in by_step.items()}

    def total(self, release: int) -> StepFigures:
        """Return what all steps of a release took."""
        return together([each for each in self.figures if each.release == release])

    def second_shares(self) -> dict[str, float]:
        """Return the bytes that the second release reads and writes by those of the first build, and those hashed.

        The bytes of the step with the fewest are left out of each step: a process of Dagster moves them for nothing.
        """
        own = min(each.read + each.written for each in self.figures)
        moved = dict.fromkeys((FIRST, SECOND), 0)
        for each in self.figures:
            moved[each.release] += each.read + each.written - own
        return {"bytes": moved[SECOND] / moved[FIRST], "hashed": self.total(SECOND).hashed / moved[SECOND]}


def _row_of(figures: StepFigures) -> str:
    """Return the name of the row that a process counts to."""
    if figures.asset in _BY_SOURCE and figures.partition:
        return f"{figures.asset}[{parse_piece(figures.partition)[0]}]"
    return figures.asset


def together(figures: Sequence[StepFigures]) -> StepFigures:
    """Return the sums of the figures of some processes, and the largest memory; names are those of the first."""
    columns = {each.name: [getattr(one, each.name) for one in figures] for each in fields(StepFigures)}
    return StepFigures(**{
        name: values[0] if name in _NAMING else (max if name in _LARGEST else sum)(values)
        for name, values in columns.items()
    })  # fmt: skip


def exponent(small: float, large: float, ratio: float) -> float:
    """Return the power of ``ratio`` by which a figure grew; 0 if it was nothing before or is nothing now."""
    return math.log(large / small) / math.log(ratio) if small > 0 and large > 0 else 0.0


def tables(builds: Sequence[Build]) -> Iterator[str]:
    """Yield the lines of the tables of one build, or of two scales with exponents and the whole genome."""
    sizes = " -> ".join(f"{each.shape.name} ({each.shape.total_bp / 1e6:,.0f} Mbp)" for each in builds)
    yield f"Generated genome: {sizes}. CPU and memory without imports; states written, not computed."
    for release, title in ((FIRST, "first release and all that it needs"), (SECOND, "second release of ClinVar")):
        yield f"\n**{title}**\n"
        yield from _steps(builds[0], builds[-1], release)
    yield ""
    for build in builds:
        first, second, shares = build.total(FIRST), build.total(SECOND), build.second_shares()
        yield (
            f"{build.shape.name}: {first.cpu_s / 60:.1f} CPU minutes, {first.wall_s / 60:.1f} by the clock; the second "
            f"release takes {second.cpu_s / first.cpu_s:.0%} of the CPU, {shares['bytes']:.0%} of the bytes read and "
            f"written, {shares['hashed']:.0%} of them hashed"
        )


def _steps(small: Build, large: Build, release: int) -> Iterator[str]:
    growing = small is not large
    head = [title for name, *_, grows in _COLUMNS for title in ((name, "exp.") if growing and grows else (name,))]
    yield f"| step | n | {' | '.join(head)} | whole genome: CPU s |{' MiB |' if growing else ''}"
    yield f"|---|{'---:|' * (len(head) + (3 if growing else 2))}"
    before = {**small.costs(release), "all": small.total(release)}
    partitions = Counter(_row_of(each) for each in large.figures if each.release == release)
    for name, cost in {**large.costs(release), "all": large.total(release)}.items():
        n = partitions.total() if name == "all" else partitions[name]
        cells, powers = [name, f"{n}"], []
        for _, key, unit, form, grows in _COLUMNS:
            was, now = (getattr(each, key) / unit for each in (before.get(name, cost), cost))
            cells.append(f"{was:{form}} -> {now:{form}}" if growing else f"{now:{form}}")
            if growing and grows:
                powers.append(exponent(was, now, large.shape.scale / small.shape.scale))
                cells.append(f"{powers[-1]:.2f}")
        whole = 1 / large.shape.scale
        cells.append(f"{cost.cpu_s * whole ** (powers[0] if growing else 1):,.0f}")
        cells += [f"{cost.anonymous / _MIB * whole ** powers[1]:,.0f}"] if growing else []
        yield f"| {' | '.join(cells)} |"
