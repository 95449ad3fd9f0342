"""Three ClinVar releases in a row: two real ones, and one that a week after them adds, changes and removes records."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest

from genolewm_assets.genome import GRCH38, PROFILES, Contig, ContigSet, acgt_runs, genome_digest
from genolewm_assets.holdouts.build import HoldoutInputs, build_holdouts
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.temporal import TemporalRule
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.diff import PackageDiff, compare_packages
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.mix import POSSIBLE, SOURCE_MIX, PackageMix
from genolewm_assets.packages.reader import Package
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
from genolewm_assets.windows.reference.table import build_window_table
from genolewm_assets_tests.referees.clinvar_side import plain_class
from genolewm_assets_tests.worlds.lewm.package_world import corpus, failed, simulate

pytestmark = pytest.mark.slow

T0, BEFORE, AFTER = "2020-11-07", "2026-02-26", "2026-03-05"
LABELS = {
    "Pathogenic": "P",
    "Likely_pathogenic": "LP",
    "Benign": "B",
    "Likely_benign": "LB",
    "Uncertain_significance": "VUS",
}
STARS = {
    "criteria_provided,_single_submitter": 1,
    "criteria_provided,_conflicting_classifications": 1,
    "criteria_provided,_conflicting_interpretations": 1,
    "criteria_provided,_multiple_submitters,_no_conflicts": 2,
    "reviewed_by_expert_panel": 3,
    "practice_guideline": 4,
}
DECIDED = {"P", "LP", "B", "LB"}
Key = tuple[int, str, str]
#: Class and stars of an allele; None where a release lacks it.
State = tuple[str, int] | None


def fields_of(line: str) -> tuple[Key, str, str]:
    """Return key, CLNSIG and CLNREVSTAT of a record's line."""
    _, pos, _, ref, alt, _, _, info = line.rstrip("\n").split("\t")
    said = dict(entry.partition("=")[::2] for entry in info.split(";"))
    return (int(pos), ref, alt), said.get("CLNSIG", ""), said.get("CLNREVSTAT", "")


@lru_cache(maxsize=3)
def plain_states(text: str) -> dict[Key, State]:
    """Return class and stars of the SNVs of a release whose text is one of :data:`LABELS`, read line by line."""
    found: dict[Key, State] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            (pos, ref, alt), significance, review = fields_of(line)
            if len(ref) == 1 and alt in set("ACGT") and significance in LABELS:
                found[pos, ref, alt] = LABELS[significance], STARS.get(review, 0)
    return found


@lru_cache(maxsize=1)
def decided(text: str) -> frozenset[Key]:
    """Return the alleles of a release whose text names one side."""
    said = (fields_of(line) for line in text.splitlines() if not line.startswith("#"))
    return frozenset(key for key, significance, _ in said if plain_class(significance))


def next_release(text: str) -> str:
    """Return the text of a release one week later: of some SNVs another class or review, some gone, some new."""
    header = [line for line in text.splitlines() if line.startswith("#")]
    records = [line for line in text.splitlines() if not line.startswith("#")]
    states, done, kept = plain_states(text), Counter[str](), []
    taken = {fields_of(line)[0] for line in records}
    for record in records:
        line = record
        key, significance, review = fields_of(line)
        state = states.get(key)
        if state is None:
            kept.append(line)
            continue
        # One in 40 is removed, one in 40 says something else, one in 40 gets a neighbour of another base.
        turn = int(hashlib.sha256(repr(key).encode()).hexdigest(), 16) % 40
        if turn == 0:
            done["removed"] += 1
            continue
        if turn == 1:
            other = {"P": "Benign", "LP": "Pathogenic", "B": "Uncertain_significance", "LB": "Benign"}
            line = line.replace(f"CLNSIG={significance}", f"CLNSIG={other.get(state[0], 'Pathogenic')}")
            done["changed"] += 1
        if turn == 2:
            line = line.replace(f"CLNREVSTAT={review}", "CLNREVSTAT=no_assertion_criteria_provided")
        kept.append(line)
        alt = next((base for base in "ACGT" if base != key[1] and (key[0], key[1], base) not in taken), None)
        if turn in (3, 4) and alt is not None:
            columns = line.split("\t")
            columns[2], columns[4] = str(90_000_000 + done["added"]), alt
            columns[7] = columns[7].replace(f"CLNSIG={significance}", f"CLNSIG={list(LABELS)[done['added'] % 5]}")
            if turn == 4:
                columns[7] = columns[7].replace(f"CLNREVSTAT={review}", "CLNREVSTAT=no_assertion_criteria_provided")
            kept.append("\t".join(columns))
            taken.add((key[0], key[1], alt))
            done["added"] += 1
    assert min(done["removed"], done["changed"], done["added"]) > 50
    return "\n".join([*header, *kept]).replace(f"##fileDate={BEFORE}", f"##fileDate={AFTER}") + "\n"


