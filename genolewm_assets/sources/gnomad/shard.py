"""Build a variant shard from a gnomAD sites VCF: one row per normalised common allele.

Each allele is *filtered* by the source's data (contig, FILTER, AF, AN), else *rejected* as no usable sequence variant,
else *kept*; so ``rejects.parquet`` lists only alleles that the shard would otherwise contain. The bound of AN is a
share of the contig's largest AN over all records, known after the last one. On chrM only an absent AF filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ConfigurationError, VcfError
from genolewm_assets.genome import Bases, Contig, ContigSet
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.gnomad.layouts import MAIN, GnomadLayout, detect_layout
from genolewm_assets.sources.gnomad.release import check_gnomad_release
from genolewm_assets.sources.gnomad.scan import SPOOLED, GnomadScan
from genolewm_assets.sources.gnomad.streamed import SavedScan
from genolewm_assets.sources.vcf import (
    ContigNames,
    LocalVcf,
    StreamedScanner,
    StreamedVcf,
    VcfScanner,
    VcfSource,
    check_assembly,
)
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import BatchSpool, memory_given_back, write_table
from genolewm_assets.variants import (
    GNOMAD_VARIANTS,
    MIN_AF,
    MIN_AN_FRACTION,
    REJECTS,
    REJECTS_FILE,
    VARIANTS_FILE,
    AlleleLedger,
    AlleleNormaliser,
    FilterReason,
    ShardReport,
    check_gnomad_table,
    settle_alleles,
)

#: So many alleles that all fail FILTER are a sign of another use of FILTER, not of a bad stretch of sequence.
_MANY_ALLELES = 20
#: FILTER of records of joint files that one data type fails or lacks.
JOINT_FILTERS = ("EXOMES_FILTERED", "GENOMES_FILTERED")


@dataclass(frozen=True, slots=True)
class GnomadParams:
    """Filters of a gnomAD shard.

    Attributes
    ----------
    min_af, min_an_fraction
        Smallest allele frequency kept, and smallest AN as a share of the contig's largest, of a joint file in one of
        both assays, each 0 to 1; alleles without an AN are kept and counted.
    accept_unfiltered
        Whether FILTER ``.`` passes; only for a source that is published unfiltered.
    joint_rescue
        Whether a record of a joint file that one data type fails is kept with the frequencies of the other.

    Raises
    ------
    ConfigurationError
        If ``min_af`` or ``min_an_fraction`` is outside 0 to 1.
    """

    min_af: float = MIN_AF
    min_an_fraction: float = MIN_AN_FRACTION
    accept_unfiltered: bool = False
    joint_rescue: bool = False

    def __post_init__(self) -> None:
        for name, value in (("min_af", self.min_af), ("min_an_fraction", self.min_an_fraction)):
            if not 0.0 <= value <= 1.0:
                raise ConfigurationError(f"gnomad.{name}", "is out of range", expected="0 to 1", got=repr(value))

    def verdicts(self, layout: GnomadLayout) -> dict[str | None, str]:
        """Return, for each FILTER text that passes (None: ``.``), the sample set whose frequencies are used."""
        verdicts: dict[str | None, str] = {"PASS": MAIN}
        if self.joint_rescue:
            verdicts |= {failed: failed for failed in layout.passing}
        if self.accept_unfiltered:
            verdicts[None] = MAIN
        return verdicts

    def check_table(self, table: pa.Table, contig: Contig, reference: Bases | None) -> tuple[CheckResult, ...]:
        """Check the rows of one contig, also against these parameters; see :func:`check_gnomad_table`."""
        filters = {"PASS", *(["."] if self.accept_unfiltered else []), *(JOINT_FILTERS if self.joint_rescue else [])}
        return check_gnomad_table(table, contig, reference, min_af=self.min_af, filters=filters)


def build_gnomad_shard(
    vcf: Path | VcfSource,
    *,
    contig: Contig | None,
    contigs: ContigSet,
    reference: Callable[[Contig], Bases] | None,
    params: GnomadParams,
    out_dir: Path,
    release: str | None = None,
    origin: Mapping[str, str] = MappingProxyType({}),
    threads: int = 2,
    progress: Progress = NO_PROGRESS,
) -> ShardReport:
    """Write ``variants.parquet`` and ``rejects.parquet`` of one gnomAD sites VCF.

    Of a :class:`StreamedVcf` the state of the scan is kept if it is interrupted, and the next call goes on there.

    Parameters
    ----------
    contig
        The only contig requested; alleles on others are counted as ``filtered.other_contig``, or not read if an index
        finds the contig. None: all contigs, in one file, in the order of ``contigs``.
    reference
        Returns a contig's bases. None: alleles are trimmed but not left-aligned, and REF is not checked.
    out_dir
        Folder of the files, made if absent; the caller publishes it.
    release
        Declared release, which the header may not contradict. None: not compared.
    origin
        What :func:`~genolewm_assets.variants.shard.state_origin` returns: metadata for the files.
    threads
        Number of threads used; the files do not depend on it.
    progress
        Receives the compressed bytes read so far, then the alleles normalised.

    Returns
    -------
    ShardReport
        ``counts``: ``records``, ``alleles_in``, ``kept``, ``rejected``, ``rejected.<reason>``, ``filtered``,
        ``filtered.<reason>``, ``an_unknown``: kept or rejected alleles without an AN, on linear contigs; and as
        :meth:`ContigNames.other_contigs` ``other_contig.<name>``.

    Raises
    ------
    VcfError
        If the file is malformed, of an unknown layout or another release, on another assembly, or has no record on a
        requested contig.
    ChecksumError, FetchError
        If a streamed file has another MD5 than expected, changes while it is read, or the server fails.
    BusyError
        If another process scans the same streamed file for the same contig.
    UnknownContigError
        If a record's contig is not one of the human assembly.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    source = LocalVcf(vcf) if isinstance(vcf, Path) else vcf
    ledger, where = AlleleLedger(source.name), source.label
    with memory_given_back(), BatchSpool(SPOOLED, out_dir) as spool, ExitStack() as opened:
        saved = None
        if isinstance(source, StreamedVcf):
            key: dict[str, JsonValue] = {"origin": dict(origin), "params": asdict(params), "release": release}
            key["contigs"] = [repr(each) for each in contigs]
            part = "all" if contig is None else contig.name
            saved = opened.enter_context(SavedScan.open(source, part, key, spool.append))
        scanner = opened.enter_context(
            saved.scanner(threads=threads, progress=progress)
            if saved
            else VcfScanner(source, contig=contig, threads=threads, progress=progress)
        )
        check_assembly(scanner.header, contigs, where=where)
        layout = detect_layout(scanner.header, where=where)
        if release is not None:
            check_gnomad_release(scanner.header, release, where=where)
        verdicts = params.verdicts(layout)
        append = (saved or spool).append
        scan = GnomadScan(layout, verdicts, min_af=params.min_af, only=contig, ledger=ledger, spool=append)
        names = ContigNames(contigs)
        if saved is not None:
            saved.go_on(scan, names)
        for block in scanner:
            scan.take(block, names)
        scan.finish()
        names.check_met(contigs if contig is None else [contig], where=where)
        normaliser = AlleleNormaliser(reference)
        wanted = [contig] if contig is not None else [each for each in contigs if each.name in scan.contigs]

        def settled() -> Iterator[pa.Table]:
            for each in wanted:
                low_an = partial(
                    have_low_an, contig=each, layout=layout, largest=scan.largest_an, fraction=params.min_an_fraction
                )
                called = _drop_low_an(spool.batches(each.name), each, low_an, ledger)
                yield from settle_alleles(
                    called, each, normaliser, ledger, _preference, folder=out_dir, progress=progress
                )

        recipe = {**origin, "layout": layout.name, "normal_form": "trimmed" if reference is None else "left-aligned"}
        rows = write_table(settled(), out_dir / VARIANTS_FILE, GNOMAD_VARIANTS, recipe=recipe)
        ledger.note("records", scanner.records)
        for name, records in names.other_contigs().items():
            ledger.note(name, records)
        rejected = write_table([ledger.rejects()], out_dir / REJECTS_FILE, REJECTS, recipe=origin)
    md5 = scanner.md5 if isinstance(scanner, StreamedScanner) else None
    return ShardReport(ledger.counts(), {VARIANTS_FILE: rows, REJECTS_FILE: rejected}, scanner.alleles, md5)


