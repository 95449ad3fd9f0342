"""Read the heteroplasmy calls of samples from a VCF, in three layouts that differ in the allele of a level.

- Mutect2 in mitochondrial mode, DRAGEN: ``AF``, Number=A: one level per ALT of the record;
- gnomAD: ``HL``, Number=1, one ALT per record; 0 for the reference; the sample's own filters in ``FT``;
- mutserve (mtDNA-Server 2): ``AF``, Number=1, String: one level per alternate allele in the sample's GT.

The field is chosen for each record by what it holds. Not here: levels of a genome's bases (``mito.variants``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pysam

from genolewm_assets.errors import GenoLeWMError, VcfError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.mito.variants import CallDrop, HeteroplasmyCall
from genolewm_assets.sources.files import Compression, check_local_file, detect_compression, has_bgzf_end
from genolewm_assets.sources.vcf import ContigNames, check_assembly, parse_header, read_header_lines

# htslib writes nothing to stderr: its errors are raised. Not set and reset by call: a catalogue is checked in threads.
pysam.set_verbosity(0)

#: FORMAT fields for levels; of a record the first in which a sample has a level is read.
LEVEL_FIELDS = ("HL", "AF")
_PASSED = ("PASS", ".")


class SampleCalls(NamedTuple):
    """Calls of a file."""

    #: Calls by sample, in the file's order.
    calls: dict[str, list[HeteroplasmyCall]]
    #: Number of records on other contigs, as ``other_contig``.
    dropped: Counter[CallDrop]
    #: Number of calls by the FORMAT field that their level is from.
    fields: Counter[str]


def read_heteroplasmy(vcf: Path, contig: Contig) -> SampleCalls:
    """Read the mitochondrial heteroplasmy calls of all samples of a VCF into memory.

    Every sample has a list, empty if it has no call. A missing level or level 0 is not a call. Calls that failed a
    filter or have a symbolic ALT are included; ``mito.variants.levels_of_genome`` decides which calls count.
    """
    _check_file(vcf, contig)
    dropped: Counter[CallDrop] = Counter()
    with _htslib_errors(vcf), pysam.VariantFile(str(vcf)) as file:
        declared = _level_fields(file.header, vcf)
        _check_has_samples(file.header, vcf)
        fields: Counter[str] = Counter()
        calls: dict[str, list[HeteroplasmyCall]] = {name: [] for name in file.header.samples}
        names = ContigNames(ContigSet([contig]))
        for record in file:
            where = f"{vcf} ({record.chrom}:{record.pos})"
            if names.resolve(record.chrom, lambda _, where=where: where) != contig:  # type: ignore[misc]
                dropped[CallDrop.OTHER_CONTIG] += 1
                continue
            for call, field in _calls_of_record(record, declared, where):
                calls[call.sample].append(call)
                fields[field] += 1
        if dropped[CallDrop.OTHER_CONTIG]:
            names.check_met([contig], where=str(vcf))
    return SampleCalls(calls, dropped, fields)


def check_heteroplasmy_header(vcf: Path, contig: Contig) -> tuple[str, ...]:
    """Check the ends and the header of a VCF, and return its samples; raises as :func:`read_heteroplasmy`."""
    _check_file(vcf, contig)
    with _htslib_errors(vcf), pysam.VariantFile(str(vcf)) as file:
        _level_fields(file.header, vcf)
        _check_has_samples(file.header, vcf)
        return tuple(file.header.samples)


def _calls_of_record(
    record: pysam.VariantRecord, declared: Sequence[str], where: str
) -> Iterator[tuple[HeteroplasmyCall, str]]:
    """Yield the calls of all samples in a record, each with its field; a missing level or level 0 is not a call."""
    alts = record.alts or ()
    field, stated = _stated_levels(record, declared, where)
    per_alt = len(alts) == 1 or (field and record.header.formats[field].number == "A")
    filters = [str(name) for name in record.filter]
    failed = [name for name in filters if name not in _PASSED]
    passed = "PASS" if filters == ["PASS"] else "."
    for sample, levels in zip(record.samples.values(), stated, strict=True):
        at = f"{where}, sample {sample.name!r}"
        if not alts or all(level is None for level in levels):
            continue
        owners = range(1, len(alts) + 1) if per_alt else _alleles_of_genotype(sample)
        if len(levels) != len(owners):
            raise VcfError(
                at,
                f"the allele of a level in {field} is ambiguous",
                expected=f"as many levels as alternate alleles ({len(owners)})",
                got=f"{len(levels)}",
                remedy="Split multi-allelic records with bcftools norm -m -any",
            )
        state = ";".join(dict.fromkeys([*failed, *_failed_by_sample(sample)])) or passed
        for owner, level in zip(owners, levels, strict=True):
            if level is not None and level != 0:
                call = HeteroplasmyCall(sample.name, record.pos, str(record.ref), alts[owner - 1], level, state)
                yield call, field


def _alleles_of_genotype(sample: pysam.VariantRecordSample) -> Sequence[int]:
    """Return the alternate alleles of a sample's genotype, 1-based, in the genotype's order."""
    return list(dict.fromkeys(index for index in sample.allele_indices or () if index))


def _stated_levels(
    record: pysam.VariantRecord, declared: Sequence[str], where: str
) -> tuple[str, list[list[float | None]]]:
    """Return the first field in which a sample has a level, empty if none has, and the levels of each sample."""
    for field in (field for field in declared if field in record.format):
        levels = [_levels(each, field, f"{where}, sample {each.name!r}") for each in record.samples.values()]
        if any(level is not None for each in levels for level in each):
            return field, levels
    return "", [[] for _ in record.samples]


def _levels(sample: pysam.VariantRecordSample, field: str, where: str) -> list[float | None]:
    """Return a sample's levels; a missing level is None."""
    value = sample.get(field)
    values = value if isinstance(value, tuple) else (value,)
    try:
        return [None if each in {None, "."} else float(each) for each in values]
    except ValueError as err:
        raise VcfError(where, f"{field} is not a number", expected="0 to 1", got=repr(value)) from err


