from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pysam
import pysam.bcftools
import pytest

from genolewm_assets.errors import ConfigurationError, EditError
from genolewm_assets.genome import TOKEN_BP, RelEdit, Variant, normalise, reverse_complement
from genolewm_assets.lewm.edits.allele_index import AlleleIndex
from genolewm_assets.lewm.edits.draws import DrawKey
from genolewm_assets.lewm.edits.rules import SamplingRules
from genolewm_assets.lewm.edits.sources import EditSource
from genolewm_assets.lewm.edits.windows import WindowRecord
from genolewm_assets_tests.referees.sampling.plain_sampler import EditSampler, SampledHaplotype
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.stream_world import (
    CONTIG,
    WINDOW_BP,
    make_window,
    no_alleles,
    simulate_alleles,
    simulate_reference,
    sources_of,
)

REFERENCE = simulate_reference()
ALLELES = simulate_alleles(REFERENCE, 600)
REAL = {
    EditSource.GNOMAD: AlleleIndex.of(ALLELES.slice(0, 600)),
    EditSource.CLINVAR: AlleleIndex.of(ALLELES.take(list(range(0, 600, 5)))),
}
NONE_HELD = AlleleIndex.of(no_alleles())
PLAN = sources_of()
WINDOWS = [make_window(REFERENCE, start) for start in range(256, 20_000, 1_024)] + [
    make_window(REFERENCE, start, strand="-") for start in range(700, 20_000, 2_048)
]


def draw(
    windows=WINDOWS, *, real=REAL, held=NONE_HELD, plan=PLAN, rounds=3, **rules
) -> list[tuple[WindowRecord, SampledHaplotype]]:
    sampler = EditSampler(real, held, SamplingRules(**rules))
    return [
        (window, haplotype)
        for window in windows
        for turn in range(rounds)
        for haplotype in sampler.sample(window, plan, DrawKey.of(turn, window.window_id, window.strand or ""))[0]
    ]


def by_bcftools(cases: list[tuple[WindowRecord, tuple[RelEdit, ...]]], folder: Path) -> list[str]:
    """Return each haplotype, window and right flank, as ``bcftools consensus`` makes it: one contig per case."""
    spans = [window.sequence + window.right_flank for window, _ in cases]
    fasta, vcf = folder / "windows.fa", folder / "edits.vcf"
    fasta.write_text("".join(f">c{i}\n{span}\n" for i, span in enumerate(spans)))
    header = "##fileformat=VCFv4.2\n" + "".join(f"##contig=<ID=c{i},length={len(s)}>\n" for i, s in enumerate(spans))
    rows = [
        f"c{i}\t{e.rel_pos + 1}\t.\t{e.ref}\t{e.alt}\t.\t.\t.\n" for i, (_, edits) in enumerate(cases) for e in edits
    ]
    vcf.write_text(header + "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n" + "".join(rows))
    pysam.tabix_index(str(vcf), preset="vcf", force=True)
    done = pysam.bcftools.consensus("-f", str(fasta), f"{vcf}.gz")
    return ["".join(part.split("\n")[1:]) for part in done.split(">")[1:]]


def test_edited_windows_are_those_of_bcftools(tmp_path):
    drawn = draw(multi_edit_share=0.4)
    assert len(drawn) == len(WINDOWS) * 24
    made = by_bcftools([(window, haplotype.edited.edits) for window, haplotype in drawn], tmp_path)
    for (window, haplotype), wanted in zip(drawn, made, strict=True):
        assert haplotype.edited.sequence == wanted[:WINDOW_BP]
        assert haplotype.edited.right_flank == wanted[WINDOW_BP:]
        assert haplotype.edited.sequence != window.sequence


@each_row("policy", ["right_flank", "left_flank", "opposite"])
def test_edits_stay_clear_of_both_ends_in_normal_form(policy):
    for window, haplotype in draw(policy=policy, multi_edit_share=0.3):
        for edit, allele in zip(haplotype.edited.edits, haplotype.alleles, strict=True):
            assert edit.rel_pos >= 64
            assert edit.rel_pos + max(len(edit.ref), len(edit.alt)) <= WINDOW_BP - 64
            # In normal form on the whole contig, at the place that the window's edit has there.
            variant = Variant(allele.chrom, allele.pos, allele.ref, allele.alt)
            assert normalise(variant, REFERENCE) is variant
            assert on_contig(window, edit) == variant
        assert all(after.rel_pos - before.rel_end >= TOKEN_BP for before, after in pairwise(haplotype.edited.edits))
        assert abs(haplotype.edited.length_change) <= 256
        assert len(haplotype.edited.sequence) == WINDOW_BP
        assert haplotype.locus_bp < WINDOW_BP - 64