def check_filters_applied(report: ShardReport, *, where: str, remedy: str) -> None:
    """Raise :class:`VcfError` if no allele on a requested contig passes FILTER, and some have ``.`` or 20 fail it.

    ``remedy`` tells how to accept records without FILTER, as a sentence without its full stop.
    """
    unfiltered = report.counts.get(f"filtered.{FilterReason.UNFILTERED}", 0)
    failed = report.counts.get(f"filtered.{FilterReason.FILTER}", 0)
    elsewhere = report.counts.get(f"filtered.{FilterReason.OTHER_CONTIG}", 0)
    if unfiltered and unfiltered + failed + elsewhere == report.counts["alleles_in"]:
        raise VcfError(
            where,
            f"no allele has FILTER PASS, and that of {unfiltered} is '.', so that the shard would be empty",
            expected="PASS, or the filters that the record fails",
            got="a file without filters",
            remedy=remedy,
        )
    if failed >= _MANY_ALLELES and failed + elsewhere == report.counts["alleles_in"]:
        raise VcfError(
            where,
            f"none of {failed} alleles has FILTER PASS, so that the shard would be empty",
            expected="PASS, or the filters that the record fails",
            got="filters that every record fails",
            remedy="Look at FILTER in the file, and take the file as it is published",
        )


