"""A masked model of 6-mers and a causal one of single bases, from windows to a trainer, against their own library."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from genolewm_assets import lewm
from genolewm_assets.defs.assets.graph import ASSETS
from genolewm_assets.defs.assets.packages.frozen import tuples_frozen
from genolewm_assets.defs.runtime.partitions import BY_PACKAGED_RELEASE
from genolewm_assets.encoders import CausalLMStateEncoder
from genolewm_assets.genome import DECIDED, HARMFUL
from genolewm_assets.packages.references import read_latest
from genolewm_assets.store.arrays import ArrayStoreReader
from genolewm_assets.training.batches import TrainingBatch, encode_targets
from genolewm_assets.training.tuples import TrainingTuple
from genolewm_assets_tests.defs.conftest import CommandLine
from genolewm_assets_tests.encoders.vocabularies.other_models import WRITERS
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS, LINEAR, blocking_checks

pytestmark = pytest.mark.nightly

torch = Late("torch")
transformers = Late("transformers")

#: A release with alleles of the held-out contigs, which a bench can show.
RELEASE = "2025-02-02"
#: What is built for another encoder and a new release.
STEPS = (
    (("clinvar/release", "clinvar/shard"), (RELEASE,)),
    (("windows/index", "embeddings/cache"), LINEAR),
    (("corpus/windows", "embeddings/corpus"), CORPUS),
    (("holdouts/manifest", "packages/split", "packages/audit"), (RELEASE,)),
    (("packages/current",), (None,)),
)
FROZEN = replace(tuples_frozen, partitions=BY_PACKAGED_RELEASE)
#: By kind of model: special tokens before those of the bases, and bases of a token.
KINDS = {"masked": (1, 6), "characters": (0, 1)}
BLOCK_BP = 384
#: Other sums of the same products.
CLOSE: dict[str, float] = {"rtol": 1e-4, "atol": 1e-5}

States = NDArray[np.float32]
#: Returns the states of a sequence's tokens, shape (tokens, hidden).
Plain = Callable[[str], States]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(kind: str, tmp_path: Path) -> Path:
    WRITERS[kind](tmp_path / kind)
    return tmp_path / kind


@pytest.fixture
def plain(kind: str, folder: Path) -> Iterator[Plain]:
    """Return what computes states with the tokenizer and the model of the library, one sequence at a time."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    (first, bp), threads = KINDS[kind], torch.get_num_threads()

    def states(sequence: str) -> States:
        with torch.no_grad():
            found = model(input_ids=tokenizer(sequence, return_tensors="pt")["input_ids"]).last_hidden_state
        tokens: States = found[0].numpy()[first : first + len(sequence) // bp]
        return tokens

    torch.set_num_threads(1)
    yield states
    torch.set_num_threads(threads)


@pytest.fixture
def world(copied: BuiltWorld, folder: Path) -> BuiltWorld:
    """Return a copy of the built world whose catalogue names the model, with a new release of ClinVar."""
    records = [record for contig in LINEAR for record in copied.clinvar_records(contig)]
    copied.write_clinvar(RELEASE, header_date=RELEASE, records=records)
    copied.instance.add_dynamic_partitions("clinvar_release", [RELEASE])
    copied.edit_catalog(encoder={"model": str(folder)}, packages={"frozen_epochs": 1})
    return copied


def pooled(kind: str, states: States, start: int, stop: int) -> States:
    """Return the mean over the blocks of 384 bases ``[start, stop)``."""
    tokens = BLOCK_BP // KINDS[kind][1]
    mean: States = states[start * tokens : stop * tokens].mean(axis=0)
    return mean


def edited_anew(world: BuiltWorld, one: TrainingTuple) -> str:
    """Cut an edited window of the forward strand from a contig in which its alleles are replaced."""
    assert one.contig is not None
    assert (one.strand, bool(one.alleles)) == ("+", True)
    contig = world.sequences[one.contig].decode()
    for allele in sorted(one.alleles, key=lambda each: -each.pos):
        before, after = contig[: allele.pos - 1], contig[allele.pos - 1 :]
        assert after.startswith(allele.ref)
        contig = before + allele.alt + after.removeprefix(allele.ref)
    assert one.window_start is not None
    return contig[one.window_start :][: len(one.source_window)]


def build(world: BuiltWorld) -> Path:
    """Build all, of which every check passes; returns the package of the release."""
    for assets, partitions in STEPS:
        for partition in partitions:
            result = world.materialize(*assets, partition=partition)
            assert result.success, (assets, partition)
            assert {check.passed for check in blocking_checks(result)} == {True}
    latest = read_latest(world.root, RELEASE)
    assert latest is not None
    return world.root / latest.path


def cached_windows(world: BuiltWorld, package: Path) -> Iterator[tuple[str, States]]:
    """Yield the first, a middle and the last window of each cache of a package, with its row of states."""
    for ref in json.loads((package / "package.json").read_text())["caches"]:
        source, reader = ref["source"], ArrayStoreReader(world.root / ref["path"])
        asset = "windows/index" if source in LINEAR else "corpus/windows"
        rows = pq.read_table(world.open(asset, source).file("windows.parquet")).to_pylist()
        assert reader.n_rows == len(rows)
        for at in sorted({0, len(rows) // 2, len(rows) - 1}):
            row = rows[at]
            whole = world.sequences[source][row["start"] : row["end"]].decode() if source in LINEAR else row["sequence"]
            yield whole, reader.get_rows([at], array="states")[0]


def check_batch(
    world: BuiltWorld, kind: str, batch: TrainingBatch, targets: States, plain: Plain
) -> set[tuple[bool, int]]:
    """Compare both states of every tuple with plain ones; returns which are placed, and how lengths change."""
    assert batch.source_states is not None
    sources = [plain(window) for window in batch.source_windows]
    seen = set()
    for row, one in enumerate(batch.tuples):
        edited = one.target_window if one.contig is None else edited_anew(world, one)
        assert edited == one.target_window
        blocks = one.block_start, one.block_stop
        expected = pooled(kind, sources[batch.edits.window[row]], *blocks), pooled(kind, plain(edited), *blocks)
        np.testing.assert_allclose((batch.source_states[row], targets[row]), expected, **CLOSE)
        seen.add((one.contig is not None, int(np.sign(one.length_change))))
    return seen


def check_before_the_edit(kind: str, batch: TrainingBatch, encoder: CausalLMStateEncoder, plain: Plain) -> None:
    """Compare the first block of a window that is edited behind it: only a masked model sees the edit there."""
    row = int(np.flatnonzero(batch.locus_token >= 64)[0])
    source, target = batch.source_windows[batch.edits.window[row]], batch.target_windows[row]
    found = encoder.encode_edits([source], [target], np.zeros(1, np.int64), np.array([[0, 1]]))[0, 0]
    before, after = (pooled(kind, plain(window), 0, 1) for window in (source, target))
    np.testing.assert_allclose(found, after, **CLOSE)
    moved = float(np.abs(found - before).max())
    assert moved > 1e-3 if kind == "masked" else moved < 1e-5
    assert (encoder.full_path_reason is None, encoder.is_causal) == ((kind != "masked"),) * 2


def plain_zero_shot(kind: str, folder: Path, package: Path) -> tuple[int, int, float]:
    """Return P or LP and B or LB alleles of the bench, and the share of their pairs that the head of the model orders.

    A masked model has the 6-mer of the allele masked; of a causal one all bases from the allele on are counted.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    task = transformers.AutoModelForMaskedLM if kind == "masked" else transformers.AutoModelForCausalLM
    model, (first, bp) = task.from_pretrained(folder).eval(), KINDS[kind]

    def loss(window: str, at: int) -> float:
        ids = tokenizer(window, return_tensors="pt")["input_ids"]
        place = slice(first + at // bp, first + at // bp + 1) if kind == "masked" else slice(at, len(window))
        given = ids.clone()
        if kind == "masked":
            given[:, place] = tokenizer.mask_token_id
        with torch.no_grad():
            chances = model(input_ids=given).logits[0].double().log_softmax(-1)
        before = 0 if kind == "masked" else 1
        wanted = zip(range(place.start, place.stop), ids[0, place].tolist(), strict=True)
        return -sum(float(chances[number - before, token]) for number, token in wanted)

    bench = lewm.GenoLeWMTestDataset(package, "holdout-chr", coverage="alleles")
    sizes: dict[bool, list[float]] = {True: [], False: []}
    for one in (one for batch in bench for one in batch.tuples if one.label in DECIDED):
        (edit,) = one.rel_edits
        change = loss(one.target_window, edit.rel_pos) - loss(one.source_window, edit.rel_pos)
        sizes[one.label in HARMFUL].append(change)
    pairs = np.subtract.outer(sizes[True], sizes[False])
    return len(sizes[True]), len(sizes[False]), float((pairs > 0).mean() + (pairs == 0).mean() / 2)


def caches_of(world: BuiltWorld) -> set[Path]:
    return {path.resolve() for path in (world.root / "embeddings").iterdir()}


def example_losses(*words: object) -> list[float]:
    """Run the trainer of the documents."""
    spec = importlib.util.spec_from_file_location("train_example", REPOSITORY / "docs/train_example.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    losses: list[float] = module.main([*map(str, words)])
    return losses


def test_a_model_of_another_vocabulary_goes_through_the_graph(
    kind: str, folder: Path, world: BuiltWorld, plain: Plain, genolewm: CommandLine
) -> None:
    package = build(world)
    n_cached = 0
    for window, row in cached_windows(world, package):
        expected = [pooled(kind, plain(window), block, block + 1) for block in range(4)]
        np.testing.assert_allclose(row, expected, **CLOSE)
        n_cached += 1
    assert n_cached == 3 * len((*LINEAR, *CORPUS))

    # A trainer's tuples: its states, and those that it has encoded, of local and of whole windows.
    encoder = CausalLMStateEncoder(folder)
    for how in ("local", "global"):
        batch = next(iter(lewm.GenoLeWMDataset.current(world.root, kind=how)))
        # Tokens are 6-mers whatever the model.
        assert (batch.block_tokens, set(batch.n_tokens.tolist()), batch.target_tokens.shape[1]) == (64, {200}, 200)
        seen = check_batch(world, kind, batch, encode_targets(batch, encoder), plain)
        assert {shift for _, shift in seen} == {-1, 0, 1}
        assert {is_placed for is_placed, _ in seen} == {False, True}
    check_before_the_edit(kind, batch, encoder, plain)

    # The audit by hand, with states; nothing is left for `cache-windows`.
    assert genolewm("audit", package, "--encoder", folder, "--tuples", 1_000, "--json") == 0
    (states,) = (one for one in json.loads(genolewm.out)["results"] if one["kind"] == "state_mismatch")
    assert states["verdict"] == "clean"
    assert (states["searched"]["untouched blocks"] > 0) == (kind != "masked")
    caches = caches_of(world)
    assert genolewm("cache-windows", "--root", world.root, "--catalog", world.catalog, "--json") == 0
    steps = json.loads(genolewm.out)
    assert {step["checks_passed"] == step["checks"] > 0 for step in steps} == {True}
    assert {"embeddings/cache", "embeddings/corpus"} <= {step["asset"] for step in steps}
    assert caches_of(world) == caches

    # Frozen epochs hold the same states.
    others = [asset for asset in ASSETS if asset.key != FROZEN.definition().key]
    result = world.materialize(FROZEN.key, partition=RELEASE, assets=[*others, FROZEN.definition()])
    assert result.success
    assert {check.passed for check in result.get_asset_check_evaluations()} == {True}
    frozen = next(iter(lewm.GenoLeWMDataset.current(world.root, frozen=world.root)))
    assert frozen.target_states is not None
    check_batch(world, kind, frozen, frozen.target_states, plain)

    # Probes are scored on the bench, and the model alone as its own head ranks the alleles.
    words = ("--tuples", 128, "--frozen", world.root, "--json")
    assert genolewm("evaluate", world.root, "--encoder", folder, *words) == 0
    rows = {row["model"]: row for row in json.loads(genolewm.out) if row["holdout"] == "holdout-chr"}
    assert set(rows) == {"no_change", "mean_change", "linear", "residual", "zero_shot"}
    assert rows["no_change"]["latent_error"] == 1
    assert all(rows[name]["latent_error"] > 0 for name in ("mean_change", "linear", "residual"))
    alone = rows["zero_shot"]
    assert (alone["tuples"], alone["score"]) == (
        "alleles",
        "masked_likelihood" if kind == "masked" else "causal_likelihood",
    )
    n_harmful, n_benign, expected = plain_zero_shot(kind, folder, package)
    assert (alone["n_harmful"], alone["n_benign"]) == (n_harmful, n_benign)
    assert alone["auroc"] == pytest.approx(expected, abs=1e-6)

    # The trainer of the documents trains on them.
    words = ("--epochs", 1, "--validate-every", 0, "--frozen", world.root)
    losses = example_losses(world.root, folder, *words)
    assert np.isfinite(losses).all()
