"""Divide the files of a corpus source into pieces: an Arrow file per source file, and which batches are whose.

::

    <number>-<digest>.arrow   records (``CORPUS_RECORDS``); each batch is of one piece
    <number>-<digest>.json    records, faults, and by piece its batches, its records and their digest

A file with its record is whole. A build that goes on keeps such files, and takes them over from the version before.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

import pyarrow as pa

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.corpus.files import FaultTally, count_rows, read_file
from genolewm_assets.store.artefacts import Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.files import JsonValue, canonical_json, read_document, replacing, write_atomic
from genolewm_assets.store.tables import memory_given_back
from genolewm_assets.variants import RECORDS_ACCOUNTED_FOR, ShardReport
from genolewm_assets.windows.corpus import (
    CORPUS_RECORDS,
    FAULTS,
    CorpusRecord,
    CorpusSource,
    RecordsDigest,
    SkipReason,
    piece_of,
    records_batch,
    records_of,
)

RECORDS_IN_THEIR_PIECES = Check(
    "records_in_their_pieces",
    "Every record is in the piece of its id, and the files hold the records that were read.",
    "A disk or a person altered the files while they were written. Materialise again.",
)
_RARE = Check(
    "faulty_records_rare",
    "The share of rows of the source that are at fault (no id, invalid coordinates, unknown strand, ...), and are left "
    "out, is within the catalogue's bound.",
    "Correct the rows in the corpus file: each names its record, what is expected and what is there. If they are to be "
    "left out, raise corpus.max_faulty_fraction in the catalogue.",
)
#: Checks of :func:`check_division`, in the order of the results.
RECORD_CHECKS = (RECORDS_IN_THEIR_PIECES, RECORDS_ACCOUNTED_FOR, _RARE)
_REMEDY = "Rebuild corpus/records"
#: Bases, for each piece and at most, that wait until they are written; and records.
_PIECE_BP, _MOST_BP, _MOST_RECORDS = 1 << 20, 1 << 26, 1 << 15
#: Records after which the number of those that were read is told.
_TOLD = 256


@dataclass(slots=True)
class PieceOfFile:
    """Records of one piece in one file: numbers of their batches, how many they are, and their digest."""

    batches: list[int] = field(default_factory=list)
    records: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class DividedFile:
    """One file of a division, by its path without ending."""

    path: Path
    records: int
    faults: Mapping[str, int]
    pieces: Mapping[int, PieceOfFile]

    @classmethod
    def read(cls, path: Path) -> DividedFile:
        """Read the record beside a file; CorruptResourceError or MissingResourceError if it cannot be read."""
        where = path.with_suffix(".json")
        document = read_document(where, remedy=_REMEDY)
        try:
            pieces = {int(number): PieceOfFile(**piece) for number, piece in document["pieces"].items()}
            return cls(path, document["records"], document["faults"], pieces)
        except (AttributeError, KeyError, TypeError, ValueError) as err:
            raise CorruptResourceError(str(where), f"is no record of a division ({err})", remedy=_REMEDY) from err

    def piece_records(self, number: int, source: CorpusSource) -> Iterator[CorpusRecord]:
        """Yield the records of a piece, batch by batch; CorruptResourceError at their end if they are others."""
        digest = RecordsDigest()
        for batch in self.batches(self.pieces[number].batches):
            records = list(records_of(batch, source))
            digest.add(records)
            yield from records
        if digest.hexdigest() != self.pieces[number].sha256:
            raise CorruptResourceError(f"{self.path}.arrow", "holds other records than were divided", remedy=_REMEDY)

    def batches(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Yield batches by number."""
        path = self.path.with_suffix(".arrow")
        try:
            with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
                if not reader.schema.equals(CORPUS_RECORDS.arrow):
                    raise CorruptResourceError(str(path), "has other columns than corpus_records", remedy=_REMEDY)
                yield from map(reader.get_batch, numbers)
        except (pa.ArrowException, OSError) as err:
            if isinstance(err, CorruptResourceError):
                raise
            raise CorruptResourceError(str(path), f"cannot be read ({err})", remedy=_REMEDY) from err


