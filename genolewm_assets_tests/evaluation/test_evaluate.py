"""Evaluations of a small package: every figure by other means, the same bytes twice, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets import encoders, evaluation
from genolewm_assets.evaluation.table import EVALUATION, PROBES, ZERO_SHOT
from genolewm_assets.genome import DECIDED, HARMFUL
from genolewm_assets.lewm import GenoLeWMTestDataset, write_frozen
from genolewm_assets.packages import Package
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.training.batches import encode_targets
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.evaluation.planted_world import publish_caches, publish_planted, with_leak
from genolewm_assets_tests.late import Late

torch = Late("torch")
TUPLES = 192


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path) -> encoders.CausalLMStateEncoder:
    return encoders.CausalLMStateEncoder(tiny_folder)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, encoder: Any) -> Package:
    """Return a package whose labels follow from the edits; not to be changed."""
    root = Root(tmp_path_factory.mktemp("planted") / "root")
    return publish_planted(root, publish_caches(root, encoder), 0)


@pytest.fixture(scope="module")
def table(package: Package, encoder: Any) -> pa.Table:
    return evaluation.evaluate(package, encoder, tuples=TUPLES)


def by_model(table: pa.Table, holdout: str = "holdout-temporal") -> dict[str, dict[str, Any]]:
    return {row["model"]: row for row in table.to_pylist() if row["holdout"] == holdout}


def test_every_holdout_has_every_model(table: pa.Table) -> None:
    EVALUATION.check(table.schema, where="table")
    table.validate(full=True)
    rows = table.to_pylist()
    holdouts = ("holdout-chr", "holdout-haplotypes", "holdout-temporal")
    assert [(row["holdout"], row["model"]) for row in rows] == [
        (holdout, model) for holdout in holdouts for model in (*PROBES, ZERO_SHOT)
    ]
    assert {row["tuples"] for row in rows if row["holdout"] != "holdout-temporal"} == {"windows"}
    for row in rows:
        is_probe, on_bench = row["model"] != ZERO_SHOT, row["tuples"] == "alleles"
        assert (row["latent_error"] is not None) == is_probe
        assert (row["gain"] is not None) == (is_probe and on_bench) == (row["auroc_of_size"] is not None)
        assert (row["auroc"] is not None) == on_bench
        if on_bench:
            assert row["auroc_low"] <= row["auroc"] <= row["auroc_high"]


def test_figures_are_those_of_the_bench(table: pa.Table, package: Package, encoder: Any, tiny_folder: Path) -> None:
    rows = by_model(table)
    batches = list(GenoLeWMTestDataset(package, "holdout-temporal", coverage="alleles"))
    tuples = [one for batch in batches for one in batch.tuples]
    harmful = np.array([one.label in HARMFUL for one in tuples])
    assert {one.label for one in tuples} <= set(DECIDED)
    counts = len(tuples), harmful.sum(), (~harmful).sum(), len({one.gene_ids[0] for one in tuples})
    for row in rows.values():
        assert (row["n_tuples"], row["n_harmful"], row["n_benign"], row["n_genes"]) == counts
    # All edits of the bench are SNVs, and the mean change of an SNV is one vector.
    assert (rows["no_change"]["latent_error"], rows["no_change"]["auroc"]) == (1.0, 0.5)
    assert (rows["mean_change"]["auroc"], rows["mean_change"]["auroc_of_size"]) == (0.5, 0.5)
    assert rows["linear"]["auroc"] > 0.75
    for name in PROBES:
        assert rows[name]["gain"] == pytest.approx(rows[name]["auroc"] - rows[ZERO_SHOT]["auroc"], abs=2e-6)
    # The encoder's own score, with the loss of whole windows: what is behind 1,536 bases is none here.
    loss = encoders.CausalLMLoss(tiny_folder)
    lost = [
        (np.subtract(*loss.nats_per_base([one.target_window, one.source_window])) * len(one.source_window))
        for one in tuples
    ]
    assert rows[ZERO_SHOT]["score"] == "causal_likelihood"
    assert rows[ZERO_SHOT]["auroc"] == pytest.approx(evaluation.auroc(np.array(lost), harmful), abs=2e-3)
    without = evaluation.evaluate(package, _WithoutHead(encoder), tuples=TUPLES)
    sizes = [np.linalg.norm(encode_targets(batch, encoder) - batch.source_states, axis=1) for batch in batches]
    row = by_model(without)[ZERO_SHOT]
    assert (row["score"], row["auroc"]) == (
        "size_of_change",
        pytest.approx(evaluation.auroc(np.concatenate(sizes), harmful), abs=1e-6),
    )


class _WithoutHead:
    """An encoder whose files hold no language-model head."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def load_likelihood(self) -> None:
        return None


