"""Check of a written mapped form against the tables, by code of its own.

Arrays are read with ``numpy.load``, rows of the tables as plain Python values. With writer and reader it shares how a
31-mer becomes a key, and nothing else.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from genolewm_assets.genome import Split
from genolewm_assets.lewm.edits import HeldSequences
from genolewm_assets.lewm.mapped.layout import OTHER_FORMS
from genolewm_assets.lewm.packages import (
    ARRAYS,
    CONTEXTS_PATH,
    HOLDOUT_PATHS,
    PackageInfo,
    read_package_info,
    variants_path,
)
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import Check, CheckResult, Finding, FindingKind, RowsAtFault
from genolewm_assets.store.files import JsonValue

MAPPED_FORM_RIGHT = Check(
    "mapped_form_right",
    "The mapped form that trainers open (folder `arrays`) has every window, with its bases, place and states, and "
    "every allele that edits are drawn from or may not make, as the tables state them, read by other code.",
)
_FIGURES: Final = ("windows", "alleles", "held_out_alleles", "kmers", "windows_that_spell_held_alleles")
_READ_ROWS: Final = 512
_TEXTS: Final = ("left_flank", "sequence", "right_flank")
_FACTS: Final = ("label", "stars", "clinvar_id", "gene_ids")
#: Classes of ClinVar that edits of training, and of validation and test, are drawn from.
_DRAWN: Final = {"train": {"P", "LP"}, "validation": {"P", "LP", "B", "LB"}, "test": {"P", "LP", "B", "LB"}}
#: Splits of the held-out alleles that are closed to the edits of a split.
_CLOSED: Final = {"train": {"validation", "test"}, "validation": {"test"}, "test": set[str]()}
#: uint8, shape (256, 4): the bases of a packed byte.
_FOUR: Final = np.array([[b"ACGT"[(byte >> shift) & 3] for shift in (0, 2, 4, 6)] for byte in range(256)], np.uint8)

#: An allele and what is stated of it: pos, ref, alt, and the values of ``_FACTS`` where there are any.
_Allele: TypeAlias = tuple[Any, ...]


def check_mapped(directory: Path, info: PackageInfo, progress: Progress = NO_PROGRESS) -> CheckResult:
    """Compare the mapped form of every split with the tables of the package, row by row.

    Parameters
    ----------
    directory
        Folder of the package.
    info
        Content of its ``package.json``.
    progress
        Receives the number of windows compared.

    Returns
    -------
    CheckResult
        Every window with its bases and facts, every allele that edits are drawn from, every one that they may not make.
        The 31-mers are made again from the table of contexts and compared, as is which windows spell one.
    """
    figures = Counter(dict.fromkeys(_FIGURES, 0))
    wrong = RowsAtFault()
    stars = int(str(info.policy["min_stars"]))
    total = sum(split.windows for split in info.splits.values())
    for split in Split:
        try:
            arrays = _Arrays(directory / ARRAYS / split)
            for row, fault in _window_faults(directory, info, split, arrays, figures):
                wrong.add(split=split, folder="windows", row=row, fault=fault)
            progress.advance(figures["windows"], total, "windows of the mapped form checked")
            for folder, fault in _allele_faults(directory, split, arrays, stars, figures):
                wrong.add(split=split, folder=folder, row=None, fault=fault)
        except (OSError, ValueError, KeyError, IndexError, TypeError) as err:
            wrong.add(split=split, folder="", row=None, fault=f"cannot be read ({type(err).__name__}: {err})")
    shown: dict[str, JsonValue] = {**figures, "wrong": len(wrong)}
    return CheckResult(MAPPED_FORM_RIGHT, passed=not wrong, figures=shown, rows=tuple(wrong))


def find_mapped_faults(path: Path, *, progress: Progress = NO_PROGRESS) -> list[Finding]:
    """Compare the mapped form that a package carries with its tables; the files themselves are as recorded.

    Parameters
    ----------
    path
        Folder of the package, or a link to it.
    progress
        Receives the number of windows compared.

    Returns
    -------
    list of Finding
        The first ten places that differ, by split; empty if there is none, or if the package carries no such form.
    """
    directory = path.resolve()
    info = read_package_info(directory)
    if info.format_version in OTHER_FORMS or not any(e.path.startswith(f"{ARRAYS}/") for e in info.files):
        return []
    found = check_mapped(directory, info, progress)
    return [
        Finding(FindingKind.CORRUPT, directory.name, f"{ARRAYS}/{row['split']}/{row['folder'] or ''}", _problem(row))
        for row in found.rows
    ]


def _problem(row: Mapping[str, object]) -> str:
    at = "" if row["row"] is None else f"row {row['row']}: "
    return f"is not what the tables make: {at}{row['fault']}"


class _Arrays:
    """The index and the arrays of a split's folder, mapped by NumPy anew for each call.

    The bases are mapped for some rows at a time: what was read of a map counts as memory of the process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.index: dict[str, Any] = json.loads((folder / "index.json").read_text())

    def __call__(self, name: str) -> Any:
        return np.load(self._folder / f"{name}.npy", mmap_mode="r")

    def has(self, name: str) -> bool:
        return (self._folder / f"{name}.npy").exists()


