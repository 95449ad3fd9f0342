"""What ``package.json`` states of the rows of a package, compared with them; and bases that are none.

Digests tell that a file is the one that was written, not that what is stated of it holds: whoever changes a package can
write them anew.
Not here: files, digests and rows per file (``damage``); comparing a package with what it was made from
(``package_build.checks``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.packages.files import GROUP_ROWS
from genolewm_assets.packages.info import PackageInfo, SplitInfo, split_digest
from genolewm_assets.packages.schema import PACKAGE_FILE, controls_path, variants_path
from genolewm_assets.progress import ByteCount
from genolewm_assets.store.artefacts import Damage
from genolewm_assets.store.tables import reading_parquet

#: What must not be in a column of bases, in every table that has the column.
_FOREIGN = {
    **dict.fromkeys(("sequence", "ref", "alt"), "[^ACGT]|^$"),
    **dict.fromkeys(("left_flank", "right_flank"), "[^ACGT]"),
    **dict.fromkeys(("left_context", "right_context"), "[^ACGTN]"),
}
#: Columns by which the rows of train are counted.
_COUNTED = {"origin": "windows.{}.train", "source": "alleles.{}.train"}
_ROWS_OF_TRAIN = (["windows", "train"], ["alleles", "train"])


def find_false_claims(directory: Path, info: PackageInfo, count: ByteCount) -> Iterator[Damage]:
    """Read every table of a package whose files are undamaged; yield what ``package.json`` states falsely of them."""
    trained: Counter[str] = Counter()
    tables = [entry for entry in info.files if entry.path.endswith(".parquet")]
    count.expect(sum(entry.size_bytes for entry in tables))
    for entry in tables:
        try:
            yield from _find_foreign_bases(directory, entry.path, trained)
        except CorruptResourceError as err:
            yield Damage(entry.path, err.problem)
            return
        count.add(entry.size_bytes)
    for split in Split:
        stated, found = info.splits.get(split), _split_of(info, split)
        if stated != found:
            yield Damage(PACKAGE_FILE, f"states other figures of {split} than its files have", f"{found}", f"{stated}")
    rows_of_train = {name: n for name, n in info.counts.items() if name.split(".")[::2] in _ROWS_OF_TRAIN}
    for name in sorted(trained.keys() | rows_of_train):
        if trained[name] != rows_of_train.get(name, 0):
            yield Damage(PACKAGE_FILE, f"states another {name!r}", f"{trained[name]}", f"{rows_of_train.get(name, 0)}")


def _find_foreign_bases(directory: Path, path: str, trained: Counter[str]) -> Iterator[Damage]:
    """Yield the first value of each column of a table that is no sequence of bases; count the rows of train."""
    is_train = path.startswith((f"data/{Split.TRAIN}-", variants_path(Split.TRAIN)))
    with reading_parquet(directory / path), pq.ParquetFile(directory / path) as file:
        columns = [name for name in file.schema_arrow.names if name in _FOREIGN or (is_train and name in _COUNTED)]
        for batch in file.iter_batches(GROUP_ROWS, columns=columns):
            for name in columns:
                if name in _COUNTED:
                    for value in pc.value_counts(batch[name]).to_pylist():
                        trained[_COUNTED[name].format(value["values"])] += value["counts"]
                elif len(foreign := batch[name].filter(pc.match_substring_regex(batch[name], _FOREIGN[name]))):
                    yield Damage(path, f"column {name!r} has other letters than bases: {foreign[0].as_py()[:40]!r}")
                    return


def _split_of(info: PackageInfo, split: Split) -> SplitInfo:
    """Return what the files of a split have."""
    names = (f"data/{split}-", variants_path(split), controls_path(split))
    windows, variants, controls = (
        sum(entry.rows or 0 for entry in info.files if entry.path.startswith(name)) for name in names
    )
    return SplitInfo(windows, variants, controls, split_digest(info.files, split))