def test_a_ridge_is_that_of_the_closed_form() -> None:
    from genolewm_assets.evaluation import predictors

    rng = np.random.default_rng(1)
    inputs = np.column_stack((rng.normal(size=(60, 4)) * [1, 5, 0.1, 2] + 3, np.full(60, 7.0)))
    wanted = inputs[:, :4] @ rng.normal(size=(4, 2)) + rng.normal(size=(60, 2))
    scaled = (inputs - inputs.mean(0))[:, :4] / inputs.std(0)[:4]

    def solve(rows: Any, penalty: float) -> Any:
        # Ridge regression as least squares with rows that pull the weights to zero.
        x = np.vstack((scaled[rows], np.sqrt(penalty * len(scaled[rows])) * np.eye(4)))
        y = np.vstack((wanted[rows] - wanted[rows].mean(0), np.zeros((4, 2))))
        return scaled @ np.linalg.lstsq(x, y, rcond=None)[0] + wanted[rows].mean(0)

    windows = rng.permutation(np.repeat(np.arange(15), 4)) * 7
    aside = windows // 7 % 5 == 4
    errors = {p: ((solve(~aside, p) - wanted)[aside] ** 2).sum() for p in predictors.PENALTIES}
    expected = solve(np.ones(60, bool), min(errors, key=errors.__getitem__))
    given = torch.from_numpy(inputs)
    found = predictors.fit_ridge(given, torch.from_numpy(wanted), windows)(given).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_the_command_writes_the_same_bytes_twice(
    package: Package, table: pa.Table, tiny_folder: Path, tmp_path: Path, command: Command
) -> None:
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    words = ("evaluate", package.directory, "--encoder", tiny_folder, "--tuples", TUPLES)
    code, said, _ = command(*words, "--output", first, "--json")
    assert (code, json.loads(said)) == (0, table.to_pylist())
    torch.set_num_threads(2)
    code, said, _ = command(*words, "--output", second)
    assert code == 0
    assert first.read_bytes() == second.read_bytes()
    assert pq.read_table(first).equals(table)
    assert "zero_shot ranks by causal likelihood" in said
    code, _, err = command(*words, "--output", second)
    assert (code, err.count("\n")) == (2, 1)
    assert "exists" in err


@pytest.mark.nightly
def test_frozen_epochs_give_the_same_table(package: Package, table: pa.Table, encoder: Any, tmp_path: Path) -> None:
    write_frozen(tmp_path / "store", package, encoder, epochs=2)
    assert evaluation.evaluate(package, encoder, tuples=TUPLES, frozen=tmp_path / "store").equals(table)


@pytest.mark.nightly
def test_shuffled_labels_rank_below_true_ones_and_a_leak_raises_the_score(
    tmp_path_factory: pytest.TempPathFactory, encoder: Any
) -> None:
    root = Root(tmp_path_factory.mktemp("shuffled") / "root")
    caches, raised = publish_caches(root, encoder), []

    def score(package: Package, seed: int) -> dict[str, dict[str, Any]]:
        return by_model(evaluation.evaluate(package, _WithoutHead(encoder), tuples=384, seed=seed))

    for seed in range(20):
        package = publish_planted(root, caches, seed, noise=0.2)
        true, leaking = score(package, seed), score(with_leak(package, tmp_path_factory.mktemp("leak")), seed)
        shuffled = score(publish_planted(root, caches, seed, "shuffled", noise=0.2), seed)
        for model in ("linear", "residual"):
            assert true[model]["auroc"] > shuffled[model]["auroc"], (seed, model)
        raised.append(leaking["linear"]["auroc"] - true["linear"]["auroc"])
    # Nothing but the labels of the held-out alleles was added to those of as many others: 0.08 on average.
    assert min(raised) > 0, raised
    assert np.mean(raised) > 0.05, raised
