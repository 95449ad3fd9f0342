from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets import mito
from genolewm_assets.errors import AlleleError, InputError, ReferenceMismatchError, SequenceError, WindowError
from genolewm_assets.genome import Variant
from genolewm_assets.mito import KmerVocabulary, tokenize_sequence
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.strategies import circular_genomes

torch_data = Late("torch.utils.data")


@st.composite
def substitutions(draw: st.DrawFn, sequence: str) -> Variant:
    place = draw(st.integers(0, len(sequence) - 1))
    alt = draw(st.sampled_from([base for base in "ACGT" if base != sequence[place]]))
    return Variant("chrM", place + 1, sequence[place], alt)


@given(circular_genomes(20), st.integers(1, 8), st.sampled_from(["mean", "start"]), st.data())
def test_an_item_is_a_window_of_the_genome_tokenised_with_the_variant(sequence, k, pool, data):
    """Also across the junction, and beside or at a base that is N."""
    vocabulary = KmerVocabulary.build(k)
    variants = data.draw(st.lists(substitutions(sequence), min_size=1, max_size=5))
    size = data.draw(st.integers(2 * k, len(sequence)))
    add_cls = data.draw(st.booleans())
    levels = np.random.default_rng(size).random(len(sequence))
    own_levels = data.draw(st.booleans())
    given_levels = [data.draw(st.sampled_from([0.0, 0.3, 1.0, np.nan])) for _ in variants]
    options = {"het_levels": levels if own_levels else None, "variant_levels": given_levels, "het_pool": pool}
    dataset = mito.MtDNAVariantDataset(sequence, variants, vocabulary, window_tokens=size, add_cls=add_cls, **options)
    assert len(dataset) == len(variants)
    for variant, level, item in zip(variants, given_levels, dataset, strict=True):
        place = variant.pos - 1
        changed = sequence[:place] + variant.alt + sequence[place + 1 :]
        het = levels.copy() if own_levels else np.zeros(len(sequence))
        if not np.isnan(level):
            het[place] = level
        tokens = tokenize_sequence(changed, vocabulary, het_levels=het, het_pool=pool)
        shown = (np.arange(size) + place - size // 2) % len(sequence)
        expected = {key: values[shown] for key, values in tokens.items()}
        expected["reference_ids"] = tokenize_sequence(sequence, vocabulary)["input_ids"][shown]
        for key, values in expected.items():
            assert item[key].dtype == values.dtype
            assert np.array_equal(item[key][int(add_cls) :], values), key
        if add_cls:
            assert item["input_ids"][0] == item["reference_ids"][0] == item["attention_mask"][0] == 1
            assert item["position_ids"][0] == shown[0]
            assert item["het_values"][0] == 0


def test_only_k_tokens_change_and_the_genome_stays(genome, vocabulary):
    variants = [Variant("chrM", pos, genome[pos - 1], "ACGT"["CGTA".index(genome[pos - 1])]) for pos in (1, 3, 16_569)]
    dataset = mito.MtDNAVariantDataset(genome, variants, vocabulary, labels=[1, 0, 1])
    for _ in range(2):
        for number, item in enumerate(dataset):
            assert np.flatnonzero(item["input_ids"] != item["reference_ids"]).tolist() == list(range(252, 258))
            assert item["position_ids"][257] == variants[number].pos - 1
            assert (item["labels"], item["window_index"]) == ((1, 0, 1)[number], number)
            item["input_ids"][:] = 0
    (batch,) = torch_data.DataLoader(dataset, batch_size=3, num_workers=2)
    assert batch["input_ids"].shape == (3, 513)
    assert batch["labels"].tolist() == [1, 0, 1]
    assert len(mito.MtDNAVariantDataset(genome, [], vocabulary)) == 0


def test_variants_that_do_not_fit(genome, vocabulary):
    base, other = genome[99], "ACGT"["CGTA".index(genome[99])]
    cases = [
        (Variant("chrM", 100, genome[99:101], base), AlleleError, "not a substitution of one base"),
        (Variant("chrM", 100, base, base + "A"), AlleleError, "not a substitution of one base"),
        (Variant("chrM", 100, other, base), ReferenceMismatchError, f"the genome: expected '{other}', got '{base}'"),
        (Variant("chr17", 100, base, other), InputError, "is not on the mitochondrial genome"),
        (Variant("chrM", 16_570, "A", "C"), InputError, "beyond the genome: expected pos up to 16569, got 16570"),
    ]
    for variant, error, message in cases:
        with pytest.raises(error, match=message):
            mito.MtDNAVariantDataset(genome, [variant], vocabulary)


def test_impossible_options(genome, vocabulary):
    variant = Variant("chrM", 100, genome[99], "ACGT"["CGTA".index(genome[99])])
    for options, message in [
        ({"labels": [1, 2]}, "labels: not one integer per variant"),
        ({"labels": [0.5]}, "labels: not one integer per variant"),
        ({"variant_levels": [0.1, 0.2]}, "variant_levels: not one per variant"),
        ({"variant_levels": [1.5]}, "variant_levels, base 0 .*heteroplasmy level out of range"),
        ({"het_levels": [0.0]}, "not one level per base"),
    ]:
        with pytest.raises(InputError, match=message):
            mito.MtDNAVariantDataset(genome, [variant], vocabulary, **options)
    for size in (11, 16_570):
        with pytest.raises(WindowError, match="size out of range: expected 12 to 16569 tokens"):
            mito.MtDNAVariantDataset(genome, [variant], vocabulary, window_tokens=size)
    with pytest.raises(SequenceError, match="not a nucleotide symbol"):
        mito.MtDNAVariantDataset("ACG-" * 200, [], vocabulary)
    dataset = mito.MtDNAVariantDataset(genome, [variant], vocabulary)
    for index in (-1, 1):
        with pytest.raises(IndexError, match=f"no variant {index}: there are 1"):
            dataset[index]
