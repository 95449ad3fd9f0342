"""gnomAD sites VCF -> one row per normalised common allele.

Each allele of the source ends in one place, decided in this order:

1. *filtered* by what the source says of it: another contig; FILTER is neither ``PASS`` nor, where the source is
   declared unfiltered, ``.``; no allele frequency; AF under the bound; AN under the bound, which is known only after
   the last record, because it is a share of the contig's largest AN over all its records, filtered ones included.
2. *rejected* as a sequence variant: only what the filters left is looked at, so ``rejects.parquet`` lists what the
   shard would otherwise hold. An ALT of ``.`` has no frequency to judge, so it passes the AF filter and is rejected.
3. *kept*.

On a circular contig (chrM) there is no step 1: every site is kept, whatever its FILTER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.lewm.schema import ANCESTRY_GROUPS, GNOMAD_VARIANTS, REJECTS
from genolewm_assets.lewm.shard_checks import check_gnomad_table
from genolewm_assets.sources.alleles import (
    RAW_FIELDS,
    AlleleLedger,
    AlleleNormaliser,
    FilterReason,
    settle_alleles,
)
from genolewm_assets.sources.contig_names import ContigNames, check_assembly
from genolewm_assets.sources.gnomad_layouts import FrequencyFields, GnomadLayout, canonical_group, detect_layout
from genolewm_assets.sources.shard_file import REJECTS_FILE, VARIANTS_FILE, RowSpool, ShardReport, write_shard_file
from genolewm_assets.sources.vcf import VcfReader
from genolewm_assets.sources.vcf_record import VcfRecord
from genolewm_assets.store.manifest import CheckResult
from genolewm_assets.store.progress import NO_PROGRESS, Progress

_PAYLOAD = [GNOMAD_VARIANTS.arrow.field(name) for name in GNOMAD_VARIANTS.columns if name not in GNOMAD_VARIANTS.key]
_SPOOLED = pa.schema([*RAW_FIELDS, ("sample_set", pa.string()), *((f.name, f.type) for f in _PAYLOAD)])
_MAIN = "main"
#: FILTER of joint records that one data type fails and the other passes.
JOINT_FILTERS = ("EXOMES_FILTERED", "GENOMES_FILTERED")


@dataclass(frozen=True, slots=True)
class GnomadParams:
    """Which alleles a shard holds.

    Attributes
    ----------
    min_af
        Smallest allele frequency kept, 0 to 1.
    min_an_fraction
        Smallest AN kept, as a share of the contig's largest AN; alleles without an AN are kept and counted.
    accept_unfiltered
        Whether FILTER ``.`` passes: only for a source that is known to be published unfiltered.
    joint_rescue
        Whether a joint record that one data type fails is kept with the other's frequencies.
    """

    min_af: float = 0.01
    min_an_fraction: float = 0.5
    accept_unfiltered: bool = False
    joint_rescue: bool = False

    def __post_init__(self) -> None:
        for name, value in (("min_af", self.min_af), ("min_an_fraction", self.min_an_fraction)):
            if not 0.0 <= value <= 1.0:
                raise ConfigurationError(f"gnomad.{name}", "is out of range", expected="0 to 1", got=repr(value))

    def check_table(self, table: pa.Table, contig: Contig, reference: bytes | None) -> tuple[CheckResult, ...]:
        """Check the rows of one contig against these parameters too; see :func:`check_gnomad_table`."""
        filters = {"PASS", *(["."] if self.accept_unfiltered else []), *(JOINT_FILTERS if self.joint_rescue else [])}
        return check_gnomad_table(table, contig, reference, min_af=self.min_af, filters=filters)


class _Scan:
    """One pass over the records: filters them and spools what is left."""

    def __init__(
        self, layout: GnomadLayout, params: GnomadParams, only: Contig | None, ledger: AlleleLedger, spool: RowSpool
    ) -> None:
        self._layout, self._params, self._only = layout, params, only
        self._ledger, self._spool = ledger, spool
        self._sets = {_MAIN: layout.main}
        self._verdicts: dict[tuple[str, ...], str | FilterReason] = {("PASS",): _MAIN}
        if params.joint_rescue:
            for failed, fields in layout.passing.items():
                self._sets[failed] = fields
                self._verdicts[(failed,)] = failed
        if params.accept_unfiltered:
            self._verdicts[()] = _MAIN
        #: Largest AN seen, by contig and sample set.
        self.largest_an: dict[tuple[str, str], int] = {}
        #: Contigs seen, with the number of records.
        self.records: dict[str, int] = {}

    def take(self, record: VcfRecord, contig: Contig | None) -> None:
        """Count a record and spool those of its alleles that pass."""
        self._ledger.read(len(record.alts))
        if contig is None or (self._only is not None and contig.name != self._only.name):
            self._ledger.filter(FilterReason.OTHER_CONTIG, len(record.alts))
            return
        self.records[contig.name] = self.records.get(contig.name, 0) + 1
        numbers = {name: self._allele_number(record, contig, name) for name in self._sets}
        verdict: str | FilterReason = _MAIN
        if not contig.circular:
            otherwise = FilterReason.FILTER if record.filters else FilterReason.UNFILTERED
            verdict = self._verdicts.get(record.filters, otherwise)
        if isinstance(verdict, FilterReason):
            self._ledger.filter(verdict, len(record.alts))
            return
        for index in range(len(record.alts)):
            self._take_allele(record, contig, index, verdict, numbers[verdict])

    def _allele_number(self, record: VcfRecord, contig: Contig, sample_set: str) -> int | None:
        field = self._sets[sample_set].an
        number = None if field is None else record.site_int(field)
        if number is not None and number > self.largest_an.get((contig.name, sample_set), -1):
            self.largest_an[contig.name, sample_set] = number
        return number

    def _take_allele(self, record: VcfRecord, contig: Contig, index: int, sample_set: str, an: int | None) -> None:
        fields = self._sets[sample_set]
        alt = record.alts[index]
        # An ALT of '.' has no figures; the normaliser rejects it.
        af = 0.0 if alt == "." else _frequency(record, index, fields, an)
        if alt != "." and (af is None or (af < self._params.min_af and not contig.circular)):
            self._ledger.filter(FilterReason.NO_AF if af is None else FilterReason.LOW_AF)
            return
        raw = (record.line, record.chrom, record.pos, record.ref, alt, record.id)
        ac = None if fields.ac is None or alt == "." else record.allele_int(fields.ac, index)
        payload = _payload(record, contig, index, self._layout, fields)
        filters = ";".join(record.filters) or "."
        self._spool.append(contig.name, (*raw, sample_set, record.id, filters, af, ac, an, *payload))


def _frequency(record: VcfRecord, index: int, fields: FrequencyFields, an: int | None) -> float | None:
    """Return AF of an allele; where the record leaves it out it follows from AC and AN."""
    af = record.allele_share(fields.af, index)
    if af is None and an and fields.ac is not None:
        ac = record.allele_int(fields.ac, index)
        af = None if ac is None else ac / an
    return af


def _payload(
    record: VcfRecord, contig: Contig, index: int, layout: GnomadLayout, fields: FrequencyFields
) -> tuple[object, ...]:
    """Return the columns of a row from ``nhomalt`` on."""
    if record.alts[index] == ".":
        return (None,) * (len(_PAYLOAD) - 5)
    lcr, segdup, non_par = (
        None if flag is None else flag in record.info
        for flag in (layout.flags.lcr, layout.flags.segdup, layout.flags.non_par)
    )
    group = None if fields.grpmax is None else record.allele_text(fields.grpmax, index)
    return (
        None if fields.nhomalt is None else record.allele_int(fields.nhomalt, index),
        _hemizygotes(record, contig, index, fields, non_par=non_par),
        None if group is None else canonical_group(group),
        None if fields.af_grpmax is None else record.allele_share(fields.af_grpmax, index),
        *_group_frequencies(record, index, layout, fields),
        *_heteroplasmy(record, index, layout),
        lcr,
        segdup,
        non_par,
    )


def _hemizygotes(
    record: VcfRecord, contig: Contig, index: int, fields: FrequencyFields, *, non_par: bool | None
) -> int | None:
    """Return XY carriers outside the pseudo-autosomal regions; nobody is hemizygous on an autosome.

    gnomAD counts an XY sample once there, so its AC of XY samples is the number of carriers.
    """
    if contig.circular:
        return None
    if contig.name not in {"chrX", "chrY"} or non_par is False:
        return 0
    return record.allele_int(fields.ac_xy, index) if non_par and fields.ac_xy is not None else None


def _group_frequencies(
    record: VcfRecord, index: int, layout: GnomadLayout, fields: FrequencyFields
) -> Iterator[float | None]:
    packed: dict[str, str] = {}
    if layout.packed_groups:
        parts = (record.info.get("pop_AF_hom") or "").split("|")
        packed = dict(zip(layout.packed_groups, parts, strict=False)) if len(parts) > 1 else {}
    for group in ANCESTRY_GROUPS:
        if group in packed:
            yield record.parse_share("pop_AF_hom", packed[group])
        else:
            yield record.allele_share(fields.groups[group], index) if group in fields.groups else None


def _heteroplasmy(record: VcfRecord, index: int, layout: GnomadLayout) -> tuple[int | None, float | None, float | None]:
    if not layout.mitochondrial:
        return None, None, None
    return (
        record.allele_int("AC_het", index),
        record.allele_share("AF_het", index),
        record.allele_share("max_hl", index),
    )


def build_gnomad_shard(
    vcf: Path,
    *,
    contig: Contig | None,
    contigs: ContigSet,
    reference: Callable[[Contig], bytes] | None,
    params: GnomadParams,
    out_dir: Path,
    progress: Progress = NO_PROGRESS,
) -> ShardReport:
    """Write ``variants.parquet`` and ``rejects.parquet`` of one gnomAD sites VCF.

    Parameters
    ----------
    contig
        The one contig wanted; alleles elsewhere are counted as ``filtered.other_contig``. None: all, in one file, in
        the order of ``contigs``.
    reference
        Returns a contig as upper-case ASCII. None: alleles are trimmed but not left-aligned, and REF is not checked.
    out_dir
        Made if absent; the caller publishes it.

    Returns
    -------
    ShardReport
        ``counts``: ``records``, ``alleles_in``, ``kept``, ``rejected``, ``rejected.<reason>``, ``filtered``,
        ``filtered.<reason>``, and ``an_unknown``: alleles that no AN bound could be applied to.

    Raises
    ------
    VcfError
        If the file is malformed, of an unknown layout, on another assembly, or holds no record on a contig wanted.
    UnknownContigError
        If a record's contig is no contig of the human assembly.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    ledger = AlleleLedger(vcf.name)
    with VcfReader(vcf, progress=progress) as reader, RowSpool(_SPOOLED, out_dir) as spool:
        check_assembly(reader.header, contigs, where=str(vcf))
        layout = detect_layout(reader.header, where=str(vcf))
        scan = _Scan(layout, params, contig, ledger, spool)
        names = ContigNames(contigs)
        for record in reader:
            scan.take(record, names.resolve(record))
        names.check_met(contigs if contig is None else [contig], where=str(vcf))
        normaliser = AlleleNormaliser(reference)
        wanted = [contig] if contig is not None else [each for each in contigs if each.name in scan.records]
        passed = ((each, _low_an_out(spool.take(each.name), each, scan, params, ledger)) for each in wanted)
        tables = (
            settle_alleles(table, each, normaliser, ledger, _preference, progress=progress) for each, table in passed
        )
        recipe = {"layout": layout.name, "normal_form": "trimmed" if reference is None else "left-aligned"}
        rows = write_shard_file(tables, out_dir / VARIANTS_FILE, GNOMAD_VARIANTS, recipe=recipe)
    ledger.note("records", reader.records)
    rejected = write_shard_file([ledger.rejects()], out_dir / REJECTS_FILE, REJECTS)
    return ShardReport(ledger.counts(), {VARIANTS_FILE: rows, REJECTS_FILE: rejected})