def write_empty_shard(out_dir: Path, *, origin: Mapping[str, str] = MappingProxyType({})) -> ShardReport:
    """Write the shard of a contig that has no source in the catalogue: both files, without rows."""
    for name, schema in ((VARIANTS_FILE, GNOMAD_VARIANTS), (REJECTS_FILE, REJECTS)):
        write_table([], out_dir / name, schema, recipe=origin)
    return ShardReport(AlleleLedger("").counts(), {VARIANTS_FILE: 0, REJECTS_FILE: 0}, alleles_in_source=0)


def _drop_low_an(
    batches: Iterator[pa.RecordBatch],
    contig: Contig,
    low_an: Callable[[pa.RecordBatch], pa.BooleanArray],
    ledger: AlleleLedger,
) -> Iterator[pa.RecordBatch]:
    """Filter the alleles of a contig by AN and count them; on a circular contig no allele is filtered."""
    if contig.circular:
        yield from batches
        return
    ledger.note("an_unknown", 0)
    for batch in batches:
        low = low_an(batch)
        ledger.filter(FilterReason.LOW_AN, pc.sum(low).as_py() or 0)
        kept = batch.filter(pc.invert(low))
        ledger.note("an_unknown", kept["an"].null_count)
        yield kept


def _preference(row: Mapping[str, object]) -> tuple[object, ...]:
    """Order records of one allele, the one to keep first: higher AN, then higher AC, then higher AF."""
    return tuple(-(row[name] or 0) for name in ("an", "ac", "af"))  # type: ignore[operator]


#: About half of the samples have a chrY, and one of it.
_SHARE_OF_Y = 0.25

#: The largest AN of a contig, by contig and INFO field, filtered records included.
LargestAn = Mapping[tuple[str, str], int]


def have_low_an(
    batch: pa.RecordBatch, contig: Contig, layout: GnomadLayout, largest: LargestAn, fraction: float
) -> pa.BooleanArray:
    """Return whether each allele of a contig has an AN below ``fraction`` of the largest; False without an AN.

    In a joint file, one of both assays must have it, because most of the genome is outside of exome calling. Where its
    records state ``AN_joint`` alone, this is compared with what the genomes of the release can give.
    """
    low = pa.repeat(pa.scalar(False), batch.num_rows)
    for name, fields in layout.sample_sets.items():
        if fields.an is None:
            continue
        most = float(largest.get((contig.name, fields.an), 0))
        if name == MAIN and layout.genome_alleles is not None:
            most = min(most, layout.genome_alleles * (_SHARE_OF_Y if contig.name == "chrY" else 1))
        in_set = pc.less(batch["an"], fraction * most)
        if name == MAIN:
            enough, known = _enough_in_an_assay(batch, contig, layout, largest, fraction)
            in_set = pc.if_else(known, pc.invert(enough), in_set)
        low = pc.or_(low, pc.and_(pc.equal(batch["sample_set"], name), pc.fill_null(in_set, False)))
    return low


def _enough_in_an_assay(
    batch: pa.RecordBatch, contig: Contig, layout: GnomadLayout, largest: LargestAn, fraction: float
) -> tuple[pa.BooleanArray, pa.BooleanArray]:
    """Return whether one assay has enough genotypes of each allele, and whether an assay states any."""
    enough, known = (pa.repeat(pa.scalar(False), batch.num_rows) for _ in range(2))
    for column, field in layout.assays.items():
        # An assay without a genotype on the whole contig says nothing.
        if most := largest.get((contig.name, field), 0):
            known = pc.or_(known, pc.is_valid(batch[column]))
            enough = pc.or_(enough, pc.fill_null(pc.greater_equal(batch[column], fraction * most), False))
    return enough, known
