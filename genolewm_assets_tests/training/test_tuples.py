from __future__ import annotations

import numpy as np
import pytest

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.rules import EditSource, SamplingRules
from genolewm_assets.errors import ConfigurationError, EditError, InputError
from genolewm_assets.genome import RelEdit, apply_edits
from genolewm_assets.states.pooling import Pooling, TupleKind
from genolewm_assets.training.tuples import Phase, encode_tokens
from genolewm_assets_tests.referees.sampling.plain_sampler import EditSampler, SampledHaplotype
from genolewm_assets_tests.referees.sampling.plain_tuples import build_tuples
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.stream_world import (
    draw_key,
    make_window,
    no_alleles,
    simulate_alleles,
    simulate_reference,
    sources_of,
)

REFERENCE = simulate_reference()
SOURCES = {
    EditSource.GNOMAD: AlleleIndex.of(simulate_alleles(REFERENCE, 400)),
    EditSource.CLINVAR: AlleleIndex.of(simulate_alleles(REFERENCE, 200, seed=8)),
}
PLAN = sources_of("rotating", 20)


def sample(window, **rules):
    sampler = EditSampler(SOURCES, AlleleIndex.of(no_alleles()), SamplingRules(**rules))
    return sampler.sample(window, PLAN, draw_key("t"))[0]


def build(window, pooling, **rules):
    haplotypes = sample(window, pooling=pooling, **rules)
    return haplotypes, *build_tuples(window, haplotypes, pooling, epoch=2, position=9)


def six_mers(sequence: str) -> list[int]:
    return [int(sequence[i : i + 6].translate(str.maketrans("ACGT", "0123")), 4) for i in range(0, len(sequence), 6)]


@each_row("policy", ["right_flank", "left_flank", "opposite"])
@each_row("kind", ["local", "global"])
@each_row("window_bp", [3_072, 2_562])
def test_tokens_and_blocks_by_plain_loops(policy, kind, window_bp):
    window = make_window(REFERENCE, 4_000, window_bp=window_bp)
    pooling = Pooling.named(kind, 100, "both")
    haplotypes, tuples, tokens = build(window, pooling, policy=policy, multi_edit_share=0.5)
    source = six_mers(window.sequence)
    for haplotype, one, row in zip(haplotypes, tuples, tokens, strict=True):
        target = six_mers(one.target_window)
        assert row.tolist() == target
        pooled = range(one.block_start * 64, min(len(source), one.block_stop * 64))
        assert one.n_pooled == len(pooled)
        assert one.n_changed == sum(source[i] != target[i] for i in pooled) >= 1
        assert one.n_changed_blocks == len({i // 64 for i in pooled if source[i] != target[i]}) >= 1
        assert one.pooled_edits == 1.0
        assert one.locus_token in pooled
        assert one.locus_token == haplotype.locus_bp // 6
        assert one.left_context_bp == haplotype.locus_bp
        assert one.frame_shift == sum(len(e.alt) - len(e.ref) for e in one.rel_edits) % 6 == one.length_change % 6
        wanted = {i // 64 for i in range(len(source)) if kind == "global" or abs(i - one.locus_token) <= 100}
        assert set(range(one.block_start, one.block_stop)) == wanted


def test_only_a_single_edit_has_one_edit():
    _, tuples, _ = build(make_window(REFERENCE, 4_000), Pooling(), multi_edit_share=0.5)
    assert max(len(repr(one)) for one in tuples) < 1_500
    single = next(one for one in tuples if one.phase is Phase.SINGLE)
    several = next(one for one in tuples if one.phase is Phase.UNPHASED)
    assert single.rel_edit == single.rel_edits[0]
    with pytest.raises(EditError, match=r"holds several edits: expected 1, got [23]\. Read rel_edits"):
        _ = several.rel_edit


def test_a_deletion_beyond_the_pooled_blocks_is_refused_beside_another_edit():
    """The pooled blocks are those of tokens 0 to 191, bases 0 to 1,151."""
    window, pooling = make_window(REFERENCE, 4_000), Pooling(radius_tokens=100)
    snv = RelEdit(400, window.sequence[400], "ACGT"["ACGT".index(window.sequence[400]) - 1])
    for end in (1_152, 1_153):
        deletion = RelEdit(1_140, window.sequence[1_140:end], window.sequence[1_140])
        edited = apply_edits(window.sequence, (snv, deletion), right_flank=window.right_flank)
        haplotype = SampledHaplotype(EditSource.GNOMAD, EditSource.GNOMAD, edited, 400)
        if end == 1_152:
            assert build_tuples(window, [haplotype], pooling, epoch=0, position=0)[0][0].pooled_edits == 1.0
            continue
        with pytest.raises(EditError, match=r"outside of the blocks .* in blocks 0 to 2, got 1140:"):
            build_tuples(window, [haplotype], pooling, epoch=0, position=0)


def test_other_bases_have_no_token():
    assert encode_tokens("ACGTNAACGTAC").tolist() == [-1, int("012301", 4)]
    assert encode_tokens("ACGTACAC").dtype == np.int16


def test_impossible_poolings_are_refused():
    with pytest.raises(ConfigurationError, match=r"one of .*global.*local.*got 'regional'"):
        Pooling.named("regional", 256, "both")
    with pytest.raises(InputError, match="a radius from 0"):
        Pooling.named("local", -1, "both")
    with pytest.raises(InputError, match="'both' or 'right'"):
        Pooling.named("local", 256, "left")
    assert Pooling.named("global", 256, "both").kind is TupleKind.GLOBAL