@dataclass(frozen=True)
class Series:
    """The text of each release, its package, and the alleles of its holdouts."""

    texts: Mapping[str, str]
    packages: Mapping[str, Path]

    def train(self, release: str) -> dict[Key, State]:
        rows = pq.read_table(self.packages[release] / "variants/train.parquet").to_pylist()
        clinvar = (row for row in rows if row["source"] == "clinvar")
        return {(row["pos"], row["ref"], row["alt"]): (row["label"], row["stars"]) for row in clinvar}

    def bench(self, release: str) -> dict[Key, tuple[str, State]]:
        rows = pq.read_table(self.packages[release] / "holdouts/alleles.parquet").to_pylist()
        temporal = (row for row in rows if row["holdout"] == "holdout-temporal")
        return {(row["pos"], row["ref"], row["alt"]): (row["role"], (row["label"], row["stars"])) for row in temporal}

    def differing(self) -> dict[Key, tuple[State, State]]:
        """Return what the last two releases say of each SNV that they differ about, by their texts."""
        old, new = plain_states(self.texts[BEFORE]), plain_states(self.texts[AFTER])
        return {key: (old.get(key), new.get(key)) for key in {*old, *new} if old.get(key) != new.get(key)}

    def in_bench(self, key: Key, state: State) -> bool:
        """Tell by the definition whether an allele belongs to the temporal holdout: no label at T0, one with a star."""
        return state is not None and state[0] in DECIDED and state[1] >= 1 and key not in decided(self.texts[T0])


def small_corpora() -> dict[str, pa.Table]:
    margin = PROFILES["default"].margin_bp
    flanks = {"left_flank": "A" * margin, "right_flank": "C" * margin}
    return {
        source: corpus(source, [simulate(100 * n + i, 600).decode() for i in range(6)], **flanks)
        for n, source in enumerate(SOURCE_MIX)
    }


