"""Tuples of the real packages, taken apart by other means than those that made them."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pysam
import pysam.bcftools
import pytest

from genolewm_assets import lewm
from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.rules import EditSource, SamplingRules
from genolewm_assets.genome import RelEdit, Split
from genolewm_assets.lewm import TrainingTuple
from genolewm_assets.packages.reader import open_package
from genolewm_assets.training.sampler.batch_sampler import BatchSampler
from genolewm_assets.training.stream import RandomStream, StreamSettings, Visits
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.real.conftest import RealRoot
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.stream_world import plan_of

torch_data = Late("torch.utils.data")

RELEASE = "2026-02-26"
INSET_BP = 64
KEY = ("chrom", "pos", "ref", "alt")


def tuples_of(dataset: lewm.GenoLeWMDataset, count: int) -> list[TrainingTuple]:
    """Return so many tuples, over as many epochs as it takes."""

    def epochs() -> list[TrainingTuple]:
        for epoch in range(100):
            dataset.set_epoch(epoch)
            yield from chain.from_iterable(batch.tuples for batch in dataset)

    return list(islice(epochs(), count))


def by_bcftools(made: list[TrainingTuple], folder: Path) -> list[str]:
    """Return the first bases of each edited window as ``bcftools consensus`` makes them: one contig per tuple."""
    fasta, vcf = folder / "windows.fa", folder / "edits.vcf"
    fasta.write_text("".join(f">t{i}\n{one.source_window}\n" for i, one in enumerate(made)))
    contigs = "".join(f"##contig=<ID=t{i},length={len(one.source_window)}>\n" for i, one in enumerate(made))
    rows = [
        f"t{i}\t{edit.rel_pos + 1}\t.\t{edit.ref}\t{edit.alt}\t.\t.\t.\n"
        for i, one in enumerate(made)
        for edit in one.rel_edits
    ]
    columns = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
    vcf.write_text("##fileformat=VCFv4.2\n" + contigs + columns + "".join(rows))
    pysam.tabix_index(str(vcf), preset="vcf", force=True)
    done = pysam.bcftools.consensus("-f", str(fasta), f"{vcf}.gz")
    return ["".join(part.split("\n")[1:]) for part in done.split(">")[1:]]


def test_ten_thousand_edited_windows_are_those_of_bcftools(real: RealRoot, tmp_path: Path) -> None:
    made = tuples_of(lewm.GenoLeWMDataset(real.with_brca1[RELEASE], with_states=False), 10_000)
    for number in range(0, len(made), 1_000):
        chunk = made[number : number + 1_000]
        for one, wanted in zip(chunk, by_bcftools(chunk, tmp_path), strict=True):
            # bcftools edits the window alone: what an insertion pushes out is cut, what a deletion pulls in follows.
            kept = min(len(wanted), len(one.source_window))
            assert len(one.target_window) == len(one.source_window)
            assert one.target_window[:kept] == wanted[:kept]
            assert one.target_window != one.source_window


def test_every_tuple_keeps_the_rules(real: RealRoot) -> None:
    dataset = lewm.GenoLeWMDataset(real.with_brca1[RELEASE])
    seen: Counter[EditSource] = Counter()
    for batch in islice(dataset, 20):
        assert batch.source_states is not None
        assert np.isfinite(batch.source_states).all()
        by_window: dict[tuple[str, int], set[str]] = {}
        for row, one in enumerate(batch.tuples):
            assert one.n_changed > 0
            assert (batch.block_start[row], batch.block_stop[row]) == (one.block_start, one.block_stop)
            for edit in one.rel_edits:
                assert edit.rel_pos >= INSET_BP
                assert edit.rel_pos + max(len(edit.ref), len(edit.alt)) <= len(one.source_window) - INSET_BP
            by_window.setdefault((one.window_id, row // 8), set()).add(one.target_window)
            seen[one.edit_source] += 1
        assert all(len(targets) == 8 for targets in by_window.values()), "the edits of a window are distinct haplotypes"
    assert set(seen) == set(EditSource)


def first_difference(one: TrainingTuple, edit: RelEdit) -> int:
    """Return the first base at which the window with this edit alone is not the window, base by base."""
    haplotype = one.source_window[: edit.rel_pos] + edit.alt + one.source_window[edit.rel_end :]
    # What follows the window is not in the tuple; a difference that shows only there is at the window's end.
    pairs = enumerate(zip(one.source_window, haplotype, strict=False))
    return next((at for at, (before, after) in pairs if before != after), len(one.source_window))


@pytest.mark.parametrize("options", [{}, {"side": "right"}, {"radius_tokens": 64}, {"kind": "global"}], ids=str)
def test_no_multi_edit_tuple_has_an_edit_outside_of_the_pooled_blocks(real: RealRoot, options: dict[str, Any]) -> None:
    dataset = lewm.GenoLeWMDataset(
        real.with_brca1[RELEASE], with_states=False, contents="sizes", multi_edit_share=1.0, **options
    )
    several = [one for one in tuples_of(dataset, 3_000) if len(one.rel_edits) > 1]
    assert len(several) > 2_900
    for one in several:
        blocks = [first_difference(one, edit) // (6 * 64) for edit in one.rel_edits]
        assert all(one.block_start <= block < one.block_stop for block in blocks)
        assert one.pooled_edits == 1.0
        assert 1 <= one.n_changed_blocks <= one.block_stop - one.block_start


def haplotypes_by_pysam(shared_data: Path, real: RealRoot) -> list[frozenset[tuple[int, str, str]]]:
    """Return the common alleles that each of the 5,008 haplotypes carries; the file has SNVs in normal form only."""
    (shard,) = real.path.glob("gnomad/*/chr17/variants.parquet")
    common = set(zip(*(pq.read_table(shard)[name].to_pylist() for name in KEY[1:]), strict=True))
    path = shared_data / "thousand_genomes" / "1000G_phase3.phased.chr17_BRCA1_exons.vcf.gz"
    carried: list[set[tuple[int, str, str]]] = [set() for _ in range(5_008)]
    with pysam.VariantFile(str(path)) as file:
        for record in file:
            key = (record.pos, record.ref, record.alts[0])
            if key in common:
                assert all(sample.phased for sample in record.samples.values())
                copies = [copy for sample in record.samples.values() for copy in sample["GT"]]
                for at in (at for at, copy in enumerate(copies) if copy == 1):
                    carried[at].add(key)
    return [frozenset(alleles) for alleles in carried]


@pytest.mark.parametrize("which", ["without_brca1", "with_brca1"])
def test_the_phased_haplotypes_are_those_of_the_vcf(shared_data: Path, real: RealRoot, which: str) -> None:
    package = open_package(getattr(real, which)[RELEASE])
    carried = haplotypes_by_pysam(shared_data, real)
    rows = [row for row in package.holdouts("haplotypes").to_pylist() if row["phased"]]
    assert rows
    stated = {frozenset(tuple(one.values()) for one in row["alleles"]): row["n_carriers"] for row in rows}
    (unit,) = {row["unit"] for row in rows}
    members = frozenset().union(*stated)
    assert stated == Counter(alleles & members for alleles in carried if len(alleles & members) > 1)
    assert unit == f"chr17:{':'.join(map(str, min(members)))}"
    seen: Counter[str] = Counter()
    for seed in range(5):
        for opened in (lewm.GenoLeWMValDataset, lewm.GenoLeWMTestDataset):
            for batch in opened(package, "holdout-haplotypes", seed=seed, contents="sizes"):
                assert batch.counts["multi_edit"] == len(batch) > 0
                for one in batch.tuples:
                    assert len(one.rel_edits) in {2, 3}
                    assert one.edit_source == "gnomad"
                    seen[one.phase] += 1
                    if one.phase == "phased":
                        keys = {(each.pos, each.ref, each.alt) for each in one.alleles}
                        assert any(keys <= alleles for alleles in carried)
    assert set(seen) == {"phased", "unphased"}


@pytest.mark.parametrize("which", ["without_brca1", "with_brca1"])
def test_alleles_of_the_haplotype_holdout_lie_in_its_windows(real: RealRoot, which: str) -> None:
    package = open_package(getattr(real, which)[RELEASE])
    for split in (Split.VALIDATION, Split.TEST):
        columns = ["holdout", "contig", "start", "end"]
        windows = [row for row in package.windows(split, columns).to_pylist() if row["holdout"] == "holdout-haplotypes"]
        alleles = [row for row in package.variants(split).to_pylist() if row["holdout"] == "holdout-haplotypes"]
        assert windows
        for row in alleles:
            end = row["pos"] - 1 + len(row["ref"])
            assert any(w["contig"] == row["chrom"] and w["start"] < row["pos"] and end <= w["end"] for w in windows)
    card = (package.directory / "README.md").read_text()
    removed, came = (
        package.info.counts[name] for name in ("removed.holdout-haplotypes.windows", "windows.reference.in")
    )
    assert (
        f"they remove {removed / came:.2%} of the reference windows, the aim is 2.00%. The aim is not reached" in card
    )


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_tuples_for_any_number_of_workers(real: RealRoot, workers: int) -> None:
    dataset = lewm.GenoLeWMDataset(real.with_brca1[RELEASE], contents="sizes")
    plain = [batch.tuples for batch in dataset]
    loaded = [batch.tuples for batch in torch_data.DataLoader(dataset, batch_size=None, num_workers=workers)]
    assert loaded == plain


def test_validation_and_training_share_no_window(real: RealRoot) -> None:
    package = open_package(real.without_brca1[RELEASE])
    train = set(package.windows(Split.TRAIN, ["window_hash"])["window_hash"].to_pylist())
    held = set(package.windows(Split.VALIDATION, ["window_hash"])["window_hash"].to_pylist())
    assert held
    assert not train & held
    assert len(lewm.GenoLeWMValDataset(package, "holdout-clinvar", contents="sizes")) > 0


def test_the_allele_filter_is_exercised(real: RealRoot) -> None:
    """With the window filter off, held-out alleles would be drawn in hundreds; with the allele filter on, none is."""
    held_table = pq.read_table(real.without_brca1[RELEASE] / "holdouts/alleles.parquet", columns=list(KEY))
    held_out = AlleleIndex.of(held_table.group_by(list(KEY)).aggregate([]))
    (clinvar,) = real.path.glob(f"clinvar/{RELEASE}/chr17.parquet")
    (gnomad,) = real.path.glob("gnomad/*/chr17/variants.parquet")
    sources = {
        EditSource.GNOMAD: AlleleIndex.of(pq.read_table(gnomad)),
        EditSource.CLINVAR: AlleleIndex.of(pq.read_table(clinvar)),
    }
    package = open_package(real.without_brca1[RELEASE])
    batches = [
        batch
        for split in (Split.VALIDATION, Split.TEST)
        for batch in package.window_batches(split)
        if "chr17" in set(batch.column("contig").to_pylist())
    ]
    windows = SplitWindows(batches)
    emitted = {
        name: emitted_alleles(windows, BatchSampler(sources, filter_, SamplingRules()))
        for name, filter_ in (("off", AlleleIndex.of(held_table.schema.empty_table())), ("on", held_out))
    }
    hits = {name: sum(held_out.contains(*allele) for allele in alleles) for name, alleles in emitted.items()}
    assert hits["off"] >= 100
    assert hits["on"] == 0


def emitted_alleles(windows: SplitWindows, sampler: BatchSampler) -> list[tuple[str, int, str, str]]:
    """Return the alleles of four visits of every window of chr17."""
    rows = [row for row in range(len(windows)) if windows.record(row).contig == "chr17"]
    stream = RandomStream(windows, sampler, StreamSettings(seed=5))
    visits = Visits.of(np.repeat(rows, 4), plan_of(), np.tile(np.arange(4), len(rows)))
    batch = stream.batch(visits, epoch=0, position=0)
    return [(one.chrom, one.pos, one.ref, one.alt) for each in batch.tuples for one in each.alleles]
