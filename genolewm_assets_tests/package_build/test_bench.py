from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq

from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.holdouts.index import HoldoutIndex
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.package_build.bench import BENCH_HOLDOUTS, plan_bench
from genolewm_assets.package_build.plan import PackagePlan, plan_package
from genolewm_assets.package_build.split import find_regions, split_windows
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.variants.schema import CLINVAR_VARIANTS
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.package_world import (
    BLOCK_TEST,
    PROFILE,
    SEQUENCES,
    alleles,
    clinvar,
    failed,
    held_alleles,
    intervals,
    make_sources,
    table,
)

#: 0-based starts of SNVs of chr21, whose windows begin at 96, 896, ... and end at 1,296, 2,096, ..., 11,696.
PLACES = {95: "in_no_window", 96 + 63: "leaves_inset", 96 + 64: "scored", 1_000: "scored", 11_700: "in_no_window"}


def labelled(row: dict[str, object], label: str = "P", stars: int = 1) -> dict[str, object]:
    return row | {"label": label, "stars": stars, "clinvar_id": 1, "gene_symbols": ["SIM"], "gene_ids": [7]}


def plan(**changes: object) -> PackagePlan:
    sources = make_sources(**changes)
    index = HoldoutIndex(sources.intervals, sources.alleles, sources.corpus_rows, contigs=sources.contigs)
    return plan_package(sources, index)


def outcomes(rows: list[dict[str, object]], contig: str = "chr21", **changes: object) -> list[str | None]:
    shards = {name: clinvar(name) for name in SEQUENCES} | {contig: table(rows, CLINVAR_VARIANTS.arrow)}
    key = ("holdout-chr", Split.TEST if contig == "chr21" else Split.VALIDATION)
    return plan(clinvar=shards, **changes).bench.outcomes[contig][key].to_pylist()


def test_an_allele_is_scored_or_has_a_reason():
    assert outcomes([labelled(row) for row in alleles("chr21", PLACES)]) == list(PLACES.values())


def test_the_bases_of_a_contig_are_asked_for_once():
    asked = []

    def reference(contig: str) -> bytes:
        asked.append(contig)
        return SEQUENCES[contig]

    stretches = [(name, "test", "chr21", 0, 12_000) for name in BENCH_HOLDOUTS]
    shards = {"chr21": table([labelled(row) for row in alleles("chr21", [1_000, 2_000])], CLINVAR_VARIANTS.arrow)}
    sources = make_sources(clinvar=shards, intervals=intervals(*stretches), alleles=held_alleles())
    index = HoldoutIndex(sources.intervals, sources.alleles, sources.corpus_rows, contigs=sources.contigs)
    windows = {"chr21": sources.windows["chr21"]}
    regions = {"chr21": find_regions("chr21", sources.intervals, sources.alleles)}
    splits = {
        "chr21": split_windows(
            "chr21", windows["chr21"], margin_bp=PROFILE.margin_bp, regions=regions["chr21"], holdouts=index
        )
    }
    found = plan_bench(replace(sources, windows=windows, reference=reference), regions, splits, index)
    scored = {name: n for name, n in found.counts.items() if n}
    assert scored == {f"scoring.{name}.test.scored": 2 for name in BENCH_HOLDOUTS}
    assert asked == ["chr21"]


def test_an_allele_longer_than_the_flank_is_not_scored():
    bases = SEQUENCES["chr21"].decode()
    rows = []
    for length in (96, 97):
        at = next(at for at in range(1_500, 2_000) if bases[at] != bases[at + length])
        rows.append(labelled({"chrom": "chr21", "pos": at + 1, "ref": bases[at : at + length + 1], "alt": bases[at]}))
    assert outcomes(rows) == ["scored", "beyond_flank"]


def test_a_change_of_length_that_the_window_does_not_show_is_not_scored():
    unit = "ACGTTGCA"
    bases = bytearray(SEQUENCES["chr21"])
    # A repeat from inside the last window to its contig's end: a unit less changes the window behind its margin only.
    bases[11_400:] = (unit * 80).encode()[: len(bases) - 11_400]
    bases[11_399:11_400] = b"C"
    sequences = SEQUENCES | {"chr21": bytes(bases)}
    row = labelled({"chrom": "chr21", "pos": 11_400, "ref": f"C{unit}", "alt": "C"})
    assert outcomes([row], reference=sequences.__getitem__) == ["no_difference"]


