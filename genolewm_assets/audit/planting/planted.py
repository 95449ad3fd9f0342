"""Leaks of each kind, made from a package's own rows, to try an audit on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.normal_alleles import KEY
from genolewm_assets.audit.planting.field import MARGIN_BP, TOKEN_BP, Field
from genolewm_assets.audit.reading.package_files import TEST, TRAIN, window_key
from genolewm_assets.audit.reading.reference import Codes, decode, encode, reverse_complement
from genolewm_assets.audit.report import LeakKind

Row: TypeAlias = dict[str, Any]

_BASES = "ACGT"


@dataclass(frozen=True, slots=True)
class Planted:
    """One planted leak: name of its plant, and the kind and key of the finding that an audit must report."""

    plant: str
    kind: LeakKind
    key: str


@dataclass(slots=True)
class Harvest:
    """Rows that plants add to a copy of a package; only the audit, not the package, is told of ``held_alleles``."""

    windows: list[Row] = field(default_factory=list)
    variants: list[Row] = field(default_factory=list)
    held_alleles: list[Row] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    planted: list[Planted] = field(default_factory=list)


class Plant(NamedTuple):
    """What an audit must call a leak, what plants one and returns its key, and which share of them is to be found."""

    kind: LeakKind
    make: Callable[[Field, Harvest], str]
    least_share: float = 0.9


def _add_window(harvest: Harvest, row: Row) -> str:
    harvest.windows.append(row)
    return window_key(row)


def _alias_contig(field: Field, harvest: Harvest) -> str:
    span, _ = field.held_place(field.window_bp)
    row = field.reference_window(span.contig, span.start)
    return _add_window(harvest, row | {"contig": span.contig.removeprefix("chr")})


def _flank_overlap(field: Field, harvest: Harvest) -> str:
    room = field.window_bp + field.margin_bp
    span = field.pick([span for span in field.held if span.start > room and span.contig in field.reference])
    start = span.start - field.window_bp - int(field.rng.integers(max(1, field.margin_bp)))
    return _add_window(harvest, field.reference_window(span.contig, start))


def _false_coordinates(field: Field, harvest: Harvest) -> str:
    _, codes = field.held_place(field.window_bp)
    return _add_window(harvest, field.reference_window(*_train_place(field), sequence=decode(codes)))


def _train_place(field: Field) -> tuple[str, int]:
    row = field.pick(field.placed)
    return row["contig"], row["start"] + int(field.rng.integers(1, 50))


def _copy(change: Callable[[Field, Codes], Codes]) -> Callable[[Field, Harvest], str]:
    def make(field: Field, harvest: Harvest) -> str:
        _, codes = field.held_place(field.window_bp)
        return _add_window(harvest, field.window(decode(change(field, codes))))

    return make


def _chimera(field: Field, codes: Codes) -> Codes:
    half = codes.size // 2
    return np.concatenate([field.rng.integers(0, 4, codes.size - half, dtype=np.uint8), codes[:half]])


def _spliced(field: Field, codes: Codes) -> Codes:
    exons = [field.held_place(TOKEN_BP * 25)[1] for _ in range(max(4, codes.size // 600))]
    return field.mutate(np.concatenate(exons), 0.949)


def _paralogue(field: Field, harvest: Harvest) -> str:
    _, codes = field.held_place(field.window_bp)
    row = field.reference_window(*_train_place(field), sequence=decode(field.mutate(codes, 0.95)))
    return _add_window(harvest, row)


def _duplicate(field: Field, harvest: Harvest) -> str:
    sequence = field.pick(field.tests)
    if field.rng.random() < 0.5:
        sequence = decode(reverse_complement(encode(sequence)))
    return _add_window(harvest, field.window(sequence))


def _held_record(field: Field, harvest: Harvest) -> str:
    held = field.pick(field.records)
    named = {"origin": held["source"], "record_id": held["record_id"], "window_index": held["window_index"]}
    return _add_window(harvest, field.window(field.random(field.window_bp)) | named)


def _key_of(allele: Mapping[str, object]) -> str:
    return ":".join(str(allele[name]) for name in KEY)


def _add_allele(harvest: Harvest, held: Row, stated: Row) -> str:
    harvest.variants.append(stated)
    return _key_of(held)


def variant_of(field: Field, allele: Mapping[str, object], **columns: object) -> Row:
    """Return a row of training of an allele."""
    template = dict.fromkeys(field.variants.column_names)
    named = {name: allele[name] for name in KEY}
    return template | {"source": "gnomad", "af": 0.1, "gene_ids": [], "role": TRAIN} | named | columns


def _alias_allele(field: Field, harvest: Harvest) -> str:
    held = field.pick(field.alleles)
    return _add_allele(harvest, held, variant_of(field, held, chrom=held["chrom"].removeprefix("chr")))


def _padded_allele(field: Field, harvest: Harvest) -> str:
    held = field.pick(field.alleles)
    start, end = held["pos"] - 1, held["pos"] - 1 + len(held["ref"])
    before, behind = (
        decode(field.reference.fetch(held["chrom"], *place)) for place in ((start - 2, start), (end, end + 3))
    )
    ref, alt = before + held["ref"] + behind, before + held["alt"] + behind
    return _add_allele(harvest, held, variant_of(field, held, pos=held["pos"] - 2, ref=ref, alt=alt))


def _other_source_allele(field: Field, harvest: Harvest) -> str:
    held = field.pick([row for row in field.alleles if row["source"] == "clinvar"])
    return _add_allele(harvest, held, variant_of(field, held))


def _late_label(field: Field, harvest: Harvest) -> str:
    held = field.pick([row for row in field.alleles if row["holdout"] == "holdout-temporal" and row["label"]])
    label = {"source": "clinvar", "label": held["label"], "stars": held["stars"], "clinvar_id": held["clinvar_id"]}
    return _add_allele(harvest, held, variant_of(field, held, af=None, **label))


def _in_window(field: Field) -> tuple[Row, int]:
    row = field.pick([row for row in field.placed if len(row["sequence"]) > 3 * MARGIN_BP])
    return row, int(field.rng.integers(MARGIN_BP, len(row["sequence"]) - MARGIN_BP))


def _hold(field: Field, harvest: Harvest, chrom: str, pos: int, bases: tuple[str, str]) -> Row:
    """Tell the audit, and not the package, that an allele is held out."""
    row = dict.fromkeys(field.alleles[0]) | dict(zip(KEY, (chrom, pos, *bases), strict=True))
    row |= {"holdout": "holdout-temporal", "role": TEST, "source": "clinvar", "gene_ids": []}
    row |= {"unit": "planted", "reason": "new"}
    harvest.held_alleles.append(row)
    return row


def _shifted_allele(field: Field, harvest: Harvest) -> str:
    for _ in range(1_000):
        row, at = _in_window(field)
        before, base, again = row["sequence"][at - 1 : at + 2].upper()
        if before != base == again and {before, base} <= set(_BASES):
            held = _hold(field, harvest, row["contig"], row["start"] + at, (before + base, before))
            return _add_allele(harvest, held, variant_of(field, held, pos=held["pos"] + 1, ref=base + again, alt=base))
    raise LookupError("no repeated base in a training window")


def _two_snvs(field: Field, harvest: Harvest) -> str:
    for _ in range(1_000):
        row, at = _in_window(field)
        ref = row["sequence"][at : at + 8].upper()
        if set(ref) <= set(_BASES):
            break
    else:
        raise LookupError("no known bases in a training window")
    first, last = (_BASES[(_BASES.index(base) + 1) % 4] for base in (ref[0], ref[-1]))
    pos = row["start"] + at + 1
    held = _hold(field, harvest, row["contig"], pos, (ref, first + ref[1:-1] + last))
    harvest.variants.append(variant_of(field, held, ref=ref[0], alt=first))
    return _add_allele(harvest, held, variant_of(field, held, pos=pos + len(ref) - 1, ref=ref[-1], alt=last))


def _shared_evaluation(field: Field, harvest: Harvest) -> str:
    held = field.pick(field.alleles)
    harvest.held_alleles.append(held | {"role": TEST if held["role"] != TEST else "validation"})
    return f"{held['holdout']} {_key_of(held)}"


def _wrong_label(field: Field, harvest: Harvest) -> str:
    decided = pc.is_in(field.variants["label"], value_set=pa.array(["P", "B"]))
    at = int(field.pick([at for at in np.flatnonzero(decided).tolist() if at not in harvest.labels]))
    (row,) = field.variants.slice(at, 1).to_pylist()
    harvest.labels[at] = "B" if row["label"] == "P" else "P"
    return _key_of(row)


#: What plants a leak of each kind, by name.
PLANTS: Mapping[str, Plant] = MappingProxyType(
    {
        "alias_contig": Plant(LeakKind.HELD_INTERVAL, _alias_contig),
        "flank_overlap": Plant(LeakKind.HELD_INTERVAL, _flank_overlap),
        "false_coordinates": Plant(LeakKind.FALSE_PLACE, _false_coordinates),
        "held_record": Plant(LeakKind.HELD_RECORD, _held_record),
        "exact_copy": Plant(LeakKind.HELD_SEQUENCE, _copy(lambda _, codes: codes)),
        "reverse_complement": Plant(LeakKind.HELD_SEQUENCE, _copy(lambda _, codes: reverse_complement(codes))),
        "copy_95": Plant(LeakKind.HELD_SEQUENCE, _copy(lambda field, codes: field.mutate(codes, 0.95))),
        # A copy may keep fewer 31-mers than the threshold, and more of them may be of repeats.
        "copy_90": Plant(
            LeakKind.HELD_SEQUENCE, _copy(lambda field, codes: field.mutate(codes, 0.90)), least_share=0.5
        ),
        "chimera": Plant(LeakKind.HELD_SEQUENCE, _copy(_chimera)),
        "spliced_transcript": Plant(LeakKind.HELD_SEQUENCE, _copy(_spliced)),
        "paralogue": Plant(LeakKind.HELD_SEQUENCE, _paralogue),
        "alias_allele": Plant(LeakKind.HELD_ALLELE, _alias_allele),
        "padded_allele": Plant(LeakKind.HELD_ALLELE, _padded_allele),
        "shifted_allele": Plant(LeakKind.HELD_ALLELE, _shifted_allele),
        "other_source_allele": Plant(LeakKind.HELD_ALLELE, _other_source_allele),
        "late_label": Plant(LeakKind.HELD_ALLELE, _late_label),
        "two_snvs": Plant(LeakKind.RECREATED_ALLELE, _two_snvs, least_share=0.5),
        "duplicate": Plant(LeakKind.DUPLICATE, _duplicate),
        "shared_evaluation": Plant(LeakKind.SHARED_EVALUATION, _shared_evaluation),
        "wrong_label": Plant(LeakKind.WRONG_LABEL, _wrong_label),
    }
)
#: Plants that show in what the stream emits, if chance makes the allele.
EMITTED_PLANTS: tuple[str, ...] = ("two_snvs",)


def plant_all(field: Field, names: list[str], number: int) -> tuple[Harvest, dict[str, str]]:
    """Plant ``number`` leaks of each kind; also return why a kind could not be planted, by its name."""
    harvest, failed = Harvest(), dict[str, str]()
    for name in names:
        kind, field.plant = PLANTS[name].kind, name
        # Where training knows T0 only, its labels are compared with those of T0.
        kind = LeakKind.LATE_LABEL if (kind, field.knowledge) == (LeakKind.WRONG_LABEL, "T0") else kind
        try:
            for _ in range(number):
                harvest.planted.append(Planted(name, kind, PLANTS[name].make(field, harvest)))
        except LookupError as err:
            failed[name] = str(err)
    return harvest, failed
