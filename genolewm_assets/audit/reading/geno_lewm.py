"""Data folders of geno-lewm 0.2.1, as its trainer reads them: windows as JSON lines, alleles as Parquet.

The trainer takes every file of ``dataset_manifest.json`` under ``placed/`` (or ``carbon/`` if there is none),
``gnomad/`` and ``clinvar/``, whatever the stated split, and so does this reader; only splits named val..., eval...,
test..., holdout... or dev... are validation or test. Windows have no flanks, deletions are filled with N,
``clinvar_id`` is the AlleleID unless the metadata of every shard name the VariationID. Shards have no manifest; their
``embeddings/`` name windows by place and SHA-256. No file tells the holdouts. Its own packages state the shard of
ClinVar to be of evaluation. Labels to evaluate by may lie in any file of the manifest; of these, VCF is not read here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.package_files import (
    EVALUATION,
    TEST,
    TRAIN,
    VALIDATION,
    Row,
    batches_of,
    read_holdouts,
    rows_of,
)
from genolewm_assets.audit.reading.parquet_batches import read_batches, read_metadata
from genolewm_assets.audit.reading.reference import Reference, decode
from genolewm_assets.audit.reading.review_stars import stars_of
from genolewm_assets.errors import CorruptResourceError, MissingResourceError

MANIFEST = "dataset_manifest.json"
#: What a folder without a manifest is known by.
PATTERNS = (
    "placed/*.jsonl",
    "carbon/*.jsonl",
    "gnomad/**/*.parquet",
    "clinvar/**/*.parquet",
    "embeddings/**/*.parquet",
)

_WINDOWS, _ALLELES, _CACHE = ("placed/", "carbon/"), ("gnomad/", "clinvar/"), "embeddings/"
#: Folder into which its repair of the cache moves shards that cannot be read.
_QUARANTINE = ".quarantine"
_EVALUATED = {VALIDATION: ("val",), TEST: ("eval", "test", "holdout", "dev")}
_REMEDY = "Name a data folder of geno-lewm 0.2.1"
_ALLELE = ("chrom", "pos", "ref", "alt")
#: File that lies beside a shard that `prepare-gnomad` or `prepare-clinvar` made; no trainer reads it.
_REJECTS = "rejects.parquet"
#: Key of the metadata of a shard that states what its ``clinvar_id`` is.
_STATED = b"genolewm.clinvar_id"
_OPTIONAL = ("chrom", "start_bp", "clinical_significance", "label", "clinvar_id")
_OPTIONAL_PLAIN = {name.replace("_", ""): name for name in _OPTIONAL}


@dataclass(frozen=True, slots=True)
class GenoLewmFiles:
    """A data folder of geno-lewm: manifest, paths with stated split, and the FASTA for windows known by place."""

    directory: Path
    holdouts: Path | None
    record: dict[str, Any]
    files: tuple[tuple[str, str], ...]
    fasta: Path

    @property
    def release(self) -> str:
        """ClinVar release in the path of the alleles; else the snapshot of the manifest."""
        paths = [path.split("/") for path, _ in self.files if path.startswith("clinvar/")]
        return next((parts[1] for parts in paths if len(parts) > 2), str(self.record.get("snapshot_id", "")))

    @property
    def knowledge(self) -> str:
        """It trains with all labels that it has."""
        return "newest"

    @property
    def without_stream(self) -> str:
        """Why nothing that is emitted can be read."""
        return "geno-lewm draws its tuples while it trains, by code of its own; none is stored"

    @property
    def label_key(self) -> str:
        """What ``clinvar_id`` is: as every shard of ClinVar states, else what geno-lewm itself writes."""
        shards = [self.directory / path for path in self._paths("clinvar/")]
        stated = {read_metadata(path).get(_STATED, b"AlleleID").decode() for path in shards}
        return "VariationID" if stated == {"VariationID"} else "AlleleID"

    def compared_holdouts(self) -> set[str]:
        """Return the names of its splits of evaluation: their windows must not train."""
        return {split for _, split in self.files if _role(split) != TRAIN}

    @property
    def unread_evaluation(self) -> tuple[str, ...]:
        """Files of evaluation that no search reads."""
        unread = [path for path, split in self.files if _role(split) != TRAIN and not _holds_evaluation(path)]
        return (f"files of evaluation that are neither JSON lines nor a shard ({', '.join(unread)})",) if unread else ()

    @property
    def left_out(self) -> dict[str, int]:
        """Files of windows and alleles that neither its trainer reads nor a split of evaluation has."""
        listed = {path for path, split in self.files if _role(split) == TRAIN}
        there = {str(path.relative_to(self.directory)) for path in _found(self.directory)}
        read = {*self._train_windows(), *(path for noun in _ALLELES for path in self._paths(noun))}
        read |= {path for path, split in self.files if _role(split) != TRAIN}
        unread = sorted((listed | there) - read)
        return (
            {f"files that its trainer does not read, not searched: {', '.join(unread)}": len(unread)} if unread else {}
        )

    def windows(self, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the windows that its trainer reads, or those of an evaluation split."""
        rows: Iterator[Row]
        if split != TRAIN:
            rows = (
                _window(row) | {"holdout": name, "role": split}
                for name, row in self._evaluation(split)
                if "sequence" in row
            )
        elif (paths := self._train_windows()) == self._paths(_CACHE):
            rows = self._cached_windows()
        else:
            rows = (_window(row) for path in paths for row in _json_lines(self.directory / path))
        yield from batches_of(rows, columns)

    def train_pieces(self, columns: Sequence[str]) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the windows that its trainer reads, as one piece."""
        yield self.windows(TRAIN, columns)

    def variants(self, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the alleles that its trainer reads, or those of an evaluation split."""
        if split == TRAIN:
            rows = (row for noun in _ALLELES for path in self._paths(noun) for row in self._alleles(path, noun))
        else:
            rows = (_allele(row, split, name) for name, row in self._evaluation(split) if "sequence" not in row)
        yield from batches_of(rows, columns)

    def holdout(self, noun: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of our holdout tables; none without them."""
        if self.holdouts is not None:
            yield from read_holdouts(self.holdouts, noun, columns)

    def _paths(self, prefix: str) -> list[str]:
        ending = ".jsonl" if prefix in _WINDOWS else ".parquet"
        return [path for path, _ in self.files if path.startswith(prefix) and path.endswith(ending)]

    def _train_windows(self) -> list[str]:
        """Return the files of the windows that train: those without a place only if no window has one."""
        return next(filter(None, map(self._paths, (*_WINDOWS, _CACHE))), [])

    def _evaluation(self, split: str) -> Iterator[tuple[str, Row]]:
        """Yield the rows of the files of an evaluation split, with the name that the manifest gives it."""
        for path, name in self.files:
            if _role(name) == split and path.endswith(".jsonl"):
                yield from ((name, row) for row in _json_lines(self.directory / path))
            elif _role(name) == split and _holds_evaluation(path):
                noun = next(each for each in _ALLELES if path.startswith(each))
                yield from ((name, row) for row in self._alleles(path, noun))

    def _alleles(self, path: str, noun: str) -> Iterator[Row]:
        clinvar = noun == "clinvar/"
        columns = (*_ALLELE, "clinical_significance", "review_status", "clinvar_id") if clinvar else _ALLELE
        for row in rows_of(read_batches(self.directory / path, columns)):
            label, stars = row.get("clinical_significance"), stars_of(str(row.get("review_status")))
            yield row | {"source": noun[:-1], "label": label, "stars": stars, "role": TRAIN}

    def _cached_windows(self) -> Iterator[Row]:
        seen, columns = set[tuple[str, int, bytes]](), ("chrom", "start_bp", "end_bp", "window_hash")
        with Reference(self.fasta) as reference:
            for path in self._paths(_CACHE):
                for row in rows_of(read_batches(self.directory / path, columns)):
                    key = (row["chrom"], row["start_bp"], row["window_hash"])
                    if key not in seen:
                        seen.add(key)
                        yield _cached_window(row, reference)


def open_geno_lewm(directory: Path, holdouts: Path | None, fasta: Path) -> GenoLewmFiles:
    """Open a data folder of geno-lewm."""
    directory = directory.resolve()
    path, record = directory / MANIFEST, dict[str, Any]()
    if path.is_file():
        try:
            record = json.loads(path.read_bytes())
            files = tuple((str(entry["path"]), str(entry.get("split") or TRAIN)) for entry in record["files"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
            raise CorruptResourceError(str(path), f"lists no files with path and split ({err!r})") from err
        outside = [name for name, _ in files if not (directory / name).resolve().is_relative_to(directory)]
        if outside:
            raise CorruptResourceError(str(path), f"lists {outside[0]!r}, which is outside of the folder")
    else:
        files = tuple((str(path.relative_to(directory)), TRAIN) for path in _found(directory))
    if not files:
        raise MissingResourceError(str(directory), f"has neither {MANIFEST} nor a shard", remedy=_REMEDY)
    return GenoLewmFiles(directory, None if holdouts is None else holdouts.resolve(), record, files, fasta)


def _found(directory: Path) -> list[Path]:
    """Return the files of a folder that are named as data of its trainer or as a shard of its cache."""
    found = [path for pattern in PATTERNS for path in sorted(directory.glob(pattern))]
    return [path for path in found if path.name != _REJECTS and _QUARANTINE not in path.parts]


def _holds_evaluation(path: str) -> bool:
    """Tell whether a file of evaluation is one that is read."""
    return path.endswith(".jsonl") or (path.startswith(_ALLELES) and path.endswith(".parquet"))


def _role(split: str) -> str:
    return next((role for role in EVALUATION if split.lower().startswith(_EVALUATED[role])), TRAIN)


def _json_lines(path: Path) -> Iterator[Row]:
    at = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                at += 1
                if line.strip():
                    yield _checked(json.loads(line))
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), "is missing", remedy=_REMEDY) from err
    except (OSError, ValueError, TypeError, RecursionError) as err:
        raise CorruptResourceError(f"{path}:{at}", f"is no window or allele of geno-lewm ({err})") from err


def _checked(row: object) -> Row:
    """Return the object of a line; raise TypeError unless it is that of a window or an allele."""
    if not isinstance(row, dict):
        raise TypeError("it is no JSON object")
    is_window = "sequence" in row
    texts = ("record_id", "source", "sequence") if is_window else ("chrom", "ref", "alt")
    if wrong := [name for name in texts if not isinstance(row.get(name), str)]:
        raise TypeError(f"{wrong[0]!r} is no text")
    number = row.get("start_bp", 0) if is_window else row.get("pos")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise TypeError(f"{'start_bp' if is_window else 'pos'!r} is no integer from 0 on")
    if not isinstance(row.get("chrom"), str | None):
        raise TypeError("'chrom' is no text")
    _check_optional(row)
    return row


def _check_optional(row: Row) -> None:
    """Raise TypeError where a value that may be missing would be passed over for its spelling or its type."""
    for name in row.keys() - {*_OPTIONAL}:
        if (near := _OPTIONAL_PLAIN.get(name.replace("_", "").replace("-", "").casefold())) and near not in row:
            raise TypeError(f"{name!r} is {near!r} misspelt")
    if not isinstance(row.get("clinical_significance", row.get("label")), str | None):
        raise TypeError("the label is no text")
    if isinstance(identity := row.get("clinvar_id"), bool) or not isinstance(identity, int | None):
        raise TypeError("'clinvar_id' is no integer")


def _window(row: Row) -> Row:
    sequence, start, contig = row["sequence"].upper(), row.get("start_bp", 0), row.get("chrom")
    placed = {"contig": contig, "start": start, "end": start + len(sequence), "strand": "+", "placement_exact": True}
    unplaced = dict.fromkeys(placed) | {"placement_exact": False}
    return {
        "origin": row["source"],
        "record_id": row["record_id"],
        "window_index": start,
        "window_id": hashlib.sha256(sequence.encode()).hexdigest()[:32],
        "sequence": sequence,
        "left_flank": "",
        "right_flank": "",
        **(placed if contig else unplaced),
    }


def _allele(row: Row, split: str, name: str) -> Row:
    label = row.get("clinical_significance", row.get("label"))
    return row | {"source": "clinvar", "label": label, "holdout": name, "role": split}


def _cached_window(row: Row, reference: Reference) -> Row:
    contig, start, end = row["chrom"], row["start_bp"], row["end_bp"]
    sequence = decode(reference.fetch(canonical_name(contig), start, end))
    known = hashlib.sha256(sequence.encode()).digest() == row["window_hash"]
    # Of a window that is edited, or of another genome, only the place is known.
    window = {"record_id": f"{contig}:{start}", "source": "cache", "start_bp": start, "chrom": contig}
    return _window(window | {"sequence": sequence if known else "N" * (end - start)}) | {"placement_exact": known}
