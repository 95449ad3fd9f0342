"""What an analyst said of a profile; none of these values prints an allele."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from genolewm_assets.store.files import JsonValue

#: Categories of spans by the numbers that stand in masks, with the names of DNANet's label tool; 0 is no category.
SPAN_CATEGORIES = (
    "",
    "Allele",
    "Stutter",
    "PullUp",
    "BleedThrough",
    "Spike",
    "DyeBlob",
    "Artefact",
    "Unclear",
    "Shoulder",
    "ForeignDna",
    "OverloadingArtefact",
)


@dataclass(frozen=True, slots=True, repr=False)
class AlleleAnnotation:
    """Alleles that an analyst called.

    Attributes
    ----------
    loci
        Names of the alleles by locus, in the order of the report.
    """

    loci: Mapping[str, tuple[str, ...]]

    def __repr__(self) -> str:
        return f"AlleleAnnotation({len(self.loci)} loci)"

    def as_json(self) -> JsonValue:
        """Return the annotation as JSON values; :meth:`from_json` reads them."""
        return [{"locus": name, "alleles": list(alleles)} for name, alleles in self.loci.items()]

    @classmethod
    def from_json(cls, value: JsonValue) -> AlleleAnnotation:
        """Return the annotation that :meth:`as_json` wrote."""
        assert isinstance(value, list), "written by as_json"
        return cls({each["locus"]: tuple(each["alleles"]) for each in value})


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one dye's trace.

    Attributes
    ----------
    channel
        Channel of the dye.
    first, last
        First and last point of the grid.
    category
        Index in :data:`SPAN_CATEGORIES`.
    """

    channel: int
    first: int
    last: int
    category: int


@dataclass(frozen=True, slots=True, repr=False)
class SpanAnnotation:
    """Pieces of a profile's traces that an analyst marked, in the order of the file."""

    spans: tuple[Span, ...]

    def __repr__(self) -> str:
        return f"SpanAnnotation({len(self.spans)} spans)"


Annotation = AlleleAnnotation | SpanAnnotation
