"""Emitted tokens compared with the reference: every edit is told, by its normal form, on both strands."""

from __future__ import annotations

import errno
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from genolewm_assets import lewm
from genolewm_assets.audit.allele_searches import DrawnWindows, id_keys
from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.alleles.normal_alleles import KEY, keys_of, normalise_alleles
from genolewm_assets.audit.emitted import EmittedCounts, draw_batches, read_edits
from genolewm_assets.audit.reading.package_files import OwnFiles, open_files
from genolewm_assets.audit.reading.reference import Reference, mapped
from genolewm_assets.genome import RelEdit, apply_edits, reverse_complement
from genolewm_assets_tests.audit.emitted_batches import emitted_batch
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld

SIZE, MARGIN = 600, 96


def repetitive(rng: np.random.Generator, length: int) -> str:
    """Return bases of which some are tandem repeats, where indels have far to roll."""
    parts = []
    while sum(map(len, parts)) < length:
        unit = "".join(rng.choice(list("ACGT"), int(rng.integers(1, 5))))
        parts.append(unit * int(rng.integers(3, 9)) if rng.random() < 0.3 else "".join(rng.choice(list("ACGT"), 60)))
    return "".join(parts)[:length]


@pytest.fixture(scope="module")
def genome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Reference]]:
    text = repetitive(np.random.default_rng(8), 20_000)
    fasta: Path = write_fasta(tmp_path_factory.mktemp("genome") / "genome.fa", {"chr17": text})
    with Reference(fasta) as reference:
        yield text, reference


def told(batch: object, reference: Reference) -> pa.Table:
    """Return the alleles that a batch emits."""
    return read_edits(batch, reference, EmittedCounts()).alleles  # type: ignore[arg-type]


def normal(alleles: pa.Table, reference: Reference) -> list[str]:
    return list(keys_of(normalise_alleles(alleles.select(KEY), reference)).to_pylist())


def edits_of(rng: np.random.Generator, window: str) -> tuple[RelEdit, ...]:
    """Return one to three edits of any kind, 20 bases or more apart."""
    chosen, at = list[RelEdit](), 60 + int(rng.integers(0, 100))
    for _ in range(int(rng.integers(1, 4))):
        lost = int(rng.choice([1, 1, 1, 2, 4, 12]))
        alt = "".join(rng.choice(list("ACGT"), int(rng.choice([1, 1, 1, 2, 4, 12]))))
        if alt != window[at : at + lost]:
            chosen.append(RelEdit(at, window[at : at + lost], alt))
        at += 60 + int(rng.integers(0, 60))
    return tuple(chosen)


@pytest.mark.parametrize("strand", ["+", "-"])
def test_each_edit_is_told_by_its_normal_form(genome: tuple[str, Reference], strand: str) -> None:
    (text, reference), rng = genome, np.random.default_rng(17)
    missed = tried = 0
    for _ in range(150):
        start = int(rng.integers(MARGIN, len(text) - SIZE - MARGIN))
        span = text[start - MARGIN : start + SIZE + MARGIN]
        span = reverse_complement(span) if strand == "-" else span
        window, left, right = span[MARGIN:-MARGIN], span[:MARGIN], span[-MARGIN:]
        edits = edits_of(rng, window)
        if not edits:
            continue
        edited = apply_edits(window, edits, right_flank=right, left_flank=left, policy="right_flank")
        found = set(normal(told(emitted_batch(window, edited.sequence, start, strand), reference), reference))
        for edit in edits:
            bases = (edit.ref, edit.alt)
            pos = start + edit.rel_pos + 1
            if strand == "-":
                pos, bases = start + SIZE - edit.rel_end + 1, tuple(map(reverse_complement, bases))
            stated = pa.table({"chrom": ["chr17"], "pos": [pos], "ref": [bases[0]], "alt": [bases[1]]})
            tried += 1
            missed += normal(stated, reference)[0] not in found
    assert tried > 200
    # Where an edit rolls into a repeat beside it, another set of differences can spell the same bases.
    assert missed <= 0.03 * tried


def test_neighbouring_edits_are_joined(genome: tuple[str, Reference]) -> None:
    text, reference = genome
    window = text[1_000 : 1_000 + SIZE]
    other = {base: "ACGT"[("ACGT".index(base) + 1) % 4] for base in "ACGT"}
    target = f"{window[:200]}{other[window[200]]}{window[201:209]}{other[window[209]]}{window[210:]}"
    found = keys_of(told(emitted_batch(window, target, 1_000), reference)).to_pylist()
    assert f"chr17:1201:{window[200:210]}:{target[200:210]}" in found
    assert len(found) == 3


def test_an_insertion_is_moved_to_the_left_no_further_than_a_difference_before(tmp_path: Path) -> None:
    """Both in one run of a base: beyond the difference the window spells another base than the insertion has."""
    text = repetitive(np.random.default_rng(8), 600) + "G" + 20 * "A" + repetitive(np.random.default_rng(9), 600)
    window = text[400 : 400 + SIZE]
    target = f"{window[:203]}C{window[204:214]}A{window[214:-1]}"
    with Reference(write_fasta(tmp_path / "genome.fa", {"chr17": text})) as reference:
        found = normal(told(emitted_batch(window, target, 400), reference), reference)
    assert {"chr17:604:A:C", "chr17:601:G:GA"} <= set(found)


def test_windows_without_a_place_and_from_elsewhere(genome: tuple[str, Reference]) -> None:
    text, reference = genome
    window, counts = text[3_000 : 3_000 + SIZE], EmittedCounts()
    target = window[:300] + ("A" if window[300] != "A" else "C") + window[301:]
    for start in (None, 3_001):
        found = read_edits(emitted_batch(window, target, start), reference, counts)
        assert (found.alleles.num_rows, found.bare.tolist()) == (0, [0])
        assert (found.changed.tolist(), found.unchanged.tolist()) == ([[0, 270, 331]], [[0, 270, 331]])
    assert (counts.tuples, counts.unplaced, counts.elsewhere) == (2, 2, {"w"})


