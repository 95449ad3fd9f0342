"""Filter the alleles of a gnomAD file, block by block, and compute the shard's columns for those that pass.

INFO is read in two passes: AF, AC and AN of every record, then the other fields for the few alleles that pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Contig
from genolewm_assets.sources.gnomad.layouts import MAIN, FrequencyFields, GnomadLayout, canonical_group
from genolewm_assets.sources.vcf import AlleleRows, ContigNames, Numbers, VcfBlock
from genolewm_assets.variants import ANCESTRY_GROUPS, GNOMAD_VARIANTS, RAW_FIELDS, AlleleLedger, FilterReason

#: Bytes of buffered text at which a buffer is emptied.
ENOUGH_BYTES = 1 << 22


class KeptAlleles:
    """Buffer of alleles of one contig and sample set, with a copy of their text, and the AF and AN for filters."""

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


_PAYLOAD = [GNOMAD_VARIANTS.arrow.field(name) for name in GNOMAD_VARIANTS.columns if name not in GNOMAD_VARIANTS.key]
_ASSAYS = ("an_exomes", "an_genomes")
#: Schema of the rows that a scan spools: the sample set and, of joint files, AN of both assays decide what is kept.
SPOOLED = pa.schema(
    [
        *RAW_FIELDS,
        ("sample_set", pa.string()),
        *((name, pa.int64()) for name in _ASSAYS),
        *((f.name, f.type) for f in _PAYLOAD),
    ]
)
_PACKED_GROUPS = "pop_AF_hom"

#: Takes the rows of a contig that a scan keeps.
Spool: TypeAlias = Callable[[str, pa.RecordBatch], None]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FoundState:
    """What a scan has counted: alleles, filtered ones by reason, largest AN by contig and field, contigs met."""

    alleles: int
    filtered: Mapping[FilterReason, int]
    largest_an: tuple[tuple[str, str, int], ...]
    contigs: tuple[str, ...]


class GnomadScan:
    """One pass over a file: :meth:`take` each block, then :meth:`finish`; alleles of a circular contig all pass."""

    def __init__(
        self,
        layout: GnomadLayout,
        verdicts: Mapping[str | None, str],
        *,
        min_af: float,
        only: Contig | None,
        ledger: AlleleLedger,
        spool: Spool,
    ) -> None:
        self._layout, self._verdicts, self._min_af, self._only = layout, verdicts, min_af, only
        self._ledger, self._spool = ledger, spool
        self._sets: dict[str, FrequencyFields] = {
            name: fields for name, fields in layout.sample_sets.items() if name in {MAIN, *verdicts.values()}
        }
        # Each field once, in order: an assay may be a sample set too.
        named = (*(fields.an for fields in self._sets.values()), *layout.assays.values())
        self._an_fields = [field for field in dict.fromkeys(named) if field is not None]
        self._kept: dict[tuple[Contig, str], KeptAlleles] = {}
        #: Largest AN read so far, by contig and INFO field, filtered records included.
        self.largest_an: dict[tuple[str, str], int] = {}
        #: Names of the requested contigs that have a record.
        self.contigs: set[str] = set()

    @property
    def state(self) -> FoundState:
        """What has been counted so far."""
        counts = self._ledger.counts()
        filtered = {each: counts[name] for each in FilterReason if (name := f"filtered.{each}") in counts}
        largest = tuple((*key, an) for key, an in self.largest_an.items())
        return FoundState(counts["alleles_in"], filtered, largest, tuple(sorted(self.contigs)))

    def go_on(self, state: FoundState) -> None:
        """Begin with what an earlier scan of the file had counted."""
        self._ledger.read(state.alleles)
        for reason, alleles in state.filtered.items():
            self._ledger.filter(reason, alleles)
        self.largest_an = {(contig, field): an for contig, field, an in state.largest_an}
        self.contigs = set(state.contigs)

    def finish(self) -> None:
        """Spool the alleles that are still buffered; must be called after the last block, and before ``state``."""
        for contig, sample_set in list(self._kept):
            self._spool_kept(contig, sample_set)

    def take(self, block: VcfBlock, names: ContigNames) -> None:
        """Count the alleles of a block and buffer those that pass the filters."""
        for contig, records in names.divide(block):
            alleles = int(records.alts.sum())
            self._ledger.read(alleles)
            if contig is None or (self._only is not None and contig.name != self._only.name):
                self._ledger.filter(FilterReason.OTHER_CONTIG, alleles)
            else:
                self.contigs.add(contig.name)
                self._take_records(records, contig)

    def _take_records(self, records: VcfBlock, contig: Contig) -> None:
        counts = [key for each in self._sets.values() for key in (each.af, each.ac) if key is not None]
        records.locate([*self._an_fields, *counts])
        numbers = {field: self._allele_numbers(records, contig, field) for field in self._an_fields}
        verdicts = self._judge(records, contig)
        for at, (name, fields) in enumerate(self._sets.items()):
            chosen = np.flatnonzero(verdicts == at)
            if len(chosen):
                an = None if fields.an is None else numbers[fields.an].take(chosen)
                self._take_set(records.take(chosen), contig, name, an)

    def _allele_numbers(self, records: VcfBlock, contig: Contig, field: str) -> Numbers:
        """Return AN of each record in a field, and update ``largest_an``."""
        an = records.counts_of(field)
        if an.there.any():
            key = contig.name, field
            self.largest_an[key] = max(int(an.values[an.there].max()), self.largest_an.get(key, -1))
        return an

    def _judge(self, records: VcfBlock, contig: Contig) -> npt.NDArray[np.int8]:
        """Return the index of each record's sample set, int8; -1 for records that FILTER drops, which are counted."""
        if contig.circular:
            return np.zeros(len(records), np.int8)
        filters = records.filters()
        sets = list(self._sets)

        def place(text: str | None) -> int:
            return sets.index(self._verdicts[text]) if text in self._verdicts else -1

        places = np.array([*map(place, filters.dictionary.to_pylist()), place(None)], np.int8)
        codes = pc.fill_null(filters.indices, len(places) - 1).to_numpy()
        verdicts: npt.NDArray[np.int8] = places[codes]
        unfiltered = codes == len(places) - 1
        for reason, dropped in (
            (FilterReason.FILTER, (verdicts < 0) & ~unfiltered),
            (FilterReason.UNFILTERED, (verdicts < 0) & unfiltered),
        ):
            self._ledger.filter(reason, int(records.alts[dropped].sum()))
        return verdicts

    def _take_set(self, records: VcfBlock, contig: Contig, sample_set: str, an: Numbers | None) -> None:
        fields, rows = self._sets[sample_set], records.alleles()
        numbers = None if an is None else an.take(rows.record)
        missing_alt = pc.equal(rows.alts(), ".").to_numpy(zero_copy_only=False)
        af = _frequencies(rows, fields, numbers)
        # An ALT of '.' has no AF; it passes here, so that it is rejected later with its own reason.
        unknown = ~af.there & ~missing_alt
        low = np.zeros(len(rows), bool) if contig.circular else af.there & ~missing_alt & (af.values < self._min_af)
        self._ledger.filter(FilterReason.NO_AF, int(np.count_nonzero(unknown)))
        self._ledger.filter(FilterReason.LOW_AF, int(np.count_nonzero(low)))
        kept = np.flatnonzero(~unknown & ~low)
        if len(kept):
            aside = self._kept.setdefault((contig, sample_set), KeptAlleles())
            aside.add(rows.take(kept), af.take(kept), None if numbers is None else numbers.take(kept))
            if aside.size_bytes >= ENOUGH_BYTES:
                self._spool_kept(contig, sample_set)

    def _spool_kept(self, contig: Contig, sample_set: str) -> None:
        """Spool the buffered alleles of a contig and sample set, with all columns of the shard."""
        rows, af, an = self._kept.pop((contig, sample_set)).take()
        columns = _Columns(rows, contig, self._layout, self._sets[sample_set])
        figures = [pa.repeat(pa.scalar(sample_set), len(rows))]
        figures += [columns.record_counts(self._layout.assays.get(name)) for name in _ASSAYS]
        figures += [*columns.site(), af.arrow()]
        figures += [columns.counts(columns.fields.ac), pa.nulls(len(rows), pa.int64()) if an is None else an.arrow()]
        arrays = [*columns.raw(), *figures, *columns.rest()]
        self._spool(contig.name, pa.RecordBatch.from_arrays(arrays, schema=SPOOLED))


