"""What fits on a page of an asset: nothing is wider than its box, nothing is said twice, pictures need no click."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq

from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets_tests.defs.display import test_metadata as entries
from genolewm_assets_tests.defs.display.test_metadata import Page, Pages
from genolewm_assets_tests.pictures import PICTURES
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import BUILT

#: Fixtures with scope="module".
instance, root, built = entries.instance, entries.root, entries.built

#: Counts that are rows of some asset under another name.
REPEATING = {"kept", "windows", "genomes", "alleles", "visits", "changed", "fate: stored", "contigs"}

#: Characters that fit into the box of a value where the window is 1,366 pixels wide.
BOX = 33
#: Text that the UI shows at once has fewer characters.
AT_ONCE = 1_000


def shown_at_once(value: dg.MetadataValue) -> str:
    """Return the text that a page shows of a value without a click; of a table its widest line, cells joined."""
    match value:
        case dg.TextMetadataValue() | dg.PathMetadataValue() | dg.UrlMetadataValue():
            return str(value.value)
        case dg.MarkdownMetadataValue() if len(value.md_str or "") < AT_ONCE:
            return re.sub(r"\]\([^)]*\)", "]", value.md_str or "").translate(str.maketrans("|`*", "   "))
        case _:
            return ""


@each_row("page", BUILT)
def test_nothing_that_is_shown_at_once_leaves_its_box(built: Pages, root: Path, page: Page) -> None:
    for name, value in built[page].metadata["_"].items():
        text = shown_at_once(value)
        assert max(map(len, re.split(r"[\s/-]", text))) <= BOX, (name, text)
        assert not [line for line in str(value.value).splitlines() if text and line.startswith("|") and len(line) > 60]
        assert str(root) not in text, name
        if isinstance(value, dg.TableMetadataValue):
            names = [column.name for column in value.schema.columns]
            rows = [[str(record.data.get(column) or "") for column in names] for record in value.records]
            widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
            assert sum(widths) + 2.5 * len(widths) <= 38, name


@each_row("page", BUILT)
def test_digests_have_twelve_digits_and_paths_begin_at_the_root(built: Pages, root: Path, page: Page) -> None:
    for name, value in built[page].metadata["_"].items():
        text = repr(value)
        if name == "open" or text.startswith("MarkdownMetadataValue(md_str='!["):
            continue  # code to be copied, and pictures
        assert not re.search(r"\b[0-9a-f]{32,}\b", text), name
        assert str(root) not in text, name


@each_row("page", [page for page in BUILT if page[0] in GATED])
def test_the_counts_repeat_no_row_and_no_figure(built: Pages, page: Page) -> None:
    metadata = built[page].metadata
    rows = next(metadata[name] for name in ("dagster/row_count", "dagster/partition_row_count") if name in metadata)
    cells = [line.split("|")[1:3] for line in str(metadata.get("counts", "")).splitlines()[2:]]
    listed = {name.strip(): int(n.replace(",", "")) for name, n in cells}
    figures = {name for name, value in metadata["_"].items() if isinstance(value, dg.IntMetadataValue)}
    assert not figures & listed.keys()
    assert rows < 10 or [name for name, n in listed.items() if n == rows and name in REPEATING] == []


@each_row("page", BUILT)
def test_five_rows_of_each_table_are_shown_unless_they_are_personal(built: Pages, root: Path, page: Page) -> None:
    metadata = built[page].metadata
    shown = str(metadata.get("sample_rows", ""))
    tables = [path for path in (root / metadata["path"]).rglob("*.parquet") if pq.read_metadata(path).num_rows]
    if page[0] in {"packages/current", "forensic/profiles"} or not tables:
        assert shown == ""
        return
    assert len(shown) >= AT_ONCE, "after a click, because it is wide"
    columns = {column for path in tables for column in pq.read_schema(path).names}
    named = {line.split("|")[1].strip() for line in shown.splitlines() if line.startswith("| ")}
    assert named - {"column", "---"} == columns


@each_row("asset", PICTURES)
def test_the_page_shows_its_pictures_at_once(built: Pages, asset: str) -> None:
    made = next(built[key] for key in reversed(BUILT) if key[0] == asset)
    shown = str(made.metadata["pictures"])
    assert len(shown) < AT_ONCE
    for name in PICTURES[asset]:
        address = f"/genolewm/pictures/{asset}?run={made.run_id}&entry={name}"
        assert f"({address})]({address}&size=full)" in shown
