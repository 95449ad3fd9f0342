"""Pictures that assets show: which, and what is in one."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import dagster as dg

PICTURE = re.compile(r"!\[([^\]]+)\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)")
SVG = "{http://www.w3.org/2000/svg}"


#: Pictures of each asset.
PICTURES = {
    "gnomad/shard": {"af_by_contig", "af_spectrum", "alleles_along_contig"},
    "clinvar/shard": {"class_balance", "classes_by_review_stars"},
    "clinvar/changes": {"classes_from_to"},
    "windows/index": {"gc_by_contig", "coverage_by_contig", "coverage_along_contig"},
    "corpus/windows": {"placements"},
    "embeddings/cache": {"state_norms"},
    "embeddings/corpus": {"state_norms"},
    "holdouts/manifest": {"composition"},
    "packages/audit": {"power_and_findings"},
    "packages/split": {"splits", "source_mix", "edit_mix"},
}


def parse(value: dg.MetadataValue) -> tuple[str, str, ElementTree.Element]:
    """Return alternative text, base64 text and the picture's root element."""
    found = PICTURE.fullmatch(str(value.value))
    assert found, "not one picture in Markdown"
    return found[1], found[2], ElementTree.fromstring(base64.b64decode(found[2]))


def size_px(svg: ElementTree.Element) -> tuple[int, int]:
    """Return width and height in CSS pixels."""
    return round(_pt(svg, "width") * 96 / 72), round(_pt(svg, "height") * 96 / 72)


def _pt(svg: ElementTree.Element, side: str) -> float:
    return float(svg.attrib[side].removesuffix("pt"))


def fitting(value: dg.MetadataValue) -> tuple[str, ElementTree.Element]:
    """Return alternative text and root of a picture, which is small and as wide as the dialog that shows it."""
    alt, data, svg = parse(value)
    assert len(data) < 60_000
    assert size_px(svg)[0] == 560
    return alt, svg


def texts_in(svg: ElementTree.Element) -> set[str]:
    return {"".join(text.itertext()).strip() for text in svg.iter(f"{SVG}text")}
