"""The sources that edits come from."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class EditSource(StrEnum):
    """Source of an edit (RFC-0006 §3.3)."""

    GNOMAD = "gnomad"
    SYNTHETIC_SNV = "synthetic_snv"
    SYNTHETIC_INDEL = "synthetic_indel"
    CLINVAR = "clinvar"


#: Code by source of an edit, in the order of :class:`EditSource`, to which sources are appended.
EDIT_SOURCE_CODES: Final[Mapping[EditSource, int]] = {source: code for code, source in enumerate(EditSource)}
