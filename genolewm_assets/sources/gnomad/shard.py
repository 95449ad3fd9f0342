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
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Bases, Contig, ContigSet
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.gnomad.layouts import GnomadLayout, detect_layout
from genolewm_assets.sources.gnomad.scan import MAIN, SPOOLED, GnomadScan
from genolewm_assets.sources.vcf import ContigNames, LocalVcf, VcfScanner, VcfSource, check_assembly
from genolewm_assets.store.artefacts import CheckResult
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

    min_af: float = MIN_AF
    min_an_fraction: float = MIN_AN_FRACTION
    accept_unfiltered: bool = False
    joint_rescue: bool = False

    def __post_init__(self) -> None:
        for name, value in (("min_af", self.min_af), ("min_an_fraction", self.min_an_fraction)):
            if not 0.0 <= value <= 1.0:
                raise ConfigurationError(f"gnomad.{name}", "is out of range", expected="0 to 1", got=repr(value))

    def verdicts(self, layout: GnomadLayout) -> dict[str | None, str]:
        """Return the sample set whose figures count, by the FILTER texts that pass (None: ``.``)."""
        verdicts: dict[str | None, str] = {"PASS": MAIN}
        if self.joint_rescue:
            verdicts |= {failed: failed for failed in layout.passing}
        if self.accept_unfiltered:
            verdicts[None] = MAIN
        return verdicts

    def check_table(self, table: pa.Table, contig: Contig, reference: Bases | None) -> tuple[CheckResult, ...]:
        """Check the rows of one contig against these parameters too; see :func:`check_gnomad_table`."""
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
    origin: Mapping[str, str] = MappingProxyType({}),
    threads: int = 2,
    progress: Progress = NO_PROGRESS,
) -> ShardReport:
    """Write ``variants.parquet`` and ``rejects.parquet`` of one gnomAD sites VCF.

    Parameters
    ----------
    contig
        The one contig wanted; alleles elsewhere are counted as ``filtered.other_contig``, or not read where an index
        finds the contig. None: all, in one file, in the order of ``contigs``.
    reference
        Returns a contig's bases. None: alleles are trimmed but not left-aligned, and REF is not checked.
    out_dir
        Made if absent; the caller publishes it.
    origin
        What the files' metadata say of how they were made; see
        :func:`~genolewm_assets.variants.shard.state_origin`.
    threads
        Threads that may work at once; the files do not depend on it.

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
    source = LocalVcf(vcf) if isinstance(vcf, Path) else vcf
    ledger, where = AlleleLedger(source.name), source.label
    with (
        memory_given_back(),
        VcfScanner(source, contig=contig, threads=threads, progress=progress) as scanner,
        BatchSpool(SPOOLED, out_dir) as spool,
    ):
        check_assembly(scanner.header, contigs, where=where)
        layout = detect_layout(scanner.header, where=where)
        verdicts = params.verdicts(layout)
        scan = GnomadScan(layout, verdicts, min_af=params.min_af, only=contig, ledger=ledger, spool=spool)
        names = ContigNames(contigs)
        for block in scanner:
            scan.take(block, names)
        scan.finish()
        names.check_met(contigs if contig is None else [contig], where=where)
        normaliser = AlleleNormaliser(reference)
        wanted = [contig] if contig is not None else [each for each in contigs if each.name in scan.contigs]

        def settled() -> Iterator[pa.Table]:
            for each in wanted:
                called = _low_an_out(spool.batches(each.name), each, scan.largest_an, params, ledger)
                yield from settle_alleles(
                    called, each, normaliser, ledger, _preference, folder=out_dir, progress=progress
                )

        recipe = {**origin, "layout": layout.name, "normal_form": "trimmed" if reference is None else "left-aligned"}
        rows = write_table(settled(), out_dir / VARIANTS_FILE, GNOMAD_VARIANTS, recipe=recipe)
    ledger.note("records", scanner.records)
    rejected = write_table([ledger.rejects()], out_dir / REJECTS_FILE, REJECTS, recipe=origin)
    return ShardReport(ledger.counts(), {VARIANTS_FILE: rows, REJECTS_FILE: rejected}, scanner.alleles)


def write_empty_shard(out_dir: Path, *, origin: Mapping[str, str] = MappingProxyType({})) -> ShardReport:
    """Write the shard of a contig that the catalogue gives no source for: both files, no rows."""
    for name, schema in ((VARIANTS_FILE, GNOMAD_VARIANTS), (REJECTS_FILE, REJECTS)):
        write_table([], out_dir / name, schema, recipe=origin)
    return ShardReport(AlleleLedger("").counts(), {VARIANTS_FILE: 0, REJECTS_FILE: 0}, alleles_in_source=0)


def _low_an_out(
    batches: Iterator[pa.RecordBatch],
    contig: Contig,
    largest: Mapping[tuple[str, str], int],
    params: GnomadParams,
    ledger: AlleleLedger,
) -> Iterator[pa.RecordBatch]:
    """Filter the alleles of a contig by AN; on a circular one nothing is filtered."""
    if contig.circular:
        yield from batches
        return
    ledger.note("an_unknown", 0)
    for batch in batches:
        low = _low_an(batch, contig, largest, params.min_an_fraction)
        ledger.filter(FilterReason.LOW_AN, pc.sum(low).as_py() or 0)
        kept = batch.filter(pc.invert(low))
        ledger.note("an_unknown", kept["an"].null_count)
        yield kept


def _low_an(
    batch: pa.RecordBatch, contig: Contig, largest: Mapping[tuple[str, str], int], fraction: float
) -> pa.BooleanArray:
    low = pa.repeat(pa.scalar(False), batch.num_rows)
    for (name, sample_set), number in largest.items():
        if name == contig.name:
            under = pc.fill_null(pc.less(batch["an"], fraction * number), False)
            low = pc.or_(low, pc.and_(pc.equal(batch["sample_set"], sample_set), under))
    return low


def _preference(row: Mapping[str, object]) -> tuple[object, ...]:
    """Of two records of one allele, keep the one more samples were called for, then the more frequent one."""
    return tuple(-(row[name] or 0) for name in ("an", "ac", "af"))  # type: ignore[operator]
