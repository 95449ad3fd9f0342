"""What a folder of instrument files holds: which are samples and ladders, and which annotation belongs to which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol, TypeVar

from genolewm_assets.errors import ConfigurationError, InputError
from genolewm_assets.forensic.dataset.annotations import (
    SPAN_CATEGORIES,
    Annotation,
    parse_allele_report,
    parse_annotation_map,
    parse_ladder_map,
    parse_spans,
    same_path,
    stem_of,
)
from genolewm_assets.store import read_stamped
from genolewm_assets.store.arrays import RowStamp
from genolewm_assets.store.files import JsonValue, normal_json

FileCategory = Literal["sample", "ladder", "control", "unknown"]
#: Suffixes of instrument files, in lower case.
INSTRUMENT_SUFFIXES = frozenset({".hid", ".fsa"})
_NFI_SAMPLE = re.compile(r"(\d)[A-F](\d)")
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """One sample by its root-relative name; ``ladders``, the best first, may belong to it.

    ``stamps`` are those of the tables that annotation and ladders come from.
    """

    name: str
    annotation: Annotation | None
    ladders: tuple[str, ...]
    stamps: Mapping[str, RowStamp]


class DatasetStrategy(Protocol):
    """What :class:`HIDDataset` asks about a folder."""

    def cache_signature(self) -> dict[str, JsonValue]:
        """Return every parameter that entries depend on, JSON values only; it becomes part of the cache's key."""

    def source_files(self, root: Path) -> dict[str, Path]:
        """Return every file that entries and profiles depend on, by root-relative name, without reading one."""

    def collect_dataset_files(self, root: Path, files: Mapping[str, Path]) -> Iterator[DatasetEntry]:
        """Yield the samples among ``files`` in order of their names, with annotations read from the tables."""

    def get_annotation_classes(self) -> list[str]:
        """Return the meaning of each number in a mask; the first is no annotation."""

    def get_split_group(self, file_name: str) -> str:
        """Return what a sample shares with others that must be on its side of a split."""


@dataclass(frozen=True)
class RunFolderStrategy:
    """Run folders of any laboratory, whose files are told apart by words in their names.

    Attributes
    ----------
    analysis_threshold_type
        Column of ``annotation_map``: ``DTH`` (high threshold) or ``DTL`` (low).
    ladder_words, control_words
        A file whose name has one of these words, in any case, is a ladder or a control; all others are samples.
    reports
        Patterns of names of allele reports. A sample's annotation has the name of its file, without the suffix.
    spans
        Patterns of names of label tables. Where there are some, masks hold categories of spans and reports are not
        read.
    annotator
        The user whose spans are taken; None: the only one.
    annotation_map, ladder_map
        Patterns of names of tables that map files to annotations and to ladders, in the layouts of DNANet.
    replica_pattern
        Regular expression; files in whose names it finds the same text are replicas, which a split keeps together.
        None: there are no replicas. It is not part of the cache's key.

    Notes
    -----
    A sample that ``ladder_map`` does not name has the ladders of its own folder, by name, else of the nearest folder
    above.
    """

    analysis_threshold_type: str = "DTH"
    ladder_words: tuple[str, ...] = ("ladder",)
    control_words: tuple[str, ...] = ("neg", "blank", "blanco", "control", "controle", "pocon")
    reports: tuple[str, ...] = ("*allelereport*", "*annotations*.csv")
    spans: tuple[str, ...] = ()
    annotator: str | None = None
    annotation_map: tuple[str, ...] = ("*hid_to_annotation*", "annotations_mapping*")
    ladder_map: tuple[str, ...] = ("*best_ladder_paths*",)
    replica_pattern: str | None = None

    def cache_signature(self) -> dict[str, JsonValue]:
        """Return the class and the attributes that entries depend on."""
        attributes = {name: value for name, value in asdict(self).items() if name != "replica_pattern"}
        return normal_json({"class": type(self).__name__, **attributes}, "dataset strategy")

    def categorize_file(self, file_name: str) -> FileCategory:
        """Return what an instrument file is, by its name."""
        lower = file_name.lower()
        words: dict[FileCategory, tuple[str, ...]] = {"ladder": self.ladder_words, "control": self.control_words}
        if PurePosixPath(lower).suffix not in INSTRUMENT_SUFFIXES:
            return "unknown"
        named = (category for category, each in words.items() if any(word.lower() in lower for word in each))
        return next(named, "sample")

    def get_sample_id(self, file_name: str) -> str:
        """Return the name by which annotations know a file."""
        return stem_of(file_name)

    def get_split_group(self, file_name: str) -> str:
        """Return the replicas that a file is one of, else its name."""
        found = self.replica_pattern is not None and re.search(self.replica_pattern, file_name)
        return found[0] if found else stem_of(file_name)

    def get_number_of_contributors(self, file_name: str) -> int | None:
        """Return how many persons contributed, or None if the name does not tell."""
        del file_name
        return None

    def get_annotation_classes(self) -> list[str]:
        """Return the meaning of each number in a mask; the first is no annotation."""
        return list(SPAN_CATEGORIES) if self.spans else ["noise", "allele"]

    def source_files(self, root: Path) -> dict[str, Path]:
        """Return samples, ladders and tables below a folder, which must exist, by root-relative name."""
        if not root.is_dir():
            raise ConfigurationError(str(root), "is no folder", expected="the folder of the instrument files")
        found = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
        return {name: path for name, path in found.items() if self._is_source(path.name)}

    def _is_source(self, file_name: str) -> bool:
        if self.categorize_file(file_name) in {"sample", "ladder"}:
            return True
        patterns = (*(self.spans or self.reports), *self.annotation_map, *self.ladder_map)
        return PurePosixPath(file_name).suffix.lower() not in INSTRUMENT_SUFFIXES and fits(file_name, patterns)

    def collect_dataset_files(self, root: Path, files: Mapping[str, Path]) -> Iterator[DatasetEntry]:
        """Yield the samples in order of their names; raise InputError if a table is malformed or two contradict."""
        del root
        parse_map = partial(parse_annotation_map, threshold=self.analysis_threshold_type)
        maps, map_stamps = _read(files, self.annotation_map, parse_map)
        ladder_maps, ladder_stamps = _read(files, self.ladder_map, parse_ladder_map)
        tables, stamps = self._annotations(files)
        stamps |= map_stamps | ladder_stamps
        categories = {name: self.categorize_file(PurePosixPath(name).name) for name in files}
        ladders = sorted(name for name, category in categories.items() if category == "ladder")
        for name in sorted(name for name, category in categories.items() if category == "sample"):
            stem = stem_of(name)
            stated = same_path(ladder_maps[stem], ladders) if stem in ladder_maps else None
            own = _ladders_near(name, ladders) if stated is None else (stated,)
            yield DatasetEntry(name, tables.get(maps.get(stem, stem)), own, stamps)

    def _annotations(self, files: Mapping[str, Path]) -> tuple[dict[str, Annotation], dict[str, RowStamp]]:
        if self.spans:
            spans, stamps = _read(files, self.spans, partial(parse_spans, annotator=self.annotator))
            return {**spans}, stamps
        mapped = [name for name in files if not fits(PurePosixPath(name).name, self.annotation_map)]
        reports, stamps = _read({name: files[name] for name in mapped}, self.reports, parse_allele_report)
        return {**reports}, stamps


