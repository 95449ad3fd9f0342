"""The declared lineage of columns, held against the schemas, the graph, and the code that makes the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.definitions import defs
from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.display.column_lineage import column_lineage, split_source
from genolewm_assets.genome import Contig, ContigSet, Holdout, IntervalArray, Split
from genolewm_assets.holdouts.alleles import CLINVAR_COLUMNS, list_in_intervals
from genolewm_assets.holdouts.corpus import CorpusRule
from genolewm_assets.holdouts.held_intervals import HeldInterval, HeldIntervals
from genolewm_assets.holdouts.index import HoldoutIndex
from genolewm_assets.holdouts.schema import IntervalReason, VariantOrigin
from genolewm_assets.mito.variants.join import join_variants, tabulate_sites
from genolewm_assets.package_build.plan import plan_package
from genolewm_assets.package_build.rows import control_rows, reference_rows, variant_rows
from genolewm_assets.packages.schema import CacheRef, VariantSource
from genolewm_assets.packages.window_rows import Membership, package_rows
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
from genolewm_assets.variants.changes import CHANGE_COLUMNS, COMPARED, find_changes
from genolewm_assets.variants.schema import ALLELE_KEY, CLINVAR_VARIANTS
from genolewm_assets.windows.reference.table import build_window_table
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm import holdout_world, package_world
from genolewm_assets_tests.worlds.lewm.release_world import Entry, allele_table
from genolewm_assets_tests.worlds.mito.mito_alleles import CIRCLE, clinvar, gnomad
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text

SPECS = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}

COLUMN_SOURCES = {key: asset.sources for key, asset in GATED.items() if asset.sources}

#: Read as a FASTA, as files outside the graph, or followed as a pointer: no column is taken over.
NOT_READ_AS_TABLES = {
    *("reference/genome", "packages/split", "packages/audit"),
    *(key for key in SPECS if key.endswith("/source")),
}


def columns_of(asset: str) -> list[str]:
    return [column.name for column in SPECS[asset].metadata["dagster/column_schema"].columns]


@each_row("asset", COLUMN_SOURCES)
def test_every_column_is_listed_and_every_source_is_a_column_of_a_dependency(asset: str) -> None:
    assert sorted(COLUMN_SOURCES[asset]) == sorted(columns_of(asset))
    upstream = {dep.asset_key.to_user_string() for dep in SPECS[asset].deps}
    for column, sources in COLUMN_SOURCES[asset].items():
        assert len(set(sources)) == len(sources), column
        for source, name in map(split_source, sources):
            assert source in upstream, f"{column}: {asset} does not depend on {source}"
            assert name in columns_of(source), f"{column}: {source} has no column {name}"


def test_every_asset_that_reads_tables_has_a_lineage() -> None:
    read = {asset: {dep.asset_key.to_user_string() for dep in spec.deps} for asset, spec in SPECS.items()}
    readers = {asset for asset, upstream in read.items() if upstream - NOT_READ_AS_TABLES}
    # Frozen epochs are made of what a package holds; the pointer to one takes no column over.
    assert readers | {"tuples/frozen"} == set(COLUMN_SOURCES)


@each_row("asset", COLUMN_SOURCES)
def test_the_definition_carries_the_lineage_and_the_descriptions_tell_it(asset: str) -> None:
    lineage = SPECS[asset].metadata["dagster/column_lineage"]
    assert lineage == column_lineage(COLUMN_SOURCES[asset])
    for column in SPECS[asset].metadata["dagster/column_schema"].columns:
        for dep in lineage.deps_by_column.get(column.name, ()):
            assert f"`{dep.asset_key.to_user_string()}.{dep.column_name}`" in str(column.description)


def test_an_asset_that_takes_no_column_over_has_none() -> None:
    assert column_lineage(GATED["gnomad/shard"].sources) is None
    assert "dagster/column_lineage" not in SPECS["gnomad/shard"].metadata


# What follows changes one column of what comes in, and looks which columns of what comes out are others.


def another(values: pa.ChunkedArray) -> pa.Array:
    """Return other values of the same type, none of them missing."""
    kind, given = values.type, values.to_pylist()
    if pa.types.is_boolean(kind):
        return pa.array([not value for value in given], kind)
    if pa.types.is_integer(kind):
        return pa.array([(value or 0) + 1 for value in given], kind)
    if pa.types.is_floating(kind):
        return pa.array([(value or 0.0) + 0.125 for value in given], kind)
    if pa.types.is_list(kind):
        values_of = [another(pa.chunked_array([pa.array(value or [], kind.value_type)])) for value in given]
        return pa.array([[*value, None] for value in values_of])
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([bytes(255 - byte for byte in value) for value in given], kind)
    return pa.array([f"{value or ''}A" for value in given], kind)


def replaced(table: pa.Table, column: str) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), another(table[column]).cast(table.schema.field(at).type))


def moved_by(make: Callable[[pa.Table], pa.Table], table: pa.Table, column: str) -> set[str]:
    before, after = make(table), make(replaced(table, column))
    assert before.num_rows == after.num_rows > 0
    return {name for name in before.column_names if before[name].to_pylist() != after[name].to_pylist()}


def said_of(asset: str, source: str, *, noun: str = "", among: pa.Table) -> set[str]:
    """Return the columns of a table that are said to come from a source."""
    return {name for name in among.column_names if source in COLUMN_SOURCES[asset][f"{noun}{name}"]}


TRAIN, TEST = Membership(Split.TRAIN), Membership(Split.TEST, "holdout-chr")
CACHE = CacheRef("chr17", "key", 40, "a" * 64, "b" * 64, "embeddings/key")
CONTIG, BASES = package_world.contigs()["chr17"], package_world.SEQUENCES["chr17"]


def from_windows(windows: pa.Table) -> pa.Table:
    rows = np.arange(windows.num_rows, dtype=np.int64)
    return reference_rows(windows, rows, BASES, margin_bp=96, member=TEST, cache=CACHE)


def from_corpus(windows: pa.Table) -> pa.Table:
    return package_rows(windows, np.arange(windows.num_rows, dtype=np.int64), "mrna_evo2", member=TRAIN, cache=CACHE)


from_gnomad, from_clinvar = (partial(variant_rows, source, member=TRAIN) for source in VariantSource)
WINDOWS = build_window_table(CONTIG, BASES, package_world.PROFILE, {}).slice(2, 20)
CORPUS = package_world.corpora()["mrna_evo2"]
MADE: Mapping[str, tuple[Callable[[pa.Table], pa.Table], pa.Table, str, str]] = {
    "reference windows": (from_windows, WINDOWS, "windows/index", ""),
    "corpus windows": (from_corpus, CORPUS, "corpus/windows", ""),
    "controls": (lambda windows: control_rows(from_windows(windows)), WINDOWS, "windows/index", "controls."),
    "gnomAD alleles": (from_gnomad, package_world.gnomad("chr17"), "gnomad/shard", "variants."),
    "ClinVar alleles": (from_clinvar, package_world.clinvar("chr17"), "clinvar/shard", "variants."),
}


@each_row("rows", MADE)
def test_rows_of_a_package_come_from_the_columns_that_are_named(rows: str) -> None:
    make, given, upstream, noun = MADE[rows]
    made = make(given)
    for column in given.column_names:
        # Whether a window shows an allele is found before its row is made: see the next test.
        said = said_of("packages/split", f"{upstream}.{column}", noun=noun, among=made) - {"scoring"}
        assert moved_by(make, given, column) == said, column


def test_scoring_comes_from_the_columns_that_are_named() -> None:
    bases = package_world.SEQUENCES["chr21"].decode()
    template = package_world.clinvar("chr21").to_pylist()[0] | {"label": "P", "stars": 0}
    rows = [template | {"pos": at + 1, "ref": bases[at], "alt": "ACGT"["CGTA".index(bases[at])]} for at in (500, 1_000)]
    rows[1] |= {"stars": 1}
    given = package_world.table(rows[:2], CLINVAR_VARIANTS.arrow)

    def make(table: pa.Table) -> pa.Table:
        sources = package_world.make_sources(clinvar={"chr21": table})
        index = HoldoutIndex(sources.intervals, sources.alleles, sources.corpus_rows, contigs=sources.contigs)
        return pa.table({"scoring": plan_package(sources, index).bench.outcomes["chr21"]["holdout-chr", Split.TEST]})

    # A table is of one contig; other bases, as `another` makes them, would not be in normal form.
    for column in sorted(set(given.column_names) - {"chrom", "ref", "alt"}):
        said = said_of("packages/split", f"clinvar/shard.{column}", noun="variants.", among=make(given))
        assert moved_by(make, given, column) == said, column


@each_row("origin", ["gnomad", "clinvar"])
def test_held_out_alleles_come_from_the_columns_that_are_named(origin: str) -> None:
    held = HeldIntervals([HeldInterval(Holdout.CHR, Split.TEST, "chr17", 0, 99_999, "u", "u", IntervalReason.CONTIG)])
    whole = package_world.gnomad("chr17") if origin == "gnomad" else package_world.clinvar("chr17")
    given = whole.select(list(ALLELE_KEY if origin == "gnomad" else CLINVAR_COLUMNS))

    def make(table: pa.Table) -> pa.Table:
        return list_in_intervals(table, VariantOrigin(origin), "chr17", Holdout.CHR, held)

    for column in given.column_names:
        said = said_of("holdouts/manifest", f"{origin}/shard.{column}", noun="alleles.", among=make(given))
        # Which unit an allele belongs to, and whether it is measured, is decided by interval in this holdout.
        assert moved_by(make, given, column) == said - {"unit", "reason"}, column


def test_held_out_corpus_windows_come_from_the_columns_that_are_named() -> None:
    rows = [holdout_world.corpus_row(n, placed_contig="chr17", placed_start=0, placed_end=900) for n in range(3)]
    interval = {Holdout.CHR: {"chr17": IntervalArray.from_unsorted([0], [1_000])}}

    def make(table: pa.Table) -> pa.Table:
        return pa.concat_tables(CorpusRule(interval, set(), 60).list_excluded([table]))

    given = holdout_world.corpus(rows)
    for column in ("source", "record_id", "window_index"):
        said = said_of("holdouts/manifest", f"corpus/windows.{column}", noun="corpus.", among=make(given))
        assert moved_by(make, given, column) == said == {column}


@each_row("column", [name for name in CHANGE_COLUMNS if name not in ALLELE_KEY])
def test_changes_come_from_the_columns_that_are_named(column: str) -> None:
    # Every allele has a row before and after: something else differs already.
    other = "stars" if column != "stars" else "clinvar_id"
    same = allele_table("chr17", [((pos, "A", "C"), Entry()) for pos in range(10, 40, 10)])
    differing = replaced(same, other)
    moved = moved_by(lambda later: find_changes(same, later)[0], differing, column)
    moved |= moved_by(lambda earlier: find_changes(earlier, differing)[0], same, column)
    said = {name for name, sources in COLUMN_SOURCES["clinvar/changes"].items() if f"clinvar/shard.{column}" in sources}
    assert moved == said - {"change"}
    assert ("change" in said) is (column in {*COMPARED, "gene_ids"})


@each_row("upstream", ["gnomad/shard", "clinvar/shard"])
@each_row("noun", ["", "sites."])
def test_mitochondrial_variants_come_from_the_columns_that_are_named(upstream: str, noun: str) -> None:
    ours = gnomad(((2, "A", "G"), {"max_hl": 0.25, "af_het": 0.5}), ((4, "T", "C"), {}))
    theirs = clinvar(((2, "A", "G"), {"label": "LP"}), ((7, "C", "T"), {}))

    def make(table: pa.Table) -> pa.Table:
        shards = (table, theirs) if upstream == "gnomad/shard" else (ours, table)
        joined, _ = join_variants(*shards, CIRCLE, chrom="chrM")
        return tabulate_sites(joined, CIRCLE, chrom="chrM") if noun else joined

    given = ours if upstream == "gnomad/shard" else theirs
    # Other alleles would not fit the reference.
    for column in set(given.column_names) - set(ALLELE_KEY):
        said = said_of("mito/variants", f"{upstream}.{column}", noun=noun, among=make(given))
        assert moved_by(make, given, column) == said, column


RECORD = {
    **{"CHROM": "17", "POS": "101", "ID": "7", "REF": "CAA", "ALT": "CA", "INFO/ALLELEID": "8"},
    **{"INFO/CLNSIG": "Pathogenic", "INFO/CLNSIGCONF": "Benign(1)", "INFO/CLNSIGINCL": "9:Benign"},
    **{"INFO/CLNREVSTAT": "criteria_provided,_single_submitter", "INFO/ONC": "Oncogenic", "INFO/SCI": "Tier_I"},
    **{"INFO/GENEINFO": "SIM1:1", "INFO/CLNVC": "Deletion", "INFO/MC": "SO:0001583|missense_variant"},
    **{"INFO/CLNDN": "not_provided", "INFO/CLNHGVS": "NC_000017.11:g.101del", "INFO/RS": "10"},
}
OTHERWISE = {
    **{"CHROM": "20", "POS": "105", "REF": "CAAA", "ALT": "CAAAA", "ID": "70", "INFO/ALLELEID": "80", "INFO/RS": "11"},
    **{"INFO/CLNSIG": "Likely_benign", "INFO/CLNREVSTAT": "reviewed_by_expert_panel", "INFO/GENEINFO": "SIM2:2"},
}


def shard_of(folder: Path, record: Mapping[str, str]) -> pa.Table:
    folder.mkdir()
    fields = [name.removeprefix("INFO/") for name in record if name.startswith("INFO/")]
    info = ";".join(f"{name}={record[f'INFO/{name}']}" for name in fields)
    row = (*(record[name] for name in ("CHROM", "POS", "ID", "REF", "ALT")), ".", info)
    vcf = folder / "clinvar.vcf"
    vcf.write_text(vcf_text([row], info=[f"{name}:.:String" for name in fields], meta=["##reference=GRCh38"]))
    contigs = ContigSet([Contig("chr17", 83_257_441, aliases=("17",)), Contig("chr20", 64_444_167, aliases=("20",))])
    build_clinvar_shard(vcf, release="2025-01-05", contigs=contigs, reference=None, out_dir=folder, single_file=True)
    return pq.read_table(folder / "variants.parquet")


@pytest.mark.parametrize("field", RECORD)
def test_a_field_of_the_vcf_moves_the_columns_that_name_it(field: str, tmp_path: Path) -> None:
    before = shard_of(tmp_path / "before", RECORD)
    after = shard_of(tmp_path / "after", RECORD | {field: OTHERWISE.get(field, f"{RECORD[field]}_2")})
    assert before.num_rows == after.num_rows == 1
    moved = {name for name in before.column_names if before[name].to_pylist() != after[name].to_pylist()}
    sources = COLUMN_SOURCES["clinvar/shard"]
    said = {name for name in before.column_names if f"clinvar/release.{field}" in sources[name]}
    # Trimming may or may not move a position or an allele.
    assert moved
    assert moved <= said if field in {"POS", "REF", "ALT"} else moved == said


def test_the_fields_shown_are_those_that_the_shard_is_made_from() -> None:
    assert columns_of("clinvar/release") == list(RECORD)
