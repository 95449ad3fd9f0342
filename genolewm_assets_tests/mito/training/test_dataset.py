from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets import mito
from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError, SequenceError, WindowError
from genolewm_assets.mito import KmerVocabulary, tokenize_sequence
from genolewm_assets.mito.tokens.rows import N_TOKENS, K, stored_row, token_arrays
from genolewm_assets.mito.training.masking import MaskingCollator, MaskingRules
from genolewm_assets.mito.training.windows import WindowTiling
from genolewm_assets.store import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row

torch = Late("torch")
torch_data = Late("torch.utils.data")
KEYS = ("input_ids", "attention_mask", "position_ids", "het_values")


@pytest.fixture(scope="module")
def genomes() -> list[str]:
    """Circles of several lengths: one of many windows, of one window exactly, and one shorter than a window."""
    codes = np.random.default_rng(3).integers(0, 4, (4, 3_000))
    return ["".join("ACGT"[c] for c in row[:n]) for row, n in zip(codes, (3_000, 512, 300, 1_111), strict=True)]


@pytest.fixture(scope="module")
def levels(genomes) -> list[np.ndarray]:
    return [np.random.default_rng(len(each)).random(len(each)) for each in genomes]


@pytest.fixture(scope="module")
def coordinates(genomes) -> list[np.ndarray]:
    """A deletion and an insertion: what follows them keeps its coordinate."""
    return [np.r_[:400, 410 : len(each) + 9, len(each) + 8][: len(each)] for each in genomes]


@pytest.fixture(scope="module")
def store(tmp_path_factory, genomes, levels, coordinates, vocabulary):
    return write_store(tmp_path_factory.mktemp("tokens"), genomes, levels, coordinates, vocabulary)


def write_store(directory, genomes, levels, coordinates, vocabulary):
    arrays = token_arrays(vocabulary, max(map(len, genomes)), coordinates=coordinates is not None)
    with ArrayStoreWriter(directory, arrays, key_config={K: vocabulary.k}, columns={N_TOKENS: "int32"}) as writer:
        for number, genome in enumerate(genomes):
            place = None if coordinates is None else coordinates[number]
            tokens = tokenize_sequence(genome, vocabulary, het_levels=levels[number], coordinates=place)
            row, meta = stored_row(tokens, arrays)
            writer.write(row, key=f"g{number}", meta=meta)
        writer.finalize(compute_fingerprint({K: vocabulary.k}, {}))
    return directory


def same(left, right) -> bool:
    return len(left) == len(right) and all(
        a.keys() == b.keys()
        and all(np.array_equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in KEYS)
        and a["window_index"] == b["window_index"]
        for a, b in zip(left, right, strict=True)
    )


def test_the_windows_of_rcrs(rcrs, vocabulary):
    dataset = mito.MtDNADataset([rcrs], vocabulary)
    assert len(dataset) == 65
    assert all(item[key].shape == (513,) for item in dataset for key in KEYS)
    last = dataset[64]
    assert last["position_ids"].tolist() == [16_384, *range(16_384, 16_569), *range(327)]
    whole = tokenize_sequence(rcrs, vocabulary)["input_ids"]
    assert last["input_ids"].tolist() == [1, *whole[16_384:], *whole[:327]]


def test_all_real_genomes_have_65_windows(real_genomes, vocabulary):
    dataset = mito.MtDNADataset(real_genomes, vocabulary)
    assert len(dataset) == 40 * 65
    for number, genome in enumerate(real_genomes):
        last = dataset[number * 65 + 64]["position_ids"]
        assert last[1:].tolist() == [*range(16_384, len(genome)), *range(512 - len(genome) + 16_384)]


def test_every_window_is_cut_from_the_tokens(genomes, levels, coordinates, vocabulary):
    """Against the plain way: repeat the genome's tokens and take 512 of them."""
    dataset = mito.MtDNADataset(genomes, vocabulary, het_levels=levels, coordinates=coordinates)
    assert len(dataset) == 12 + 2 + 1 + 5
    number = 0
    for genome, level, place in zip(genomes, levels, coordinates, strict=True):
        tokens = tokenize_sequence(genome, vocabulary, het_levels=level, coordinates=place)
        for first in range(0, len(genome) if len(genome) >= 512 else 1, 256):
            item, used = dataset[number], min(512, len(genome))
            for key, cls in zip(KEYS, (1, 1, tokens["position_ids"][first], 0), strict=True):
                expected = np.resize(tokens[key][first:], 512) if used < 512 else np.tile(tokens[key], 2)[first:][:512]
                expected = [cls, *expected[:used], *[0] * (512 - used)]
                assert item[key].tolist() == expected, (number, key)
                assert item[key].dtype == tokens[key].dtype
                assert item[key].flags.owndata
            assert item["window_index"] == number
            assert dataset.place(number)[1] == first
            number += 1


