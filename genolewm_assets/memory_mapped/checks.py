"""Check that a mapped form is what the tables of its package make. Not here: what readers make of it (``audit``)."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from genolewm_assets.errors import InputError, ResourceError
from genolewm_assets.genome import Split
from genolewm_assets.memory_mapped.layout import HELD_OUT, HELD_SEQUENCES
from genolewm_assets.memory_mapped.split import MappedSplit
from genolewm_assets.memory_mapped.writer import write_from_tables
from genolewm_assets.packages import ARRAYS, PackageInfo, VariantSource, arrays_path, read_package_info
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import Check, CheckResult, Finding, FindingKind, RowsAtFault
from genolewm_assets.store.files import JsonValue

MAPPED_FORM_RIGHT = Check(
    "mapped_form_right",
    "The mapped form that trainers open (folder `arrays`) has the bytes that are made of the tables now: every window "
    "with its bases, place and states, and every allele that edits are drawn from or may not make.",
)
_READ_BYTES: Final = 1 << 20
_FIGURES: Final = ("windows", "alleles", "held_out_alleles", "kmers", "windows_that_spell_held_alleles")


def check_mapped(
    directory: Path, info: PackageInfo, progress: Progress = NO_PROGRESS, *, scratch: Path | None = None
) -> CheckResult:
    """Make the mapped form of every split from the tables of the package, and compare it byte by byte as it is made.

    Parameters
    ----------
    directory, info
        Folder of the package, and content of its ``package.json``.
    scratch
        Folder in which alleles wait if they are many; None: the system's for temporary files.

    Returns
    -------
    CheckResult
        Every file that is missing, differs, or is not made of the tables; counts of what was compared.
    """
    figures, wrong = Counter(dict.fromkeys(_FIGURES, 0)), RowsAtFault()
    total, done = sum(split.windows for split in info.splits.values()), 0
    for split in Split:
        carried = directory / arrays_path(split)
        with tempfile.TemporaryDirectory(prefix=".genolewm-form-", dir=scratch) as name:
            faults = _find_faults(carried, directory, split, Path(name))
        for file, fault in faults:
            wrong.add(split=split, file=file, fault=fault)
        if not faults:
            figures.update(_figures(MappedSplit(carried)))
        progress.advance(done := done + info.splits[split].windows, total, "windows of the mapped form checked")
    shown: dict[str, JsonValue] = {**figures, "wrong": len(wrong)}
    return CheckResult(MAPPED_FORM_RIGHT, passed=not wrong, figures=shown, rows=tuple(wrong))


def find_mapped_faults(path: Path, *, progress: Progress = NO_PROGRESS) -> list[Finding]:
    """Compare the mapped form of a package with its tables; the files themselves are as recorded.

    Returns
    -------
    list of Finding
        The first ten files that differ, by split; empty if there is none.
    """
    directory = path.resolve()
    found = check_mapped(directory, read_package_info(directory), progress)
    return [
        Finding(FindingKind.CORRUPT, directory.name, f"{ARRAYS}/{row['split']}/{row['file']}", str(row["fault"]))
        for row in found.rows
    ]


def _figures(made: MappedSplit) -> dict[str, int]:
    alleles = {name: each.n_alleles for name, each in made.index.alleles.items()}
    spelling = 0 if made.index.n_kmers is None else int(made.column(f"{HELD_SEQUENCES}/spells_held").sum())
    numbers = (made.index.n_windows, sum(alleles[source] for source in VariantSource), alleles[HELD_OUT])
    return dict(zip(_FIGURES, (*numbers, made.index.n_kmers or 0, spelling), strict=True))


def _find_faults(carried: Path, directory: Path, split: Split, scratch: Path) -> list[tuple[str, str]]:
    """Return path and fault of the files of a split that are not what the tables of a package make."""
    made = dict[Path, _ComparedFile]()

    def compare(path: Path) -> _ComparedFile:
        made[path] = _ComparedFile(path)
        return made[path]

    ended: ResourceError | InputError | None = None
    try:
        write_from_tables(carried, directory, split, create=compare, scratch=scratch)
    except (ResourceError, InputError) as err:
        ended = err
    faults = {path: fault for path, file in made.items() if (fault := file.fault(whole=ended is None))}
    if ended is None:
        extra = (path for path in carried.rglob("*") if path.is_file() and path not in made)
        faults |= dict.fromkeys(extra, "is not made of the tables")
    found = sorted((path.relative_to(carried).as_posix(), fault) for path, fault in faults.items())
    # The form ends early where a file of it that is read back is damaged, and then the file is the fault.
    if ended is not None and not (found and str(carried) in str(ended)):
        found.insert(0, ("", f"the tables make none ({ended})"))
    return found


class _ComparedFile:
    """Compares what would be written to a file with what is there."""

    def __init__(self, path: Path) -> None:
        self._path, self._end, self._differs = path, 0, list[int]()
        try:
            self._file: BinaryIO | None = path.open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            self._file = None

    def write(self, data: bytes | memoryview) -> None:
        """Compare bytes with those at the current place."""
        if self._file is None:
            return
        wanted = np.frombuffer(data, np.uint8)
        for first in range(0, len(wanted), _READ_BYTES):
            at, some = self._file.tell(), wanted[first : first + _READ_BYTES]
            there = np.frombuffer(self._file.read(len(some)), np.uint8)
            self._end = max(self._end, at + len(some))
            if not np.array_equal(there, some):
                both = min(len(there), len(some))
                differing = np.flatnonzero(there[:both] != some[:both])
                self._differs.append(at + (int(differing[0]) if len(differing) else both))

    def seek(self, at: int) -> None:
        """Go to a byte."""
        if self._file is not None:
            self._file.seek(at)

    def close(self) -> None:
        """Close the file that is there."""
        if self._file is not None:
            self._file.close()

    def fault(self, *, whole: bool) -> str | None:
        """Return what is wrong with the file; ``whole``: nothing more would be written."""
        if self._file is None:
            return "is missing"
        if whole and not self._differs and self._path.stat().st_size != self._end:
            self._differs.append(self._end)
        return f"is not what the tables make, from byte {min(self._differs):,} on" if self._differs else None
