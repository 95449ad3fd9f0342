"""What is measured of the stream of tuples is the work that its tables name, and every job is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pysam
import pytest

from benchmarks.stream import jobs as stream_jobs
from benchmarks.stream import recreated
from benchmarks.stream.jobs import RELEASE
from benchmarks.stream.phased_vcf import PhasedShape, write_phased
from benchmarks.stream.recreated import HeldOut, kmers_of, recreated_table
from benchmarks.stream.simulated_package import APART
from benchmarks.stream.size_jobs import NAME, TEST, VALIDATION, write
from benchmarks.stream.size_tables import large_shape, run_part, size_tables
from benchmarks.stream.tables import first_batch_table, loader_table, make_folder, rate_table
from benchmarks.vcf.tables import Setting
from genolewm_assets.genome import Contig, Split, reverse_complement
from genolewm_assets.lewm.packages import open_tables

SHRINK, HELD = 200, 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the inputs of all jobs but those of size."""
    made = tmp_path_factory.mktemp("measured") / "stream"
    make_folder(made, shrink=SHRINK)
    return made


def test_packages_differ_in_what_is_held_out_alone(folder: Path) -> None:
    plain, held = (open_tables(folder / "root/packages" / RELEASE / name) for name in ("plain", "held"))
    windows = [package.windows(Split.TRAIN, ["window_id", "cache_row"]) for package in (plain, held)]
    assert windows[0].equals(windows[1])
    sizes = [[package.holdouts(noun).num_rows for noun in ("intervals", "alleles")] for package in (plain, held)]
    assert sizes[0] == [0, 0]
    assert sizes[1] == [HELD, pytest.approx(HELD, abs=1)]
    assert held.holdouts("intervals")["contig"].unique().to_pylist() == [APART.name]
    origins = set(plain.windows(Split.TRAIN, ["contig"])["contig"].to_pylist())
    assert origins == {"chr2", "chr17", None}


def test_a_task_reads_an_epoch_and_then_the_next(folder: Path) -> None:
    seen: list[np.ndarray] = []
    dataset = stream_jobs.open_dataset(folder, with_states=False)
    task = stream_jobs._epoch(dataset, lambda batch: seen.append(batch.edits.locus_bp))
    assert task() == task() == sum(map(len, seen)) // 2
    assert len(seen) == 2 * dataset.n_batches
    assert not np.array_equal(seen[0], seen[dataset.n_batches])


def test_tasks_count_the_tuples_of_the_same_epoch(folder: Path) -> None:
    tasks = stream_jobs.PARTS["one_process"](folder)
    found = {name: task() for name, task in tasks.items()}
    assert len({found[name] for name in ("states", "tables", "held", "text")}) == 1
    # A copy counts the last batch of an epoch as a whole one.
    assert all(0 <= found[f"copy_{name}"] - found[name] < 256 for name in ("states", "tables", "text"))


def test_a_copy_has_the_bytes_of_a_batch(folder: Path) -> None:
    states, tables = (next(iter(stream_jobs.open_dataset(folder, with_states=with_states))) for with_states in (1, 0))
    more = stream_jobs._held_bytes(states) - stream_jobs._held_bytes(tables)
    assert more == states.source_states.nbytes == len(states) * 1_024 * 4
    assert stream_jobs._held_bytes(tables) > tables.target_tokens.nbytes == len(tables) * 2_048 * 2


def test_phased_genotypes_follow_the_frequencies_of_alleles_of_the_contig(tmp_path: Path) -> None:
    contig = Contig("chr1", 100_000)
    write_phased(tmp_path, PhasedShape(contig, 8_333, samples=40))
    bases = pysam.FastaFile(str(tmp_path / "phased.fa.gz")).fetch(contig.name)
    carried = []
    with pysam.VariantFile(str(tmp_path / "phased.vcf.gz")) as file:
        for record in file.fetch(contig.name, 0, contig.length):
            assert bases[record.start : record.stop] == record.ref
            assert all(sample.phased for sample in record.samples.values())
            carried.append(sum(map(sum, (sample["GT"] for sample in record.samples.values()))))
    assert len(carried) == contig.length * 8_333 // 1_000_000
    assert 0.1 < np.mean(carried) / 80 < 0.35
    regions = [line.split("\t") for line in (tmp_path / "regions.bed").read_text().splitlines()]
    assert {int(end) - int(start) for _, start, end in regions} == {12_288}