@pytest.fixture(scope="module")
def series(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Series:
    folder = tmp_path_factory.mktemp("series")
    contigs = ContigSet([GRCH38[name] for name in ("chr17", "chr21")])

    @lru_cache(maxsize=2)
    def bases(name: str) -> bytes:
        with pysam.FastaFile(str(shared_data / "reference" / "GRCh38.slices.fa.gz")) as fasta:
            return str(fasta.fetch(name)).upper().encode()

    def reference(contig: Contig) -> bytes:
        return bases(contig.name)

    texts = {}
    for release in (T0, BEFORE):
        file = shared_data / "clinvar/vcf_GRCh38" / f"clinvar_{release.replace('-', '')}.vcf.gz"
        texts[release] = gzip.decompress(file.read_bytes()).decode()
    texts[AFTER] = next_release(texts[BEFORE])
    tables = {}
    for release, text in texts.items():
        vcf = folder / f"clinvar_{release.replace('-', '')}.vcf"
        vcf.write_text(text)
        build_clinvar_shard(vcf, release=release, contigs=contigs, reference=reference, out_dir=folder / release)
        tables[release] = {c.name: pq.read_table(folder / release / f"{c.name}.parquet") for c in contigs}
    windows = {c.name: build_window_table(c, bases(c.name), PROFILES["default"], {}) for c in contigs}
    runs = {c.name: int(acgt_runs(bases(c.name)).merge().size.sum()) for c in contigs}
    genome = pa.table(
        {"contig": list(runs), "length": [contigs[n].length for n in runs], "acgt_bases": list(runs.values())}
    )
    packages = {}
    for release in (BEFORE, AFTER):
        policy = HoldoutPolicy(
            contigs_validation=(),
            contigs_test=("chr21",),
            clinvar_genes=(),
            temporal=(T0, release),
            temporal_setting=T0,
            temporal_rule=TemporalRule.NAMED,
        )
        given = HoldoutInputs(
            contigs=contigs,
            genome=genome,
            windows=windows,
            gnomad={},
            clinvar=tables[release],
            clinvar_earlier=tables[T0],
        )
        held = build_holdouts(given, policy)
        sources = PackageSources(
            release=release,
            genome_digest=genome_digest(contigs),
            windows=windows,
            corpus=small_corpora(),
            gnomad={},
            clinvar=tables[release],
            intervals=held.intervals,
            alleles=held.alleles,
            corpus_rows=held.corpus,
            policy=policy,
            reference=bases,
            contigs=contigs,
            mix=PackageMix(declared=POSSIBLE, max_visits=1_000),
            versions={"clinvar": release},
        )
        packages[release] = folder / "packages" / release
        assert failed(write_package(packages[release], sources).checks) == set()
    return Series(texts, packages)


@pytest.fixture(scope="module")
def diff(series: Series) -> PackageDiff:
    before, after = (series.packages[release] for release in (BEFORE, AFTER))
    old, new = (Package(folder, read_package_info(folder), {}) for folder in (before, after))
    return compare_packages(old, new, list_alleles=True)


@pytest.mark.parametrize("release", [BEFORE, AFTER])
def test_training_has_the_newest_labels_of_every_allele_outside_the_holdouts(series: Series, release: str) -> None:
    stated = plain_states(series.texts[release])
    expected = {key: state for key, state in stated.items() if not series.in_bench(key, state)}
    found = {key: state for key, state in series.train(release).items() if key in stated}
    assert found == expected
    older = plain_states(series.texts[T0])
    assert sum(key in older and older[key] != state for key, state in found.items()) > 500


def test_the_bench_changes_by_what_the_release_changed_and_by_nothing_else(series: Series) -> None:
    before, after, differing = series.bench(BEFORE), series.bench(AFTER), series.differing()
    assert {key: row for key, row in before.items() if key not in differing} == {
        key: row for key, row in after.items() if key not in differing
    }
    assert len(before.keys() - differing.keys()) > 1_000
    for key, (_, state) in differing.items():
        assert (key in after) == series.in_bench(key, state)
    # And the roles that there are stay, also where alleles came and went.
    kept = before.keys() & after.keys()
    assert all(before[key][0] == after[key][0] for key in kept)


def test_the_diff_lists_exactly_what_the_files_differ_in(series: Series, diff: PackageDiff) -> None:
    listed = {
        (change.pos, change.ref, change.alt): tuple(
            None if state is None else (state.label, state.stars) for state in (change.before, change.after)
        )
        for change in diff.alleles
    }
    assert listed == series.differing()
    for change in diff.alleles:
        key = change.pos, change.ref, change.alt
        for state in (change.before, change.after):
            if state is not None:
                held = series.in_bench(key, (state.label, state.stars or 0))
                assert held == any(place.startswith("holdout-temporal") for place in state.places)
                assert held == ("train" not in state.places)


def test_the_diff_counts_what_training_gained_and_lost(series: Series, diff: PackageDiff) -> None:
    added, removed, relabelled = Counter[str](), Counter[str](), Counter[str]()
    for key, (old, new) in series.differing().items():
        was = old[0] if old and not series.in_bench(key, old) else None
        now = new[0] if new and not series.in_bench(key, new) else None
        if was != now:
            added.update([now] if was is None else [])
            removed.update([was] if now is None else [])
            relabelled.update([f"{was} -> {now}"] if was and now else [])
    assert (diff.train.added, diff.train.removed, diff.train.relabelled) == (added, removed, relabelled)
    assert added["P"] > 0
    assert relabelled
    text = diff.to_text()
    assert f"\ntrain: + P  {added['P']}\n" in text
    assert f"\ntrain: - VUS  {removed['VUS']}\n" in text
    lines = set(diff.to_text(alleles=True).splitlines()) - set(text.splitlines())
    assert len(lines) == len(series.differing())


def test_nothing_else_of_the_package_changes(diff: PackageDiff) -> None:
    tables = {table.table: table for table in diff.tables}
    same = ("windows, train", "holdouts, intervals", "holdouts, corpus")
    assert all(tables[name].is_empty for name in same)
    assert set(diff.settings) == {"release", "sources", "policy.temporal"}
    assert not [name for name in diff.moved if name.startswith("windows")]
    genes = [bench for bench in diff.benches if bench.holdout == "holdout-clinvar"]
    assert all(bench.is_equal for bench in genes)
    (changed,) = [bench for bench in diff.benches if not bench.is_equal]
    assert changed.holdout == "holdout-temporal"
    assert set(changed.units) == set(_units(diff))


def _units(diff: PackageDiff) -> Iterator[str]:
    """All genes of the data are one component; alleles that name none belong to their contig."""
    yield "gene:672"
