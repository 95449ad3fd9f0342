"""Result of an audit: one row per kind of leak, with what was searched, how well, and what was found."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

#: Raised when the audit of an unchanged package can find more, less or otherwise.
AUDIT_VERSION = "8"

#: Rows of a finding that a report shows.
SHOWN_ROWS = 10

Shown = Mapping[str, object]


class Verdict(StrEnum):
    """Outcome of one search.

    ``clean``: all was searched and nothing found. ``leak``: something was found. ``inconclusive``: nothing was found,
    but not all could be searched, or too few planted leaks were found. ``not_applicable``: a package of its kind has
    nothing that could leak so.
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
    FEW_STARS = "few_stars"
    WRONG_CONTEXT = "wrong_context"
    UNSHOWN_ALLELE = "unshown_allele"
    WRONG_MIX = "wrong_mix"
    STATE_MISMATCH = "state_mismatch"

    @property
    def words(self) -> str:
        """The kind for people."""
        return self.value.replace("_", " ")


@dataclass(slots=True)
class Found:
    """Findings while a search runs: the names of all that is at fault, and :data:`SHOWN_ROWS` of them by name to show.

    What is shown does not depend on the order of the search.
    """

    keys: set[str] = field(default_factory=set)
    rows: list[Shown] = field(default_factory=list)

    def shows(self, key: str) -> bool:
        """Tell whether a finding of this name would be shown by now."""
        return len(self.rows) < SHOWN_ROWS or key < str(self.rows[-1]["what"])

    def add(self, key: str, **shown: object) -> None:
        """Note a finding; one that is noted already is counted once."""
        if key not in self.keys:
            self.keys.add(key)
            insort(self.rows, {"what": key, **shown}, key=lambda row: str(row["what"]))
            del self.rows[SHOWN_ROWS:]


@dataclass(frozen=True, slots=True)
class Power:
    """Planted leaks of one kind of plant that a search was tried on, and the share, 0 to 1, that it is to find."""

    plant: str
    planted: int
    found: int
    least_share: float = 0.9

    @property
    def is_enough(self) -> bool:
        """Tell whether the stated share, rounded down, was found, and at least one; true where none was planted."""
        return not self.planted or self.found >= max(1, int(self.least_share * self.planted))

    def __str__(self) -> str:
        return f"{self.plant} {self.found} of {self.planted}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of the search for one kind of leak.

    Attributes
    ----------
    searched
        How much was searched, by unit.
    gaps, absent
        What could not be searched, and why the package has nothing to search: sentences without their full stop.
    power
        Share of planted leaks found, by kind of plant; empty where it was not measured.
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
        is_clean = any(self.searched.values()) and not self.gaps and not self._missed
        return Verdict.CLEAN if is_clean else Verdict.INCONCLUSIVE

    @property
    def _missed(self) -> list[str]:
        """What too few planted leaks were found of."""
        return [f"of planted leaks too few were found ({one})" for one in self.power if not one.is_enough]

    @property
    def reason(self) -> str:
        """Why the verdict is what it is, for people."""
        if self.found.keys:
            return f"{len(self.found.keys):,} found"
        if self.absent:
            return self.absent
        if why := (*self.gaps, *self._missed):
            return "; ".join(why)
        return "nothing found" if any(self.searched.values()) else "there was nothing to search"

    def as_dict(self) -> dict[str, object]:
        """Return the row of the report for ``--json``."""
        return {
            "kind": str(self.kind),
            "method": self.method,
            "searched": dict(self.searched),
            "power": [asdict(one) for one in self.power],
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
    def n_windows(self) -> int:
        """Number of training windows."""
        return self._searched(LeakKind.HELD_RECORD, "windows")

    @property
    def n_tuples(self) -> int:
        """Number of training tuples that were drawn."""
        return self._searched(LeakKind.RECREATED_ALLELE, "tuples")

    @property
    def planted(self) -> int:
        """Number of leaks that were planted to measure the power."""
        return sum(one.planted for result in self.results for one in result.power)

    @property
    def found_planted(self) -> int:
        """Number of planted leaks that were found."""
        return sum(one.found for result in self.results for one in result.power)

    @property
    def headline(self) -> str:
        """What is guaranteed, and how sure that is: what was found, in how much, and how many planted leaks."""
        leaks = [f"{len(result.found.keys):,} of {result.kind.words}" for result in self._with(Verdict.LEAK)]
        open_ = [result.kind.words for result in self._with(Verdict.INCONCLUSIVE)]
        drawn = self._searched(LeakKind.RECREATED_ALLELE, "windows drawn")
        searched = f"{self.n_windows:,} training windows and {self.n_tuples:,} tuples drawn from {drawn:,} of them"
        what = f"Leaks were found ({', '.join(leaks)})" if leaks else "No held-out sequence, allele or label was found"
        parts = [f"{what} in {searched}"]
        parts += [f"not certain: {', '.join(open_)}"] if open_ else []
        power = f"{self.found_planted:,} of {self.planted:,}" if self.planted else "not measured (--power)"
        return f"{'; '.join(parts)}; planted leaks found: {power}."

    def _with(self, verdict: Verdict) -> list[SearchResult]:
        return [result for result in self.results if result.verdict is verdict]

    def _searched(self, kind: LeakKind, unit: str) -> int:
        return sum(result.searched.get(unit, 0) for result in self.results if result.kind is kind)

    def with_power(self, power: Mapping[LeakKind, tuple[Power, ...]]) -> AuditReport:
        """Return the report with the power of its searches."""
        return replace(self, results=tuple(replace(one, power=power.get(one.kind, ())) for one in self.results))

    def as_dict(self) -> dict[str, object]:
        """Return the report for ``--json``."""
        return {
            "package": self.package,
            "release": self.release,
            "audit_version": AUDIT_VERSION,
            "verdict": str(self.verdict),
            "headline": self.headline,
            "results": [result.as_dict() for result in self.results],
            "measured": dict(self.measured),
        }
