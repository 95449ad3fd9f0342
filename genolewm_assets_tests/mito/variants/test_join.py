from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import InputError, ReferenceMismatchError
from genolewm_assets.genome import GRCH38, ContigSet
from genolewm_assets.mito.variants.join import FROM_CLINVAR, FROM_GNOMAD, join_variants, tabulate_sites
from genolewm_assets.mito.variants.schema import MITO_SITES, MITO_VARIANTS
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard, contig_file
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.variants.shard import VARIANTS_FILE
from genolewm_assets_tests.worlds.mito.mito_alleles import CIRCLE, Row, clinvar, gnomad


def joined(ours: pa.Table, theirs: pa.Table) -> tuple[list[Row], dict[str, int]]:
    table, counts = join_variants(ours, theirs, CIRCLE, chrom="chrM")
    assert table.schema.equals(MITO_VARIANTS.arrow)
    for source, given in (("gnomad", ours), ("clinvar", theirs)):
        assert counts[f"{source}.rows"] == given.num_rows == counts[f"{source}.alleles"] + counts[f"{source}.merged"]
    assert counts["alleles"] == table.num_rows
    assert counts["gnomad.alleles"] + counts["clinvar.alleles"] == table.num_rows + counts["in_both"]
    return table.to_pylist(), dict(counts)


def sites_of(ours: pa.Table, theirs: pa.Table) -> pa.Table:
    table, _ = join_variants(ours, theirs, CIRCLE, chrom="chrM")
    sites = tabulate_sites(table, CIRCLE, chrom="chrM")
    assert sites.schema.equals(MITO_SITES.arrow)
    return sites


def test_alleles_of_both_sources_meet_on_the_circle() -> None:
    """Base 1 deleted: gnomAD lost it behind base 9, ClinVar before base 2."""
    before = {"ac_het": 3, "af_het": 0.03, "max_hl": 0.4, "filter": "indel_stack"}
    rows, counts = joined(gnomad(((9, "AG", "A"), before)), clinvar(((1, "GA", "A"), {"label": "LP", "stars": 2})))
    assert counts["in_both"] == counts["respelt"] == len(rows) == 1
    assert rows[0] == {
        "chrom": "chrM",
        "pos": 9,
        "ref": "AG",
        "alt": "A",
        "kind": "del",
        "in_gnomad": True,
        "in_clinvar": True,
        "filter": "indel_stack",
        "ac_hom": 1,
        "ac_het": 3,
        "an": 100,
        "af_hom": 0.01,
        "af_het": 0.03,
        "max_hl": 0.4,
        "clinvar_id": 7,
        "label": "LP",
        "stars": 2,
        "clnsig": None,
        "conditions": None,
        "gene_symbols": ["MT-TF"],
    }


def test_alleles_of_one_source_are_null_in_the_other() -> None:
    rows, counts = joined(gnomad(((8, "T", "G"), {})), clinvar(((1, "G", "A"), {})))
    assert counts["respelt"] == counts["in_both"] == 0
    assert [(row["pos"], row["in_gnomad"], row["in_clinvar"]) for row in rows] == [(1, False, True), (8, True, False)]
    assert all(rows[0][name] is None for name in FROM_GNOMAD)
    assert all(rows[1][name] is None for name in FROM_CLINVAR)


def test_of_rows_that_become_one_allele_the_best_stays_and_none_is_added_up() -> None:
    failing = {"ac": 90, "filter": "npg"}
    ours = gnomad(((8, "TA", "T"), failing), ((8, "TAG", "TG"), {"ac": 4}), ((9, "A", "AC"), {}))
    rows, counts = joined(ours, clinvar())
    assert (counts["gnomad.merged"], rows[0]["ac_hom"], rows[0]["filter"]) == (1, 4, "PASS")
    more = gnomad(((1, "GA", "A"), {"ac": 2}), ((9, "AG", "A"), {"ac": 1, "ac_het": 5}))
    assert [row["ac_het"] for row in joined(more, clinvar())[0]] == [5]
    reviewed = clinvar(((1, "GA", "A"), {"stars": 1, "clinvar_id": 3}), ((9, "AG", "A"), {"stars": 2, "clinvar_id": 9}))
    assert [row["clinvar_id"] for row in joined(gnomad(), reviewed)[0]] == [9]
    equal = clinvar(((1, "GA", "A"), {"clinvar_id": 9}), ((9, "AG", "A"), {"clinvar_id": 3}))
    assert [row["clinvar_id"] for row in joined(gnomad(), equal)[0]] == [3]
    for labels, together in ((("P", "LP"), "LP"), (("B", "P"), "OTHER"), (("OTHER", "B"), "B")):
        for one, other in (labels, labels[::-1]):
            pair = clinvar(((1, "GA", "A"), {"label": one, "clinvar_id": 3}), ((9, "AG", "A"), {"label": other}))
            (row,), counts = joined(gnomad(), pair)
            assert (row["label"], counts["clinvar.conflicting"]) == (together, together == "OTHER")


def test_no_alleles_at_all() -> None:
    rows, counts = joined(gnomad(), clinvar())
    assert rows == []
    assert set(counts.values()) == {0}
    assert sites_of(gnomad(), clinvar())["pop_hl"].to_pylist() == [0.0] * 9