def write_empty_shard(out_dir: Path) -> ShardReport:
    """Write the shard of a contig that the catalogue gives no source for: both files, no rows."""
    for name, schema in ((VARIANTS_FILE, GNOMAD_VARIANTS), (REJECTS_FILE, REJECTS)):
        write_shard_file([], out_dir / name, schema)
    return ShardReport(AlleleLedger("").counts(), {VARIANTS_FILE: 0, REJECTS_FILE: 0})


def _low_an_out(spooled: pa.Table, contig: Contig, scan: _Scan, params: GnomadParams, ledger: AlleleLedger) -> pa.Table:
    """Filter the alleles of a contig by AN; on a circular one nothing is filtered."""
    if contig.circular:
        return spooled
    low = _low_an(spooled, contig, scan.largest_an, params.min_an_fraction)
    ledger.filter(FilterReason.LOW_AN, pc.sum(low).as_py() or 0)
    kept = spooled.filter(pc.invert(low))
    ledger.note("an_unknown", kept["an"].null_count)
    return kept


def _low_an(
    spooled: pa.Table, contig: Contig, largest: Mapping[tuple[str, str], int], fraction: float
) -> pa.ChunkedArray:
    low = pa.chunked_array([pa.nulls(spooled.num_rows, pa.bool_()).fill_null(False)])
    for (name, sample_set), number in largest.items():
        if name == contig.name:
            under = pc.less(spooled["an"], fraction * number)
            low = pc.or_(low, pc.and_(pc.equal(spooled["sample_set"], sample_set), pc.fill_null(under, False)))
    return low


def _preference(row: Mapping[str, object]) -> tuple[object, ...]:
    """Of two records of one allele, keep the one more samples were called for, then the more frequent one."""
    return tuple(-(row[name] or 0) for name in ("an", "ac", "af"))  # type: ignore[operator]
