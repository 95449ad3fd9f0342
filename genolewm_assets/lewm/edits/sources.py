"""The sources that edits come from."""

from __future__ import annotations

from enum import StrEnum


class EditSource(StrEnum):
    """Source of an edit (RFC-0006 §3.3)."""

    GNOMAD = "gnomad"
    SYNTHETIC_SNV = "synthetic_snv"
    SYNTHETIC_INDEL = "synthetic_indel"
    CLINVAR = "clinvar"
