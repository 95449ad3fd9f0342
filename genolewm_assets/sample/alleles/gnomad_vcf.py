"""gnomAD-style VCF text in three layouts: v4.1 joint, v4.1 genomes, v3.1 genomes.

Field names and number formats follow the public files. All values are simulated, and the header says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sample.alleles.population import Counts
from genolewm_assets.sample.alleles.spelling import Record
from genolewm_assets.sample.genome import Draws, SimulatedContig

I64 = NDArray[np.int64]
COLUMNS = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"
#: Groups that grpmax and popmax exclude: bottlenecked, small or mixed groups.
_NOT_MAXIMAL = frozenset({"asj", "fin", "ami", "mid", "oth", "remaining"})
_GENOME_INDIVIDUALS = 76_214
_FLAGS = {
    "lcr": "Variant falls within a low complexity region",
    "segdup": "Variant falls within a segmental duplication region",
    "not_called_in_exomes": "Variant was not called in the exomes",
    "not_called_in_genomes": "Variant was not called in the genomes",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One INFO field with one value per allele: a text (None if missing), or for a flag whether it is set."""

    name: str
    number: str
    kind: str
    description: str
    values: Sequence[str | bool | None]


@dataclass(frozen=True, slots=True)
class Layout:
    """Suffix of AC, AN and AF, name of the highest frequency, and header of one gnomAD release."""

    suffix: str
    top: str
    source: str
    filters: tuple[tuple[str, str], ...]


_PASSED = ("PASS", "Passed all variant filters")
_GENOME_FILTERS = (
    ("AC0", "Allele count is zero after filtering out low-confidence genotypes"),
    ("AS_VQSR", "Failed allele-specific variant quality score recalibration"),
    ("InbreedingCoeff", "Inbreeding coefficient < -0.3"),
    _PASSED,
)
_JOINT_FILTERS = (
    ("EXOMES_FILTERED", "Failed variant filters in the exomes only"),
    ("GENOMES_FILTERED", "Failed variant filters in the genomes only"),
    ("BOTH_FILTERED", "Failed variant filters in the exomes and in the genomes"),
    _PASSED,
)
JOINT_V41 = Layout("_joint", "grpmax", "the layout of gnomAD v4.1 joint", _JOINT_FILTERS)
GENOMES_V41 = Layout("", "grpmax", "the layout of gnomAD v4.1 genomes", _GENOME_FILTERS)
GENOMES_V31 = Layout("", "popmax", "the layout of gnomAD v3.1 genomes", _GENOME_FILTERS)


def texts(template: str, values: NDArray[Any]) -> list[str | bool | None]:
    """Format each value of an array; frequencies use ``%.5e``, as in the public files."""
    return [template % value for value in values.tolist()]


def _count_fields(tag: str, what: str, ac: I64, an: I64, nhomalt: I64) -> list[Field]:
    return [
        Field(f"AC{tag}", "A", "Integer", f"Alternate allele count{what}", texts("%d", ac)),
        Field(f"AN{tag}", "1", "Integer", f"Total number of alleles{what}", texts("%d", an)),
        Field(f"AF{tag}", "A", "Float", f"Alternate allele frequency{what}", texts("%.5e", ac / an)),
        Field(f"nhomalt{tag}", "A", "Integer", f"Count of homozygous individuals{what}", texts("%d", nhomalt)),
    ]


def _top_fields(counts: Counts, layout: Layout) -> list[Field]:
    """Return the fields of the group with the highest frequency; missing if no eligible group has the allele."""
    eligible = [i for i, g in enumerate(counts.callset.groups) if g not in _NOT_MAXIMAL]
    frequency = counts.ac[eligible] / counts.an[eligible]
    best = np.asarray(eligible)[np.argmax(frequency, axis=0)]
    seen = (frequency.max(axis=0) > 0).tolist()
    alleles = np.arange(best.size)
    ac, an = counts.ac[best, alleles], counts.an[best, alleles]
    top, end = layout.top, layout.suffix
    columns = (
        ("", "String", "Group", [counts.callset.groups[g] for g in best.tolist()]),
        ("AC_", "Integer", "Allele count in the group", texts("%d", ac)),
        ("AN_", "Integer", "Number of alleles in the group", texts("%d", an)),
        ("AF_", "Float", "Allele frequency in the group", texts("%.5e", ac / an)),
    )
    return [
        Field(f"{prefix}{top}{end}", "A", kind, f"{what} with the highest allele frequency", _where(seen, values))
        for prefix, kind, what, values in columns
    ]


def _where(there: Iterable[bool], values: Iterable[str | bool | None]) -> list[str | bool | None]:
    return [value if known else None for value, known in zip(values, there, strict=True)]


def genome_fields(counts: Counts, layout: Layout) -> list[Field]:
    """Return the count fields that all layouts have, with the suffix of the layout."""
    total = _count_fields(layout.suffix, "", counts.ac.sum(0), counts.an.sum(0), counts.nhomalt.sum(0))
    fields = [*total, *_top_fields(counts, layout)]
    for row, group in enumerate(counts.callset.groups):
        what = f" in the genetic ancestry group {group}"
        fields += _count_fields(f"{layout.suffix}_{group}", what, counts.ac[row], counts.an[row], counts.nhomalt[row])
    return fields


