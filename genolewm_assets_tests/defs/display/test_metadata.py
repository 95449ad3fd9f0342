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
from genolewm_assets_tests.pictures import PICTURES, parse
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import STEPS, everything_built
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS, RELEASES

#: Figures that the UI plots, besides rows and bytes.
PLOTTED = {
    "gnomad/shard": {"alleles_filtered", "alleles_rejected"},
    "clinvar/shard": {"alleles_pathogenic", "alleles_benign", "alleles_uncertain", "alleles_with_two_stars"},
    "clinvar/changes": {"added", "removed", "class_changed"},
    "windows/index": {"acgt_share_in_windows", "mean_gc"},
    "corpus/windows": {"base_share_in_windows", "maybe_human_share", "placed_share"},
    "embeddings/cache": {"norm_p1", "norm_median", "norm_p99"},
    "embeddings/corpus": {"norm_p1", "norm_median", "norm_p99"},
    "holdouts/manifest": {"window_share_held_out", "corpus_share_held_out", "alleles_held_out"},
    "packages/audit": {"power", "tuples_drawn", "training_windows"},
    "packages/split": {
        "train_windows",
        "validation_windows",
        "test_windows",
        "distance_from_mix",
        "distance_from_rfc_0006",
        "unseen_windows",
    },
}

#: Rows of some partitions of the tiny world.
ROWS = {
    ("reference/genome", None): 4,
    ("gnomad/shard", "chr17"): 45,
    ("gnomad/shard", "chr21"): 0,
    ("clinvar/release", RELEASES[1]): 65,
    ("clinvar/shard", RELEASES[1]): 65,
    ("windows/index", "chr17"): 27,
    ("embeddings/cache", "chr17"): 27,
    ("corpus/windows", CORPUS[0]): 3,
    ("embeddings/corpus", CORPUS[0]): 3,
    ("mito/genomes", None): 0,
    ("mito/tokens", None): 0,
    ("mito/variants", RELEASES[1]): 0,
}

BUILT = [(asset, partition) for assets, partitions in STEPS for asset in assets for partition in partitions]

#: What the run of each asset counts: its long stages, and the bytes of what it hashes.
STAGES = {
    "reference/genome": {"of FASTA copied", "bp checked", "hashed"},
    "windows/index": {"windows", "hashed"},
    "corpus/windows": {"records", "hashed"},
    "gnomad/shard": {"of VCF read", "hashed"},
    "clinvar/release": {"hashed"},
    "clinvar/shard": {"of VCF read", "hashed"},
    "clinvar/changes": {"alleles", "hashed"},
    "embeddings/cache": {"windows", "windows checked", "hashed"},
    "embeddings/corpus": {"windows", "windows checked", "hashed"},
    "holdouts/manifest": {"corpus windows", "hashed"},
    "packages/split": {"windows", "windows checked", "hashed"},
}

#: A line of progress, of amounts.
_AMOUNT = r"[\d,.]+(?: (?:bytes?|[kMG]B))?"
PROGRESS = re.compile(
    rf"{_AMOUNT}(?: of {_AMOUNT})? ([A-Za-z ]+?)(?: \(\d+ %\))?(?:, {_AMOUNT}/s(?:, [\d,]+ s left)?)?"
)


def test_files_beyond_a_screenful_are_counted() -> None:
    value = list_files(tuple(FileEntry(f"data/{n:05d}.parquet", 10, "0" * 64, 1) for n in range(70)))
    assert isinstance(value, dg.TableMetadataValue)
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


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> dg.DagsterInstance:
    return everything_built(tmp_path_factory).instance


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return everything_built(tmp_path_factory).root


@pytest.fixture(scope="module")
def built(instance: dg.DagsterInstance) -> dict[tuple[str, str | None], Materialised]:
    """Return what the built world recorded of each partition."""
    return {(asset, partition): recorded(instance, asset, partition) for asset, partition in BUILT}


def recorded(instance: dg.DagsterInstance, asset: str, partition: str | None) -> Materialised:
    of = dg.AssetRecordsFilter(dg.AssetKey(asset.split("/")), [partition] if partition else None)
    (record,) = instance.fetch_materializations(of, limit=1).records
    assert record.asset_materialization is not None
    metadata = record.asset_materialization.metadata
    return Materialised({name: value.value for name, value in metadata.items()} | {"_": metadata}, record.run_id)


@pytest.mark.parametrize(("asset", "partition"), ROWS)
def test_rows_are_shown(built: dict[tuple[str, str | None], Materialised], asset: str, partition: str | None) -> None:
    key = "dagster/row_count" if partition is None else "dagster/partition_row_count"
    metadata = built[asset, partition].metadata
    assert metadata[key] == ROWS[asset, partition]
    assert len({"dagster/row_count", "dagster/partition_row_count"} & metadata.keys()) == 1


def read_table_entry(value: dg.MetadataValue) -> dict[str, str]:
    """Return the sizes of listed files by name; a table that would leave its box is Markdown."""
    if isinstance(value, dg.TableMetadataValue):
        return {str(record.data["file"]): str(record.data["size"]) for record in value.records}
    lines = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in str(value.value).strip().splitlines()]
    return {cells[0]: cells[-1] for cells in lines[2:]}


