from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest

from genolewm_assets.errors import ConfigurationError, UnknownContigError
from genolewm_assets.genome import GRCH38, PROFILES, Contig, ContigSet, IntervalArray, acgt_runs
from genolewm_assets.lewm.holdout_checks import check_holdouts
from genolewm_assets.lewm.holdout_policy import HoldoutPolicy
from genolewm_assets.lewm.holdouts import HoldoutIndex, HoldoutInputs, HoldoutTables, build_holdouts
from genolewm_assets.lewm.window_index import build_window_table
from genolewm_assets.sources.clinvar import build_clinvar_shard
from genolewm_assets.sources.gnomad import GnomadParams, build_gnomad_shard
from genolewm_assets_tests.lewm.holdout_world import corpus, corpus_row, simulated_inputs

POLICY = HoldoutPolicy(
    contigs_validation=("20",),
    contigs_test=("chr21",),
    temporal=("2024-01-07", "2025-01-05"),
    clinvar_gene_fraction=0.3,
    link_bp=150,
    max_block_bp=1_000,
)
Keys = set[tuple[object, ...]]


@pytest.fixture(scope="module")
def simulated() -> tuple[HoldoutInputs, HoldoutTables]:
    inputs = simulated_inputs()
    return inputs, build_holdouts(inputs, POLICY)


def keys(table: pa.Table) -> Keys:
    return set(zip(*(table[name].to_pylist() for name in ("chrom", "pos", "ref", "alt")), strict=True))


def index_of(held: HoldoutTables, inputs: HoldoutInputs) -> HoldoutIndex:
    return HoldoutIndex(held.intervals, held.alleles, held.corpus, contigs=inputs.contigs)


def footprints(inputs: HoldoutInputs, contig: str) -> IntervalArray:
    table = inputs.windows[contig]
    return IntervalArray(table["start"].to_numpy(), table["end"].to_numpy() + inputs.profile.margin_bp)


