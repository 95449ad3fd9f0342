"""Review stars of ClinVar's wordings."""

from __future__ import annotations

_STARS = {
    "practice_guideline": 4,
    "reviewed_by_expert_panel": 3,
    "criteria_provided,_multiple_submitters,_no_conflicts": 2,
    "criteria_provided,_multiple_submitters": 2,
}


def stars_of(clnrevstat: str) -> int:
    """Return the review stars, 0 to 4, of a value of CLNREVSTAT."""
    return _STARS.get(clnrevstat, int(clnrevstat.startswith("criteria_provided,")))
