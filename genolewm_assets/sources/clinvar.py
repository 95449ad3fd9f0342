"""ClinVar VCF -> one row per normalised allele with its class.

Nothing is dropped for what ClinVar says of it: an allele is kept, *rejected* as a sequence variant, or *filtered*
because its contig is one of the human assembly that this genome lacks. Classes are counted twice: over everything that
was not filtered (``label_before_rejects.*``) and over what was kept (``label.*``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import UnknownTermError, VcfError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.lewm.schema import CLINVAR_VARIANTS, REJECTS
from genolewm_assets.sources.alleles import (
    RAW_FIELDS,
    AlleleLedger,
    AlleleNormaliser,
    FilterReason,
    settle_alleles,
)
from genolewm_assets.sources.clinvar_terms import Label, label_of, parse_genes, stars_of
from genolewm_assets.sources.contig_names import ContigNames, check_assembly
from genolewm_assets.sources.shard_file import REJECTS_FILE, VARIANTS_FILE, RowSpool, ShardReport, write_shard_file
from genolewm_assets.sources.vcf import VcfReader
from genolewm_assets.sources.vcf_record import VcfRecord
from genolewm_assets.store.progress import NO_PROGRESS, Progress

_PAYLOAD = [CLINVAR_VARIANTS.arrow.field(name) for name in CLINVAR_VARIANTS.columns if name not in CLINVAR_VARIANTS.key]
_SPOOLED = pa.schema([*RAW_FIELDS, *((field.name, field.type) for field in _PAYLOAD)])


def contig_file(contig: Contig) -> str:
    """Return the name of the file that holds a contig's alleles."""
    return f"{contig.name}.parquet"


def read_release_date(vcf: Path, *, named: str | None = None) -> date:
    """Return the release date that the header states (``##fileDate``).

    Parameters
    ----------
    named
        What errors call the file; default: its path.

    Raises
    ------
    VcfError
        If the file is no VCF, holds no record or states no date.
    """
    with VcfReader(vcf, named=named) as reader:
        stated = reader.header.file_date
        next(iter(reader), None)
    if stated is None:
        raise VcfError(
            named or str(vcf),
            "the header states no release date",
            expected="##fileDate=YYYY-MM-DD",
            remedy="Use ClinVar's file",
        )
    return stated


def build_clinvar_shard(
    vcf: Path,
    *,
    release: str,
    contigs: ContigSet,
    reference: Callable[[Contig], bytes] | None,
    out_dir: Path,
    single_file: bool = False,
    progress: Progress = NO_PROGRESS,
) -> ShardReport:
    """Write one Parquet file per contig of the genome, empty ones included, and ``rejects.parquet``.

    Parameters
    ----------
    release
        Release key, such as ``2026-02-26``; kept in the files' metadata.
    reference
        Returns a contig as upper-case ASCII. None: alleles are trimmed but not left-aligned, and REF is not checked.
    out_dir
        Made if absent; the caller publishes it.
    single_file
        Write ``variants.parquet`` instead, contigs in the order of ``contigs``.

    Returns
    -------
    ShardReport
        ``counts``: ``records``, ``alleles_in``, ``kept``, ``rejected``, ``rejected.<reason>``, ``filtered``,
        ``filtered.other_contig``, ``label.<class>`` and ``label_before_rejects.<class>``.

    Raises
    ------
    VcfError
        If the file is malformed, on another assembly, holds no record on a contig of the genome, or lacks what
        ClinVar's files have.
    UnknownTermError
        If a classification or review status is not in the closed tables.
    UnknownContigError
        If a record's contig is no contig of the human assembly.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    ledger = AlleleLedger(vcf.name)
    recipe = {"release": release, "normal_form": "trimmed" if reference is None else "left-aligned"}
    files = {VARIANTS_FILE: list(contigs)} if single_file else {contig_file(each): [each] for each in contigs}
    with VcfReader(vcf, progress=progress) as reader, RowSpool(_SPOOLED, out_dir) as spool:
        _check_clinvar(reader, contigs, str(vcf))
        _scan(reader, names := ContigNames(contigs), spool, ledger)
        names.check_met(contigs, where=str(vcf))
        tables = _settled(spool, AlleleNormaliser(reference), ledger, progress)
        rows = {
            name: write_shard_file(map(tables, wanted), out_dir / name, CLINVAR_VARIANTS, recipe=recipe)
            for name, wanted in files.items()
        }
    ledger.note("records", reader.records)
    rows[REJECTS_FILE] = write_shard_file([ledger.rejects()], out_dir / REJECTS_FILE, REJECTS, recipe=recipe)
    return ShardReport(ledger.counts(), rows)


def _scan(reader: VcfReader, names: ContigNames, spool: RowSpool, ledger: AlleleLedger) -> None:
    """Spool every allele on a contig of the genome, and count the classes."""
    before: Counter[str] = Counter()
    for record in reader:
        ledger.read(len(record.alts))
        contig = names.resolve(record)
        if contig is None:
            ledger.filter(FilterReason.OTHER_CONTIG, len(record.alts))
            continue
        label, payload = _payload(record)
        before[label] += len(record.alts)
        for alt in record.alts:
            spool.append(contig.name, (record.line, record.chrom, record.pos, record.ref, alt, record.id, *payload))
    for label in Label:
        ledger.note(f"label_before_rejects.{label}", before[label])


def _settled(
    spool: RowSpool, normaliser: AlleleNormaliser, ledger: AlleleLedger, progress: Progress
) -> Callable[[Contig], pa.Table]:
    """Return what gives a contig's rows in normal form, and counts their classes."""
    for label in Label:
        ledger.note(f"label.{label}", 0)

    def settle(contig: Contig) -> pa.Table:
        spooled = spool.take(contig.name)
        table = settle_alleles(spooled, contig, normaliser, ledger, _preference, progress=progress)
        for row in pc.value_counts(table["label"]).to_pylist():
            ledger.note(f"label.{row['values']}", row["counts"])
        return table

    return settle


