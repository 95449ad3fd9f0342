"""What a ClinVar record says, block by block: texts as published, classes and stars from the closed tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import UnknownTermError, VcfError
from genolewm_assets.lewm.schema import CLINVAR_VARIANTS
from genolewm_assets.sources.allele_ledger import RAW_FIELDS
from genolewm_assets.sources.clinvar_terms import label_of, parse_genes, stars_of
from genolewm_assets.sources.vcf_block import Numbers, VcfBlock
from genolewm_assets.sources.vcf_scan import MAX_RECORD_BYTES

_Value = TypeVar("_Value")

_PAYLOAD = [CLINVAR_VARIANTS.arrow.field(name) for name in CLINVAR_VARIANTS.columns if name not in CLINVAR_VARIANTS.key]
_CLASSES = ("CLNSIG", "CLNSIGCONF", "CLNSIGINCL", "CLNREVSTAT", "ONC", "SCI")
_TEXTS = (*_CLASSES, "GENEINFO", "CLNVC", "MC", "CLNDN", "CLNHGVS")
#: Columns of the rows.
SPOOLED = pa.schema([*RAW_FIELDS, *((field.name, field.type) for field in _PAYLOAD)])


def read_rows(records: VcfBlock) -> pa.RecordBatch:
    """Return one row per ALT allele, with the columns ``SPOOLED``.

    Raises
    ------
    VcfError, UnknownTermError
        Naming the line whose INFO is not ClinVar's.
    """
    records.locate([*_TEXTS, "ALLELEID", "RS"])
    texts = {key: records.strings_of(key) for key in _TEXTS}
    labels, label_codes = _looked_up(records, "CLNSIG", _label)
    stars, star_codes = _looked_up(records, "CLNREVSTAT", _stars)
    genes, gene_codes = _looked_up(records, "GENEINFO", _genes)
    symbols, identifiers = ([None if gene is None else gene[part] for gene in genes] for part in (0, 1))
    columns = [
        pa.array(records.line),
        records.chroms(),
        pa.array(records.pos),
        records.refs(),
        None,
        records.ids(),
        _identifiers(records, "ID", records.numeric_ids(), required=True),
        _identifiers(records, "INFO/ALLELEID", records.counts_of("ALLELEID"), required=False),
        pa.array(labels, pa.string()).take(label_codes),
        texts["CLNSIG"],
        texts["CLNSIGCONF"],
        texts["CLNSIGINCL"],
        pa.array(stars, pa.int8()).take(star_codes),
        texts["CLNREVSTAT"],
        texts["ONC"],
        texts["SCI"],
        pa.array(symbols, pa.list_(pa.string())).take(gene_codes),
        pa.array(identifiers, pa.list_(pa.int64())).take(gene_codes),
        texts["CLNVC"],
        texts["MC"],
        texts["CLNDN"],
        texts["CLNHGVS"],
        _rsids(records.strings_of("RS")),
    ]
    alleles = records.alleles()
    if len(alleles) > len(records):
        _check_size(records)
        columns = [None if column is None else column.take(pa.array(alleles.record)) for column in columns]
    columns[4] = alleles.alts()
    return pa.RecordBatch.from_arrays(columns, schema=SPOOLED)


def _check_size(records: VcfBlock) -> None:
    """Refuse records whose INFO, once for each of their ALTs, would not fit into memory; ClinVar's have one ALT."""
    size_bytes = (records.starts[8] - records.starts[7]).astype(np.int64) * records.alts
    if int(size_bytes.sum()) > MAX_RECORD_BYTES:
        raise VcfError(
            records.where(int(np.argmax(size_bytes))),
            "too many ALT alleles share a long INFO",
            expected="one ALT in each record",
            got=f"{int(size_bytes.max()) >> 20} MiB as one row per ALT",
            remedy="Use ClinVar's VCF",
        )


@lru_cache(maxsize=65_536)
def _label(text: str | None) -> str:
    return str(label_of(text, where=""))


@lru_cache(maxsize=65_536)
def _stars(text: str | None) -> int:
    return stars_of(text, where="")


@lru_cache(maxsize=65_536)
def _genes(text: str | None) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
    return parse_genes(text, where="")


def _looked_up(
    records: VcfBlock, key: str, meaning: Callable[[str | None], _Value]
) -> tuple[list[_Value | None], pa.Int32Array]:
    """Return what the few distinct texts of a field mean, and for each record the index of its own."""
    encoded = records.strings_of(key).dictionary_encode()
    codes = pc.fill_null(encoded.indices, len(encoded.dictionary))
    values: list[_Value | None] = []
    for code, text in enumerate([*encoded.dictionary.to_pylist(), None]):
        try:
            values.append(meaning(text) if text is not None or encoded.null_count else None)
        except (VcfError, UnknownTermError) as err:
            # The look-up is shared by many records; only here is it known which one asks.
            where = records.where(int(np.flatnonzero(codes.to_numpy() == code)[0]))
            raise type(err)(where, err.problem, expected=err.expected, got=err.got, remedy=err.remedy) from err
    return values, codes


def _identifiers(records: VcfBlock, field: str, numbers: Numbers, *, required: bool) -> pa.Array:
    if required and not numbers.there.all():
        raise VcfError(
            records.where(int(np.argmin(numbers.there))),
            f"{field} is not a ClinVar identifier",
            expected="digits",
            got="'.'",
            remedy="Use ClinVar's VCF",
        )
    return numbers.arrow()


def _rsids(texts: pa.StringArray) -> pa.StringArray:
    """Return dbSNP's numbers with their ``rs``, ``;`` between several."""
    letters = texts.buffers()[2].to_pybytes()
    if b"|" in letters or b"," in letters:
        texts = pc.replace_substring_regex(texts, "[|,]", ";rs")
    return pc.binary_join_element_wise("rs", texts, "")