def test_checks_pass(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    assert [check for check in check_holdouts(simulated[1], simulated[0], POLICY) if not check.passed] == []


def test_every_holdout_has_both_sides(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    _, held = simulated
    sides = {(row["holdout"], row["role"]) for table in (held.intervals, held.alleles) for row in table.to_pylist()}
    names = ("holdout-chr", "holdout-clinvar", "holdout-haplotypes", "holdout-temporal")
    assert sides == {(name, role) for name in names for role in ("validation", "test")}


def test_no_base_of_the_test_is_in_validation(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    rows = simulated[1].intervals.to_pylist()
    for one in rows:
        for other in rows:
            genes = one["holdout"] == other["holdout"] == "holdout-clinvar"
            if one["contig"] == other["contig"] and one["role"] != other["role"] and not genes:
                assert one["end"] <= other["start"] or other["end"] <= one["start"]


def test_blocks_take_two_percent_of_the_windows(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs, held = simulated
    blocks = [row for row in held.intervals.to_pylist() if row["holdout"] == "holdout-haplotypes"]
    removed = sum(
        any(row["contig"] == contig and row["start"] < end and start < row["end"] for row in blocks)
        for contig in inputs.windows
        for start, end in footprints(inputs, contig)
    )
    assert removed == held.counts["windows.holdout-haplotypes"]
    assert abs(removed / held.counts["windows"] - 0.02) <= 0.003


def test_windows_and_alleles_equal_a_quadratic_referee(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs, held = simulated
    index, stretches = index_of(held, inputs), held.intervals.to_pylist()

    def in_stretch(contig: str, start: int, end: int) -> bool:
        return any(row["contig"] == contig and row["start"] < end and start < row["end"] for row in stretches)

    out = 0
    for contig in inputs.windows:
        spans = footprints(inputs, contig)
        expected = [in_stretch(contig, start, end) for start, end in spans]
        assert index.window_is_held_out(contig, spans).tolist() == expected
        out += sum(expected)
        listed = keys(held.alleles)
        for table in (inputs.gnomad[contig], inputs.clinvar[contig]):
            mask = index.allele_is_held_out(table).tolist()
            for row, found in zip(table.to_pylist(), mask, strict=True):
                inside = in_stretch(contig, row["pos"] - 1, row["pos"] - 1 + len(row["ref"]))
                key = (row["chrom"], row["pos"], row["ref"], row["alt"])
                assert found == (inside or key in listed)
                assert not inside or key in listed
    assert held.counts["windows.held_out"] == out


def test_temporal_equals_a_referee_of_dictionaries(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs, held = simulated
    labelled = {"P", "LP", "B", "LB"}
    assert inputs.clinvar_earlier is not None
    before = {
        (row["chrom"], row["pos"], row["ref"], row["alt"]): row["label"]
        for table in inputs.clinvar_earlier.values()
        for row in table.to_pylist()
    }
    expected = {
        ((row["chrom"], row["pos"], row["ref"], row["alt"]), "new" if key not in before else "became_labelled")
        for table in inputs.clinvar.values()
        for row in table.to_pylist()
        for key in [(row["chrom"], row["pos"], row["ref"], row["alt"])]
        if row["label"] in labelled and row["stars"] >= 1 and before.get(key) not in labelled
    }
    rows = [row for row in held.alleles.to_pylist() if row["holdout"] == "holdout-temporal"]
    assert {((r["chrom"], r["pos"], r["ref"], r["alt"]), r["reason"]) for r in rows} == expected
    assert len(rows) == len(expected) > 20


def test_counts_add_up(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    _, held = simulated
    counts = held.counts
    for holdout in ("holdout-chr", "holdout-clinvar", "holdout-haplotypes", "holdout-temporal"):
        rows = [row["reason"] for row in held.alleles.to_pylist() if row["holdout"] == holdout]
        assert Counter(rows) == {
            name.rpartition(".")[2]: n for name, n in counts.items() if n and name.startswith(f"alleles.{holdout}.")
        }
        assert (
            counts[f"windows.{holdout}"] <= counts[f"windows.{holdout}.test"] + counts[f"windows.{holdout}.validation"]
        )
    assert counts["windows.holdout-chr.validation"] == counts["windows.holdout-chr.test"] == 149
    assert counts["windows.holdout-temporal"] == 0
    assert counts["corpus_windows"] == 128 + 1
    assert counts["corpus_windows.held_out"] == len(
        {(row["source"], row["record_id"], row["window_index"]) for row in held.corpus.to_pylist()}
    )


def test_no_trace_of_order_or_batches(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs, held = simulated
    turned = replace(
        inputs,
        windows=dict(reversed(inputs.windows.items())),
        gnomad=dict(reversed(inputs.gnomad.items())),
        clinvar={name: pa.concat_tables([t.slice(0, 7), t.slice(7)]) for name, t in reversed(inputs.clinvar.items())},
        corpus=[table.slice(n, 1) for table in inputs.corpus for n in reversed(range(table.num_rows))],
    )
    again = build_holdouts(turned, POLICY)
    for name in ("intervals", "alleles", "corpus"):
        assert getattr(again, name).equals(getattr(held, name))
    assert again.counts == held.counts
    other = build_holdouts(inputs, replace(POLICY, seed=1))
    assert not other.intervals.equals(held.intervals)


def test_contig_that_the_genome_lacks_is_held_out_all_the_same(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs = replace(
        simulated[0],
        corpus=[
            corpus(
                [
                    corpus_row(1, placed_contig="chr5", placed_start=9, placed_end=99),
                    corpus_row(2, "none"),
                    corpus_row(3, placed_contig="chr17", placed_start=399_000, placed_end=399_500),
                ]
            )
        ],
    )
    policy = HoldoutPolicy(contigs_validation=(), contigs_test=("5",), clinvar_genes=(), haplotype_fraction=0)
    held = build_holdouts(inputs, policy)
    assert held.counts["assembled_per_million.chr5"] == 0
    found = dict(zip(held.corpus["record_id"].to_pylist(), held.corpus["reason"].to_pylist(), strict=True))
    assert found == {"record1": "placed", "record2": "fail_closed"}


def test_what_cannot_be_held_out_is_an_error(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs = simulated[0]
    with pytest.raises(ConfigurationError, match="BRCA1"):
        build_holdouts(inputs, replace(POLICY, clinvar_genes=("BRCA1",)))
    with pytest.raises(ConfigurationError, match="2024-01-07"):
        build_holdouts(replace(inputs, clinvar_earlier=None), POLICY)
    with pytest.raises(UnknownContigError):
        build_holdouts(inputs, replace(POLICY, contigs_test=("chrZ",)))


def test_phased_genotypes_decide_where_there_are_some(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs = simulated[0]
    n = inputs.gnomad["chr17"].num_rows
    carried = np.zeros((n, 2), dtype=bool)
    carried[10:13, 1] = True
    policy = replace(POLICY, haplotype_fraction=1, haplotype_max_blocks=1, link_bp=1_000)
    held = build_holdouts(replace(inputs, phased={"chr17": carried}), policy)
    blocks = [row for row in held.intervals.to_pylist() if row["holdout"] == "holdout-haplotypes"]
    (phased,) = [row for row in blocks if row["contig"] == "chr17"]
    positions = inputs.gnomad["chr17"]["pos"].to_pylist()[10:13]
    assert (phased["reason"], phased["start"], phased["end"]) == ("phased_block", positions[0] - 1, positions[2])
    assert {row["reason"] for row in blocks if row["contig"] != "chr17"} == {"proximity_block"}


# The real data: chr17, chr20 and chr21 of the shared slices; all ClinVar records are BRCA1's.

RELEASES = {"2020-11-07": "clinvar_20201107.vcf.gz", "2026-02-26": "clinvar_20260226.vcf.gz"}
REAL = HoldoutPolicy(contigs_validation=(), contigs_test=("chr21",), clinvar_genes=())


@pytest.fixture(scope="session")
def real(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> HoldoutInputs:
    folder = tmp_path_factory.mktemp("shards")
    contigs = ContigSet([GRCH38[name] for name in ("chr17", "chr20", "chr21")])

    @lru_cache(maxsize=3)
    def bases(name: str) -> bytes:
        with pysam.FastaFile(str(shared_data / "reference" / "GRCh38.slices.fa.gz")) as fasta:
            return str(fasta.fetch(name)).upper().encode()

    def reference(contig: Contig) -> bytes:
        return bases(contig.name)

    releases = {}
    for release, file in RELEASES.items():
        vcf = shared_data / "clinvar" / "vcf_GRCh38" / file
        build_clinvar_shard(vcf, release=release, contigs=contigs, reference=reference, out_dir=folder / release)
        releases[release] = {c.name: pq.read_table(folder / release / f"{c.name}.parquet") for c in contigs}
    earlier, later = releases.values()
    return HoldoutInputs(
        contigs=contigs,
        genome=genome_table(contigs, bases),
        windows={c.name: build_window_table(c, bases(c.name), PROFILES["default"], {}) for c in contigs},
        gnomad=gnomad_tables(shared_data, contigs, reference, folder),
        clinvar=later,
        clinvar_earlier=earlier,
    )


def gnomad_tables(
    shared_data: Path, contigs: ContigSet, reference: Callable[[Contig], bytes], folder: Path
) -> dict[str, pa.Table]:
    tables = {}
    for contig, pattern in (("chr17", "4.1/vcf/joint/*.vcf.bgz"), ("chr21", "2.0.1-liftover/vcf/exomes/*.vcf.bgz")):
        (vcf,) = (shared_data / "gnomad" / "release").glob(pattern)
        build_gnomad_shard(
            vcf,
            contig=contigs[contig],
            contigs=contigs,
            reference=reference,
            params=GnomadParams(accept_unfiltered=contig == "chr21"),
            out_dir=folder / contig,
        )
        tables[contig] = pq.read_table(folder / contig / "variants.parquet")
    return tables


def genome_table(contigs: ContigSet, bases: Callable[[str], bytes]) -> pa.Table:
    runs = {contig.name: acgt_runs(bases(contig.name)) for contig in contigs}
    return pa.table(
        {
            "contig": list(runs),
            "length": [contigs[name].length for name in runs],
            "acgt_bases": [spans.covered_bases for spans in runs.values()],
        }
    )


@pytest.fixture(scope="session")
def raw_classes(shared_data: Path) -> list[dict[tuple[str, str, str], str]]:
    """Return the class of every record of both releases, rejects included, from the text of the files."""
    releases = []
    for file in RELEASES.values():
        classes = {}
        with gzip.open(shared_data / "clinvar" / "vcf_GRCh38" / file, "rt") as lines:
            for line in lines:
                if not line.startswith("#"):
                    _, pos, _, ref, alt, _, _, info = line.rstrip("\n").split("\t")
                    found = [entry[7:] for entry in info.split(";") if entry.startswith("CLNSIG=")]
                    classes[pos, ref, alt] = plain_class(found[0] if found else "")
        releases.append(classes)
    return releases


def plain_class(text: str) -> str:
    terms = {term.split(",")[0].removesuffix("_low_penetrance") for part in text.split("|") for term in part.split("/")}
    pathogenic = terms & {"Pathogenic", "Likely_pathogenic"}
    benign = terms & {"Benign", "Likely_benign"}
    if pathogenic and not benign and not any("onflicting" in term for term in terms):
        return "P/LP"
    return "B/LB" if benign and not pathogenic and not any("onflicting" in term for term in terms) else ""


def test_new_labels_of_the_real_releases(
    real: HoldoutInputs, raw_classes: list[dict[tuple[str, str, str], str]]
) -> None:
    before, after = raw_classes
    newly = {key: side for key, side in after.items() if side and not before.get(key)}
    raw = Counter((side, key in before) for key, side in newly.items())
    assert raw == {("P/LP", True): 159, ("B/LB", True): 451, ("P/LP", False): 950, ("B/LB", False): 1_109}
    # What is not a sequence has no allele to hold out.
    rejected = Counter((side, key in before) for key, side in newly.items() if set(key[2]) - set("ACGT"))
    assert rejected == {("P/LP", False): 13}
    counts = build_holdouts(real, replace(REAL, temporal=("2020-11-07", "2026-02-26"))).counts
    assert {name: n for name, n in counts.items() if name.startswith("new_labels.")} == {
        "new_labels.became_labelled.pathogenic": 159,
        "new_labels.became_labelled.benign": 451,
        "new_labels.new.pathogenic": 950 - 13,
        "new_labels.new.benign": 1_109,
    }


def test_temporal_holdout_of_the_real_releases_needs_a_star(real: HoldoutInputs) -> None:
    policy = replace(REAL, temporal=("2020-11-07", "2026-02-26"))
    held = build_holdouts(real, policy)
    stars = [row["stars"] for row in held.alleles.to_pylist() if row["holdout"] == "holdout-temporal"]
    assert min(stars) == 1
    without = build_holdouts(real, replace(policy, min_stars=0)).alleles
    assert len(stars) < without["holdout"].to_pylist().count("holdout-temporal") == 159 + 451 + 937 + 1_109
    assert [check for check in check_holdouts(held, real, policy) if not check.passed] == []


def test_brca1_leaves_training_whole(real: HoldoutInputs) -> None:
    policy = replace(REAL, clinvar_genes=("BRCA1",))
    held = build_holdouts(real, policy)
    assert [check for check in check_holdouts(held, real, policy) if not check.passed] == []
    index = index_of(held, real)
    # Every ClinVar allele, whatever its class, and every common allele of the gene.
    assert real.clinvar_earlier is not None
    assert index.allele_is_held_out(real.clinvar["chr17"]).all()
    assert index.allele_is_held_out(real.clinvar_earlier["chr17"]).all()
    assert real.gnomad["chr17"].num_rows == 21
    assert index.allele_is_held_out(real.gnomad["chr17"]).all()
    table = real.clinvar["chr17"]
    positions = table["pos"].to_pylist()
    first = min(positions) - 1
    last = max(pos - 1 + len(ref) for pos, ref in zip(positions, table["ref"].to_pylist(), strict=True))
    spans = footprints(real, "chr17")
    kept = ~index.window_is_held_out("chr17", spans)
    assert all(
        end <= first - 12_288 or start >= last + 12_288
        for start, end in zip(spans.start[kept], spans.end[kept], strict=True)
    )
    assert held.counts["windows.holdout-clinvar"] == 14
    bench = sum(
        row["label"] in {"P", "LP", "B", "LB"} and row["stars"] >= 1 for row in real.clinvar["chr17"].to_pylist()
    )
    assert held.counts["alleles.holdout-clinvar.bench"] == bench == 7_389
    assert sum(len(real.windows[contig]) for contig in real.windows) == held.counts["windows"] == 1_903


def test_chr21_leaves_training_whole(real: HoldoutInputs) -> None:
    held = build_holdouts(real, REAL)
    index = index_of(held, real)
    assert index.window_is_held_out("21", footprints(real, "chr21")).all()
    assert not index.window_is_held_out("20", footprints(real, "chr20")).any()
    assert held.counts["windows.holdout-chr.test"] == 549
    assert index.allele_is_held_out(real.gnomad["chr21"]).all()
    assert 0.1 < held.counts["assembled_per_million.chr21"] / 1e6 < 0.15


def test_real_corpus_fails_closed(real: HoldoutInputs, shared_data: Path) -> None:
    rows, expected = [], set()
    for source in ("eukaryote_generator", "mrna_evo2", "mrna_splice_evo2", "prokaryote_evo2"):
        table = pq.read_table(
            shared_data / "corpus" / source / "part-00000.parquet",
        )
        for number, row in enumerate(table.to_pylist()):
            placed = corpus_place(source, row)
            rows.append(corpus_row(number, source=source, record_id=f"{number}", **placed))
            if placed["placed_contig"] == "chr21" or (placed["placement_how"] == "none" and placed["maybe_human"]):
                expected.add((source, f"{number}"))
    held = build_holdouts(replace(real, corpus=[corpus(rows)]), REAL)
    out = set(zip(held.corpus["source"].to_pylist(), held.corpus["record_id"].to_pylist(), strict=True))
    blocks = {(row["source"], row["record_id"]) for row in held.corpus.to_pylist() if row["holdout"] != "holdout-chr"}
    assert out - blocks <= expected <= out
    by_source = Counter(source for source, _ in expected)
    assert by_source["mrna_evo2"] == 584
    assert by_source["mrna_splice_evo2"] == 4
    # Four genes of chr21, and the two human ones without coordinates.
    assert by_source["eukaryote_generator"] == 4 + 2
    assert by_source["prokaryote_evo2"] == 0
    transcripts = [row for row in held.corpus.to_pylist() if row["source"] == "mrna_evo2"]
    assert {row["reason"] for row in transcripts} == {"fail_closed"}
    assert sum(row["holdout"] == "holdout-chr" for row in transcripts) == 584


def corpus_place(source: str, row: dict[str, object]) -> dict[str, object]:
    """Return what a record says of its place, without an aligner."""
    note = str(dict(row.get("metadata") or {}).get("note", ""))  # type: ignore[call-overload]
    if source == "prokaryote_evo2":
        return {"placement_how": "none", "placed_contig": None, "maybe_human": False}
    if source == "mrna_evo2":
        return {"placement_how": "contig_name", "placed_contig": note.rpartition(" ")[2]}
    if source == "mrna_splice_evo2":
        contig, _, rest = note.partition(":")
        start, _, end = rest.partition("(")[0].partition("-")
        return {
            "placement_how": "coordinates",
            "placed_contig": contig,
            "placed_start": int(start) - 1,
            "placed_end": int(end),
        }
    if row["start"] is None or row["chrom"] is None:
        human = row["taxonomy"] is None or "homo sapiens" in str(row["taxonomy"]).lower()
        return {"placement_how": "none", "placed_contig": None, "maybe_human": human}
    place = {"placed_contig": row["chrom"], "placed_start": row["start"], "placed_end": row["end"]}
    return {"placement_how": "coordinates", "maybe_human": "homo sapiens" in str(row["taxonomy"]).lower(), **place}