def test_without_cls_an_item_is_the_window(genomes, levels, vocabulary):
    with_cls = mito.MtDNADataset(genomes, vocabulary, het_levels=levels)
    without = mito.MtDNADataset(genomes, vocabulary, het_levels=levels, add_cls=False)
    assert same(list(without), [{k: v[1:] if k in KEYS else v for k, v in item.items()} for item in with_cls])


def test_het_is_zero_and_positions_count_unless_given(genomes, vocabulary):
    given = [np.zeros(len(each)) for each in genomes]
    places = [np.arange(len(each)) for each in genomes]
    plain = mito.MtDNADataset(genomes, vocabulary)
    for values in (item[key] for item in plain for key in KEYS):
        values[:] = 9  # who changes an item changes no other
    assert same(list(plain), list(mito.MtDNADataset(genomes, vocabulary, het_levels=given, coordinates=places)))


def test_a_linear_genome_ends_with_a_padded_window(genomes, vocabulary):
    dataset = mito.MtDNADataset(genomes[3:], vocabulary, circular=False, window_tokens=500, stride_tokens=500)
    assert len(dataset) == 3
    last = dataset[2]
    assert last["attention_mask"].sum() == 1 + 1_111 - 5 - 1_000
    assert last["position_ids"].max() == 1_105
    assert not last["input_ids"][last["attention_mask"] == 0].any()


def test_a_store_gives_the_items_of_memory(store, genomes, levels, coordinates, vocabulary):
    memory = list(mito.MtDNADataset(genomes, vocabulary, het_levels=levels, coordinates=coordinates))
    for opened in (store, str(store), ArrayStoreReader(store, access="random")):
        assert same(list(mito.MtDNADataset.from_store(opened, vocabulary)), memory)


def test_a_store_without_positions_counts_them(tmp_path, genomes, levels, vocabulary):
    directory = write_store(tmp_path / "plain", genomes, levels, None, vocabulary)
    memory = mito.MtDNADataset(genomes, vocabulary, het_levels=levels)
    assert same(list(mito.MtDNADataset.from_store(directory, vocabulary)), list(memory))


@pytest.mark.parametrize("stored", [False, True])
def test_workers_give_the_same_windows(genomes, store, vocabulary, stored):
    of_store = mito.MtDNADataset.from_store
    dataset = of_store(store, vocabulary) if stored else mito.MtDNADataset(genomes, vocabulary)
    dataset[0]  # so that what a process opens for itself is open in this one already
    alone = list(torch_data.DataLoader(dataset, batch_size=4))
    loaded = list(torch_data.DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="fork"))
    assert len(loaded) == len(alone) == 5
    for left, right in zip(loaded, alone, strict=True):
        assert left["input_ids"].dtype == torch.int16
        assert all(torch.equal(left[key], right[key]) for key in (*KEYS, "window_index"))


@pytest.mark.nightly
def test_spawned_workers_give_the_same_masked_windows(store, vocabulary):
    dataset = mito.MtDNADataset.from_store(store, vocabulary)
    collator = MaskingCollator(MaskingRules(vocabulary), epoch=3)
    dataset[0]
    options = {"batch_size": 4, "collate_fn": collator}
    alone = torch_data.DataLoader(dataset, **options)
    loaded = torch_data.DataLoader(dataset, **options, num_workers=2, multiprocessing_context="spawn")
    for left, right in zip(loaded, alone, strict=True):
        assert all(torch.equal(left[key], right[key]) for key in right)


def test_a_copy_reads_the_store_again(store, vocabulary):
    dataset = mito.MtDNADataset.from_store(store, vocabulary)
    copied = pickle.dumps(dataset)
    assert len(copied) < 30_000
    assert same(list(pickle.loads(copied)), list(dataset))