def on_contig(window: WindowRecord, edit: RelEdit) -> Variant:
    at, ref, alt = edit.rel_pos, edit.ref, edit.alt
    if window.strand == "-":
        at, ref, alt = WINDOW_BP - edit.rel_end, reverse_complement(ref), reverse_complement(alt)
    return normalise(Variant(CONTIG, window.start + at + 1, ref, alt), REFERENCE)


def test_the_slots_of_a_window_are_distinct_haplotypes():
    sampler = EditSampler({}, NONE_HELD, SamplingRules())
    # A window of one base repeated: nearly all of its indels are one and the same.
    window = WindowRecord("0" * 32, "x", "A" * 600, "C" * 256, "G" * 256)
    plan = [EditSource.SYNTHETIC_INDEL] * 12
    haplotypes, redraws = sampler.sample(window, plan, DrawKey.of("distinct"))
    assert len({one.edited.sequence for one in haplotypes} | {window.sequence}) == 13
    assert redraws["leaves_inset"] > 0
    for _, several in groups(draw()):
        assert len({one.edited.sequence for one in several}) == 8
        assert len({one.alleles for one in several}) == 8


def groups(drawn):
    for first in range(0, len(drawn), 8):
        yield drawn[first][0], [haplotype for _, haplotype in drawn[first : first + 8]]


def test_an_edit_that_shows_nowhere_in_the_window_is_drawn_again():
    sampler = EditSampler({}, NONE_HELD, SamplingRules(multi_edit_share=0))
    window = WindowRecord("0" * 32, "x", "C" * 70 + "A" * 530, "C" * 256, "A" * 256)
    counts = Counter()
    for turn in range(20):
        haplotypes, redraws = sampler.sample(window, [EditSource.SYNTHETIC_INDEL] * 4, DrawKey.of(turn))
        counts.update(redraws)
        for one in haplotypes:
            assert one.locus_bp < 536
    # Poly-A events roll to base 69, and the haplotypes differ first where the A of the flank end: behind the window.
    assert counts["no_difference"] > 0


def test_the_mix_is_served_where_there_are_alleles():
    for _, several in groups(draw()):
        assert tuple(one.planned for one in several) == tuple(PLAN)
        assert tuple(one.source for one in several) == tuple(PLAN)


def test_real_edits_are_alleles_of_their_source():
    for source, index in REAL.items():
        rows = index.rows(CONTIG, 0, len(REFERENCE))
        known = {index.allele(row) for row in rows}
        found = [haplotype for _, haplotype in draw(multi_edit_share=0) if haplotype.source is source]
        assert found
        for haplotype in found:
            (allele,) = haplotype.alleles
            assert (allele.pos, allele.ref, allele.alt) in known
            assert index.allele(haplotype.allele_row) == (allele.pos, allele.ref, allele.alt)


def test_slots_without_alleles_fall_back_to_synthetic_snvs():
    several = [one for _, one in draw(WINDOWS[:3], real=dict.fromkeys(REAL, NONE_HELD), rounds=1)]
    assert Counter(one.planned for one in several) == {
        "gnomad": 9,
        "synthetic_snv": 9,
        "synthetic_indel": 3,
        "clinvar": 3,
    }
    assert Counter(one.source for one in several) == {"synthetic_snv": 21, "synthetic_indel": 3}
    unplaced = [make_window(REFERENCE, 5_000, placed=False)]
    assert {one.source for _, one in draw(unplaced)} == {"synthetic_snv", "synthetic_indel"}
    assert {one.alleles for _, one in draw(unplaced)} == {()}


def test_fewer_alleles_than_slots_each_serve_one():
    few = AlleleIndex.of(ALLELES.filter(pa.compute.is_in(ALLELES["pos"], pa.array(inside(5_000, 2)))))
    window = make_window(REFERENCE, 5_000)
    several = [one for _, one in draw([window], real={EditSource.GNOMAD: few}, rounds=1, multi_edit_share=0)]
    assert Counter(one.source for one in several if one.planned == "gnomad") == {"gnomad": 2, "synthetic_snv": 1}


def inside(start: int, n: int) -> list[int]:
    return [pos for pos in ALLELES["pos"].to_pylist() if start + 200 < pos < start + WINDOW_BP - 200][:n]


