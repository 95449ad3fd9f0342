"""The smallest catalogue there is, and how a test changes and writes it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

MD5 = "0123456789abcdef" * 2

MINIMAL: dict[str, Any] = {
    "name": "test",
    "genome": {
        "name": "toy",
        "fasta": "genome.fa",
        "contigs": [
            {"name": "chr1", "length": 100_000, "md5": MD5},
            {"name": "chrM", "length": 16_569, "md5": MD5, "circular": True},
        ],
    },
    "gnomad": {"sources": {"chr1": {"url": "chr1.vcf.bgz", "release": "4.1"}}},
    "clinvar": {"listing": "clinvar"},
}


def write(folder: Path, data: object) -> Path:
    file = folder / "catalog.yaml"
    file.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False))
    return file


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the minimal catalogue with one key set; ``path`` is dotted, list indices are numbers."""
    data = copy.deepcopy(MINIMAL)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    section: Any = data
    for part in parents:
        section = section.setdefault(part, {}) if isinstance(section, dict) else section[part]
    section[last] = value
    return data
