"""Where the edits of a window come from, slot by slot.

Not here: drawing the edits (``edit_sampling``), the mix of corpora (``window_schedule``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from genolewm_assets.errors import ConfigurationError

__all__ = ["EDIT_MIXES", "EditMix", "EditSource"]


class EditSource(StrEnum):
    """Source of an edit (RFC-0006 §3.3)."""

    GNOMAD = "gnomad"
    SYNTHETIC_SNV = "synthetic_snv"
    SYNTHETIC_INDEL = "synthetic_indel"
    CLINVAR = "clinvar"


@dataclass(frozen=True, slots=True)
class EditMix:
    """A cycle of sources that the slots of successive windows run through.

    Parameters
    ----------
    name
        What configurations call it.
    cycle
        One source per slot.
    """

    name: str
    cycle: tuple[EditSource, ...]

    @classmethod
    def named(cls, name: str) -> EditMix:
        """Return a built-in mix.

        Raises
        ------
        ConfigurationError
            If there is none of that name.
        """
        if name not in EDIT_MIXES:
            raise ConfigurationError("mix", "no such edit mix", expected=f"one of {sorted(EDIT_MIXES)}", got=repr(name))
        return EDIT_MIXES[name]

    def plan(self, ordinal: int, n_edits: int) -> tuple[EditSource, ...]:
        """Return the source of every slot of the window at an ordinal of the epoch.

        Slots run on through the cycle, so that the shares are exact over every whole number of cycles.
        """
        first = ordinal * n_edits
        return tuple(self.cycle[slot % len(self.cycle)] for slot in range(first, first + n_edits))


_G, _S, _I, _C = EditSource.GNOMAD, EditSource.SYNTHETIC_SNV, EditSource.SYNTHETIC_INDEL, EditSource.CLINVAR

#: ``exact``: 3 gnomad, 3 SNV, 1 indel, 1 clinvar of the 8 edits of every window (RFC-0006 §3.3). ``rotating``: 40, 30,
#: 20 and 10 %, which 8 slots cannot hold: 16, 12, 8 and 4 over any five windows in a row.
EDIT_MIXES: dict[str, EditMix] = {
    "exact": EditMix("exact", (_G, _S, _G, _I, _S, _G, _S, _C)),
    "rotating": EditMix("rotating", (_G, _S, _G, _I, _S, _G, _C, _S, _G, _I)),
}
