from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest

from genolewm_assets.genome import reverse_complement
from genolewm_assets.sample.genome.blueprint import CHR21, CHRM_UNKNOWN, ELEMENT, LINEAR_CONTIGS, SEGMENTS, ContigPlan
from genolewm_assets.sample.genome.draws import Draws
from genolewm_assets.sample.genome.genes import Gene, codon_change
from genolewm_assets.sample.genome.reference import SimulatedContig, spans_of
from genolewm_assets.sample.genome.repeats import disperse_repeats, insert_satellite, insert_tandem_repeats, substitute
from genolewm_assets.sample.genome.transcripts import read_sense, splice
from genolewm_assets_tests.referees.census import CONTIG_MD5
from genolewm_assets_tests.rows import each_row

WINDOW_BP, STRIDE_BP = 12_288, 8_192


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _plan(name: str) -> ContigPlan:
    return next(plan for plan in LINEAR_CONTIGS if plan.name == name)


def test_at_least_twelve_genes_on_every_contig_apart_from_gaps() -> None:
    genes = [gene for plan in LINEAR_CONTIGS for gene in plan.genes]
    assert len({gene.gene_id for gene in genes}) == len({gene.symbol for gene in genes}) == len(genes) >= 12
    assert all(plan.genes for plan in LINEAR_CONTIGS)
    for plan in LINEAR_CONTIGS:
        for gene in plan.genes:
            assert not any(_meet((gene.start, gene.end), gap) for gap in plan.gaps)
            assert not _meet((gene.start, gene.end), plan.satellite)


def test_neighbouring_genes_are_more_than_a_window_apart_but_for_one_overlapping_pair() -> None:
    overlapping = []
    for plan in LINEAR_CONTIGS:
        for left, right in pairwise(plan.genes):
            if right.start < left.end:
                overlapping.append((left.symbol, right.symbol))
            else:
                assert right.start - left.end > WINDOW_BP
    assert overlapping == [("SIM5", "SIM6")]


def test_copies_land_outside_genes_and_gaps() -> None:
    for segment in SEGMENTS:
        plan = _plan(segment.target)
        place = (segment.target_start, segment.target_start + segment.size_bp)
        origin = (segment.source_start, segment.source_start + segment.size_bp)
        assert not any(_meet(place, (gene.start, gene.end)) for gene in plan.genes)
        assert not any(_meet(place, gap) for gap in plan.gaps)
        assert not any(_meet(origin, gap) for gap in _plan(segment.source).gaps)


def test_exact_copy_repeats_whole_windows() -> None:
    exact = next(segment for segment in SEGMENTS if segment.per_mille == 0)
    assert (exact.target_start - exact.source_start) % STRIDE_BP == 0
    assert exact.size_bp > WINDOW_BP + STRIDE_BP
    lows = [gap for gap in CHR21.gaps if exact.source_start < gap[0] < exact.target_start]
    assert lows == []


def test_element_lies_in_its_gene() -> None:
    host = next(gene for gene in _plan("chr17").genes if gene.symbol == "SIM3")
    assert host.start <= ELEMENT.start < ELEMENT.end <= host.end


def test_stream_is_pinned() -> None:
    # Every file of the sample hangs on these numbers.
    assert Draws(17, 2).below(1_000_000, 5).tolist() == [977744, 483782, 561581, 888340, 467951]


def test_streams_are_independent_of_each_other_and_of_chunking() -> None:
    one, two = Draws(1), Draws(1)
    assert np.array_equal(one.uniform(10), np.concatenate([two.uniform(4), two.uniform(6)]))
    assert not np.array_equal(Draws(1).uniform(10), Draws(2).uniform(10))


def test_uniform_stays_below_one() -> None:
    u = Draws(3).uniform(200_000)
    assert 0.0 <= u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1.0
    assert abs(u.mean() - 0.5) < 0.005


@each_row(("low", "high"), [(0, 1), (5, 6), (-3, 4), (10, 1_000)])
def test_between_covers_its_range(low: int, high: int) -> None:
    drawn = Draws(4).between(low, high, 20_000)
    assert (drawn.min(), drawn.max()) == (low, high - 1)