def test_rows_that_do_not_belong() -> None:
    with pytest.raises(InputError, match="gnomad, row 0: is on another contig: expected 'chrM', got 'chr1'"):
        joined(gnomad(((1, "G", "A"), {"chrom": "chr1"})), clinvar())
    with pytest.raises(ReferenceMismatchError, match="chrM:2: ref allele differs"):
        joined(gnomad(), clinvar(((2, "G", "A"), {})))


def test_population_level_of_a_site_is_the_highest_of_its_passing_alleles() -> None:
    ours = gnomad(
        ((2, "A", "G"), {"max_hl": 0.25, "af_het": 0.125}),
        ((2, "A", "T"), {"max_hl": 0.75, "af_het": 0.5}),
        ((2, "A", "C"), {"max_hl": 0.9, "filter": "artifact_prone_site"}),
        ((3, "T", "C"), {"max_hl": None, "af_het": None}),
        ((4, "TC", "T"), {"max_hl": 0.5}),  # one of C5 to C7: named 7d
        ((9, "A", "AC"), {"max_hl": 0.3}),  # named 9.1C
        ((9, "AG", "A"), {"max_hl": 0.2}),  # named 1d
    )
    theirs = clinvar(((2, "A", "G"), {"label": "LP"}), ((3, "T", "G"), {}), ((4, "T", "G"), {"label": "P"}))
    sites = sites_of(ours, theirs)
    levels = sites["pop_hl"].to_numpy()
    assert levels.dtype == np.float32
    assert levels.tolist() == np.float32([0.2, 0.75, 0, 0, 0, 0, 0.5, 0, 0.3]).tolist()
    assert sites["af_het"].to_pylist()[:3] == [0.0, 0.625, 0.0]
    assert sites["gnomad_alleles"].to_pylist() == [1, 2, 1, 0, 0, 0, 1, 0, 1]
    assert sites["clinvar_alleles"].to_pylist() == [0, 1, 1, 1, *[0] * 5]
    assert sites["pathogenic"].to_pylist() == [False, True, False, True, *[False] * 5]
    assert "".join(sites["ref"].to_pylist()).encode() == CIRCLE


@pytest.fixture(scope="module")
def real(shared_data: Path, rcrs: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, dict[str, int]]:
    """Return the joined table of gnomAD v3.1 and ClinVar 2022-05-25, made from the shards of both."""
    contigs, out = ContigSet([GRCH38["chrM"]]), tmp_path_factory.mktemp("shards")
    files = ["gnomad.genomes.v3.1.sites.chrM.vcf.bgz", "clinvar_20220525.chrM.vcf.gz"]
    vcfs = [next(shared_data.rglob(name)) for name in files]
    shared = {"contigs": contigs, "reference": lambda _: rcrs.encode()}
    build_gnomad_shard(vcfs[0], contig=contigs["chrM"], params=GnomadParams(), out_dir=out / "gnomad", **shared)
    build_clinvar_shard(vcfs[1], release="2022-05-25", out_dir=out / "clinvar", **shared)
    shards = [pq.read_table(out / "gnomad" / VARIANTS_FILE)]
    shards += [pq.read_table(out / "clinvar" / contig_file(contigs["chrM"]))]
    table, counts = join_variants(*shards, rcrs.encode(), chrom="chrM")
    return table, dict(counts)


@pytest.mark.slow
def test_real_alleles_are_all_accounted_for(real: tuple[pa.Table, dict[str, int]]) -> None:
    table, counts = real
    assert counts["gnomad.rows"] == counts["gnomad.alleles"] == 18_164
    assert counts["clinvar.rows"] == counts["clinvar.alleles"] == 2_749
    assert counts["alleles"] == table.num_rows == 18_164 + 2_749 - counts["in_both"]
    passing = table.filter(pc.equal(table["filter"], "PASS"))
    assert (passing.num_rows, pc.sum(pc.greater_equal(passing["af_hom"], 0.01)).as_py()) == (10_850, 426)
    melas = [row for row in table.to_pylist() if (row["pos"], row["alt"]) == (3_243, "G")]
    assert [(row["label"], row["in_gnomad"], row["kind"]) for row in melas] == [("P", True, "snv")]


@pytest.mark.slow
def test_real_sites(real: tuple[pa.Table, dict[str, int]], rcrs: str) -> None:
    table, _ = real
    sites = tabulate_sites(table, rcrs.encode(), chrom="chrM")
    assert "".join(sites["ref"].to_pylist()) == rcrs
    levels = sites["pop_hl"].to_numpy()
    assert (levels.shape, levels.dtype, float(levels.max())) == ((16_569,), np.float32, 1.0)
    snvs = [row for row in table.to_pylist() if row["kind"] == "snv" and row["filter"] == "PASS"]
    plain = np.zeros(16_569, np.float32)
    for row in snvs:
        plain[row["pos"] - 1] = max(plain[row["pos"] - 1], np.float32(row["max_hl"]))
    assert np.all(levels >= plain)
    indels = table.filter(pc.and_(pc.equal(table["filter"], "PASS"), pc.is_in(table["kind"], pa.array(["ins", "del"]))))
    assert 0 < np.count_nonzero(levels > plain) <= 20 * indels.num_rows
    assert levels[3_106] == 0.0
