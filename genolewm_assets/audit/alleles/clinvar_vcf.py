"""Records of a ClinVar VCF as Arrow tables: alleles, classes, review stars and identities."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.normal_alleles import KEY, canonical_names, map_values, read_vcf
from genolewm_assets.audit.reading.review_stars import stars_of
from genolewm_assets.errors import VcfError

_CLASSES = {
    "pathogenic": "P",
    "likely_pathogenic": "LP",
    "uncertain_significance": "VUS",
    "likely_benign": "LB",
    "benign": "B",
}
_CONFLICT = "conflicting"
#: Two classes that ClinVar joins to the less certain one.
_JOINED = {frozenset({"P", "LP"}): "LP", frozenset({"B", "LB"}): "LB"}
_SEPARATORS = re.compile(r"[|/,]_?")


def class_of(clnsig: str) -> str:
    """Return P, LP, VUS, LB, B or OTHER for a value of CLNSIG.

    >>> [class_of(text) for text in ("Pathogenic/Likely_pathogenic", "Benign|drug_response", "not_provided")]
    ['LP', 'B', 'OTHER']
    """
    terms = [term.lower() for term in _SEPARATORS.split(clnsig)]
    classes = frozenset(_CLASSES[term] for term in terms if term in _CLASSES)
    if any(term.startswith(_CONFLICT) for term in terms) or not classes:
        return "OTHER"
    return next(iter(classes)) if len(classes) == 1 else _JOINED.get(classes, "OTHER")


def read_records(vcf: Path) -> Iterator[pa.Table]:
    """Yield the records of a ClinVar VCF, many at once; the first table is empty.

    Columns: the allele as it is written, its contig by the canonical name; ``label``, ``stars``: class and review
    stars; ``VariationID``, ``AlleleID``: int64, the latter -1 where there is none.
    """
    try:
        with gzip.open(vcf, "rb") if vcf.suffix in {".gz", ".bgz"} else vcf.open("rb") as file:
            yield from map(_records, read_vcf(file))
    except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException) as err:
        raise VcfError(str(vcf), f"cannot be read ({err})", remedy="Name a ClinVar VCF") from err


def _records(batch: pa.RecordBatch) -> pa.Table:
    labels = map_values(_value(batch["INFO"], "CLNSIG"), class_of)
    stars = map_values(_value(batch["INFO"], "CLNREVSTAT"), lambda text: str(stars_of(text))).cast(pa.int64())
    identities = _value(batch["INFO"], "ALLELEID")
    identities = pc.if_else(pc.equal(identities, ""), "-1", identities).cast(pa.int64())
    columns = (canonical_names(batch["CHROM"]), batch["POS"], batch["REF"], batch["ALT"], labels, stars, batch["ID"])
    return pa.table([*columns, identities], names=[*KEY, "label", "stars", "VariationID", "AlleleID"])


def _value(info: pa.Array, name: str) -> pa.Array:
    """Return the value of a key of each INFO; empty where it has none."""
    return pc.struct_field(
        pc.extract_regex(pc.binary_join_element_wise("", info, ";"), f";{name}=(?P<v>[^;]*)"), "v"
    ).fill_null("")
