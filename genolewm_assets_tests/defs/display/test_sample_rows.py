"""Five rows of each table: from the whole of it, cut, and as text that Markdown does not take for its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.defs.display.metadata import sample_rows
from genolewm_assets.store.artefacts import ArtefactId, FileEntry, Manifest, Published


def published(folder: Path, files: dict[str, pa.Table], **options: int) -> Published:
    entries = []
    for name, table in files.items():
        pq.write_table(table, folder / name, **options)
        entries.append(FileEntry(name, (folder / name).stat().st_size, "0" * 64, table.num_rows))
    manifest = Manifest.__new__(Manifest)
    object.__setattr__(manifest, "files", tuple(entries))
    return Published(ArtefactId("a/b"), folder, manifest, reused=False)


def cells(found: Published) -> list[list[str]]:
    text = str(sample_rows(found)["sample_rows"].value)
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]


def test_rows_are_from_the_whole_table(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(1_000)), "share": [n / 3 for n in range(1_000)]})
    found = cells(published(tmp_path, {"t.parquet": table}, row_group_size=10))
    assert found[2] == ["n", "0", "240", "490", "740", "990"]
    assert found[3][:3] == ["share", "0", "80"]


def test_files_with_the_same_columns_are_one_table(tmp_path: Path) -> None:
    files = {f"chr{n}.parquet": pa.table({"contig": [f"chr{n}"] * 3}) for n in (1, 2)}
    files |= {"rejects.parquet": pa.table({"reason": ["x"]}), "no.parquet": pa.table({"a": []})}
    found = published(tmp_path, files)
    text = str(sample_rows(found)["sample_rows"].value)
    assert "**chr1.parquet** and 1 more file\n" in text
    assert "**rejects.parquet**\n" in text
    assert "no.parquet" not in text
    assert cells(found)[2] == ["contig", "chr1", "chr2", "chr2", "chr2"]


def test_long_and_hostile_values_are_cut_and_shown_as_code(tmp_path: Path) -> None:
    values = ["A" * 100, "![x](h://e)", "`|`\n<b>", None, ""]
    text = str(sample_rows(published(tmp_path, {"t.parquet": pa.table({"v": values})}))["sample_rows"].value)
    assert "| v | `AAAAAAAAAAA…` | `![x](h://e)` | `'/' <b>` |  |  |" in text


def test_an_artefact_without_a_row_shows_none(tmp_path: Path) -> None:
    assert sample_rows(published(tmp_path, {"t.parquet": pa.table({"a": []})})) == {}