class _Columns:
    """Computes the shard's columns for some alleles of one contig."""

    def __init__(self, rows: AlleleRows, contig: Contig, layout: GnomadLayout, fields: FrequencyFields) -> None:
        self._rows, self._contig, self._layout, self.fields = rows, contig, layout, fields
        flags = layout.flags
        mitochondrial = ("AC_het", "AF_het", "max_hl") if layout.mitochondrial else ()
        wanted = (fields.nhomalt, fields.ac_xy, fields.grpmax, fields.af_grpmax, *fields.groups.values())
        self._flags = [getattr(flags, each.name) for each in fields_of(flags)]
        wanted = (*wanted, *self._flags, *mitochondrial, *layout.assays.values())
        rows.block.locate([key for key in wanted if key is not None])

    def raw(self) -> Iterator[pa.Array]:
        """Yield the columns ``RAW_FIELDS``."""
        block, record = self._rows.block, self._rows.record
        yield pa.array(block.line[record])
        yield block.chroms().take(record)
        yield pa.array(block.pos[record])
        yield block.refs().take(record)
        yield self._rows.alts()
        yield block.ids().take(record)

    def site(self) -> Iterator[pa.Array]:
        """Yield rsid and filter."""
        block, record = self._rows.block, self._rows.record
        yield block.ids().take(record)
        yield pc.fill_null(block.filters().cast(pa.string()), ".").take(record)

    def rest(self) -> Iterator[pa.Array]:
        """Yield the columns from ``nhomalt`` on."""
        fields = self.fields
        yield self.counts(fields.nhomalt)
        yield self._hemizygotes()
        yield self._group_of_maximum()
        yield self._shares(fields.af_grpmax)
        yield from self._group_frequencies()
        mitochondrial = self._layout.mitochondrial
        yield self.counts("AC_het" if mitochondrial else None)
        yield self._shares("AF_het" if mitochondrial else None)
        yield self._shares("max_hl" if mitochondrial else None)
        for flag in self._flags:
            yield self._nulls(pa.bool_()) if flag is None else pa.array(self._flag(flag))

    def counts(self, field: str | None) -> pa.Array:
        """Return a count field, int64; null everywhere if ``field`` is None."""
        return self._nulls(pa.int64()) if field is None else self._rows.counts_of(field).arrow()

    def record_counts(self, field: str | None) -> pa.Array:
        """Return a count that a record has once, int64; null everywhere if ``field`` is None."""
        if field is None:
            return self._nulls(pa.int64())
        return self._rows.block.counts_of(field).take(self._rows.record).arrow()

    def _shares(self, field: str | None) -> pa.Array:
        return self._nulls(pa.float64()) if field is None else self._rows.shares_of(field).arrow()

    def _nulls(self, kind: pa.DataType) -> pa.Array:
        return pa.nulls(len(self._rows), kind)

    def _flag(self, key: str) -> _Bools:
        return self._rows.block.flag(key)[self._rows.record]

    def _hemizygotes(self) -> pa.Array:
        """Return the number of hemizygous carriers, int64; null on chrM, or if the release does not flag the regions.

        On chrX and chrY outside the pseudo-autosomal regions this is the AC of XY samples, because gnomAD counts an XY
        sample once there; inside them, and on autosomes, it is 0.
        """
        non_par, ac_xy = self._layout.flags.non_par, self.fields.ac_xy
        if self._contig.circular:
            return self._nulls(pa.int64())
        if self._contig.name not in {"chrX", "chrY"}:
            return pa.repeat(pa.scalar(0), len(self._rows))
        if non_par is None:
            return self._nulls(pa.int64())
        return pc.if_else(pa.array(self._flag(non_par)), self.counts(ac_xy), 0)

    def _group_of_maximum(self) -> pa.Array:
        if self.fields.grpmax is None:
            return self._nulls(pa.string())
        groups = self._rows.strings_of(self.fields.grpmax).dictionary_encode()
        names = [canonical_group(name) for name in groups.dictionary.to_pylist()]
        return pa.array(names, pa.string()).take(groups.indices)

    def _group_frequencies(self) -> Iterator[pa.Array]:
        packed = self._packed_groups() if self._layout.packed_groups else {}
        for group in ANCESTRY_GROUPS:
            yield packed[group] if group in packed else self._shares(self.fields.groups.get(group))

    def _packed_groups(self) -> dict[str, pa.Array]:
        """Return allele frequencies by ancestry group, which chrM files store in one field, separated by ``|``."""
        block, groups = self._rows.block, self._layout.packed_groups
        frequencies: dict[str, list[float | None]] = {group: [] for group in groups}
        for record, text in enumerate(block.strings_of(_PACKED_GROUPS).to_pylist()):
            parts = (text or "").split("|")
            parts = parts if len(parts) > 1 else []
            for group, part in zip_longest(groups, parts[: len(groups)], fillvalue="."):
                frequencies[group].append(block.share(record, _PACKED_GROUPS, part))
        return {group: pa.array(each, pa.float64()).take(self._rows.record) for group, each in frequencies.items()}


def _frequencies(rows: AlleleRows, fields: FrequencyFields, an: Numbers | None) -> Numbers:
    """Return AF of each allele; if a record has no AF, it is AC / AN."""
    af = rows.shares_of(fields.af)
    if an is None or fields.ac is None:
        return af
    left_out = np.flatnonzero(~af.there & an.there & (an.values > 0))
    if len(left_out):
        ac = rows.take(left_out).counts_of(fields.ac)
        af.values[left_out] = ac.values / an.values[left_out]
        af.there[left_out] = ac.there
    return af
