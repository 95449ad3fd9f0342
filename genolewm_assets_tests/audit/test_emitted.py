"""Emitted tokens compared with the reference: every edit is told, by its normal form, on both strands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from genolewm_assets.audit.emitted import EmittedCounts, read_edits
from genolewm_assets.audit.normal_alleles import Allele, normalise_alleles
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.genome import RelEdit, apply_edits, encode_kmers, encode_sequence, reverse_complement
from genolewm_assets_tests.referees.bcftools import write_fasta

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


def one_tuple(window: str, target: str, start: int | None, strand: str | None) -> SimpleNamespace:
    place = {"contig": None if start is None else "chr17", "window_start": start, "strand": strand}
    tokens = encode_kmers(encode_sequence(target), k=6, stride=6).astype(np.int16)
    differing = [at for at, (old, new) in enumerate(zip(window, target, strict=True)) if old != new]
    place |= {"locus_token": differing[0] // 6 if differing else 0, "block_start": 0, "block_stop": 2}
    single = SimpleNamespace(window_id="w", origin="reference", source_window=window, **place)
    padded = np.concatenate([tokens, [-1, -1]])[None]
    return SimpleNamespace(tuples=[single], target_tokens=padded, block_tokens=64, epoch=1)


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
        batch = one_tuple(window, edited.sequence, start, strand)
        (found,) = read_edits([batch], reference, EmittedCounts(), least_tuples=1, windows=set())
        told = set(normalise_alleles(found.alleles, reference).values())
        for edit in edits:
            bases = (edit.ref, edit.alt)
            pos = start + edit.rel_pos + 1
            if strand == "-":
                pos, bases = start + SIZE - edit.rel_end + 1, tuple(map(reverse_complement, bases))
            stated = Allele("chr17", pos, *bases)
            tried += 1
            missed += normalise_alleles([stated], reference)[stated] not in told
    assert tried > 200
    # Where an edit rolls into a repeat beside it, another set of differences can spell the same bases.
    assert missed <= 0.03 * tried


def test_neighbouring_edits_are_joined(genome: tuple[str, Reference]) -> None:
    text, reference = genome
    window = text[1_000 : 1_000 + SIZE]
    other = {base: "ACGT"[("ACGT".index(base) + 1) % 4] for base in "ACGT"}
    target = f"{window[:200]}{other[window[200]]}{window[201:209]}{other[window[209]]}{window[210:]}"
    batch = one_tuple(window, target, 1_000, "+")
    (found,) = read_edits([batch], reference, EmittedCounts(), least_tuples=1, windows=set())
    assert Allele("chr17", 1_201, window[200:210], target[200:210]) in found.alleles
    assert len(found.alleles) == 3


def test_windows_without_a_place_and_from_elsewhere(genome: tuple[str, Reference]) -> None:
    text, reference = genome
    window, counts = text[3_000 : 3_000 + SIZE], EmittedCounts()
    target = window[:300] + ("A" if window[300] != "A" else "C") + window[301:]
    batches = [one_tuple(window, target, None, None), one_tuple(window, target, 3_001, "+")]
    first, second = read_edits(batches, reference, counts, least_tuples=2, windows=set())
    assert (first.alleles, second.alleles) == ((), ())
    assert (first.changed.size, second.changed.size) == (61, 61)
    assert (counts.tuples, counts.unplaced, counts.elsewhere) == (2, 2, {"w"})


def test_the_stream_is_drawn_until_every_window_was_seen(genome: tuple[str, Reference]) -> None:
    text, reference = genome
    window, counts = text[3_000 : 3_000 + SIZE], EmittedCounts()
    batch = one_tuple(window, window[:-1] + ("A" if window[-1] != "A" else "C"), 3_000, "+")
    other = one_tuple(window, window, 3_000, "+")
    other.tuples[0].window_id = "seen late"
    batches = [batch, batch, batch, other, batch]
    assert len(list(read_edits(batches, reference, counts, least_tuples=1, windows={"w", "seen late"}))) == 4
    assert len(list(read_edits(batches, reference, EmittedCounts(), least_tuples=1, windows={"w"}))) == 1