def test_the_table_of_rates_shows_every_job_and_ratios(folder: Path) -> None:
    lines = list(rate_table(folder, Setting(folder, None, 1, keep=True)))
    rows = [line for line in lines if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {8}
    assert [line.split(" | ")[0] for line in rows if "not measured" in line] == [
        "| GenVarLoader, haplotypes of 12,288 bp",
        "| geno-lewm, its own tuples, no states",
    ]
    # Without peers there are no ratios to them, and only the copies have none to a copy.
    ratios = [[cell.strip() for cell in line.split("|")[5:8]] for line in rows[1:9]]
    assert {tuple(row[:2]) for row in ratios} == {("", "")}
    assert [bool(row[2]) for row in ratios] == [True] * 5 + [False] * 3
    assert float(lines[-2].split("none: ")[1].split()[0]) > 0
    assert "GenVarLoader: not measured" in lines[-1]


def test_the_table_of_loaders_compares_two_workers_with_one(folder: Path) -> None:
    rows = [line for line in loader_table(folder, Setting(folder, None, 1, keep=True)) if "worker" in line][1:]
    assert [line.split(" | ")[-1].strip(" |") for line in rows[::2]] == ["1.00", "1.00"]
    assert len(rows) == 4
    assert not [line for line in rows if "not measured" in line]


def test_the_first_batch_is_measured_with_and_without_compiled_code(folder: Path) -> None:
    rows = [line for line in first_batch_table(folder, Setting(folder, None, 1, keep=True)) if line.startswith("| o")]
    opening, warm, cold = (float(line.split(" | ")[1]) for line in rows)
    assert min(opening, warm, cold) > 0


def test_the_large_package_has_the_sizes_that_it_is_measured_for() -> None:
    shape = large_shape(1)
    bases = sum(each.length for each in shape.contigs)
    assert bases * shape.gnomad_per_mbp / 1e6 == pytest.approx(10_000_000, rel=1e-3)
    windows = bases // 8_192
    assert windows + shape.corpus_windows == pytest.approx(1_000_000, rel=1e-3)


def test_the_tables_of_a_small_package_show_writing_opening_and_sizes(tmp_path: Path) -> None:
    setting = Setting(tmp_path, None, 1, keep=True)
    lines = [line for line in size_tables(setting, shrink=30_000) if line.startswith("| ")]
    assert not [line for line in lines if "failed" in line]
    (made,) = tmp_path.glob("size_*")
    written = next(line for line in lines if line.startswith("| packages/split"))
    package = open_tables(made / "root/packages" / RELEASE / NAME)
    windows = {split: package.windows(split, ["contig"])["contig"].unique().to_pylist() for split in Split}
    assert windows[Split.VALIDATION] == list(VALIDATION)
    assert windows[Split.TEST] == list(TEST)
    assert not {*VALIDATION, *TEST} & set(windows[Split.TRAIN])
    assert f"| {sum(split.windows for split in package.info.splits.values()):,} |" in written
    shown = [line.split(" | ")[3] for line in lines if line.count("|") == 8 and "MiB" not in line]
    assert [name for name in shown if name == "worker"] == ["worker", "worker"]


def test_a_part_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    figures, failure = run_part("process", tmp_path / "absent")
    assert figures == {}
    assert "absent" in failure
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "absent")


def test_held_out_alleles_are_found_where_nothing_is_held_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recreated, "_COMPARED", recreated._SEARCHED)
    (tmp_path / f"stream_{SHRINK}").symlink_to(folder)
    setting = Setting(tmp_path, None, runs=1, keep=True)
    lines = [line.split(" | ")[1:] for line in recreated_table(setting, shrink=SHRINK) if " holds " in line]
    (searched, *hidden), (compared, *shown) = (
        [int(cell.strip("| ").replace(",", "")) for cell in line] for line in lines
    )
    assert (searched >= 50_000, compared >= 50_000, hidden) == (True, True, [0, 0, 0])
    assert shown[0] > 0


def test_a_held_out_allele_is_told_by_its_31_mers(folder: Path) -> None:
    held = HeldOut(folder / "root/packages" / RELEASE / "held")
    row = (
        pq.read_table(folder / "root/packages" / RELEASE / "held/holdouts/contexts.parquet").slice(7, 1).to_pylist()[0]
    )
    texts = [row["left_context"] + row[name] + row["right_context"] for name in ("alt", "ref")]
    counted = [
        int(held.count(kmers_of(np.array([["ACGT".index(base) for base in text]], np.uint8)))[0])
        for text in (*texts, reverse_complement(texts[0]))
    ]
    assert counted[0] == counted[2] > 20
    assert counted[1] == 0