def test_choose_follows_the_weights_and_never_takes_a_zero() -> None:
    counts = np.bincount(Draws(5).choose([1, 0, 3], 40_000), minlength=3)
    assert counts[1] == 0
    assert abs(counts[2] / counts[0] - 3) < 0.2


def test_normal_has_unit_variance() -> None:
    z = Draws(6).normal(100_000)
    assert abs(z.mean()) < 0.02
    assert abs(z.std() - 1) < 0.02


def test_sample_is_distinct_and_sorted_and_never_more_than_there_are() -> None:
    drawn = Draws(7).sample(100, 30).tolist()
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 30
    assert Draws(7).sample(3, 10).tolist() == [0, 1, 2]


# The genetic code written another way than in the module: by what each amino acid is spelled with.
STOPS = {"TAA", "TAG", "TGA"}


def _all_genes(genome: Mapping[str, SimulatedContig]) -> list[tuple[SimulatedContig, Gene]]:
    return [(contig, gene) for contig in genome.values() for gene in contig.genes if gene.exons]


def _spliced(contig: SimulatedContig, gene: Gene) -> str:
    text = "".join("ACGT"[code] for a, b in gene.exons for code in contig.codes[a:b].tolist())
    return text if gene.plan.strand == "+" else text[::-1].translate(str.maketrans("ACGT", "TGCA"))


def test_every_gene_reads_from_start_to_stop(genome: Mapping[str, SimulatedContig]) -> None:
    for contig, gene in _all_genes(genome):
        coding = _spliced(contig, gene)
        codons = [coding[i : i + 3] for i in range(0, len(coding), 3)]
        assert codons[0] == "ATG"
        assert codons[-1] in STOPS
        assert not STOPS & set(codons[:-1])
        assert len(gene.coding) == len(coding)


def test_introns_begin_with_gt_and_end_with_ag(genome: Mapping[str, SimulatedContig]) -> None:
    for contig, gene in _all_genes(genome):
        first, last = ("GT", "AG") if gene.plan.strand == "+" else ("CT", "AC")
        text = contig.sequence.decode()
        for (_, end), (start, _) in zip(gene.exons[:-1], gene.exons[1:], strict=True):
            assert start - end > 300
            assert (text[end : end + 2], text[start - 2 : start]) == (first, last)


@pytest.mark.parametrize("strand", ["+", "-"])
def test_codon_change_names_what_translation_does(genome: Mapping[str, SimulatedContig], strand: str) -> None:
    contig, gene = next((c, g) for c, g in _all_genes(genome) if g.plan.strand == strand)
    coding = _spliced(contig, gene)
    complement = "TGCA" if strand == "-" else "ACGT"
    seen = set()
    for index in range(3, 600):
        codon = coding[index - index % 3 : index - index % 3 + 3]
        for code in range(4):
            base = complement[code]
            if base == coding[index]:
                continue
            changed = codon[: index % 3] + base + codon[index % 3 + 1 :]
            term = codon_change(gene, contig.codes, index, code)
            seen.add(term)
            assert (term == "nonsense") == (changed in STOPS)
    assert seen == {"synonymous_variant", "missense_variant", "nonsense"}
    lost = codon_change(gene, contig.codes, len(coding) - 3, "ACGT".index("C" if strand == "+" else "G"))
    assert lost == "stop_lost"
    assert codon_change(gene, contig.codes, 0, int(3 - contig.codes[gene.coding[0]])) == "initiator_codon_variant"


def test_coding_positions_are_those_of_the_exons(genome: Mapping[str, SimulatedContig]) -> None:
    for _, gene in _all_genes(genome):
        exonic = np.concatenate([np.arange(a, b) for a, b in gene.exons])
        assert np.array_equal(np.sort(gene.coding), exonic)