def divide_source(
    files: Mapping[str, Path],
    source: CorpusSource,
    pieces: int,
    out_dir: Path,
    *,
    former: Path | None = None,
    max_faulty_fraction: float = 1,
    progress: Progress = NO_PROGRESS,
) -> ShardReport:
    """Divide the records of a source; return counts and the rows of each file.

    Parameters
    ----------
    files
        Source files in order, by a digest of all that their records and division depend on.
    pieces
        Number of pieces, a power of two.
    former
        Folder of the version before, whose files of the same digests are copied if they hold their records.

    Raises
    ------
    InputError
        If a file cannot be read, or more than ``max_faulty_fraction`` of the rows are at fault.
    """
    tally = FaultTally(sum(map(count_rows, files.values())), max_faulty_fraction, progress)
    whole = {target.name for target in _targets(out_dir, files) if _is_whole(target)}
    for path in out_dir.iterdir():
        # What a killed build has begun.
        if path.stem not in whole or path.suffix not in {".arrow", ".json"}:
            path.unlink()
    with memory_given_back():
        for target, path in zip(_targets(out_dir, files), files.values(), strict=True):
            if not _is_whole(target) and not _taken_over(former, target, source):
                _divide_file(path, source, pieces, target, tally)
            else:
                kept = DividedFile.read(target)
                tally.done += kept.records
                tally.counts.update({SkipReason(reason): n for reason, n in kept.faults.items()})
                tally.check(path)
    divided = [DividedFile.read(target) for target in _targets(out_dir, files)]
    faults = sum((Counter(each.faults) for each in divided), Counter[str]())
    counts = {"pieces": pieces, "records_in": sum(each.records for each in divided)}
    counts |= {f"faulty.{reason}": faults[reason] for reason in FAULTS}
    return ShardReport(counts, {f"{each.path.name}.arrow": each.records for each in divided})


def check_division(
    folder: Path, files: Mapping[str, Path], source: CorpusSource, pieces: int, *, max_faulty_fraction: float
) -> tuple[CheckResult, ...]:
    """Read a division back, and compare it with its records and the source; see :data:`RECORD_CHECKS`."""
    found = _Found(source, pieces)
    with memory_given_back():
        for target, path in zip(_targets(folder, files), files.values(), strict=True):
            found.compare(DividedFile.read(target), path)
    share = len(found.wrong[_RARE]) / max(1, found.rows)
    bound: dict[str, JsonValue] = {"fraction": round(share, 6), "max_fraction": max_faulty_fraction}
    return tuple(
        found.result(check, passed=share <= max_faulty_fraction, **bound) if check == _RARE else found.result(check)
        for check in RECORD_CHECKS
    )


def read_piece(
    directory: Path, source: CorpusSource, number: int, progress: Progress = NO_PROGRESS
) -> Iterator[CorpusRecord]:
    """Yield the records of a piece, in the order of the files; CorruptResourceError if they are not as divided."""
    divided = [each for each in _divided(directory) if number in each.pieces]
    total = sum(each.pieces[number].records for each in divided)
    read = chain.from_iterable(each.piece_records(number, source) for each in divided)
    for done, record in enumerate(read, 1):
        yield record
        if done % _TOLD == 0 or done == total:
            progress.advance(done, total, "records")


def piece_digests(directory: Path, number: int) -> tuple[str, ...]:
    """Return the digests of the records of a piece by file; a file without any adds none."""
    return _digests(directory).get(number, ())


@lru_cache(maxsize=8)
def _digests(directory: Path) -> Mapping[int, tuple[str, ...]]:
    """Return the digests by piece of a division, which never changes; those of all pieces are asked for in turn."""
    found = defaultdict[int, list[str]](list)
    for divided in _divided(directory):
        for number, piece in divided.pieces.items():
            found[number].append(piece.sha256)
    return {number: tuple(digests) for number, digests in found.items()}


def _targets(folder: Path, files: Iterable[str]) -> list[Path]:
    """Return the paths, without ending, of the files of a division, in the order of the source files."""
    return [folder / f"{at:05d}-{digest}" for at, digest in enumerate(files)]


def _divided(directory: Path) -> Iterator[DividedFile]:
    return (DividedFile.read(path.with_suffix("")) for path in sorted(directory.glob("*-*.arrow")))


