"""The holdout builder and the package together: what one decides, the checks of the other find kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import ContigSet, Split
from genolewm_assets.holdouts.build import HoldoutInputs, HoldoutTables, build_holdouts
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.mix import SOURCE_MIX
from genolewm_assets.packages.schema import Knowledge
from genolewm_assets.variants.schema import CLINVAR_VARIANTS
from genolewm_assets.windows.reference.schema import GENOME_CONTIGS
from genolewm_assets_tests.worlds.lewm.package_world import (
    LENGTHS,
    PROFILE,
    SEQUENCES,
    clinvar,
    contigs,
    corpus,
    failed,
    make_sources,
    reverse,
    table,
)

RELEASES = ("2024-01-07", "2025-01-05")


def genes_of(contig: str, *, earlier: bool) -> pa.Table:
    """Return alleles in genes of about 1 kb, 5 kb apart; at the earlier release one in four has no label yet."""
    rows = [row for row in clinvar(contig).to_pylist() if row["pos"] % 5_000 < 1_500]
    for row in rows:
        gene = int(contig[3:]) * 100 + row["pos"] // 5_000
        row |= {"gene_symbols": [f"G{gene}"], "gene_ids": [gene]}
        if earlier and row["clinvar_id"] % 4 == 0:
            row["label"] = "VUS"
    return table(rows, CLINVAR_VARIANTS.arrow)


def placed_corpus() -> dict[str, pa.Table]:
    """Return corpus windows cut from the contigs on both strands, some with less known of their place."""
    tables = make_sources().corpus
    found = {}
    for source in SOURCE_MIX:
        parts = [tables[source]]
        for contig, bases in SEQUENCES.items():
            for n, start in enumerate(range(200, LENGTHS[contig] - 1_000, 1_100)):
                cut = bases[start : start + 600]
                place = {
                    "placed_contig": contig,
                    "placed_start": start,
                    "placed_end": start + 600,
                    "strand": "+-"[n % 2],
                }
                how = ("coordinates", "mappy", "contig_name")[n % 3]
                if how == "contig_name":
                    place = {"placed_contig": contig}
                sequence = reverse(cut) if n % 2 else cut.decode()
                name = {"record_id": f"{source}.{contig}.{start}", "placement_how": how, "maybe_human": True}
                parts.append(corpus(source, [sequence], **place, **name))
        found[source] = pa.concat_tables(parts)
    return found


def hold_out(
    policy: HoldoutPolicy, sources: PackageSources, earlier: dict[str, pa.Table] | None = None
) -> HoldoutTables:
    genome = ContigSet(list(contigs().values()))
    measured = [
        {"contig": c.name, "length": c.length, "circular": False, "md5": c.md5, "acgt_bases": c.length, "acgt_runs": 1}
        for c in genome
    ]
    inputs = HoldoutInputs(
        contigs=genome,
        genome=table(measured, GENOME_CONTIGS.arrow),
        windows=sources.windows,
        gnomad=sources.gnomad,
        clinvar=sources.clinvar,
        clinvar_earlier=earlier,
        corpus=sources.corpus.values(),
        profile=PROFILE,
    )
    return build_holdouts(inputs, policy)


@pytest.mark.parametrize("knowledge", list(Knowledge))
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_the_builder_holds_out_is_out_of_training_by_every_check(tmp_path: Path, seed: int, knowledge: Knowledge):
    policy = HoldoutPolicy(
        haplotype_fraction=0.1, link_bp=450, max_block_bp=900, temporal=RELEASES, validation_windows=8, seed=seed
    )
    earlier = {name: genes_of(name, earlier=True) for name in LENGTHS}
    sources = make_sources(
        policy=policy,
        clinvar={name: genes_of(name, earlier=False) for name in LENGTHS},
        clinvar_t0=earlier if knowledge is Knowledge.T0 else None,
        corpus=placed_corpus(),
    )
    held = hold_out(policy, sources, earlier)
    assert set(held.intervals["holdout"].to_pylist()) == {"holdout-chr", "holdout-clinvar", "holdout-haplotypes"}
    sources = replace(
        sources, intervals=held.intervals, alleles=held.alleles, corpus_rows=held.corpus, haplotypes=held.haplotypes
    )
    report = write_package(tmp_path, sources)
    assert failed(report.checks) == set()
    assert 0 < report.counts["windows.reference.train"] < report.counts["windows.reference.in"]
    assert all(report.counts[f"windows.{source}.held_out"] > 0 for source in SOURCE_MIX)
    for holdout in ("holdout-chr", "holdout-clinvar", "holdout-haplotypes", "holdout-temporal"):
        assert report.counts[f"validation.{holdout}.windows"] + report.counts[f"test.{holdout}.windows"] > 0
    train = pq.read_table(tmp_path / "variants/train.parquet").to_pylist()
    newly = {row["pos"] for row in held.alleles.to_pylist() if row["holdout"] == "holdout-temporal"}
    assert newly
    assert not newly & {row["pos"] for row in train if row["source"] == "clinvar"}
    # At T0 one in four is VUS: in training at T0, and so still today where the stars are too few for the bench.
    fourth = {(row["label"], row["stars"]) for row in train if (row["clinvar_id"] or 1) % 4 == 0}
    assert fourth
    if knowledge is Knowledge.T0:
        assert {label for label, _ in fourth} == {"VUS"}
    else:
        assert {stars for label, stars in fourth if label in ("P", "LP", "B", "LB")} <= {0}


def test_a_named_gene_takes_all_its_alleles_and_windows_along(tmp_path: Path):
    policy = HoldoutPolicy(contigs_validation=(), contigs_test=(), clinvar_genes=("G1702",), haplotype_fraction=0.0)
    sources = make_sources(policy=policy, clinvar={name: genes_of(name, earlier=False) for name in LENGTHS})
    held = hold_out(policy, sources)
    sources = replace(
        sources, intervals=held.intervals, alleles=held.alleles, corpus_rows=held.corpus, haplotypes=held.haplotypes
    )
    assert failed(write_package(tmp_path, sources).checks) == set()
    gene = [row for row in genes_of("chr17", earlier=False).to_pylist() if row["gene_symbols"] == ["G1702"]]
    first, last = min(row["pos"] for row in gene) - 1, max(row["pos"] for row in gene)
    alleles = {split: pq.read_table(tmp_path / f"variants/{split}.parquet").to_pylist() for split in Split}
    assert not [row for row in alleles[Split.TRAIN] if row["chrom"] == "chr17" and first <= row["pos"] - 1 < last]
    kept = [row for split in (Split.VALIDATION, Split.TEST) for row in alleles[split] if row["source"] == "clinvar"]
    assert {row["pos"] for row in gene} == {row["pos"] for row in kept}
    assert {row["source"] for row in alleles[Split.TRAIN]} == {"gnomad", "clinvar"}
    windows = pq.read_table(tmp_path / "data/train-00000-of-00001.parquet", columns=["contig", "start", "end"])
    for row in windows.to_pylist():
        if row["contig"] == "chr17":
            assert row["end"] + PROFILE.margin_bp <= first or row["start"] >= last