def _check_clinvar(reader: VcfReader, contigs: ContigSet, where: str) -> None:
    check_assembly(reader.header, contigs, where=where)
    if "CLNSIG" not in reader.header.info:
        raise VcfError(
            where,
            "the header does not declare ClinVar's classification",
            expected="INFO field CLNSIG",
            got=", ".join(sorted(reader.header.info)[:12]) or "no INFO fields",
            remedy="Use ClinVar's VCF (vcf_GRCh38/clinvar.vcf.gz)",
        )


def _payload(record: VcfRecord) -> tuple[str, tuple[object, ...]]:
    """Return the class, and the shard's columns from ``clinvar_id`` on."""
    get = record.info.values().get
    clnsig, clnrevstat, geneinfo = get("CLNSIG"), get("CLNREVSTAT"), get("GENEINFO")
    try:
        label, stars, symbols, identifiers = _terms(clnsig, clnrevstat, geneinfo)
    except (VcfError, UnknownTermError) as err:
        # The look-up is shared by many records; only here is it known which one asks.
        raise type(err)(record.where, err.problem, expected=err.expected, got=err.got, remedy=err.remedy) from err
    return label, (
        _identifier(record, "ID", record.id),
        None if get("ALLELEID") is None else _identifier(record, "INFO/ALLELEID", get("ALLELEID")),
        label,
        clnsig,
        get("CLNSIGCONF"),
        get("CLNSIGINCL"),
        stars,
        clnrevstat,
        get("ONC"),
        get("SCI"),
        symbols,
        identifiers,
        get("CLNVC"),
        get("MC"),
        get("CLNDN"),
        get("CLNHGVS"),
        _rsid(get("RS")),
    )


@lru_cache(maxsize=65_536)
def _terms(
    clnsig: str | None, clnrevstat: str | None, geneinfo: str | None
) -> tuple[str, int, tuple[str, ...], tuple[int | None, ...]]:
    """Look up a record's terms; the few distinct values of a release are parsed once."""
    label, stars = label_of(clnsig, where=""), stars_of(clnrevstat, where="")
    return (str(label), stars, *parse_genes(geneinfo, where=""))


def _identifier(record: VcfRecord, field: str, text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 19):
        raise VcfError(
            record.where,
            f"{field} is not a ClinVar identifier",
            expected="digits",
            got=repr(text or "."),
            remedy="Use ClinVar's VCF",
        )
    return int(text)


def _rsid(text: str | None) -> str | None:
    return None if text is None else ";".join(f"rs{number}" for number in text.replace("|", ",").split(","))


def _preference(row: Mapping[str, object]) -> tuple[object, ...]:
    """Of two records of one allele, keep the better reviewed one, then the older VariationID."""
    return -int(str(row["stars"])), row["clinvar_id"]