def _divide_file(path: Path, source: CorpusSource, pieces: int, target: Path, tally: FaultTally) -> None:
    """Write a file of a division, then its record."""
    divided, digests = defaultdict[int, PieceOfFile](PieceOfFile), defaultdict[int, RecordsDigest](RecordsDigest)
    options, n_batches, n_records, faults = pa.ipc.IpcWriteOptions(compression="zstd"), 0, 0, Counter[SkipReason]()
    with (
        replacing(target.with_suffix(".arrow")) as out,
        pa.ipc.new_file(out, CORPUS_RECORDS.arrow, options=options) as to,
    ):
        for group in _groups(read_file(path, source, tally), min(_MOST_BP, _PIECE_BP * pieces)):
            by_piece = defaultdict[int, list[CorpusRecord]](list)
            for record in group:
                by_piece[piece_of(record.record_id, pieces)].append(record)
            for number, records in sorted(by_piece.items()):
                to.write_batch(records_batch(records))
                digests[number].add(records)
                divided[number].batches.append(n_batches)
                divided[number].records += len(records)
                n_batches += 1
            n_records += len(group)
            faults.update(record.fault.reason for record in group if record.fault)
    for number, digest in digests.items():
        divided[number].sha256 = digest.hexdigest()
    stated = {"records": n_records, "faults": dict(faults)}
    stated |= {"pieces": {str(number): asdict(piece) for number, piece in divided.items()}}
    write_atomic(target.with_suffix(".json"), canonical_json(stated, target.name))


def _groups(records: Iterable[CorpusRecord], most_bp: int) -> Iterator[list[CorpusRecord]]:
    """Yield records in groups of about so many bases."""
    group, size_bp = list[CorpusRecord](), 0
    for record in records:
        group.append(record)
        size_bp += len(record.sequence)
        if size_bp >= most_bp or len(group) == _MOST_RECORDS:
            yield group
            group, size_bp = [], 0
    if group:
        yield group


def _is_whole(path: Path) -> bool:
    return path.with_suffix(".json").is_file() and path.with_suffix(".arrow").is_file()


def _taken_over(former: Path | None, target: Path, source: CorpusSource) -> bool:
    """Copy a file of the same digest with its record from another division; return False if it is not whole there."""
    found = [] if former is None else sorted(former.glob(f"*-{target.name.partition('-')[2]}.json"))
    path = next((each.with_suffix("") for each in found if _is_whole(each.with_suffix(""))), None)
    if path is None:
        return False
    try:
        divided = DividedFile.read(path)
        for number in divided.pieces:
            deque(divided.piece_records(number, source), maxlen=0)
    except CorruptResourceError:
        return False
    with path.with_suffix(".arrow").open("rb") as there, replacing(target.with_suffix(".arrow")) as out:
        shutil.copyfileobj(there, out, 1 << 20)
    write_atomic(target.with_suffix(".json"), path.with_suffix(".json").read_bytes())
    return True


@dataclass(slots=True)
class _Found:
    """What was found in a division of a source into so many pieces."""

    source: CorpusSource
    pieces: int
    rows: int = 0
    wrong: defaultdict[str, RowsAtFault] = field(default_factory=lambda: defaultdict(RowsAtFault))

    def compare(self, divided: DividedFile, path: Path) -> None:
        """Compare a file of a division with its record, and its rows with those of the source file."""
        found = sum(self._compare_piece(divided, number, piece) for number, piece in divided.pieces.items())
        expected, self.rows = count_rows(path), self.rows + found
        if not expected == found == divided.records:
            facts = {"expected": expected, "got": found, "stated": divided.records}
            self.wrong[RECORDS_ACCOUNTED_FOR].add(file=path.name, problem="records were lost or repeated", **facts)

    def result(self, check: Check, *, passed: bool | None = None, **figures: JsonValue) -> CheckResult:
        """Return the result of a check, which passes if nothing was found unless ``passed`` says otherwise."""
        wrong = self.wrong[check]
        said: dict[str, JsonValue] = {"wrong": len(wrong), "rows": self.rows, **figures}
        result = CheckResult(check, passed=not wrong if passed is None else passed, figures=said, rows=tuple(wrong))
        return stating_compared(result, self.rows, "the source has no record")

    def _compare_piece(self, divided: DividedFile, number: int, piece: PieceOfFile) -> int:
        digest, found = RecordsDigest(), 0
        for record in chain.from_iterable(records_of(batch, self.source) for batch in divided.batches(piece.batches)):
            digest.add([record])
            found += 1
            if piece_of(record.record_id, self.pieces) != number:
                self.wrong[RECORDS_IN_THEIR_PIECES].add(record=record.record_id, problem="is of another piece")
            if record.fault is not None:
                reason, got = record.fault
                facts = {"problem": reason, "expected": FAULTS[reason], "got": got}
                self.wrong[_RARE].add(record=record.record_id, **facts)
        if digest.hexdigest() != piece.sha256:
            self.wrong[RECORDS_IN_THEIR_PIECES].add(record=f"piece {number}", problem="differs from what was read")
        return found
