"""The mitochondrial assets on the sample's genomes: what pages show, what builds them again, what stops them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml

from genolewm_assets import mito
from genolewm_assets.defs.runtime.gates import STANDING_CHECKS
from genolewm_assets.defs.runtime.workspace import NO_SOURCE
from genolewm_assets.mito import KmerVocabulary
from genolewm_assets.mito.genomes.checks import GENOME_CHECKS
from genolewm_assets.mito.genomes.records import GenomeReject
from genolewm_assets.mito.tokens.store import TOKEN_CHECKS
from genolewm_assets.mito.variants.checks import VARIANT_CHECKS
from genolewm_assets.sample.bgzip import write_bgzip
from genolewm_assets.sources.mito.collection import SAMPLE_CHECK
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.pictures import fitting
from genolewm_assets_tests.referees.census import SAMPLE_FACTS
from genolewm_assets_tests.worlds.graph.mito_world import (
    CALLS,
    FASTA,
    GENBANK,
    GENOMES,
    N_CLINICAL,
    TOKENS,
    VARIANTS,
    MitoWorld,
    mito_files,
)
from genolewm_assets_tests.worlds.graph.tiny_world import (
    RELEASES,
    TinyWorld,
    blocking_checks,
    failed_checks,
    refusal_of,
    shown_of,
)
from genolewm_assets_tests.worlds.store.plans import flip

FACTS = SAMPLE_FACTS.mito_genomes
CHECKSUM = "checksum_matches_published"
PARTITIONS = ((GENOMES, None), (TOKENS, None), *((VARIANTS, release) for release in RELEASES))
Place = tuple[str, str | None]
Events = dict[Place, dg.AssetMaterialization]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[MitoWorld, Events]:
    """Return a world in which everything is built, and what the pages of the mitochondrial assets show."""
    world = MitoWorld(tmp_path_factory.mktemp("mito") / "world")
    world.keep_history()
    world.build()
    return world, {place: world.make(*place) for place in PARTITIONS}


@pytest.fixture
def world(built: tuple[MitoWorld, Events], tmp_path: Path) -> Iterator[MitoWorld]:
    """Return a copy that the test may change."""
    with built[0].copied_to(tmp_path / "world") as copied:
        yield copied


def shown_by(event: dg.AssetMaterialization) -> dict[str, Any]:
    return {name: value.value for name, value in event.metadata.items()}


def test_what_the_page_of_the_genomes_shows(built: tuple[MitoWorld, Events]) -> None:
    world, events = built
    event = events[GENOMES, None]
    shown = shown_by(event)
    rejected, clusters = sum(FACTS.rejects.values()), FACTS.kept - FACTS.near_pairs
    expected = {"dagster/row_count": FACTS.kept, "rejected": rejected, "clusters": clusters, "reused": False}
    assert expected.items() <= shown.items()
    assert shown["train"] + shown["validation"] + shown["test"] == FACTS.kept
    assert shown["train"] >= 0.8 * FACTS.kept
    counts = world.open(GENOMES).manifest.counts
    assert counts["records"] == FACTS.fasta_records + FACTS.genbank_records
    assert {r: n for r in GenomeReject if (n := counts[f"rejected.{r}"])} == FACTS.rejects
    assert counts["bases"] == FACTS.bases
    assert f"| bases | {FACTS.bases:,} |" in shown["counts"]

    said, _, listed = fitting(event.metadata["haplogroups"])[0].partition(": ")
    sizes = re.findall(r"[A-Za-z0-9]+ (\d+)", listed)
    assert said == f"{FACTS.kept} genomes in {len(sizes)} haplogroups"
    assert sum(map(int, sizes)) == FACTS.kept
    said = r"Where 40 genomes differ from the reference: up to \S+ genomes a position at [\d,]+ to [\d,]+"
    assert re.fullmatch(said, fitting(event.metadata["differences_along_circle"])[0])


def test_what_the_page_of_the_tokens_shows(built: tuple[MitoWorld, Events]) -> None:
    world, events = built
    event = events[TOKENS, None]
    shown = shown_by(event)
    assert (shown["dagster/row_count"], shown["tokens"]) == (FACTS.kept, FACTS.bases)
    assert shown["unknown_rate"] == pytest.approx(6 * FACTS.ambiguous_bases / FACTS.bases, abs=1e-6)
    assert shown["kmer_coverage"] == pytest.approx(shown["kmers_seen"] / 4**6, abs=1e-6)
    levels = SAMPLE_FACTS.heteroplasmy.values()
    assert shown["genomes_with_heteroplasmy"] == sum(facts.genomes for facts in levels)
    counts = world.open(TOKENS).manifest.counts
    assert counts["het.calls"] == sum(facts.calls for facts in levels)
    assert counts["het.dropped.filtered"] == sum(facts.failed_records for facts in levels)
    dropped = sum(n for name, n in counts.items() if name.startswith("het.dropped."))
    assert counts["het.calls"] == counts["het.counted"] + dropped
    said = fitting(event.metadata["entropy_along_circle"])[0]
    assert re.fullmatch(r"Entropy of k-mers among 40 genomes: up to \S+ bits a position at [\d,]+ to [\d,]+", said)
    assert len(str(shown["most_frequent_kmers"]).splitlines()) > 3


def test_variants_of_two_releases(built: tuple[MitoWorld, Events]) -> None:
    world, events = built
    rows = []
    for release, clinical in zip(RELEASES, N_CLINICAL, strict=True):
        event = events[VARIANTS, release]
        shown = shown_by(event)
        rows.append(shown["dagster/partition_row_count"])
        assert shown["alleles_clinvar"] == clinical
        assert rows[-1] == shown["alleles_gnomad"] + clinical - shown["alleles_in_both"]
        published = world.open(VARIANTS, release)
        inputs = {(ref.asset, ref.partition) for ref in published.manifest.inputs}
        assert inputs == {("gnomad/shard", "chrM"), ("clinvar/shard", release), ("reference/genome", None)}
        sites = pq.read_table(published.file("sites.parquet"))
        assert (sites.num_rows, sum(sites["clinvar_alleles"].to_pylist())) == (16_569, clinical)
        assert shown["sites_with_heteroplasmy"] == sum(level > 0 for level in sites["pop_hl"].to_pylist())
        said = fitting(event.metadata["heteroplasmy_along_circle"])[0]
        assert re.match(r"Highest heteroplasmy level in the population: up to 0\.\d+ on average at ", said)
    assert rows[0] < rows[1]


@pytest.mark.parametrize(
    ("place", "own"),
    [
        ((GENOMES, None), (CHECKSUM, *GENOME_CHECKS)),
        ((TOKENS, None), (CHECKSUM, SAMPLE_CHECK, *TOKEN_CHECKS)),
        ((VARIANTS, RELEASES[1]), VARIANT_CHECKS),
    ],
)
def test_a_second_run_records_its_checks_and_keeps_all(world: MitoWorld, place: Place, own: tuple[str, ...]) -> None:
    before = world.open(*place).directory
    result = world.materialize(place[0], partition=place[1])
    checks = blocking_checks(result)
    assert {check.check_name for check in checks} == {*STANDING_CHECKS, *own}
    assert all(check.passed and check.partition == place[1] for check in checks)
    assert shown_of(result, place[0]).metadata["reused"].value is True
    assert world.open(*place).directory == before


@pytest.mark.nightly
def test_another_seed_divides_anew_and_tokens_follow(world: MitoWorld) -> None:
    def sides() -> dict[str, str]:
        table = pq.read_table(world.open(GENOMES).file("genomes.parquet"))
        return dict(zip(table["name"].to_pylist(), table["split"].to_pylist(), strict=True))

    before = sides()
    world.edit_catalog(mito={"split": {"seed": 5}})
    assert world.make(TOKENS).metadata["reused"].value is True, "genomes first"
    for asset in (GENOMES, TOKENS):
        assert world.make(asset).metadata["reused"].value is False
    after = sides()
    assert after != before
    store, vocabulary = world.open(TOKENS).directory, KmerVocabulary.build(6)
    for side in ("train", "validation", "test"):
        windows = len(mito.MtDNADataset.from_store(store, vocabulary, split=side))
        assert windows == 65 * list(after.values()).count(side)
    assert verify_root(world.workspace().root) == []


def test_other_tokens_leave_the_genomes(world: MitoWorld) -> None:
    world.edit_catalog(mito={"k": 8, "heteroplasmy": []})
    assert world.make(GENOMES).metadata["reused"].value is True
    shown = shown_by(world.make(TOKENS))
    assert (shown["reused"], shown["genomes_with_heteroplasmy"]) == (False, 0)
    published = world.open(TOKENS)
    assert not [name for name, n in published.manifest.counts.items() if name.startswith("het.") and n]
    item = mito.MtDNADataset.from_store(published.directory, KmerVocabulary.build(8))[0]
    assert (item["input_ids"].dtype, item["het_values"].any()) == ("int32", False)


def test_samples_that_are_named_otherwise_publish_nothing(world: MitoWorld) -> None:
    before = world.open(TOKENS).directory
    write_bgzip(world.folder / CALLS[0], mito_files()[1][CALLS[0]].replace(b"SIMMT001", b"SIMMT001.final"))
    assert failed_checks(world.materialize(TOKENS)) == {SAMPLE_CHECK}
    assert (world.root / TOKENS).resolve() == before


def test_a_damaged_collection_publishes_nothing_and_says_so(world: MitoWorld) -> None:
    before, (_, files) = world.open(GENOMES).directory, mito_files()
    for damage, said in (
        (lambda: flip(world.folder / FASTA, 5_000), r"genomes\.fa\.gz"),
        (
            lambda: write_bgzip(world.folder / GENBANK, files[GENBANK][:30_000]),
            r"genomes\.gb\.gz: record 'SIMMT\d+' is truncated",
        ),
    ):
        damage()
        result = world.materialize(GENOMES)
        assert re.search(said, refusal_of(result)), refusal_of(result)
        assert not result.asset_materializations_for_node("mito__genomes")
        assert (world.root / "mito/genomes").resolve() == before, "the last good version stays"
        for name in (FASTA, GENBANK):
            write_bgzip(world.folder / name, files[name])
    assert world.make(GENOMES).metadata["reused"].value is True


@pytest.mark.nightly
@pytest.mark.parametrize(("asset", "name", "more"), [(GENOMES, FASTA, b"\n\n"), (TOKENS, CALLS[1], b"\n##note=edit\n")])
def test_a_whole_file_that_was_not_published_is_rejected(world: MitoWorld, asset: str, name: str, more: bytes) -> None:
    before = world.open(asset).directory
    published = (world.folder / f"{name}.md5").read_bytes()
    write_bgzip(world.folder / name, mito_files()[1][name].replace(b"\n", more, 1))
    (world.folder / f"{name}.md5").write_bytes(published)
    assert failed_checks(world.materialize(asset)) == {CHECKSUM}
    assert (world.root / asset).resolve() == before


@pytest.mark.nightly
@pytest.mark.parametrize("has_circle", [True, False])
def test_without_collections_the_assets_are_declared_empty(tmp_path: Path, has_circle: bool) -> None:
    world = TinyWorld(tmp_path / "world")
    if not has_circle:
        _cut_circles_open(world)
    world.make("reference/genome")
    if has_circle:
        world.make("gnomad/shard", "chrM")
    assert world.materialize("clinvar/release", "clinvar/shard", partition=RELEASES[0]).success
    pictures = {GENOMES: "differences_along_circle", TOKENS: "entropy_along_circle"}
    for asset, partition in (*PARTITIONS[:2], (VARIANTS, RELEASES[0])):
        result = world.materialize(asset, partition=partition)
        assert (result.success, failed_checks(result)) == (True, set())
        event = shown_of(result, asset)
        rows = "dagster/row_count" if partition is None else "dagster/partition_row_count"
        assert event.metadata[rows].value == 0
        assert fitting(event.metadata[pictures.get(asset, "heteroplasmy_along_circle")])[0].endswith(": nothing")
    genomes, tokens = (world.open(asset) for asset in (GENOMES, TOKENS))
    assert genomes.manifest.recipe["sources"] == NO_SOURCE
    assert len(mito.MtDNADataset.from_store(tokens.directory, KmerVocabulary.build(6))) == 0
    assert verify_root(world.workspace().root) == []


def test_collections_need_a_circular_contig(tmp_path: Path) -> None:
    world = TinyWorld(tmp_path / "world")
    _cut_circles_open(world, mito={"genomes": [{"url": "genomes.fa"}]})
    world.make("reference/genome")
    for asset, partition in ((GENOMES, None), (VARIANTS, RELEASES[0])):
        expected = f"{world.catalog} (genome.contigs): the mitochondrial contig is not unique: expected exactly one"
        assert expected in refusal_of(world.materialize(asset, partition=partition))
    assert not (world.root / "mito").exists()


def _cut_circles_open(world: TinyWorld, **sections: object) -> None:
    catalog = yaml.safe_load(world.catalog.read_text())
    for contig in catalog["genome"]["contigs"]:
        contig["circular"] = False
    world.catalog.write_text(yaml.safe_dump({**catalog, **sections}))
