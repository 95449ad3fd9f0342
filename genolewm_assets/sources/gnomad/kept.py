"""Buffer alleles that pass the gnomAD filters, so that per-block work runs on few large blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genolewm_assets.sources.vcf import AlleleRows, Numbers, VcfBlock

#: Bytes of buffered text at which a buffer is emptied.
ENOUGH_BYTES = 1 << 22


class KeptAlleles:
    """Buffer of alleles of one contig and sample set, with the AF and AN that the filters used.

    The text of the alleles' records is copied, so that the blocks that the alleles come from can be freed.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self.size_bytes = 0

    def add(self, rows: AlleleRows, af: Numbers, an: Numbers | None) -> None:
        """Add alleles with their AF and AN, one value per allele; AN is None if the file has no such field."""
        part = _Part(AlleleRows(_copied(rows.block), rows.record, rows.index), af, an)
        self._parts.append(part)
        self.size_bytes += len(part.rows.block.text)

    def take(self) -> tuple[AlleleRows, Numbers, Numbers | None]:
        """Empty the buffer; return all alleles, over one block, with their AF and AN (None if no file has it)."""
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
    """Return a block of the same records over a copy of their text, CHROM to INFO."""
    from genolewm_assets.sources.vcf import gather

    begin = block.starts[0]
    offsets = np.zeros(len(block) + 1, np.int32)
    np.cumsum(block.starts[8] - begin, out=offsets[1:])
    text = np.empty(offsets[-1], np.uint8)
    gather(block.text, begin, offsets, text)
    return VcfBlock(block.source, text, block.line, block.pos, block.alts, block.starts - begin + offsets[:-1])


def _joined(blocks: list[VcfBlock]) -> VcfBlock:
    """Concatenate blocks into one."""
    befores = np.cumsum([0, *(len(block.text) for block in blocks)], dtype=np.int32)
    return VcfBlock(
        blocks[0].source,
        np.concatenate([block.text for block in blocks]),
        np.concatenate([block.line for block in blocks]),
        np.concatenate([block.pos for block in blocks]),
        np.concatenate([block.alts for block in blocks]),
        np.concatenate([block.starts + before for block, before in zip(blocks, befores, strict=False)], axis=1),
    )
