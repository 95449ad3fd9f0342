"""What people see of an asset before and after it is materialised: texts, owners, columns, rows, files, pictures."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.display.column_lineage import column_lineage
from genolewm_assets.defs.display.metadata import HEADLINE, in_reading_order, list_files, megabytes, plotted, share
from genolewm_assets.store.artefacts.manifest import UNLISTED, FileEntry
from genolewm_assets_tests.pictures import PICTURES, fitting
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import BUILT, everything_built
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS, RELEASES

#: Figures that the UI plots, besides rows and bytes.
PLOTTED = {
    "gnomad/shard": {"alleles_filtered", "alleles_rejected"},
    "clinvar/shard": {"alleles_pathogenic", "alleles_benign", "alleles_uncertain", "alleles_with_two_stars"},
    "clinvar/changes": {"added", "removed", "class_changed"},
    "windows/index": {"acgt_share_in_windows", "mean_gc"},
    "corpus/records": {"pieces", "faulty_share"},
    "corpus/windows": {"base_share_in_windows", "maybe_human_share", "placed_share"},
    "embeddings/cache": {"norm_p1", "norm_median", "norm_p99"},
    "embeddings/corpus": {"norm_p1", "norm_median", "norm_p99"},
    "holdouts/manifest": {"window_share_held_out", "corpus_share_held_out", "alleles_held_out"},
    "packages/audit": {"power", "tuples_drawn", "training_windows"},
    "packages/split": {
        *("train_windows", "validation_windows", "test_windows"),
        *("distance_from_mix", "distance_from_rfc_0006", "unseen_windows"),
    },
}

#: Rows of some partitions of the tiny world.
ROWS = {
    **{("reference/genome", None): 4, ("gnomad/shard", "chr17"): 45, ("gnomad/shard", "chr21"): 0},
    **{(f"clinvar/{noun}", RELEASES[1]): 65 for noun in ("release", "shard")},
    **{(asset, "chr17"): 27 for asset in ("windows/index", "embeddings/cache")},
    **{("corpus/records", CORPUS[0]): 2},
    **{(asset, CORPUS[0]): 3 for asset in ("corpus/windows", "embeddings/corpus")},
    **{("mito/genomes", None): 0, ("mito/tokens", None): 0, ("mito/variants", RELEASES[1]): 0},
}

#: There is none before it to compare with.
FIRST_CHANGES = ("clinvar/changes", RELEASES[0])

#: What the run of each asset counts in its long stages, besides the bytes of what it hashes.
STAGES: dict[str, set[str]] = {
    **{"reference/genome": {"of FASTA copied", "bp checked"}, "clinvar/release": set()},
    **{"windows/index": {"windows"}, "clinvar/changes": {"alleles"}, "holdouts/manifest": {"corpus windows"}},
    **{asset: {"records"} for asset in ("corpus/records", "corpus/windows")},
    **{asset: {"of VCF read"} for asset in ("gnomad/shard", "clinvar/shard")},
    **{asset: {"windows", "windows checked"} for asset in ("embeddings/cache", "embeddings/corpus", "packages/split")},
}

#: A line of progress, of amounts.
_AMOUNT = r"[\d,.]+(?: (?:bytes?|[kMG]B))?"
PROGRESS = re.compile(
    rf"{_AMOUNT}(?: of {_AMOUNT})? ([A-Za-z ]+?)(?: \(\d+ %\))?(?:, {_AMOUNT}/s(?:, [\d,]+ s left)?)?"
)


def test_files_beyond_a_screenful_are_counted() -> None:
    value = list_files(tuple(FileEntry(f"data/{n:05d}.parquet", 10, "0" * 64, 1) for n in range(70)))
    assert len(value.records) == 51
    assert value.records[-1].data["file"] == "and 20 more: see manifest.json"
    assert value.records[-1].data["size"] == "0.0002 MB"


def test_a_figure_that_is_no_number_is_not_plotted() -> None:
    figures = plotted(a=1, b=0.5, c=None, d=math.nan, e=math.inf, f=share(1, 0))
    assert {name: value.value for name, value in figures.items()} == {"a": 1, "b": 0.5}


@dataclass(frozen=True)
class Materialised:
    """What one run recorded."""

    metadata: dict[str, Any]
    run_id: str


#: A partition of an asset, and what was recorded of each.
Page = tuple[str, str | None]
Pages = dict[Page, Materialised]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> dg.DagsterInstance:
    return everything_built(tmp_path_factory).instance


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return everything_built(tmp_path_factory).root


@pytest.fixture(scope="module")
def built(instance: dg.DagsterInstance) -> Pages:
    return {page: recorded(instance, *page) for page in BUILT}


def recorded(instance: dg.DagsterInstance, asset: str, partition: str | None) -> Materialised:
    of = dg.AssetRecordsFilter(dg.AssetKey(asset.split("/")), [partition] if partition else None)
    (record,) = instance.fetch_materializations(of, limit=1).records
    metadata = record.asset_materialization.metadata
    return Materialised({name: value.value for name, value in metadata.items()} | {"_": metadata}, record.run_id)


@each_row("page", ROWS)
def test_rows_are_shown(built: Pages, page: Page) -> None:
    metadata = built[page].metadata
    assert metadata["dagster/row_count" if page[1] is None else "dagster/partition_row_count"] == ROWS[page]
    assert len({"dagster/row_count", "dagster/partition_row_count"} & metadata.keys()) == 1


def read_table_entry(value: dg.MetadataValue) -> dict[str, str]:
    """Return the sizes of listed files by name; a table that would leave its box is Markdown."""
    if isinstance(value, dg.TableMetadataValue):
        return {str(record.data["file"]): str(record.data["size"]) for record in value.records}
    lines = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in str(value.value).strip().splitlines()]
    return {cells[0]: cells[-1] for cells in lines[2:]}


@each_row("page", BUILT)
def test_a_materialisation_leads_to_its_files(built: Pages, root: Path, page: Page) -> None:
    metadata = built[page].metadata
    folder = root / metadata["path"]
    assert folder.is_dir()
    if page[0] == "packages/current":
        return
    assert {"dagster/row_count", "dagster/partition_row_count"} & metadata.keys()
    all_listed = read_table_entry(metadata["_"]["files"])
    rest = [name for name in all_listed if name.startswith("and ")]
    listed = {name: size for name, size in all_listed.items() if name not in rest}
    assert listed
    for name, size in listed.items():
        assert size == megabytes((folder / name).stat().st_size)
    if not rest:
        assert metadata["dagster/size_bytes"] == sum((folder / name).stat().st_size for name in listed)
    assert metadata["size"] == megabytes(metadata["dagster/size_bytes"])
    inside = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    others = inside - {*listed, *UNLISTED}
    assert rest == ([f"and {len(others):,} more: see manifest.json"] if others else [])
    assert all(name.endswith(".npy") for name in others)
    assert metadata.get("dagster/column_lineage") == column_lineage(GATED[page[0]].sources)


@each_row("page", [page for page in BUILT if page != FIRST_CHANGES])
def test_pictures_exist(built: Pages, page: Page) -> None:
    metadata = built[page].metadata
    for name in PICTURES.get(page[0], set()):
        assert len(fitting(metadata["_"][name])[0]) > 15
    for name in PLOTTED.get(page[0], set()):
        assert math.isfinite(metadata[name])


def test_entries_come_in_reading_order() -> None:
    kinds: list[dict[str, Any]] = [
        {"headline": dg.MetadataValue.text("No leak was found.")},
        {"dagster/partition_row_count": dg.MetadataValue.int(12)},
        {"alleles": dg.MetadataValue.int(12), "share": dg.MetadataValue.float(0.5), "by": dg.MetadataValue.text("x")},
        {"picture": dg.MetadataValue.md("![12 alleles](data:image/svg+xml;base64,AAAA)")},
        {"card": dg.MetadataValue.md("# Card")},
        {"counts": dg.MetadataValue.md("| what | count |")},
        {
            "dagster/uri": dg.MetadataValue.path("/root"),
            "files": dg.MetadataValue.table([dg.TableRecord({"file": "a"})]),
        },
        {"stated": dg.MetadataValue.json({})},
        {"lineage": dg.TableColumnLineage({})},
    ]
    given = {name: value for kind in reversed(kinds) for name, value in kind.items()}
    assert list(in_reading_order(given)) == [name for kind in kinds for name in kind]


@each_row("page", [page for page in BUILT if page[0] in PICTURES])
def test_a_materialisation_shows_rows_and_figures_then_pictures_then_the_rest(built: Pages, page: Page) -> None:
    entries: dict[str, dg.MetadataValue] = built[page].metadata["_"]
    names = list(entries)
    assert next(name for name in names if name != HEADLINE) in {"dagster/row_count", "dagster/partition_row_count"}
    assert names.count(HEADLINE) == (names[0] == HEADLINE) == (page[0] == "packages/audit")
    if page == FIRST_CHANGES:
        return
    pictures = [names.index(name) for name in PICTURES[page[0]]]
    figures = [names.index(name) for name in PLOTTED.get(page[0], set())]
    assert max(figures) < names.index("pictures") < min(pictures)
    assert max(pictures) < names.index("files")
    assert "sample_rows" not in names or max(pictures) < names.index("sample_rows") < names.index("files")


def test_the_card_is_read_before_its_yaml(built: Pages) -> None:
    metadata = built["packages/split", RELEASES[1]].metadata
    assert [name for name in metadata if name.startswith("card")] == ["card", "card_yaml"]
    assert str(metadata["card"]).startswith("# ")
    assert str(metadata["card_yaml"]).startswith("```yaml\npretty_name: ")


@each_row("asset", STAGES)
def test_a_run_says_how_far_it_is_in_every_long_stage(built: Pages, instance: dg.DagsterInstance, asset: str) -> None:
    # The last release is compared with one, and chr17 has a source.
    partition = next(key for key in ("chr17", CORPUS[0], RELEASES[1], None) if (asset, key) in built)
    log = instance.all_logs(built[asset, partition].run_id)
    said = {found[1] for entry in log if (found := PROGRESS.fullmatch(entry.user_message))}
    assert said >= {*STAGES[asset], "hashed"}
