"""Convert a block of ClinVar records to rows: texts as published, classes and stars from the closed vocabularies."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import UnknownTermError, VcfError
from genolewm_assets.sources.clinvar.terms import label_of, parse_genes, stars_of
from genolewm_assets.sources.vcf import MAX_RECORD_BYTES, Numbers, VcfBlock
from genolewm_assets.store.tables import list_column, number_column, numbers_of, text_column
from genolewm_assets.variants import CLINVAR_VARIANTS, RAW_FIELDS

_Value = TypeVar("_Value")
_Genes: TypeAlias = tuple[tuple[str, ...], tuple[int | None, ...]]

_PAYLOAD = [CLINVAR_VARIANTS.arrow.field(name) for name in CLINVAR_VARIANTS.columns if name not in CLINVAR_VARIANTS.key]
_CLASSES = ("CLNSIG", "CLNSIGCONF", "CLNSIGINCL", "CLNREVSTAT", "ONC", "SCI")
_TEXTS = (*_CLASSES, "GENEINFO", "CLNVC", "MC", "CLNDN", "CLNHGVS")
#: Schema of the rows.
ROWS = pa.schema([*RAW_FIELDS, *((field.name, field.type) for field in _PAYLOAD)])


def read_rows(records: VcfBlock) -> pa.RecordBatch:
    """Return one row per ALT allele, with the columns ``ROWS``."""
    records.locate([*_TEXTS, "ALLELEID", "RS"])
    texts = {key: records.strings_of(key) for key in _TEXTS}
    labels, label_codes = _looked_up(records, "CLNSIG", _label)
    stars, star_codes = _looked_up(records, "CLNREVSTAT", _stars)
    genes, gene_codes = _looked_up(records, "GENEINFO", _genes)
    symbols, gene_ids = _gene_columns(genes)
    columns = [
        number_column(records.line),
        records.chroms(),
        number_column(records.pos),
        records.refs(),
        None,
        records.ids(),
        _identifiers(records, "ID", records.numeric_ids(), required=True),
        _identifiers(records, "INFO/ALLELEID", records.counts_of("ALLELEID"), required=False),
        text_column(labels).take(label_codes),
        texts["CLNSIG"],
        texts["CLNSIGCONF"],
        texts["CLNSIGINCL"],
        _star_column(stars).take(star_codes),
        texts["CLNREVSTAT"],
        texts["ONC"],
        texts["SCI"],
        symbols.take(gene_codes),
        gene_ids.take(gene_codes),
        texts["CLNVC"],
        texts["MC"],
        texts["CLNDN"],
        texts["CLNHGVS"],
        _rsids(records.strings_of("RS")),
    ]
    alleles = records.alleles()
    if len(alleles) > len(records):
        _check_size(records)
        columns = [None if column is None else column.take(number_column(alleles.record)) for column in columns]
    columns[4] = alleles.alts()
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)


def _check_size(records: VcfBlock) -> None:
    """Check that INFO, repeated for each ALT of its record, takes at most 64 MiB; ClinVar's records have one ALT."""
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
def _genes(text: str | None) -> _Genes:
    return parse_genes(text, where="")


def _looked_up(
    records: VcfBlock, key: str, meaning: Callable[[str | None], _Value]
) -> tuple[list[_Value | None], pa.Int32Array]:
    """Interpret each distinct text of a field once; return the meanings, and for each record the index of its own."""
    encoded = records.strings_of(key).dictionary_encode()
    # Null gets the index after the last text, as a scalar of the indices' type.
    codes = pc.fill_null(encoded.indices, number_column(np.array([len(encoded.dictionary)], np.int32))[0])
    values: list[_Value | None] = []
    for code, text in enumerate([*encoded.dictionary.to_pylist(), None]):
        try:
            values.append(meaning(text) if text is not None or encoded.null_count else None)
        except (VcfError, UnknownTermError) as err:
            # The cached function does not know the record: name the first record with this text.
            row = int(np.flatnonzero(numbers_of(codes) == code)[0])
            remedy = records.remedy(row, err.remedy or "")
            raise type(err)(records.where(row), err.problem, expected=err.expected, got=err.got, remedy=remedy) from err
    return values, codes


def _star_column(stars: list[int | None]) -> pa.Int8Array:
    there = np.array([each is not None for each in stars])
    return number_column(np.array([each or 0 for each in stars], np.int8), there)


def _gene_columns(genes: list[_Genes | None]) -> tuple[pa.ListArray, pa.ListArray]:
    """Return two list columns, symbols and NCBI GeneIDs of the genes of each text."""
    symbols = [None if gene is None else gene[0] for gene in genes]
    identifiers = [None if gene is None else gene[1] for gene in genes]
    names = text_column([name for each in symbols for name in each or ()])
    numbers = [number for each in identifiers for number in each or ()]
    there = np.array([number is not None for number in numbers], np.bool_)
    column = number_column(np.array([number or 0 for number in numbers], np.int64), there)
    return list_column(symbols, names), list_column(identifiers, column)


def _identifiers(records: VcfBlock, field: str, numbers: Numbers, *, required: bool) -> pa.Array:
    if required and not numbers.there.all():
        row = int(np.argmin(numbers.there))
        raise VcfError(
            records.where(row),
            f"{field} is not a ClinVar identifier",
            expected="digits",
            got="'.'",
            remedy=records.remedy(row, "Use ClinVar's VCF"),
        )
    return number_column(numbers.values, numbers.there)


def _rsids(texts: pa.StringArray) -> pa.StringArray:
    """Return dbSNP numbers with the prefix ``rs``, separated by ``;``."""
    letters = texts.buffers()[2].to_pybytes()
    if b"|" in letters or b"," in letters:
        texts = pc.replace_substring_regex(texts, "[|,]", ";rs")
    prefix, separator = text_column(["rs", ""])
    return pc.binary_join_element_wise(prefix, texts, separator)
