from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import numpy as np
import pytest

from genolewm_assets.sample.facts import CONTIG_MD5
from genolewm_assets.sample.genome.blueprint import CHRM_UNKNOWN, LINEAR_CONTIGS, SEGMENTS, ContigPlan
from genolewm_assets.sample.genome.reference import SimulatedContig, spans_of

Genome = Mapping[str, SimulatedContig]
linear = pytest.mark.parametrize("plan", LINEAR_CONTIGS, ids=lambda plan: plan.name)


def test_sequences_are_the_pinned_ones(genome: Genome) -> None:
    found = {name: hashlib.md5(contig.sequence).hexdigest() for name, contig in genome.items()}
    assert found == dict(CONTIG_MD5)


@linear
def test_gaps_are_exactly_those_planned(genome: Genome, plan: ContigPlan) -> None:
    text = genome[plan.name].sequence.decode()
    assert len(text) == plan.length
    assert tuple(m.span() for m in re.finditer("N+", text)) == plan.gaps


@linear
def test_cpg_is_depleted_but_not_in_islands(genome: Genome, plan: ContigPlan) -> None:
    text = genome[plan.name].sequence.decode()
    known = len(text) - text.count("N")
    ratio = text.count("CG") * known / (text.count("C") * text.count("G"))
    assert 0.2 < ratio < 0.4  # human: about 0.25
    gene = next(g for g in plan.genes if g.strand == "+")
    island = text[gene.start + 4_000 : gene.start + 4_600]
    assert island.count("CG") * len(island) / (island.count("C") * island.count("G")) > 0.5


@linear
def test_base_composition_varies_along_the_contig(genome: Genome, plan: ContigPlan) -> None:
    text = genome[plan.name].sequence.decode()
    blocks = [text[i : i + 50_000] for i in range(0, plan.length - 50_000, 50_000)]
    gc = [(b.count("G") + b.count("C")) / len(b) for b in blocks if "N" not in b]
    # A uniform sequence would have a standard deviation of 0.002.
    assert np.std(gc) > 0.01
    assert 0.36 < np.mean(gc) < 0.45


def test_mitochondrion_has_its_n_and_its_skew(genome: Genome) -> None:
    text = genome["chrM"].sequence.decode()
    assert len(text) == 16_569
    assert [m.start() for m in re.finditer("N", text)] == [CHRM_UNKNOWN] == [3_106]
    assert text.count("G") < 0.6 * text.count("C")


def test_duplications_have_the_planned_identity(genome: Genome) -> None:
    complement = str.maketrans("ACGT", "TGCA")
    for segment in SEGMENTS:
        source = genome[segment.source].sequence.decode()
        target = genome[segment.target].sequence.decode()
        origin = source[segment.source_start : segment.source_start + segment.size_bp]
        copy = target[segment.target_start : segment.target_start + segment.size_bp]
        if segment.reverse:
            copy = copy[::-1].translate(complement)
        differing = sum(a != b for a, b in zip(origin, copy, strict=True)) / segment.size_bp
        assert differing == pytest.approx(segment.per_mille / 1000, abs=0.003)
        mask = genome[segment.target].duplicated
        assert mask[segment.target_start : segment.target_start + segment.size_bp].all()


def test_some_windows_stand_at_two_places(genome: Genome) -> None:
    text = genome["chr21"].sequence.decode()
    starts = [
        start
        for run in re.finditer("[ACGT]+", text)
        for start in range(run.start() + 256, run.end() - 256 - 12_288 + 1, 8_192)
    ]
    windows = [hashlib.sha256(text[s : s + 12_288].encode()).digest() for s in starts]
    assert len(windows) - len(set(windows)) == 4


def test_repeats_are_lower_case_in_the_fasta_and_gaps_are_not(genome: Genome) -> None:
    for contig in genome.values():
        header, *lines = contig.fasta().decode().splitlines()
        text = "".join(lines)
        assert header.split()[0] == f">{contig.name}"
        assert "simulated" in header
        assert {len(line) for line in lines[:-1]} == {60}
        assert text.upper() == contig.sequence.decode()
        assert "n" not in text
        lower = np.frombuffer(text.encode(), dtype=np.uint8) >= ord("a")
        assert np.array_equal(lower, contig.repeat)


@linear
def test_masks_leave_gaps_and_exons_out(genome: Genome, plan: ContigPlan) -> None:
    contig = genome[plan.name]
    assert 0.15 < contig.repeat.mean() < 0.5
    for start, end in plan.gaps:
        assert not (contig.repeat | contig.low_complexity | contig.duplicated)[start:end].any()
        assert contig.excluded[start:end].all()
    for gene in contig.genes:
        assert not any(contig.repeat[start:end].any() for start, end in gene.exons)


@pytest.mark.parametrize(
    ("bits", "spans"),
    [("", []), ("0", []), ("1", [(0, 1)]), ("0110", [(1, 3)]), ("1011", [(0, 1), (2, 4)]), ("0001", [(3, 4)])],
)
def test_spans_of_a_mask(bits: str, spans: list[tuple[int, int]]) -> None:
    assert spans_of(np.array([b == "1" for b in bits], dtype=np.bool_)) == spans