def test_real_alleles_that_cannot_stand_are_counted_and_replaced():
    """Two alleles in the window: a deletion longer than the flank, and one of another reference."""
    base = chr(REFERENCE[6_500])
    other = "ACGT".replace(base, "")
    rows = {
        "chrom": [CONTIG] * 2,
        "pos": [6_001, 6_501],
        "ref": [REFERENCE[6_000:6_258].decode(), other[0]],
        "alt": [chr(REFERENCE[6_000]), other[1]],
    }
    sampler = EditSampler(
        {EditSource.GNOMAD: AlleleIndex.of(pa.table(rows))}, NONE_HELD, SamplingRules(multi_edit_share=0)
    )
    (only,), redraws = sampler.sample(make_window(REFERENCE, 5_000), [EditSource.GNOMAD], DrawKey.of("big"))
    assert redraws == {"beyond_flank": 1, "other_reference": 1}
    assert (only.planned, only.source) == ("gnomad", "synthetic_snv")


def test_a_tenth_of_the_slots_hold_two_or_three_edits_near_each_other():
    drawn = [haplotype for _, haplotype in draw(rounds=8)]
    several = [one for one in drawn if len(one.edited.edits) > 1]
    expected = 0.1 * len(drawn)
    assert abs(len(several) - expected) < 4 * np.sqrt(expected)
    sizes = Counter(len(one.edited.edits) for one in several)
    assert set(sizes) == {2, 3}
    for one in several:
        assert one.edited.edits[-1].rel_pos - one.edited.edits[0].rel_pos <= 2 * 1_536
        assert one.allele_row == -1


def test_held_out_alleles_are_never_made_by_any_source():
    """Hold out every second real allele, and one of the three SNVs of every base."""
    rows = [(CONTIG, at + 1, chr(base), "ACGT"["ACGT".index(chr(base)) - 1]) for at, base in enumerate(REFERENCE)]
    snvs = pa.table(dict(zip(("chrom", "pos", "ref", "alt"), map(list, zip(*rows, strict=True)), strict=True)))
    real = ALLELES.take(list(range(0, 600, 2))).select(["chrom", "pos", "ref", "alt"])
    held = AlleleIndex.of(pa.concat_tables([snvs, real]))
    forbidden = set(map(tuple, zip(*pa.concat_tables([snvs, real]).to_pydict().values(), strict=True)))
    sampler, hits, made = EditSampler(REAL, held, SamplingRules()), 0, 0
    for window in WINDOWS:
        haplotypes, redraws = sampler.sample(window, PLAN, DrawKey.of(window.window_id))
        hits += redraws["held_out"]
        for allele in (allele for haplotype in haplotypes for allele in haplotype.alleles):
            assert (allele.chrom, allele.pos, allele.ref, allele.alt) not in forbidden
            made += 1
    assert made > 8 * len(WINDOWS)
    # A third of the synthetic SNVs and half of the real alleles.
    assert hits > 2 * len(WINDOWS)


@pytest.mark.parametrize("strand", ["+", "-"])
def test_edits_that_together_spell_a_held_out_allele_are_refused(strand):
    """The only two gnomAD alleles of the window are two SNVs, which together are a held-out MNV."""
    first, second = 6_000, 6_007
    changed = {at: chr(REFERENCE[at]).translate(str.maketrans("ACGT", "CGTA")) for at in (first, second)}
    snvs = pa.table(
        {
            "chrom": [CONTIG] * 2,
            "pos": [at + 1 for at in changed],
            "ref": [chr(REFERENCE[at]) for at in changed],
            "alt": list(changed.values()),
        }
    )
    ref = REFERENCE[first : second + 1].decode()
    mnv = {"chrom": [CONTIG], "pos": [first + 1], "ref": [ref], "alt": [changed[first] + ref[1:-1] + changed[second]]}
    window = make_window(REFERENCE, 5_000, strand=strand)
    plan = [EditSource.GNOMAD] * 2
    pairs = {}
    for name, held in (("free", NONE_HELD), ("held", AlleleIndex.of(pa.table(mnv)))):
        sampler = EditSampler({EditSource.GNOMAD: AlleleIndex.of(snvs)}, held, SamplingRules(multi_edit_share=1))
        pairs[name] = {
            frozenset(allele.pos - 1 for allele in haplotype.alleles)
            for turn in range(40)
            for haplotype in sampler.sample(window, plan, DrawKey.of(turn))[0]
        }
    together = {first, second}
    assert any(together <= places for places in pairs["free"])
    assert not any(together <= places for places in pairs["held"])


