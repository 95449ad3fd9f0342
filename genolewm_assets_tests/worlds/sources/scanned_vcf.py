"""What the scanner finds in a file, record by record, as plain Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from genolewm_assets.sources.vcf import bgzf
from genolewm_assets.sources.vcf import text as text_chunks
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.sources.vcf.source import VcfSource


class Record(NamedTuple):
    """One data line; ``id`` and ``filters`` are None for ``.``, alleles are as written."""

    line: int
    chrom: str
    pos: int
    id: str | None
    ref: str
    alts: tuple[str, ...]
    filters: str | None


def records_of(block: VcfBlock) -> Iterator[Record]:
    alleles = block.alleles()
    alts: list[list[str]] = [[] for _ in range(len(block))]
    for record, alt in zip(alleles.record.tolist(), alleles.alts().to_pylist(), strict=True):
        alts[record].append(alt)
    columns = (block.line, block.chroms(), block.pos, block.ids(), block.refs(), map(tuple, alts), block.filters())
    lists = (c.to_pylist() if isinstance(c, pa.Array) else c for c in columns)
    for line, chrom, pos, name, ref, each, filters in zip(*lists, strict=True):
        yield Record(int(line), chrom, int(pos), name, ref, each, filters)


def infos_of(block: VcfBlock, keys: Sequence[str]) -> list[dict[str, str | None]]:
    """Return of each record the keys that are there, with their text; None where that is missing."""
    columns = {key: (block.flag(key).tolist(), block.strings_of(key).to_pylist()) for key in keys}
    return [{key: texts[at] for key, (there, texts) in columns.items() if there[at]} for at in range(len(block))]


def scan(source: Path | VcfSource, **options: Any) -> list[Record]:
    """Return the records of a file; the scanner's own counts must agree with them."""
    return [record for record, _ in scan_with_info(source, (), **options)]


def scan_with_info(
    source: Path | VcfSource, keys: Sequence[str], **options: Any
) -> list[tuple[Record, dict[str, str | None]]]:
    found: list[tuple[Record, dict[str, str | None]]] = []
    with VcfScanner(source, **options) as scanner:
        for block in scanner:
            found += zip(records_of(block), infos_of(block, keys), strict=True)
        assert scanner.records == len(found)
        assert scanner.alleles == sum(len(record.alts) for record, _ in found)
    return found


def one_block(path: Path) -> VcfBlock:
    with VcfScanner(path) as scanner:
        (block,) = scanner
    return block


def cut_small(monkeypatch: pytest.MonkeyPatch, size_bytes: int, read_bytes: int | None = None) -> None:
    """Let every container hand its text over in pieces of about this size."""
    monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", size_bytes)
    monkeypatch.setattr(bgzf, "_READ_BYTES", read_bytes or size_bytes)
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", size_bytes)