def _blank(n: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.full(n, 7, dtype=np.uint8)


def test_substitution_never_keeps_the_base_it_replaces() -> None:
    codes = Draws(1).below(4, 50_000).astype(np.uint8)
    assert not np.any(substitute(codes, np.ones(codes.size), Draws(2)) == codes)
    assert np.array_equal(substitute(codes, np.zeros(codes.size), Draws(2)), codes)
    assert abs(np.mean(substitute(codes, np.full(codes.size, 0.1), Draws(3)) != codes) - 0.1) < 0.01


def test_dispersed_copies_are_written_where_the_mask_says_and_resemble_each_other() -> None:
    codes = _blank(400_000)
    mask = disperse_repeats(codes, Draws(4), Draws(0, 4))
    assert np.array_equal(codes != 7, mask)
    assert codes[mask].max() < 4
    # Copies share 16-mers; that many in random sequence of this length would be far fewer.
    text = "".join("ACGTNNNN"[c] for c in codes.tolist())
    words = [text[i : i + 16] for i in range(0, len(text) - 16) if "N" not in text[i : i + 16]]
    assert len(set(words)) < 0.9 * len(words)


def test_tandem_arrays_are_periodic() -> None:
    codes = _blank(200_000)
    mask = insert_tandem_repeats(codes, Draws(5))
    assert np.array_equal(codes != 7, mask)
    both = [(mask[k:] & mask[:-k]) for k in (1, 2, 3, 4, 5, 6)]
    equal = np.zeros(codes.size, dtype=bool)
    for k, pair in enumerate(both, start=1):
        equal[k:] |= pair & (codes[k:] == codes[:-k])
    assert equal[mask].mean() > 0.9


def test_satellite_fills_its_place_with_higher_order_repeats() -> None:
    codes = _blank(30_000)
    mask = insert_satellite(codes, (1_000, 29_000), Draws(6))
    assert np.array_equal(np.flatnonzero(mask), np.arange(1_000, 29_000))
    array, block = codes[1_000:29_000], 12 * 171
    assert np.mean(array[block:] == array[:-block]) > 0.94
    assert 0.5 < np.mean(array[171:] == array[:-171]) < 0.8


LETTERS = np.frombuffer(b"ACGTN", np.uint8)


@pytest.mark.parametrize("gene_number", [0, 1], ids=["forward", "reverse"])
def test_a_transcript_reads_its_exons_in_order(genome: Mapping[str, SimulatedContig], gene_number: int) -> None:
    contig = genome["chr17"]
    gene = contig.genes[gene_number]
    forward = gene.plan.strand == "+"
    count = len(gene.exons)
    chosen = [0, 2, count - 1]
    made = splice(contig, gene, chosen, 100, 300)
    spans = [list(gene.exons[i if forward else count - 1 - i]) for i in chosen]
    first, last = spans[0], spans[-1]
    if forward:
        first[0], last[1] = first[0] - 100, last[1] + 300
    else:
        first[1], last[0] = first[1] + 100, last[0] - 300
    pieces = [contig.sequence[a:b] if forward else reverse_complement(contig.sequence[a:b]) for a, b in spans]
    assert LETTERS[made.codes].tobytes() == b"".join(pieces)
    assert made.junctions == (len(pieces[0]), len(pieces[0]) + len(pieces[1]))
    assert made.span == (min(a for a, _ in spans), max(b for _, b in spans))


def test_the_coding_part_reads_from_start_to_stop(genome: Mapping[str, SimulatedContig]) -> None:
    for gene in genome["chr21"].genes:
        made = splice(genome["chr21"], gene, range(len(gene.exons)), 0, 0)
        text = LETTERS[made.codes].tobytes()
        assert (text[:3], text[-3:], len(text) % 3) == (b"ATG", b"TAA", 0)


def test_unknown_bases_stay_unknown_on_either_strand(genome: Mapping[str, SimulatedContig]) -> None:
    contig = genome["chr17"]
    span = (1_179_990, 1_180_010)
    for strand in "+-":
        assert (read_sense(contig, span, strand) == 4).sum() == 10


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


@each_row(
    ("bits", "spans"),
    [("", []), ("0", []), ("1", [(0, 1)]), ("0110", [(1, 3)]), ("1011", [(0, 1), (2, 4)]), ("0001", [(3, 4)])],
)
def test_spans_of_a_mask(bits: str, spans: list[tuple[int, int]]) -> None:
    assert spans_of(np.array([b == "1" for b in bits], dtype=np.bool_)) == spans