@each_row(("asset", "partition"), BUILT)
def test_a_materialisation_leads_to_its_files(
    built: dict[tuple[str, str | None], Materialised], root: Path, asset: str, partition: str | None
) -> None:
    metadata = built[asset, partition].metadata
    folder = root / metadata["path"]
    assert folder.is_dir()
    if asset == "packages/current":
        return
    assert {"dagster/row_count", "dagster/partition_row_count"} & metadata.keys()
    listed = read_table_entry(metadata["_"]["files"])
    assert listed
    rest = [name for name in listed if name.startswith("and ")]
    for name in rest:
        del listed[name]
    for name, size in listed.items():
        assert size == megabytes((folder / name).stat().st_size)
    if not rest:
        assert metadata["dagster/size_bytes"] == sum((folder / name).stat().st_size for name in listed)
    assert metadata["size"] == megabytes(metadata["dagster/size_bytes"])
    inside = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    others = inside - {*listed, *UNLISTED}
    assert rest == ([f"and {len(others):,} more: see manifest.json"] if others else [])
    assert all(name.endswith(".npy") for name in others)
    assert metadata.get("dagster/column_lineage") == column_lineage(GATED[asset].sources)


@each_row(("asset", "partition"), BUILT)
def test_pictures_exist(built: dict[tuple[str, str | None], Materialised], asset: str, partition: str | None) -> None:
    if (asset, partition) == ("clinvar/changes", RELEASES[0]):
        return  # there is none before it to compare with
    metadata = built[asset, partition].metadata
    for name in PICTURES.get(asset, set()):
        alt, data, svg = parse(metadata["_"][name])
        assert len(alt) > 15
        assert len(data) < 60_000
        assert round(float(svg.attrib["width"].removesuffix("pt")) * 96 / 72) == 560
    for name in PLOTTED.get(asset, set()):
        assert isinstance(metadata[name], int | float)
        assert math.isfinite(metadata[name])


def test_entries_come_in_reading_order() -> None:
    given = {
        "lineage": dg.TableColumnLineage({}),
        "dagster/uri": dg.MetadataValue.path("/root"),
        "files": dg.MetadataValue.table([dg.TableRecord({"file": "a"})]),
        "stated": dg.MetadataValue.json({}),
        "counts": dg.MetadataValue.md("| what | count |"),
        "card": dg.MetadataValue.md("# Card"),
        "picture": dg.MetadataValue.md("![12 alleles](data:image/svg+xml;base64,AAAA)"),
        "alleles": dg.MetadataValue.int(12),
        "share": dg.MetadataValue.float(0.5),
        "predecessor": dg.MetadataValue.text("2024-01-07"),
        "dagster/partition_row_count": dg.MetadataValue.int(12),
        "headline": dg.MetadataValue.text("No leak was found."),
    }
    assert list(in_reading_order(given)) == [
        "headline",
        "dagster/partition_row_count",
        "alleles",
        "share",
        "predecessor",
        "picture",
        "card",
        "counts",
        "dagster/uri",
        "files",
        "stated",
        "lineage",
    ]


@each_row(("asset", "partition"), [key for key in BUILT if key[0] in PICTURES])
def test_a_materialisation_shows_rows_and_figures_then_pictures_then_the_rest(
    built: dict[tuple[str, str | None], Materialised], asset: str, partition: str | None
) -> None:
    entries: dict[str, dg.MetadataValue] = built[asset, partition].metadata["_"]
    names = list(entries)
    assert next(name for name in names if name != HEADLINE) in {"dagster/row_count", "dagster/partition_row_count"}
    assert names.count(HEADLINE) == (names[0] == HEADLINE) == (asset == "packages/audit")
    if (asset, partition) == ("clinvar/changes", RELEASES[0]):
        return  # there is none before it to compare with
    pictures = [names.index(name) for name in PICTURES[asset]]
    figures = [names.index(name) for name in PLOTTED.get(asset, set())]
    assert max(figures) < names.index("pictures") < min(pictures)
    assert max(pictures) < names.index("files")
    assert "sample_rows" not in names or max(pictures) < names.index("sample_rows") < names.index("files")


def test_the_card_is_read_before_its_yaml(built: dict[tuple[str, str | None], Materialised]) -> None:
    metadata = built["packages/split", RELEASES[1]].metadata
    names = list(metadata)
    assert names.index("card") < names.index("card_yaml")
    assert str(metadata["card"]).startswith("# ")
    assert str(metadata["card_yaml"]).startswith("```yaml\npretty_name: ")


@each_row("asset", STAGES)
def test_a_run_says_how_far_it_is_in_every_long_stage(
    built: dict[tuple[str, str | None], Materialised], instance: dg.DagsterInstance, asset: str
) -> None:
    # The last release is compared with one, and chr17 has a source.
    partition = next(key for key in ("chr17", CORPUS[0], RELEASES[1], None) if (asset, key) in built)
    log = instance.all_logs(built[asset, partition].run_id)
    said = {found[1] for entry in log if (found := PROGRESS.fullmatch(entry.user_message))}
    assert said >= STAGES[asset]
