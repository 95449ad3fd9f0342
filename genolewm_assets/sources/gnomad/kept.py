"""The few alleles that many blocks of a VCF leave, put together: what is done once per block is then done seldom."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genolewm_assets.sources.vcf import AlleleRows, Numbers, VcfBlock

#: Bytes of text that are worth the work.
ENOUGH_BYTES = 1 << 22


class KeptAlleles:
    """Alleles of one contig and sample set, with the numbers that decided about them.

    The lines of their records are copied, so that the blocks they come from need not stay in memory.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self.size_bytes = 0

    def add(self, rows: AlleleRows, af: Numbers, an: Numbers | None) -> None:
        """Put aside rows with their AF and AN."""
        part = _Part(AlleleRows(_copied(rows.block), rows.record, rows.index), af, an)
        self._parts.append(part)
        self.size_bytes += len(part.rows.block.text)

    def take(self) -> tuple[AlleleRows, Numbers, Numbers | None]:
        """Return all rows as those of one block, with their AF and AN, and forget them."""
        parts, self._parts, self.size_bytes = self._parts, [], 0
        block = _joined([part.rows.block for part in parts])
        records = np.cumsum([0, *(len(part.rows.block) for part in parts)])
        record = np.concatenate([part.rows.record + before for part, before in zip(parts, records, strict=False)])
        index = np.concatenate([part.rows.index for part in parts])
        an = [part.an for part in parts if part.an is not None]
        rows = AlleleRows(block, record.astype(np.int32), index)
        return rows, _numbers([part.af for part in parts]), _numbers(an) if an else None


class _Part(NamedTuple):
    rows: AlleleRows
    af: Numbers
    an: Numbers | None


def _numbers(parts: list[Numbers]) -> Numbers:
    return Numbers(np.concatenate([each.values for each in parts]), np.concatenate([each.there for each in parts]))


def _copied(block: VcfBlock) -> VcfBlock:
    """Return the same records over a text of their own, which holds CHROM to INFO."""
    from genolewm_assets.sources.vcf import gather

    begin = block.starts[0]
    offsets = np.zeros(len(block) + 1, np.int32)
    np.cumsum(block.starts[8] - begin, out=offsets[1:])
    text = np.empty(offsets[-1], np.uint8)
    gather(block.text, begin, offsets, text)
    return VcfBlock(block.source, text, block.line, block.pos, block.alts, block.starts - begin + offsets[:-1])


def _joined(blocks: list[VcfBlock]) -> VcfBlock:
    befores = np.cumsum([0, *(len(block.text) for block in blocks)], dtype=np.int32)
    return VcfBlock(
        blocks[0].source,
        np.concatenate([block.text for block in blocks]),
        np.concatenate([block.line for block in blocks]),
        np.concatenate([block.pos for block in blocks]),
        np.concatenate([block.alts for block in blocks]),
        np.concatenate([block.starts + before for block, before in zip(blocks, befores, strict=False)], axis=1),
    )
