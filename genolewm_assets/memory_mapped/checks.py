"""Check that a mapped form is what the tables of its package make. Not here: what readers make of it (``audit``)."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

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
_FIGURES: Final = ("windows", "alleles", "held_out_alleles", "kmers", "windows_that_spell_held_alleles")
_READ_BYTES: Final = 1 << 20


def check_mapped(
    directory: Path, info: PackageInfo, progress: Progress = NO_PROGRESS, *, scratch: Path | None = None
) -> CheckResult:
    """Write the mapped form of every split anew from the tables of the package, and compare it byte by byte.

    Parameters
    ----------
    directory, info
        Folder of the package, and content of its ``package.json``.
    scratch
        Folder in which the new form of a split lies meanwhile, a quarter of a byte a base; None: the system's for
        temporary files.

    Returns
    -------
    CheckResult
        Every file that is missing, differs, or is not made of the tables; counts of what was compared.
    """
    figures, wrong = Counter(dict.fromkeys(_FIGURES, 0)), RowsAtFault()
    total = sum(split.windows for split in info.splits.values())
    for split in Split:
        with tempfile.TemporaryDirectory(prefix=".genolewm-form-", dir=scratch) as name:
            made = Path(name) / split
            try:
                write_from_tables(made, directory, split)
            except (ResourceError, InputError) as err:
                wrong.add(split=split, file="", fault=f"the tables make none ({err})")
                continue
            figures.update(_figures(MappedSplit(made)))
            for file, fault in _differences(made, directory / arrays_path(split)):
                wrong.add(split=split, file=file, fault=fault)
        progress.advance(figures["windows"], total, "windows of the mapped form checked")
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


def _differences(made: Path, carried: Path) -> Iterator[tuple[str, str]]:
    """Yield path and fault of the files of two folders that differ."""
    files = [
        {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        for folder in (made, carried)
    ]
    for name in sorted(files[0] | files[1]):
        if name not in files[1]:
            yield name, "is missing"
        elif name not in files[0]:
            yield name, "is not made of the tables"
        elif (at := _first_difference(made / name, carried / name)) is not None:
            yield name, f"is not what the tables make, from byte {at:,} on"


def _first_difference(one: Path, other: Path) -> int | None:
    """Return the first byte in which two files differ; None if they are equal."""
    with one.open("rb") as first, other.open("rb") as second:
        for at in range(0, one.stat().st_size + 1, _READ_BYTES):
            blocks = first.read(_READ_BYTES), second.read(_READ_BYTES)
            if blocks[0] != blocks[1]:
                return at + next(place for place, (a, b) in enumerate(zip_longest(*blocks)) if a != b)
    return None
