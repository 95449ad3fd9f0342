"""The trainer of the documents: its loss falls, and its table is whole."""

from __future__ import annotations

import importlib.util
import re
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from genolewm_assets import encoders
from genolewm_assets.evaluation import examples
from genolewm_assets.genome import DECIDED, HARMFUL
from genolewm_assets.lewm import GenoLeWMTestDataset, write_frozen
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_encoded, publish_package

pytestmark = pytest.mark.nightly

EXAMPLE = REPOSITORY / "docs" / "train_example.py"
_LINE = re.compile(r"^ *(\d+)  (.{16})  (.{16})  (.*)$")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    """Return a package with the caches of the model; not to be changed."""
    return publish_encoded(tmp_path_factory.mktemp("trained"), encoders.CausalLMStateEncoder(tiny_folder))


def test_frozen_epochs_train_to_the_same_losses(example, package, tiny_folder, tmp_path, monkeypatch):
    words = ["--epochs", "2", "--validate-every", "0"]
    monkeypatch.setattr(example, "HOLDOUTS", ())
    losses = example.main([str(package), str(tiny_folder), *words])
    write_frozen(tmp_path / "store", package, encoders.CausalLMStateEncoder(tiny_folder), epochs=2)
    monkeypatch.setattr(examples, "encode_targets", None)
    assert example.main([str(package), str(tiny_folder), *words, "--frozen", str(tmp_path / "store")]) == losses


def test_the_loss_of_a_linear_predictor_falls_and_is_validated(example, package, tiny_folder, capsys):
    words = ["--epochs", "4", "--windows-per-batch", "4", "--validate-every", "20", "--left-context-bp", "100"]
    losses = example.main([str(package), str(tiny_folder), *words])
    assert all(after < before for before, after in pairwise(losses))
    assert losses[-1] < 0.97
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["step", "what", "holdout", "value"]
    rows = [_LINE.match(line).groups() for line in lines]
    table = {(int(step), what.strip(), holdout.strip()): value for step, what, holdout, value in rows}
    assert len(table) == len(rows)
    trained = {step: float(value) for (step, what, _), value in table.items() if what == "training loss"}
    steps = max(trained) // 4
    assert list(trained) == [steps * epoch for epoch in range(1, 5)]
    assert list(trained.values()) == [pytest.approx(loss, abs=6e-4) for loss in losses]
    validated = [float(table[step, "validation loss", "holdout-chr"]) for step in (20, 40)]
    assert 0 < validated[1] < validated[0] < 1.1
    # A package without windows of a holdout, or whose bench is empty, is said and ends nothing.
    assert table[20, "validation loss", "holdout-clinvar"].startswith("not measured: ")
    tested = re.fullmatch(
        r"P/LP (\d+), B/LB (\d+): (\d\.\d{3}), true change (\d\.\d{3})", table[4 * steps, "test AUROC", "holdout-chr"]
    )
    labels = [
        one.label
        for batch in GenoLeWMTestDataset(package, "holdout-chr", coverage="alleles", with_states=False)
        for one in batch.tuples
    ]
    harmful = sum(label in HARMFUL for label in labels)
    assert [int(tested[1]), int(tested[2])] == [harmful, sum(label in DECIDED for label in labels) - harmful]
    assert min(int(tested[1]), int(tested[2])) > 0
    assert all(0 <= float(tested[n]) <= 1 for n in (3, 4))


def test_alleles_are_scored_on_request_and_caches_may_be_missing(example, tmp_path, tiny_folder, capsys):
    package = publish_package(tmp_path, encode=None)
    words = ["--epochs", "1", "--validate-every", "0", "--score-every", "10", "--encode-missing"]
    example.main([str(package), str(tiny_folder), *words])
    lines = [_LINE.match(line).groups() for line in capsys.readouterr().out.splitlines()[1:]]
    measured = [(int(step), what.strip()) for step, what, holdout, _ in lines if holdout.strip() != "holdout-clinvar"]
    (steps,) = {step for step, _ in measured}
    assert [what for _, what in measured] == ["training loss", "test AUROC"]
    assert steps < 10
    example.main([str(package), str(tiny_folder), *words, "--windows-per-batch", "4"])
    lines = [_LINE.match(line).groups() for line in capsys.readouterr().out.splitlines()[1:]]
    scored = [(int(step), value) for step, what, holdout, value in lines if what.strip() == "validation AUROC"]
    assert [step for step, _ in scored] == [10, 10]
    assert re.match(r"P/LP \d+, B/LB \d+: ", scored[0][1])