@each_row("label", ["P", "LP", "B", "LB", "VUS", "OTHER"])
@each_row("stars", [0, 1, 2])
def test_the_bench_holds_decided_labels_with_the_stars_of_the_policy(label, stars):
    rows = [labelled(row, label, stars) for row in alleles("chr21", [1_000])]
    for least in (1, 2):
        wanted = "scored" if label in {"P", "LP", "B", "LB"} and stars >= least else None
        assert outcomes(rows, policy=HoldoutPolicy(validation_windows=10, min_stars=least)) == [wanted]


def test_windows_for_scoring_join_validation_and_never_meet_a_test_interval():
    stretches = [
        ("holdout-chr", "validation", "chr20", 0, 12_000),
        ("holdout-clinvar", "test", "chr20", 5_000, 5_400),
        ("holdout-clinvar", "validation", "chr17", 6_000, 9_000),
    ]
    rows = [labelled(row) for row in alleles("chr20", range(200, 11_500, 50))]
    shards = {"chr20": table(rows, CLINVAR_VARIANTS.arrow), "chr17": clinvar("chr17")}
    policy = HoldoutPolicy(validation_windows=2)
    found = plan(clinvar=shards, intervals=intervals(*stretches), policy=policy)
    for holdout, contig in (("holdout-chr", "chr20"), ("holdout-clinvar", "chr17")):
        key = (holdout, Split.VALIDATION)
        both = set(found.evaluation[key][contig])
        assert set(found.frozen[key][contig]) < both
        assert both == set(found.frozen[key][contig]) | set(found.bench.windows[key][contig])
        assert found.counts[f"validation.{holdout}.windows"] == 2
        assert found.counts[f"validation.{holdout}.scoring_windows"] == len(both) - 2
        assert found.controls[key] == found.frozen[key]
    first = PROFILE.margin_bp
    starts = [first + 800 * int(row) for row in found.evaluation["holdout-chr", Split.VALIDATION]["chr20"]]
    assert not [start for start in starts if start < 5_400 and start + 1_200 + PROFILE.margin_bp > 5_000]
    states = found.bench.outcomes["chr20"]["holdout-chr", Split.VALIDATION].to_pylist()
    tested = [state is None for state in states]
    assert tested == [5_000 <= at < 5_400 for at in range(200, 11_500, 50)]  # test wins
    assert "in_no_window" in states


def test_an_allele_outside_the_genes_interval_is_in_no_window():
    (row,) = alleles("chr17", [12_000])
    listed = held_alleles(("holdout-clinvar", "test", row))
    held = intervals(("holdout-clinvar", "test", "chr17", *BLOCK_TEST))
    shards = {"chr17": table([labelled(row)], CLINVAR_VARIANTS.arrow)}
    found = plan(clinvar=shards, alleles=listed, intervals=held).bench
    assert found.outcomes["chr17"]["holdout-clinvar", Split.TEST].to_pylist() == ["in_no_window"]
    assert found.counts["scoring.holdout-clinvar.test.in_no_window"] == 1


def test_the_haplotype_holdout_has_no_bench(tmp_path):
    write_package(tmp_path, make_sources())
    for split in EVALUATION:
        rows = pq.read_table(tmp_path / f"variants/{split}.parquet").to_pylist()
        assert {row["scoring"] for row in rows if row["holdout"] == "holdout-haplotypes"} == {None}
        assert {row["scoring"] for row in rows if row["source"] == "gnomad"} <= {None}
    assert not pq.read_table(tmp_path / "variants/train.parquet")["scoring"].drop_null()


def test_test_windows_are_all_frozen_and_validation_windows_for_scoring_are_not(tmp_path):
    report = write_package(tmp_path, make_sources())
    assert failed(report.checks) == set()
    for split in Split:
        table_ = pq.read_table(tmp_path / f"data/{split}-00000-of-00001.parquet", columns=["frozen", "holdout"])
        spare = [row["holdout"] for row in table_.to_pylist() if not row["frozen"]]
        assert len(spare) == (2 if split is Split.VALIDATION else 0)
        assert set(spare) <= {"holdout-chr"}


def test_the_bench_does_not_depend_on_the_windows_of_the_running_loss():
    few, many = (plan(policy=HoldoutPolicy(validation_windows=n)).bench for n in (1, 1_000))
    assert few.counts == many.counts
    assert few.outcomes == many.outcomes
    other = replace(HoldoutPolicy(validation_windows=1), seed=9)
    assert plan(policy=other).bench.outcomes == few.outcomes
