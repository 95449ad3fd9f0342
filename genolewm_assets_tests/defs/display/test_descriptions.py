"""What the UI says in words, and where it leads: descriptions, labels, values of closed sets, links to the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from genolewm_assets.definitions import defs
from genolewm_assets.defs.assets.graph import DECLARATIONS, GATED
from genolewm_assets.defs.runtime.automation import AUTOMATED, FOLLOWING, REBUILT, RECOMPUTED
from genolewm_assets.defs.runtime.declaration import CodePlace, Declaration, place_of_caller
from genolewm_assets.defs.runtime.settings import configured_source_url
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.store.tables.schema import one_of
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld

REPOSITORY_DEF = defs.get_repository_def()
SPECS = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
JOBS = [job for job in REPOSITORY_DEF.get_all_jobs() if not job.name.startswith("__")]
TABLES = [
    (asset.key, noun, table)
    for asset in DECLARATIONS
    for noun, table in {"": asset.table, **asset.tables}.items()
    if table is not None
]

#: Entries that are shown at every asset, and say what they are by their names.
PLAIN_ENTRIES = {
    *("kept", "path", "folder", "url", "size", "counts", "pictures", "sample_rows"),
    *("dagster/row_count", "dagster/partition_row_count", "dagster/size_bytes", "dagster/column_lineage"),
}

#: Columns of text whose values are no closed set: names, identifiers, sequences, digests, and texts of a source.
FREE_TEXT = {
    *("chrom", "contig", "placed_contig", "stated_contig", "held_contig", "ref", "alt", "sequence"),
    *("left_flank", "right_flank", "left_context", "right_context", "allele", "ladder", "locus", "problem", "sha256"),
    *("name", "key", "record_id", "window_id", "source_window_id", "cache_key", "unit", "cluster", "file"),
    *("md5", "circle_sha256", "haplogroup", "description", "detail", "note", "taxonomy", "filter", "grpmax", "rsid"),
    *("genes_from", "genes_to", "clnsig", "clnsig_from", "clnsig_to", "clnsig_conf", "clnsig_incl", "clnrevstat"),
    *("method", "searched", "result", "what", "oncogenicity", "somatic_impact", "variant_type", "consequence"),
    *("conditions", "hgvs", "got", "piece"),
}


def described() -> Iterator[tuple[str, str | None]]:
    """Yield everything that a page of the UI is about, with its description."""
    for key, spec in SPECS.items():
        yield f"asset {key}", spec.description
        for column in spec.metadata["dagster/column_schema"].columns:
            yield f"column {key}.{column.name}", column.description
    graph = defs.resolve_asset_graph()
    for key in graph.asset_check_keys:
        yield f"check {key.to_user_string()}", graph.get_check_spec(key).description
    for job in JOBS:
        yield f"job {job.name}", job.description
        for node in job.all_node_defs:
            yield f"op {node.name} of {job.name}", node.description
    for definition in (*REPOSITORY_DEF.schedule_defs, *REPOSITORY_DEF.sensor_defs):
        yield f"{type(definition).__name__} {definition.name}", definition.description
    for name, resource in (defs.resources or {}).items():
        yield f"resource {name}", resource.description


DESCRIBED = list(described())


def test_everything_has_a_description() -> None:
    assert len(DESCRIBED) > 400
    assert [what for what, said in DESCRIBED if not said or not said.strip()] == []
    in_words = [(what, said) for what, said in DESCRIBED if not what.startswith("column ")]
    assert [what for what, said in in_words if len(str(said).split()) < 4] == []
    assert [what for what, said in DESCRIBED if "``" in str(said)] == [], "the UI shows Markdown"


@pytest.mark.parametrize("asset", DECLARATIONS, ids=lambda asset: asset.key)
def test_an_asset_leads_to_the_line_that_declares_it(asset: Declaration) -> None:
    key = asset.key
    (link,) = SPECS[key].metadata["dagster/code_references"].code_references
    file = Path(link.file_path)
    assert file.is_relative_to(REPOSITORY)
    assert link.label == f"{file.stem}:{link.line_number}"
    assert len(link.label) <= 20, "the panel of the UI cuts it"
    nodes = ast.walk(ast.parse(file.read_text()))
    (declaration,) = (n for n in nodes if isinstance(n, ast.Assign | ast.AnnAssign) and n.lineno == link.line_number)
    stated = {word.arg: word.value for word in declaration.value.keywords}
    assert ast.literal_eval(stated["key"]) == key


def test_a_source_on_the_web_is_linked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENOLEWM_SOURCE_URL", "https://forge.example/genolewm/blob/v1/")
    place = GATED["gnomad/shard"].declared_at
    (link,) = place.link(configured_source_url()).code_references
    assert link.url == f"https://forge.example/genolewm/blob/v1/genolewm_assets/defs/assets/gnomad.py#L{place.line}"


def test_an_asset_of_another_package_is_linked_as_a_file(tmp_path: Path) -> None:
    (link,) = CodePlace(str(tmp_path / "assets.py"), 3).link("https://forge.example/genolewm").code_references
    assert (link.file_path, link.line_number, link.label) == (str(tmp_path / "assets.py"), 3, "assets:3")


@pytest.mark.parametrize("url", ["forge.example/genolewm", "file:///srv/genolewm", "javascript:alert(1)"])
def test_a_source_that_is_no_web_address_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GENOLEWM_SOURCE_URL", url)
    with pytest.raises(ConfigurationError, match=r"GENOLEWM_SOURCE_URL: not a web address: expected such as https://"):
        configured_source_url()


def test_a_copy_of_a_declaration_belongs_to_the_line_that_copies_it() -> None:
    here = place_of_caller(())
    assert here.file == str(Path(__file__).resolve())
    assert "place_of_caller(())" in Path(__file__).read_text().splitlines()[here.line - 1]


@pytest.mark.parametrize(
    "condition",
    [watched.operand for watched in (AUTOMATED, REBUILT, RECOMPUTED, FOLLOWING)],
    ids=lambda each: each.get_label(),
)
def test_a_condition_says_in_words_what_it_waits_for(condition: dg.AutomationCondition[dg.AssetKey]) -> None:
    assert len(str(condition.get_label())) <= 35, "the panel of the UI cuts it"
    for part in (condition, *condition.children):
        assert re.fullmatch(r"[a-z][a-z, ]{15,}", str(part.get_label())), part


def test_every_column_of_a_closed_set_lists_its_values_and_free_text_has_none() -> None:
    free: set[str] = set()
    for asset, noun, table in TABLES:
        shown = {column.name: column.description for column in SPECS[asset].metadata["dagster/column_schema"].columns}
        names = {field.name for field in table.arrow if field.type == pa.string()}
        free |= names - table.closed.keys()
        assert not names & table.closed.keys() & FREE_TEXT, table.name
        for name in names & table.closed.keys():
            assert one_of(table.closed[name]) in str(shown[f"{noun}.{name}" if noun else name]), f"{table.name}.{name}"
    assert free == FREE_TEXT


def test_every_entry_of_a_materialisation_has_a_meaning(built: BuiltWorld) -> None:
    for asset in DECLARATIONS:
        if not asset.partitions.keys(built.instance):
            continue  # off in this catalogue; the tests of the asset compare its entries
        records = built.instance.fetch_materializations(dg.AssetKey(asset.path), limit=1).records
        stated = records[0].asset_materialization.metadata if records and records[0].asset_materialization else {}
        assert stated or asset.key not in GATED, asset.key
        names = [each for key in asset.entry_meanings for each in key.split(", ")]
        said = {name for name in stated if any(fnmatchcase(name, each) for each in names)}
        assert set(stated) - said - PLAIN_ENTRIES == set(), asset.key
        if asset.key in GATED:
            assert [each for each in names if not any(fnmatchcase(name, each) for name in stated)] == [], asset.key


def test_no_published_table_has_a_value_outside_a_closed_set(built: BuiltWorld) -> None:
    declared = {table.name: table for *_, table in TABLES}
    seen: dict[str, set[str]] = {}
    for path in sorted(built.root.rglob("*.parquet")):
        name = (pq.read_schema(path).metadata or {}).get(b"genolewm.table", b"").decode()
        if (table := declared.get(name)) is None:
            continue
        for column, values in table.closed.items():
            found = set(pc.unique(pq.read_table(path, columns=[column])[column]).to_pylist()) - {None}
            assert found <= set(values), f"{path}: {column}"
            seen.setdefault(f"{name}.{column}", set()).update(found)
    assert seen["clinvar_variants.label"] >= {"P", "LP", "B", "LB", "VUS"}
    # Windows of train are in the tables that a package refers to.
    assert seen["package_windows.role"] == {"validation", "test"}
