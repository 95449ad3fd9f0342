"""Render ``croissant.json`` of a package, JSON-LD of Croissant 1.1, from ``package.json`` and the table schemas.

It is written with plain code: mlcroissant, which reads it, is no dependency of the product.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from genolewm_assets.genome import EVALUATION, Holdout, Split
from genolewm_assets.holdouts import (
    HOLDOUT_ALLELES,
    HOLDOUT_CORPUS,
    HOLDOUT_HAPLOTYPES,
    HOLDOUT_INTERVALS,
    HOLDOUT_SIMILAR,
)
from genolewm_assets.package_build.citing import bibtex
from genolewm_assets.package_build.statements import (
    COORDINATES,
    DEFINITIONS,
    LICENSES,
    SUMMARY,
    UNMASKED,
    statements,
    title,
)
from genolewm_assets.packages import (
    CONTEXTS_PATH,
    CROISSANT,
    HOLDOUT_PATHS,
    NO_ASSERTION,
    PACKAGE_CONTEXTS,
    PACKAGE_CONTROLS,
    PACKAGE_FILE,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    PIECE_TRAINS,
    PIECE_WINDOWS,
    PIECES,
    REFERENCE_ORIGIN,
    PackageInfo,
    piece_path,
    variants_path,
)
from genolewm_assets.store.files import canonical_json
from genolewm_assets.store.tables import TableSchema
from genolewm_assets.windows.corpus import CORPUS_WINDOWS
from genolewm_assets.windows.reference import WINDOWS

Node: TypeAlias = dict[str, object]

CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
_PARQUET, _NUMPY = "application/x-parquet", "https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html"
_TEXT = "sc:Text"

#: The ``@context`` that the specification asks for, word for word.
_CONTEXT: Node = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{name: f"cr:{name}" for name in ("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty")},
    **{name: f"cr:{name}" for name in ("extract", "field", "fileObject", "fileProperty", "fileSet", "format")},
    **{name: f"cr:{name}" for name in ("includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5")},
    **{name: f"cr:{name}" for name in ("parentField", "path", "recordSet", "references", "regex", "repeated")},
    **{name: f"cr:{name}" for name in ("replace", "samplingRate", "separator", "source", "subField", "transform")},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}


def render_croissant(info: PackageInfo) -> bytes:
    """Return the bytes of ``croissant.json``; ``<`` is escaped, so that pages may embed them in a ``<script>``."""
    document: Node = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(CONFORMS_TO),
        "name": title(info),
        "description": f"{SUMMARY} {COORDINATES} {LICENSES}",
        "version": ".".join(str(int(part)) for part in info.release[:10].split("-")),
        "datePublished": info.release[:10],
        "creator": {"@type": "sc:Organization", "name": "genolewm_assets"},
        "license": sorted({_license(each.license) for each in info.terms.values()}),
        "citeAs": bibtex(info),
        "isBasedOn": [
            {"@type": "sc:CreativeWork", "name": name, "version": each.release, "license": _license(each.license)}
            | {"citation": each.citation}
            for name, each in sorted(info.terms.items())
        ],
        **{f"rai:{name}": " ".join(texts) if name in _SINGLE else list(texts) for name, _, texts in statements(info)},
        "distribution": [*_file_objects(info), *_file_sets(info)],
        "recordSet": [*_enumerations(), *_record_sets(info)],
    }
    return canonical_json(document, CROISSANT).replace(b"<", b"\\u003c")


#: Properties of the Responsible-AI vocabulary that have one value.
_SINGLE = ("dataCollection", "dataReleaseMaintenancePlan")
_UNMASKED_SETS = {"unmasked_pieces_reference": WINDOWS, "unmasked_pieces_corpus": CORPUS_WINDOWS}


def _license(expression: str) -> str:
    """Return the page of a licence that SPDX lists; the expression where it is another one or several."""
    other = " " in expression or expression == NO_ASSERTION or expression.startswith("LicenseRef-")
    return expression if other else f"https://spdx.org/licenses/{expression}.html"


def _file_objects(info: PackageInfo) -> Iterable[Node]:
    """Yield ``package.json``, every table, and which rows of a piece train; not the arrays, which repeat the tables."""
    raw = info.to_bytes()
    yield _file(PACKAGE_FILE, len(raw), info.sha256, "application/json", "Settings, counts and digests of all files.")
    for entry in info.files:
        of_piece, name = entry.path.startswith(f"{PIECES}/"), entry.path.rpartition("/")[2]
        if of_piece and name == PIECE_TRAINS:
            said = f"One bool for each row of {PIECE_WINDOWS} beside it: whether it trains. {UNMASKED}"
            yield _file(entry.path, entry.size_bytes, entry.sha256, _NUMPY, said)
        elif entry.rows is not None:
            said = f"Rows train where {PIECE_TRAINS} beside it is true. {UNMASKED}" if of_piece else ""
            yield _file(entry.path, entry.size_bytes, entry.sha256, _PARQUET, f"{entry.rows} rows. {said}".strip())


def _file(path: str, size: int, sha256: str, encoding: str, description: str) -> Node:
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "description": description,
        "contentUrl": path,
        "contentSize": f"{size} B",
        "encodingFormat": encoding,
        "sha256": sha256,
    }


def _file_sets(info: PackageInfo) -> Iterable[Node]:
    included = {
        "windows": ["data/*.parquet"],
        "alleles": ["variants/*.parquet"],
        "benches": [variants_path(split) for split in EVALUATION],
        "controls": ["controls/*.parquet"],
        **_pieces(info),
    }
    for name, patterns in included.items():
        yield {"@type": "cr:FileSet", "@id": f"{name}-files", "name": f"{name}-files"} | {
            "includes": patterns,
            "encodingFormat": _PARQUET,
        }


def _pieces(info: PackageInfo) -> dict[str, list[str]]:
    """Return the tables of pieces by the name of their record set; only sets with a table."""
    found: dict[str, list[str]] = {name: [] for name in _UNMASKED_SETS}
    reference, corpus = found
    for ref in info.pieces:
        found[reference if ref.origin == REFERENCE_ORIGIN else corpus].append(piece_path(ref.source, PIECE_WINDOWS))
    return {name: paths for name, paths in found.items() if paths}


def _enumerations() -> Iterable[Node]:
    """Yield the splits, and the holdouts with their definitions."""
    yield _enumeration("splits", "Splits of the package.", dict.fromkeys(Split, ""), "cr:Split")
    yield _enumeration("holdouts", "Holdouts, and what each holds out of training.", DEFINITIONS, "sc:Enumeration")


def _enumeration(name: str, description: str, values: Mapping[Split, str] | Mapping[Holdout, str], kind: str) -> Node:
    columns = ("name", "description") if any(values.values()) else ("name",)
    rows = [dict(zip((f"{name}/{column}" for column in columns), pair, strict=False)) for pair in values.items()]
    fields = [
        _node("cr:Field", f"{name}/{column}", f"{column} of the value") | {"dataType": _TEXT} for column in columns
    ]
    return _node("cr:RecordSet", name, description) | {
        "dataType": kind,
        "key": {"@id": f"{name}/name"},
        "field": fields,
        "data": rows,
    }


def _record_sets(info: PackageInfo) -> Iterable[Node]:
    own = f"Windows of the package's own files. {_training(info)}"
    yield _record_set("windows", PACKAGE_WINDOWS, own, {"fileSet": "windows-files"})
    bench = "The alleles of validation and test: those of the bench are the rows whose `scoring` is not null."
    yield _record_set("alleles", PACKAGE_VARIANTS, "", {"fileSet": "alleles-files"})
    yield _record_set("benches", PACKAGE_VARIANTS, bench, {"fileSet": "benches-files"})
    yield _record_set("controls", PACKAGE_CONTROLS, _CONTROLS, {"fileSet": "controls-files"})
    for noun, schema in _HOLDOUTS.items():
        yield _record_set(f"holdout_{noun}", schema, "", {"fileObject": HOLDOUT_PATHS[noun]})
    yield _record_set("holdout_contexts", PACKAGE_CONTEXTS, "", {"fileObject": CONTEXTS_PATH})
    for name in _pieces(info):
        place = {"fileSet": f"{name}-files"}
        found = _record_set(name, _UNMASKED_SETS[name], f"NOT TRAINING DATA AS THEY ARE. {_MASK}", place)
        found["field"] = [*_mask_fields(name, place), *found["field"]]  # type: ignore[misc]
        yield found


_CONTROLS = "`source_window_id` is `window_id` of a row of `windows`."
_MASK = (
    f"All rows of tables that releases share. A row trains only where `{PIECE_TRAINS}` in the folder `piece`, a NumPy "
    f"array of bool, is true at index `row`. {UNMASKED}"
)
_HOLDOUTS: Mapping[str, TableSchema] = {
    "intervals": HOLDOUT_INTERVALS,
    "alleles": HOLDOUT_ALLELES,
    "corpus": HOLDOUT_CORPUS,
    "similar": HOLDOUT_SIMILAR,
    "haplotypes": HOLDOUT_HAPLOTYPES,
}


def _training(info: PackageInfo) -> str:
    if not info.pieces:
        return "Rows of `train` train."
    masked = sum(ref.training for ref in info.pieces)
    return f"{masked} windows of train are not here, but in the record sets `unmasked_pieces_*`, which say which train."


def _record_set(name: str, schema: TableSchema, more: str, place: Mapping[str, str]) -> Node:
    fields, left_out = [], []
    for column in schema.arrow:
        described = schema.describe(column.name)
        kind = _data_type(column.type)
        if kind is None:
            left_out.append(f"Column `{column.name}` is in the file alone: {described}.")
            continue
        field = _field(f"{name}/{column.name}", described, kind, place, {"column": column.name})
        if column.name == "role":
            field["references"] = {"field": {"@id": "splits/name"}}
        fields.append(field)
    text = " ".join(filter(None, (f"One row per {schema.one_row_per}.", more, *left_out, COORDINATES)))
    return _node("cr:RecordSet", name, text) | {"field": fields}


def _mask_fields(name: str, place: Mapping[str, str]) -> Iterable[Node]:
    """Yield the fields that lead from a row of a piece to its place in the mask."""
    piece = _field(
        f"{name}/piece", "folder of the table and of its mask", {"dataType": _TEXT}, place, {"fileProperty": "fullpath"}
    )
    regex = f"^(.*)/{PIECE_WINDOWS.replace('.', '[.]')}$"
    piece["source"] |= {"transform": {"regex": regex}}  # type: ignore[operator]
    yield piece
    described = f"index of the row in the table, and in {PIECE_TRAINS}, 0-based"
    yield _field(f"{name}/row", described, {"dataType": "cr:Int64"}, place, {"fileProperty": "lineNumbers"})


def _field(path: str, description: str, kind: Node, place: Mapping[str, str], extract: Mapping[str, str]) -> Node:
    source = {noun: {"@id": identifier} for noun, identifier in place.items()} | {"extract": dict(extract)}
    return _node("cr:Field", path, description) | kind | {"source": source}


def _node(kind: str, identifier: str, description: str) -> Node:
    return {"@type": kind, "@id": identifier, "name": identifier.rpartition("/")[2], "description": description}


def _data_type(kind: pa.DataType) -> Node | None:
    """Return the data type of a column; None for one of structures, which Parquet readers of Croissant do not see."""
    if pa.types.is_list(kind):
        inner = _data_type(kind.value_type)
        return None if inner is None else inner | {"isArray": True, "arrayShape": "-1"}
    if pa.types.is_struct(kind):
        return None
    if pa.types.is_boolean(kind):
        return {"dataType": "sc:Boolean"}
    if pa.types.is_integer(kind):
        return {"dataType": f"cr:Int{kind.bit_width}"}
    return {"dataType": f"cr:Float{kind.bit_width}" if pa.types.is_floating(kind) else _TEXT}
