from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pysam
import pysam.bcftools
import pytest

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.rules import EditSource, SamplingRules
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.genome import RelEdit, Variant, normalise
from genolewm_assets_tests.referees.sampling.plain_sampler import EditSampler, SampledHaplotype
from genolewm_assets_tests.worlds.lewm.stream_world import (
    CONTIG,
    WINDOW_BP,
    draw_key,
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
        for haplotype in sampler.sample(window, plan, draw_key(turn, window.window_id, window.strand or ""))[0]
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


def test_held_out_alleles_are_never_made_by_any_source():
    """Hold out every second real allele, and one of the three SNVs of every base."""
    rows = [(CONTIG, at + 1, chr(base), "ACGT"["ACGT".index(chr(base)) - 1]) for at, base in enumerate(REFERENCE)]
    snvs = pa.table(dict(zip(("chrom", "pos", "ref", "alt"), map(list, zip(*rows, strict=True)), strict=True)))
    real = ALLELES.take(list(range(0, 600, 2))).select(["chrom", "pos", "ref", "alt"])
    held = AlleleIndex.of(pa.concat_tables([snvs, real]))
    forbidden = set(map(tuple, zip(*pa.concat_tables([snvs, real]).to_pydict().values(), strict=True)))
    sampler, hits, made = EditSampler(REAL, held, SamplingRules()), 0, 0
    for window in WINDOWS:
        haplotypes, redraws = sampler.sample(window, PLAN, draw_key(window.window_id))
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
            for haplotype in sampler.sample(window, plan, draw_key(turn))[0]
        }
    together = {first, second}
    assert any(together <= places for places in pairs["free"])
    assert not any(together <= places for places in pairs["held"])


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