def test_a_minimum_of_left_context_is_kept():
    for _, haplotype in draw(WINDOWS[:6], min_left_context_bp=1_536):
        assert haplotype.edited.edits[0].rel_pos >= 1_536
        assert haplotype.locus_bp >= 1_536


def test_a_window_without_room_is_named():
    window = WindowRecord("ab" * 16, "x", "ACGT" * 33, "A" * 256, "A" * 256)
    with pytest.raises(
        EditError, match="no further edit is allowed: expected 20 distinct edits outside the edge margins, got 12"
    ):
        EditSampler({}, NONE_HELD).sample(window, [EditSource.SYNTHETIC_SNV] * 20, DrawKey.of("room"))


def test_draws_depend_on_the_key_alone():
    keys = [DrawKey.of(window.window_id, window.strand or "") for window in WINDOWS]
    sampler = EditSampler(REAL, NONE_HELD)
    forth = [sampler.sample(window, PLAN, key) for window, key in zip(WINDOWS, keys, strict=True)]
    back = [EditSampler(REAL, NONE_HELD).sample(w, PLAN, k) for w, k in zip(WINDOWS[::-1], keys[::-1], strict=True)]
    assert forth == back[::-1]
    places = [{one.locus_bp for one in sampler.sample(WINDOWS[0], PLAN, DrawKey.of(turn))[0]} for turn in range(2)]
    assert len(places[0] | places[1]) > 12


@each_row("rules", [{"multi_edit_share": 1.1}, {"min_left_context_bp": -1}, {"policy": "middle"}])
def test_impossible_rules_are_refused(rules):
    with pytest.raises(ConfigurationError, match=r"edit sampling|length policy"):
        SamplingRules(**rules)


def read_alleles(path: Path, reference: bytes, offset: int) -> dict[tuple[int, str, str], tuple[int, str, str]]:
    """Return the alleles of a VCF, 1-based on the slice: in normal form, each with its spelling in the file."""
    found = {}
    with pysam.VariantFile(str(path)) as file:
        for record in file:
            for alt in record.alts or ():
                if not alt.strip("ACGT") and offset < record.pos <= offset + len(reference) - 300:
                    raw = Variant(CONTIG, record.pos - offset, record.ref, alt)
                    normal = normalise(raw, reference)
                    found[normal.pos, normal.ref, normal.alt] = (raw.pos, raw.ref, raw.alt)
    return found


def test_real_alleles_of_brca1_make_the_haplotypes_of_bcftools(shared_data, tmp_path):
    offset, end = 42_999_999, 43_200_000
    with pysam.FastaFile(str(shared_data / "reference" / "GRCh38.slices.fa.gz")) as fasta:
        reference = fasta.fetch("chr17", offset, end).upper().encode()
    (gnomad,) = (shared_data / "gnomad/release/4.1/vcf/joint").glob("*.chr17.vcf.bgz")
    files = {EditSource.GNOMAD: gnomad, EditSource.CLINVAR: shared_data / "clinvar/vcf_GRCh38/clinvar_20260226.vcf.gz"}
    spelt = {source: read_alleles(path, reference, offset) for source, path in files.items()}
    assert {source: len(alleles) for source, alleles in spelt.items()} == {"gnomad": 5_795, "clinvar": 14_981}
    real = {
        source: AlleleIndex.of(
            pa.table([[CONTIG] * len(keys), *map(list, zip(*keys, strict=True))], names=["chrom", "pos", "ref", "alt"])
        )
        for source, keys in spelt.items()
    }
    windows = [
        make_window(reference, start, strand=strand, window_bp=12_288)
        for start in range(40_000, 130_000, 8_192)
        for strand in "+-"
    ]
    drawn = draw(windows, real=real, rounds=6, multi_edit_share=0)
    cases = []
    for window, haplotype in drawn:
        (allele,), (edit,) = haplotype.alleles, haplotype.edited.edits
        pos, ref, alt = spelt.get(haplotype.source, {}).get(
            (allele.pos, allele.ref, allele.alt), (allele.pos, allele.ref, allele.alt)
        )
        if window.strand == "+":
            # The file's own spelling, where it is a real allele.
            edit = RelEdit(pos - 1 - window.start, ref, alt)
        cases.append((window, (edit,)))
    made = by_bcftools(cases, tmp_path)
    for (_, haplotype), wanted in zip(drawn, made, strict=True):
        assert haplotype.edited.sequence == wanted[:12_288]
    served = Counter(haplotype.source for _, haplotype in drawn)
    assert served == {"gnomad": 396, "synthetic_snv": 396, "synthetic_indel": 132, "clinvar": 132}
