"""Result of an audit: one row per kind of leak, with what was searched, how well, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

#: Rows of a finding that a report shows.
SHOWN_ROWS = 10

Shown = Mapping[str, object]


class Verdict(StrEnum):
    """Outcome of one search.

    ``clean``: all was searched and nothing found. ``leak``: something was found. ``inconclusive``: nothing was found,
    but not all could be searched. ``not_applicable``: a package of its kind has nothing that could leak so.
    """

    CLEAN = "clean"
    LEAK = "leak"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not_applicable"


class LeakKind(StrEnum):
    """Kinds of leak that are looked for."""

    HELD_INTERVAL = "held_interval"
    FALSE_PLACE = "false_place"
    HELD_RECORD = "held_record"
    HELD_SEQUENCE = "held_sequence"
    HELD_ALLELE = "held_allele"
    RECREATED_ALLELE = "recreated_allele"
    FALSE_EDIT = "false_edit"
    DUPLICATE = "duplicate"
    SHARED_EVALUATION = "shared_evaluation"
    WRONG_LABEL = "wrong_label"
    LATE_LABEL = "late_label"
    STATE_MISMATCH = "state_mismatch"

    @property
    def words(self) -> str:
        """The kind for people."""
        return self.value.replace("_", " ")


@dataclass(slots=True)
class Found:
    """Findings while a search runs: all keys, and the first rows to show.

    Attributes
    ----------
    keys
        What is at fault, by a text that names it.
    rows
        The first :data:`SHOWN_ROWS`.
    """

    keys: set[str] = field(default_factory=set)
    rows: list[Shown] = field(default_factory=list)

    def add(self, key: str, **shown: object) -> None:
        """Note a finding; one that is noted already is counted once."""
        if key not in self.keys and len(self.rows) < SHOWN_ROWS:
            self.rows.append({"what": key, **shown})
        self.keys.add(key)


@dataclass(frozen=True, slots=True)
class Power:
    """Planted leaks that a search was tried on.

    Attributes
    ----------
    plant
        Name of the kind of plant (:data:`genolewm_assets.audit.PLANTS`).
    planted, found
        How many were planted, and how many of them the search found.
    """

    plant: str
    planted: int
    found: int

    def __str__(self) -> str:
        return f"{self.plant} {self.found} of {self.planted}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of the search for one kind of leak.

    Attributes
    ----------
    kind, method
        Kind of leak, and how it was looked for.
    searched
        How much was searched, by unit.
    found
        What was found.
    gaps
        What could not be searched; each a sentence without its full stop.
    power
        Share of planted leaks found, by kind of plant; empty where it was not measured.
    absent
        Why the package has nothing to search, a sentence without its full stop; empty where it has.
    """

    kind: LeakKind
    method: str
    searched: Mapping[str, int]
    found: Found
    gaps: tuple[str, ...] = ()
    power: tuple[Power, ...] = ()
    absent: str = ""

    @property
    def verdict(self) -> Verdict:
        """A leak is a leak even where not all was searched."""
        if self.found.keys:
            return Verdict.LEAK
        if self.absent:
            return Verdict.NOT_APPLICABLE
        return Verdict.INCONCLUSIVE if self.gaps or not any(self.searched.values()) else Verdict.CLEAN

    @property
    def reason(self) -> str:
        """Why the verdict is what it is, for people."""
        if self.found.keys:
            return f"{len(self.found.keys):,} found"
        if self.absent:
            return self.absent
        if self.gaps:
            return "; ".join(self.gaps)
        return "nothing found" if any(self.searched.values()) else "there was nothing to search"

    def as_dict(self) -> dict[str, object]:
        """Return the row of the report for ``--json``."""
        return {
            "kind": str(self.kind),
            "method": self.method,
            "searched": dict(self.searched),
            "power": [{"plant": one.plant, "planted": one.planted, "found": one.found} for one in self.power],
            "findings": len(self.found.keys),
            "rows": [dict(row) for row in self.found.rows],
            "verdict": str(self.verdict),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Result of an audit.

    Attributes
    ----------
    package
        Folder of the package.
    release
        ClinVar release of the package.
    results
        One per kind of leak.
    measured
        Figures of what the package shares with its holdouts by design, such as bases of left flanks; they decide
        nothing.
    """

    package: str
    release: str
    results: tuple[SearchResult, ...]
    measured: Mapping[str, int]

    def __iter__(self) -> Iterator[SearchResult]:
        return iter(self.results)

    def __getitem__(self, kind: LeakKind) -> SearchResult:
        return next(result for result in self.results if result.kind == kind)

    @property
    def verdict(self) -> Verdict:
        """``leak`` if any search found one, else ``inconclusive`` if any could not search all, else ``clean``.

        Searches that do not apply decide nothing; if none applies, the audit is inconclusive.
        """
        verdicts = {result.verdict for result in self.results}
        order = (Verdict.LEAK, Verdict.INCONCLUSIVE, Verdict.CLEAN)
        return next((each for each in order if each in verdicts), Verdict.INCONCLUSIVE)

    @property
    def headline(self) -> str:
        """What is guaranteed and how sure that is, in one sentence."""
        clean = [result for result in self.results if result.verdict is Verdict.CLEAN]
        leaks = [result.kind.words for result in self.results if result.verdict is Verdict.LEAK]
        open_ = [result.kind.words for result in self.results if result.verdict is Verdict.INCONCLUSIVE]
        n = sum(result.verdict is not Verdict.NOT_APPLICABLE for result in self.results)
        parts = [f"Of {n} kinds of leak, {len(clean)} were looked for in full and not found"]
        parts += [f"found: {', '.join(leaks)}"] if leaks else []
        parts += [f"not certain: {', '.join(open_)}"] if open_ else []
        tried = [one for result in self.results for one in result.power]
        planted, found = sum(one.planted for one in tried), sum(one.found for one in tried)
        sure = f"{found:,} of {planted:,} planted leaks are found" if tried else "the power was not measured (--power)"
        return f"{'; '.join(parts)}; {sure}."

    def with_power(self, power: Mapping[LeakKind, tuple[Power, ...]]) -> AuditReport:
        """Return the report with the power of its searches."""
        return replace(
            self, results=tuple(replace(result, power=power.get(result.kind, ())) for result in self.results)
        )

    def as_dict(self) -> dict[str, object]:
        """Return the report for ``--json``."""
        return {
            "package": self.package,
            "release": self.release,
            "verdict": str(self.verdict),
            "headline": self.headline,
            "results": [result.as_dict() for result in self.results],
            "measured": dict(self.measured),
        }