def _window_faults(
    directory: Path, info: PackageInfo, split: Split, arrays: _Arrays, figures: Counter[str]
) -> Iterator[tuple[int | None, str]]:
    """Yield row and fault of windows that differ; no row where a whole column does."""
    columns = {
        name: arrays(f"windows/{name}")
        for name in ("first_byte", "sizes", "window_id", "first_row", "contig", "start", "is_reverse", "origin",
                     "cache", "cache_row", "frozen", "holdout")
    }  # fmt: skip
    n = 0
    views: dict[tuple[str, bool], array[int]] = {}
    shortest: dict[tuple[str, bool], int] = {}
    unplaced = set[tuple[str, bool]]()
    for entry in info.split_files(split):
        with pq.ParquetFile(directory / entry.path) as file:
            for batch in file.iter_batches(_READ_ROWS):
                rows = batch.to_pylist()
                part = {name: column[n : n + len(rows)] for name, column in columns.items()}
                texts = _decoded(arrays("windows/bases"), part["first_byte"], part["sizes"])
                facts = _shown_facts(part, arrays.index)
                for at, (row, text, fact) in enumerate(zip(rows, texts, facts, strict=True)):
                    if text != tuple(row[name] for name in _TEXTS):
                        yield n + at, "the bases differ from the table's"
                    if fact != _stated_facts(row):
                        yield n + at, f"states {fact}, the table {_stated_facts(row)}"
                    for frozen_only in (True, False):
                        if row["frozen"] or not frozen_only:
                            key = (row["holdout"] or "", frozen_only)
                            views.setdefault(key, array("q")).append(n + at)
                            shortest[key] = min(len(row["sequence"]), shortest.get(key, len(row["sequence"])))
                            unplaced |= set() if row["placement_exact"] and row["contig"] else {key}
                n += len(rows)
    figures["windows"] += n
    sizes = np.asarray(columns["sizes"]).sum(axis=1, dtype=np.int64)
    ends = np.cumsum(-(-sizes // 4))
    whole = int(ends[-1]) if len(ends) else 0
    begins = np.concatenate(([0], ends))[: len(ends)]
    if {len(arrays("windows/bases")), arrays.index["n_bytes"]} != {whole} or not np.array_equal(
        begins, columns["first_byte"]
    ):
        yield None, "the bases of the rows do not follow each other"
    lengths = {name: len(column) for name, column in columns.items()}
    if {*lengths.values(), arrays.index["n_windows"]} != {n}:
        yield None, f"columns have {lengths} rows, the table {n}"
        return
    yield from ((None, fault) for fault in _first_row_faults(columns["window_id"], columns["first_row"]))
    own_rows = arrays("windows/view_rows")
    stated = {(view["holdout"], view["frozen_only"]): view for view in arrays.index["views"]}
    for key in sorted(views.keys() | {key for key, view in stated.items() if view["n_windows"]}):
        rows, view = views.get(key, array("q")), stated.get(key, {"rows": (0, 0), "n_windows": 0})
        found = np.arange(n) if view["rows"] is None else own_rows[slice(*view["rows"])]
        said = (view["n_windows"], view.get("shortest_bp"), view.get("all_placed"))
        if not np.array_equal(found, np.asarray(rows)) or said != (len(rows), shortest.get(key), key not in unplaced):
            yield None, f"the view {key} is not of the table's windows"


def _decoded(bases: Any, first_byte: Any, sizes: Any) -> Iterator[tuple[str, ...]]:
    """Yield left flank, window and right flank of rows."""
    for first, size in zip(first_byte.tolist(), sizes.tolist(), strict=True):
        text = _FOUR[bases[first : first + -(-sum(size) // 4)]].tobytes().decode()
        ends = np.cumsum([0, *size]).tolist()
        yield tuple(text[start:end] for start, end in pairwise(ends))


def _shown_facts(part: dict[str, Any], index: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield what columns state of rows, with names for codes and None for -1."""
    lists = {"contig": "contigs", "origin": "origins", "cache": "caches", "holdout": "holdouts"}
    values = {name: column.tolist() for name, column in part.items()}
    for name, names in lists.items():
        name_of = {-1: None, **dict(enumerate(index[names]))}
        values[name] = [name_of.get(code, code) for code in values[name]]
    for name in ("start", "cache_row"):
        values[name] = [None if number == -1 else number for number in values[name]]
    shown = ("window_id", "contig", "start", "is_reverse", "origin", "cache", "cache_row", "frozen", "holdout")
    for row in zip(*(values[name] for name in shown), strict=True):
        yield (row[0].decode(), *row[1:])


def _stated_facts(row: dict[str, Any]) -> tuple[object, ...]:
    """Return what the table states of a window, in the order of :func:`_shown_facts`."""
    placed = row["placement_exact"] and row["contig"] is not None
    place = (row["contig"], row["start"], row["strand"] == "-") if placed else (None, None, False)
    states = (row["cache_key"], row["cache_row"])
    return (row["window_id"], *place, row["origin"], *states, row["frozen"], row["holdout"] or "")


def _first_row_faults(window_id: Any, first_row: Any) -> Iterator[str]:
    """Yield what is wrong of the first rows with the same identifier."""
    own, first = np.array(window_id), np.array(first_row)
    place = np.arange(len(own))
    if ((first < 0) | (first > place)).any() or (own[first] != own).any() or (first[first] != first).any():
        yield "first_row leads to another window"
    elif len(np.unique(own)) != np.count_nonzero(first == place):
        yield "first_row is not the first"


def _allele_faults(
    directory: Path, split: Split, arrays: _Arrays, min_stars: int, figures: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield folder and fault of alleles that differ."""
    path = directory / variants_path(split)
    drawn = (
        ("gnomad", "alleles", path, _Rule("gnomad", None, None)),
        ("clinvar", "alleles", path, _Rule("clinvar", _DRAWN[split], None if split is Split.TRAIN else min_stars)),
        ("held_out", "held_out_alleles", directory / HOLDOUT_PATHS["alleles"], _Rule("", _CLOSED[split], None)),
    )
    for folder, figure, table, rule in drawn:
        n = 0
        contigs = sorted({*pq.read_table(table, columns=["chrom"])["chrom"].unique().to_pylist()})
        for contig in contigs:
            for holdout, stated in rule.alleles_of(table, contig).items():
                n += len(stated)
                found = _mapped_alleles(arrays, folder, holdout, contig)
                for at, (one, other) in enumerate(zip(found, stated, strict=False)):
                    if one != other:
                        yield folder, f"{holdout} {contig}, allele {at}: {one}, the table has {other}"
                        break
                if len(found) != len(stated):
                    yield folder, f"{holdout} {contig}: {len(found)} alleles, the table has {len(stated)}"
        figures[figure] += n
        yield from ((folder, fault) for fault in _bound_faults(arrays, folder, n))
    yield from _kmer_faults(directory, split, arrays, figures)


def _bound_faults(arrays: _Arrays, folder: str, n: int) -> Iterator[str]:
    """Yield what is wrong of the lengths and bounds of a folder of ``n`` alleles."""
    names, at = arrays.index["alleles"][folder], arrays(f"{folder}/at")
    rows = np.asarray(arrays(f"{folder}/rows")).reshape(-1, 2)
    stated = {name: len(arrays(f"{folder}/{name}")) for name in ("pos", *_FACTS[:3]) if arrays.has(f"{folder}/{name}")}
    if {n} != {names["n_alleles"], *stated.values()}:
        yield f"{stated} alleles, the table has {n}"
    begins, ends = [0, *rows[:, 1].tolist()], [*rows[:, 0].tolist(), n]
    if begins != ends:
        yield "the rows of holdouts and contigs do not follow each other"
    bounds = [(at, 2 * n, names["n_text_bytes"], arrays(f"{folder}/text"))]
    if folder == "clinvar":
        bounds.append((arrays("clinvar/gene_at"), n, names["n_genes"], arrays("clinvar/gene_ids")))
    for offsets, length, size, values in bounds:
        ends_right = len(offsets) == length + 1 and (int(offsets[0]), int(offsets[-1])) == (0, size)
        if not ends_right or len(values) != size or (np.diff(offsets.astype(np.int64)) < 0).any():
            yield "offsets do not bound their texts or genes"


class _Rule:
    """Which rows of a table are alleles of a folder: by source and class, or by the split that holds them out."""

    def __init__(self, source: str, allowed: set[str] | None, min_stars: int | None) -> None:
        self._source, self._allowed, self._min_stars = source, allowed, min_stars

    def alleles_of(self, table: Path, contig: str) -> dict[str, list[_Allele]]:
        """Return the alleles of a contig by holdout, sorted."""
        found: dict[str, list[_Allele]] = {}
        columns = ["pos", "ref", "alt", *(("source", "holdout", *_FACTS) if self._source else ("role",))]
        for row in pq.read_table(table, columns=columns, filters=[("chrom", "==", contig)]).to_pylist():
            if self._takes(row):
                facts = tuple(row[name] for name in _FACTS) if self._source == "clinvar" else ()
                holdout = (row["holdout"] or "") if self._source else ""
                found.setdefault(holdout, []).append((row["pos"], row["ref"], row["alt"], *facts))
        for alleles in found.values():
            alleles.sort(key=lambda allele: allele[:3])
        return found

    def _takes(self, row: dict[str, Any]) -> bool:
        if not self._source:
            return row["role"] in (self._allowed or ())
        if row["source"] != self._source or (self._allowed is not None and row["label"] not in self._allowed):
            return False
        return self._min_stars is None or (row["stars"] is not None and row["stars"] >= self._min_stars)


def _mapped_alleles(arrays: _Arrays, folder: str, holdout: str, contig: str) -> list[_Allele]:
    """Return the mapped alleles of a holdout and contig, in their order."""
    names = arrays.index["alleles"][folder]
    if holdout not in names["holdouts"] or contig not in names["contigs"]:
        return []
    rows = arrays(f"{folder}/rows")[names["holdouts"].index(holdout), names["contigs"].index(contig)]
    first, stop = rows.tolist()
    at = arrays(f"{folder}/at")[2 * first : 2 * stop + 1].tolist()
    text = arrays(f"{folder}/text")[at[0] : at[-1]].tobytes().decode()
    texts = [text[start - at[0] : end - at[0]] for start, end in pairwise(at)]
    columns: list[Sequence[Any]] = [arrays(f"{folder}/pos")[first:stop].tolist(), texts[::2], texts[1::2]]
    if max(map(len, texts[1::2]), default=0) > names["longest_bp"][names["holdouts"].index(holdout)]:
        return []
    if folder == "clinvar":
        codes, genes_at = arrays("clinvar/label")[first:stop].tolist(), arrays("clinvar/gene_at")[first : stop + 1]
        genes = arrays("clinvar/gene_ids")
        columns += [
            [("P", "LP", "VUS", "LB", "B", "OTHER")[code] for code in codes],
            arrays("clinvar/stars")[first:stop].tolist(),
            [None if number == -1 else number for number in arrays("clinvar/clinvar_id")[first:stop].tolist()],
            [genes[start:end].tolist() for start, end in pairwise(genes_at.tolist())],
        ]
    return list(zip(*columns, strict=True))


def _kmer_faults(directory: Path, split: Split, arrays: _Arrays, figures: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong of the 31-mers that held-out alleles make: they are needed where a window has no place."""
    contig, has = arrays("windows/contig"), arrays.has("held_sequences/keys")
    needed = split is Split.TRAIN and bool((np.asarray(contig) < 0).any())
    if needed != has or has == (arrays.index["n_kmers"] is None):
        yield "held_sequences", f"are {'there' if has else 'missing'}, {'needed' if needed else 'not needed'}"
    elif needed:
        with pq.ParquetFile(directory / CONTEXTS_PATH) as file:
            table = HeldSequences(file.iter_batches()).table
        figures["kmers"] += len(table.keys)
        same = (len(table.keys), len(table.seeds)) == (arrays.index["n_kmers"], arrays.index["n_seed_words"])
        for name in ("keys", "seeds"):
            same = same and np.array_equal(getattr(table, name), arrays(f"held_sequences/{name}"))
        if not same:
            yield "held_sequences", "are not those of the table of contexts"
        spelling = _find_spelling(arrays, table.keys)
        figures["windows_that_spell_held_alleles"] += int(spelling.sum())
        for row in np.flatnonzero(spelling != arrays("held_sequences/spells_held")).tolist():
            yield "held_sequences", f"spells_held of row {row} is not {spelling[row]}"


def _find_spelling(arrays: _Arrays, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which windows without a place spell a 31-mer with one of some sorted keys; every 31-mer is looked up."""
    from genolewm_assets.lewm.edits import kmer_kernels

    words = np.zeros(1 << max(1, (len(keys) // 2).bit_length()), dtype=np.uint64)
    shift = np.uint64(64 - (len(words).bit_length() - 1))
    kmer_kernels.write_words(keys, shift, words)
    n_bases = np.asarray(arrays("windows/sizes")).sum(axis=1, dtype=np.int64)
    ends = np.cumsum(-(-n_bases // 4))
    if (n_bases < 0).any() or ends[-1] != len(arrays("windows/bases")):
        raise ValueError(f"{ends[-1]} bytes of bases expected")
    begins = np.concatenate(([0], ends))
    spelling = np.zeros(len(n_bases), dtype=np.bool_)
    unplaced = np.flatnonzero(arrays("windows/contig") < 0)
    for at in range(0, len(unplaced), _READ_ROWS):
        rows = unplaced[at : at + _READ_ROWS]
        bases = arrays("windows/bases")[begins[rows[0]] : ends[rows[-1]]]
        marks = np.empty(len(rows), dtype=np.bool_)
        kmer_kernels.mark_keys(bases, begins[rows] - begins[rows[0]], n_bases[rows], keys, words, shift, marks)
        spelling[rows] = marks
    return spelling