@dataclass(frozen=True)
class NFIRnDStrategy(RunFolderStrategy):
    """The mixtures of two to five persons that DNANet was published with.

    Samples are named ``<data set><A-F><persons>_<well>_<injection>.hid``, such as ``1A2_A01_01.hid``; allele reports,
    ``2p_5p_hid_to_annotation.csv`` and ``best_ladder_paths*.csv`` lie beside them.
    """

    def categorize_file(self, file_name: str) -> FileCategory:
        """Return what an instrument file is, by its name; names that begin with A are controls."""
        category = super().categorize_file(file_name)
        if category != "sample" or _NFI_SAMPLE.match(file_name):
            return category
        return "control" if file_name.startswith("A") else "unknown"

    def get_sample_id(self, file_name: str) -> str:
        """Return the mixture of a file, such as ``1A2``, which replicas share, or raise InputError for another name."""
        _nfi(file_name)
        return stem_of(file_name).partition("_")[0]

    def get_split_group(self, file_name: str) -> str:
        """Return the data set of a file, whose mixtures share donors; errors are those of :meth:`get_sample_id`."""
        return _nfi(file_name)[1]

    def get_number_of_contributors(self, file_name: str) -> int:
        """Return how many persons contributed; errors are those of :meth:`get_sample_id`."""
        return int(_nfi(file_name)[2])


def _nfi(file_name: str) -> re.Match[str]:
    match = _NFI_SAMPLE.match(file_name)
    if match is None:
        raise InputError(repr(file_name), "is no name of a sample", expected="such as '1A2_A01_01.hid'")
    return match


def fits(text: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a text, such as the name of a file, has one of some patterns, in any case."""
    return any(fnmatchcase(text.lower(), pattern.lower()) for pattern in patterns)


def _read(
    files: Mapping[str, Path], patterns: tuple[str, ...], parse: Callable[[bytes, str], Mapping[str, _Parsed]]
) -> tuple[dict[str, _Parsed], dict[str, RowStamp]]:
    """Return what the tables of some names hold together, and their stamps."""
    found: dict[str, _Parsed] = {}
    stamps = {}
    for name, path in files.items():
        if PurePosixPath(name).suffix.lower() in INSTRUMENT_SUFFIXES or not fits(path.name, patterns):
            continue
        data, stamps[name] = read_stamped(path)
        for key, value in parse(data, name).items():
            if found.setdefault(key, value) != value:
                raise InputError(name, "contradicts another table of its kind", got=repr(key))
    return found, stamps


def _ladders_near(name: str, ladders: Sequence[str]) -> tuple[str, ...]:
    folders = map(str, PurePosixPath(name).parents)
    near = (tuple(each for each in ladders if str(PurePosixPath(each).parent) == folder) for folder in folders)
    return next(filter(None, near), ())