def data_type_fields(counts: Counts, *, key: int) -> list[Field]:
    """Return the additional fields of the joint layout: filters and counts of exomes and genomes.

    AC and AN of exomes and genomes add up to those of the joint fields; where exomes are not called, they have none.
    """
    draws = Draws(key, 40)
    ac, an, nhomalt = counts.ac.sum(0), counts.an.sum(0), counts.nhomalt.sum(0)
    an_genomes = np.where(counts.outside, an, 2 * (an * _GENOME_INDIVIDUALS // counts.callset.most_alleles))
    an_exomes = an - an_genomes
    share = (ac * (an_genomes / an) + draws.uniform(ac.size)).astype(np.int64)
    ac_genomes = np.clip(share, np.maximum(ac - an_exomes, 0), np.minimum(ac, an_genomes))
    hom_genomes = np.minimum(nhomalt * an_genomes // an, ac_genomes // 2)
    hom_exomes = np.minimum(nhomalt - hom_genomes, (ac - ac_genomes) // 2)
    failed = [draws.below(2, ac.size).tolist() for _ in range(2)]
    # No field of exomes is written where they are not called.
    in_exomes = _count_fields("_exomes", " in the exomes", ac - ac_genomes, np.maximum(an_exomes, 1), hom_exomes)
    called = (~counts.outside).tolist()
    fields = [replace(each, values=_where(called, each.values)) for each in in_exomes]
    fields += _count_fields("_genomes", " in the genomes", ac_genomes, an_genomes, hom_genomes)
    for number, data in enumerate(("EXOMES", "GENOMES")):
        hit = [f in (f"{data}_FILTERED", "BOTH_FILTERED") for f in counts.filters]
        own = [("AS_VQSR", "AC0")[k] if h else "PASS" for k, h in zip(failed[number], hit, strict=True)]
        name, shown = f"{data.lower()}_filters", called if data == "EXOMES" else [True] * ac.size
        fields.append(Field(name, ".", "String", f"Filters in the {data.lower()}", _where(shown, own)))
    absent = ac_genomes == 0
    fields.append(_flag("not_called_in_genomes", absent))
    fields.append(_flag("not_called_in_exomes", counts.outside | ((ac == ac_genomes) & ~absent)))
    return fields


def region_flags(contig: SimulatedContig, pos: I64) -> list[Field]:
    """Return the flags ``lcr`` and ``segdup`` at 1-based positions, int64, shape (alleles,)."""
    at = pos - 1
    return [_flag("lcr", contig.low_complexity[at]), _flag("segdup", contig.duplicated[at])]


def _flag(name: str, mask: NDArray[np.bool_]) -> Field:
    return Field(name, "0", "Flag", _FLAGS[name], mask.tolist())


def header_lines(contig: SimulatedContig, layout: Layout, fields: Iterable[Field]) -> list[str]:
    """Return the meta-information lines and the column line."""
    return [
        "##fileformat=VCFv4.2",
        f"##source=simulated by genolewm_assets.sample in {layout.source}; no real person, site or frequency",
        "##reference=simulated, not GRCh38",
        *(f'##FILTER=<ID={name},Description="{what}">' for name, what in layout.filters),
        *(f'##INFO=<ID={f.name},Number={f.number},Type={f.kind},Description="{f.description}">' for f in fields),
        f"##contig=<ID={contig.name},length={contig.codes.size}>",
        COLUMNS,
    ]


def record_line(chrom: str, record: Record, name: str, filters: str, fields: Sequence[Field]) -> str:
    """Return one data line; fields with Number=A list a value per ALT, other fields have that of the first ALT."""
    info = []
    for field in fields:
        first = field.values[record.rows[0]]
        if first is True:
            info.append(field.name)
        elif field.number == "A" and len(record.rows) > 1:
            values = [field.values[row] for row in record.rows]
            if any(v is not None for v in values):
                info.append(f"{field.name}={','.join(str(v) if v is not None else '.' for v in values)}")
        elif first is not None and first is not False:
            info.append(f"{field.name}={first}")
    alts = ",".join(record.alts)
    return f"{chrom}\t{record.pos}\t{name}\t{record.ref}\t{alts}\t.\t{filters}\t{';'.join(info)}"


def gnomad_text(
    contig: SimulatedContig, layout: Layout, records: Sequence[Record], filters: Sequence[str], fields: Sequence[Field]
) -> bytes:
    """Return the text of the VCF of a contig; every fifth record has no rsID, the others one too large to exist."""
    number = "".join(c for c in contig.name if c.isdigit()) or "26"
    lines = header_lines(contig, layout, fields)
    for index, record in enumerate(records):
        name = f"rs99{number}{index:07d}" if index % 5 else "."
        lines.append(record_line(contig.name, record, name, filters[record.rows[0]], fields))
    return ("\n".join(lines) + "\n").encode("ascii")