def test_bases_between_distant_edits_are_not_searched(genome: tuple[str, Reference]) -> None:
    text, reference = genome
    target = list(text[3_000 : 3_000 + SIZE])
    for at in (100, 150, 400):
        target[at] = "A" if target[at] != "A" else "C"
    found = read_edits(emitted_batch(text[3_000 : 3_000 + SIZE], "".join(target), None), reference, EmittedCounts())
    assert found.changed.tolist() == found.unchanged.tolist() == [[0, 70, 181], [0, 370, 431]]


def test_of_edits_that_are_not_told_apart_the_bases_around_them_are_searched(genome: tuple[str, Reference]) -> None:
    text, reference = genome
    inner = "TCTTCGTACTCATGGTCACTGCAACGGTGGACTACAACACCAATTTCATACCTGAAGAGGCCTGGAAATT"
    edited = "TCTTCGTACTCGTCACTGCAACGGTGGAGACTACAACACCAATTTCATACCTGAATGAGGCCTGGAAATT"
    window = text[:300] + inner + text[5_000:5_230]
    counts, at = EmittedCounts(), 300 + len(inner)
    found = read_edits(emitted_batch(window, window.replace(inner, edited), None), reference, counts)
    assert (counts.entangled, found.alleles.num_rows) == (1, 0)
    for ((_, start, end),) in (found.changed.tolist(), found.unchanged.tolist()):
        assert 280 <= start <= 300 + 11 - 30
        assert at - 16 + 30 <= end <= at + 30


def test_pieces_that_are_drawn_and_strangers_are_counted() -> None:
    drawn = DrawnWindows(lambda: map(id_keys, (["w", "x", "w"], ["seen late", "y"], ["x", "w"], [], ["never"])))
    drawn.note(np.array([b"w"]))
    assert (drawn.pieces_left, drawn.n_windows, drawn.strangers) == (2, 1, 0)
    drawn.note(np.array([b"seen late", b"another", b"w"]))
    assert (drawn.pieces_left, drawn.strangers, drawn.n_windows) == (1, 1, 2)
    drawn.note(np.array([b"never"]))
    assert (drawn.pieces_left, drawn.strangers, drawn.n_windows) == (0, 1, 3)


def test_no_epoch_gives_more_than_half_and_then_rare_windows_are_drawn(audited: AuditedWorld) -> None:
    batches = list(draw_batches(audited.package, 400))
    n_windows = sum(batch.num_rows for batch in open_files(audited.package).windows("train", ("window_id",)))
    tuples = Counter(dict.fromkeys((0, 1), 0))
    for batch in batches:
        tuples[batch.epoch] += len(batch.edits)
    largest = max(len(batch.edits) for batch in batches)
    assert all(200 <= tuples[epoch] < 200 + largest for epoch in (0, 1))
    *_, even, every = tuples
    assert even % 2 == every % 2 == 1
    origins = Counter(origin for one in batches if one.epoch == even for origin in one.windows.origins)
    assert max(origins.values()) < 2 * min(origins.values())
    shown = [one for batch in batches if batch.epoch == every for one in batch.windows.window_ids]
    assert len(shown) == len(set(shown)) == n_windows


class WithoutTuples:
    """A dataset of a package whose windows take no edit."""

    mix = SimpleNamespace(wanted=SimpleNamespace(windows={"reference": 1.0}))
    package = SimpleNamespace(info=SimpleNamespace(mix=mix))

    def __init__(self, _: object, *, epoch: int = 0, **__: object) -> None:
        self.epoch = epoch

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(epoch=self.epoch, edits=())


def test_a_package_of_which_nothing_is_emitted_is_drawn_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lewm, "GenoLeWMDataset", WithoutTuples)
    assert [batch.epoch for batch in draw_batches(Path("package"), 10**9)] == [0, 1, 3, 5]


def test_a_full_disk_is_the_cause_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            mapped([np.zeros(1 << 20, np.uint8)])
    assert caught.value.errno == errno.ENOSPC


def test_every_held_out_allele_is_known_and_no_other(genome: tuple[str, Reference], tmp_path: Path) -> None:
    text, reference = genome
    rng, rows = np.random.default_rng(3), set[tuple[str, int, str, str]]()
    for at in rng.integers(100, 400, 600).tolist():
        ref = text[at : at + int(rng.integers(1, 4))]
        rows.add(("chr17", at + 1, ref, ref[0] + "".join(rng.choice(list("ACGT"), int(rng.integers(0, 3))))))
    alleles = pa.table(dict(zip(KEY, map(pa.array, zip(*sorted(rows), strict=True)), strict=True)))
    alleles = alleles.filter(pc.not_equal(alleles["ref"], alleles["alt"]))
    is_held = np.arange(alleles.num_rows) % 3 == 0
    pq.write_table(alleles.filter(pa.array(is_held)), tmp_path / "alleles.parquet")
    for split in ("validation", "test"):
        (tmp_path / "variants").mkdir(exist_ok=True)
        pq.write_table(alleles.slice(0, 0), tmp_path / f"variants/{split}.parquet")
    held = HeldAlleles.of_package(OwnFiles(tmp_path, tmp_path, {}), reference)
    forms = normalise_alleles(alleles, reference)
    wanted = {*keys_of(forms.filter(pa.array(is_held))).to_pylist()}
    assert held.have(forms).tolist() == [key in wanted for key in keys_of(forms).to_pylist()]
    assert len(held) == len(wanted) > 50