def test_items_that_do_not_exist(genomes, vocabulary):
    dataset = mito.MtDNADataset(genomes, vocabulary)
    for index in (-1, len(dataset)):
        for read in (dataset.place, dataset.__getitem__):
            with pytest.raises(IndexError, match=f"no window {index}: there are 20"):
                read(index)
    assert dataset[np.int64(3)]["window_index"] == 3


def test_impossible_genomes_and_options(genomes, vocabulary):
    with pytest.raises(InputError, match=r"genome 1, base 0 .*heteroplasmy level out of range"):
        mito.MtDNADataset(["ACGTACGT"] * 2, vocabulary, het_levels=[None, [2] * 8])
    with pytest.raises(InputError, match="coordinates: not one per genome: expected 4, got 1"):
        mito.MtDNADataset(genomes, vocabulary, coordinates=[None])
    with pytest.raises(SequenceError, match="too short"):
        mito.MtDNADataset(["ACG"], vocabulary)
    with pytest.raises(WindowError, match="the genome has no token"):
        mito.MtDNADataset(["ACG"], vocabulary, circular=False)


def test_stores_that_are_not_of_tokens(tmp_path, store, genomes, vocabulary):
    with pytest.raises(MissingResourceError):
        mito.MtDNADataset.from_store(tmp_path / "nowhere", vocabulary)
    with pytest.raises(CorruptResourceError, match="ids of another vocabulary: expected k = 5, got 6"):
        mito.MtDNADataset.from_store(store, KmerVocabulary.build(5))
    with ArrayStoreWriter(tmp_path / "other", [ArraySpec("states", (4,), "float32")], key_config={}) as writer:
        writer.write({"states": np.zeros(4, np.float32)}, key="one")
        writer.finalize(compute_fingerprint({}, {}))
    with pytest.raises(CorruptResourceError, match="not a store of tokens: expected arrays 'input_ids' and 'het'"):
        mito.MtDNADataset.from_store(tmp_path / "other", vocabulary)
    with pytest.raises(InputError, match="input_ids: too long for a row: expected at most 299 tokens, got 300"):
        stored_row(tokenize_sequence(genomes[2], vocabulary), token_arrays(vocabulary, 299))


def test_a_flipped_bit_in_a_store_is_seen(tmp_path, genomes, levels, vocabulary):
    directory = write_store(tmp_path / "flipped", genomes, levels, None, vocabulary)
    data = bytearray((directory / "input_ids.bin").read_bytes())
    data[100] ^= 4
    (directory / "input_ids.bin").write_bytes(data)
    with pytest.raises(CorruptResourceError, match=r"input_ids\.bin"):
        list(mito.MtDNADataset.from_store(directory, vocabulary))


def test_the_package_imports_neither_dagster_nor_pysam_and_torch_with_the_data_sets():
    code = (
        "import sys, genolewm_assets.mito as m; from genolewm_assets.mito.training import masking;"
        "from genolewm_assets.mito.tokens import rows, statistics;"
        "names = {'dagster', 'pysam', 'torch', 'transformers', 'numba'}; print(sorted(names & set(sys.modules)));"
        "m.MtDNADataset, m.MtDNAVariantDataset; print('torch' in sys.modules, 'dagster' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "True False"]


@given(st.integers(1, 300), st.integers(1, 40), st.data())
def test_every_token_is_seen_and_only_short_genomes_have_short_windows(n_tokens, size, data):
    stride = data.draw(st.integers(1, size))
    circular = data.draw(st.booleans())
    tiling, tokens = WindowTiling(size, stride, circular), np.arange(n_tokens)
    windows = [tiling.cut(tokens, stride * number) for number in range(tiling.count(n_tokens))]
    assert set(np.concatenate(windows).tolist()) == set(range(n_tokens))
    for number, window in enumerate(windows):
        whole = [(stride * number + at) % n_tokens for at in range(size)]
        if n_tokens < size:
            assert window.tolist() == list(range(n_tokens))
        elif circular:
            assert window.tolist() == whole
        else:
            assert window.tolist() == whole[: n_tokens - stride * number]
            assert len(window) == size or number == len(windows) - 1
    if circular and n_tokens >= size:
        assert len(windows) == -(-n_tokens // stride)


@each_row("sizes", [(0, 1), (4, 0), (4, 5)])
def test_impossible_sizes(sizes):
    with pytest.raises(WindowError, match="1 <= stride_tokens <= window_tokens"):
        WindowTiling(*sizes)