def _failed_by_sample(sample: pysam.VariantRecordSample) -> list[str]:
    """Return the failed filters in the sample's FT."""
    value = sample.get("FT")
    values = value if isinstance(value, tuple) else (value,)
    # FT separates filters by ";". If the header declares FT as a list, pysam has already split it at ",".
    names = [name for each in values if each for name in each.split(";")]
    return [name for name in names if name not in _PASSED]


def _check_file(vcf: Path, contig: Contig) -> None:
    """Raise on gzip that is not BGZF, on BGZF without its end block, on a header that is too large or of another chrM.

    htslib cannot read the first, does not detect a file truncated between two blocks, and reads a header of any size.
    """
    check_local_file(vcf, expected="a VCF file", error=VcfError)
    with vcf.open("rb") as file:
        packed = detect_compression(file)
        if packed is Compression.GZIP:
            raise VcfError(str(vcf), "is gzip without blocks", expected="BGZF", remedy="Compress it with bgzip")
        if packed is Compression.BGZF and not has_bgzf_end(file):
            raise VcfError(
                str(vcf), "is truncated: the BGZF end-of-file block is missing", remedy="Fetch the file again"
            )
        header = parse_header(read_header_lines(file, label=str(vcf)), ())
    check_assembly(header, ContigSet([contig]), where=str(vcf))


def _level_fields(header: pysam.VariantHeader, vcf: Path) -> list[str]:
    """Return the FORMAT fields for levels that the header declares."""
    if found := [field for field in LEVEL_FIELDS if field in header.formats]:
        return found
    raise VcfError(
        str(vcf),
        "the header declares no heteroplasmy level",
        expected="FORMAT field HL or AF",
        got=", ".join(sorted(header.formats)[:12]) or "no FORMAT fields",
        remedy="Use the variant caller's VCF, with sample columns",
    )


def _check_has_samples(header: pysam.VariantHeader, vcf: Path) -> None:
    if not len(header.samples):
        remedy = "Use the variant caller's VCF, with a column for each sample"
        raise VcfError(str(vcf), "has no samples", expected="sample columns named as genomes", remedy=remedy)


@contextmanager
def _htslib_errors(vcf: Path) -> Iterator[None]:
    """Convert errors of htslib in a damaged file to VcfError."""
    try:
        yield
    except GenoLeWMError:
        raise
    except (OSError, ValueError) as err:
        raise VcfError(
            str(vcf), f"cannot be read as a VCF ({err})", expected="a whole VCF file", remedy="Fetch the file again"
        ) from err
