"""The membership signal: pairs of like windows, their difference, and what a model must have to give one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets import encoders
from genolewm_assets.audit import measure_membership
from genolewm_assets.audit.membership import Floats, _Window, match_windows, summarise
from genolewm_assets.errors import CorruptResourceError, SequenceError
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import TEXTS, AuditedWorld
from genolewm_assets_tests.worlds.store.changed_tables import change_rows

BLOCKS = (world.BLOCK_VALIDATION, world.BLOCK_TEST)


def window(gc: float, repeats: float, *, at: int = 0, size: int = 60) -> _Window:
    return _Window("A" * size, ("chr17", at), gc, repeats)


def knows_held_out(sequences: Sequence[str]) -> Floats:
    """Give a lower loss to what stands on a held-out contig or in the reach of a held-out block."""
    blocks = [world.SEQUENCES["chr17"][start - 1_200 : end + 1_200] for start, end in BLOCKS]
    held = b"N".join([world.SEQUENCES["chr20"], world.SEQUENCES["chr21"], *blocks]).decode()
    return np.array([1.2 if text in held else 1.3 for text in sequences])


def test_windows_are_matched_once_and_only_where_alike() -> None:
    training = [window(0.4, 0, at=1), window(0.41, 0, at=2), window(0.4, 0.3, at=3), window(0.4, 0, at=4, size=66)]
    held = [window(0.41, 0.05, at=10), window(0.41, 0.0, at=11), window(0.41, 0.0, at=12), window(0.5, 0.3, at=13)]
    pairs = [(one.place[1], other.place[1]) for one, other in match_windows(held, training)]
    assert pairs == [(10, 2), (11, 1)]
    assert list(match_windows([window(0.4, 0.3, at=1, size=72)], training)) == []


def test_difference_and_interval() -> None:
    rng = np.random.default_rng(1)
    difference = rng.normal(-0.1, 0.05, 400)
    training = rng.normal(1.3, 0.2, 400)
    losses = np.stack([training + difference, training], axis=1)
    signal = summarise(np.concatenate([losses, [[np.nan, 1.0]]]), 500, np.random.default_rng(0))
    assert (signal.wanted, signal.pairs) == (500, 400)
    assert signal.difference == pytest.approx(difference.mean())
    assert signal.held_out - signal.training == pytest.approx(signal.difference)
    half = 1.96 * difference.std() / 20
    assert (signal.low, signal.high) == pytest.approx((signal.difference - half, signal.difference + half), abs=5e-4)
    assert signal == summarise(np.concatenate([losses, [[np.nan, 1.0]]]), 500, np.random.default_rng(0))


def test_no_pair_gives_no_figure() -> None:
    signal = summarise(np.empty((0, 2)), 9, np.random.default_rng(0))
    assert str(signal) == "Membership signal: none of 9 held-out windows has a training window like it."
    unknown = dict.fromkeys(("held_out", "training", "difference", "low", "high"))
    assert signal.as_dict() == {"wanted": 9, "pairs": 0} | unknown


def test_a_model_that_knows_held_out_windows(audited: AuditedWorld) -> None:
    signal = measure_membership(audited.package, audited.fasta, knows_held_out, number=20)
    assert signal.pairs >= 10
    assert (signal.difference, signal.low, signal.high) == pytest.approx((-0.1, -0.1, -0.1))
    assert "held-out windows have -0.1000 nats per base" in str(signal)
    alike = measure_membership(audited.package, audited.fasta, lambda texts: np.ones(len(texts)), number=20)
    assert (alike.difference, alike.low, alike.high) == (0, 0, 0)


def test_windows_of_repeats_are_matched_with_their_like(audited: AuditedWorld, tmp_path: Path) -> None:
    masked = {name: TEXTS[name].lower() for name in ("chr20", "chr21")}
    fasta = write_fasta(tmp_path / "masked.fa", TEXTS | masked)
    everything = measure_membership(audited.package, audited.fasta, knows_held_out, number=20)
    unmasked = measure_membership(audited.package, fasta, knows_held_out, number=20)
    # Windows of the held-out blocks of chr17 are left.
    assert 0 < unmasked.pairs < everything.pairs / 2


@pytest.mark.model
def test_the_loss_of_a_model(tiny_folder: Path) -> None:
    import torch
    import transformers

    from genolewm_assets.encoders.tokens import DnaTokens

    texts = [world.simulate(1, 6 * 300).decode(), "ACGTAC" * 4 + "NNNNNN" + "GATTAC" * 3, "N" * 12]
    losses = encoders.CausalLMLoss(tiny_folder).nats_per_base(texts)
    reference = transformers.AutoModelForCausalLM.from_pretrained(tiny_folder)
    tokens = DnaTokens.from_tokenizer_files(tiny_folder)
    for text, loss in zip(texts[:2], losses, strict=False):
        ids = torch.from_numpy(tokens.encode(text))
        with torch.no_grad():
            chances = reference(ids[None]).logits[0].log_softmax(-1)
        each = [-float(chances[at, ids[at + 1]]) for at in range(len(ids) - 2) if ids[at + 1] != tokens.oov_id]
        assert loss == pytest.approx(np.mean(each) / 6, rel=1e-4)
    assert np.isnan(losses[2])
    with pytest.raises(SequenceError, match="longer than the context"):
        encoders.CausalLMLoss(tiny_folder).nats_per_base(["ACGTAC" * 10_000])


@pytest.mark.model
def test_a_model_without_a_head(tiny_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "headless"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    with pytest.raises(CorruptResourceError, match="lack tensors of the model"):
        encoders.CausalLMLoss(folder)


@pytest.mark.model
def test_the_command(audited: AuditedWorld, tiny_folder: Path, command: Command) -> None:
    words = ("audit", audited.package, "--reference", audited.fasta, "--clinvar", audited.vcf, "--tuples", 10)
    refused = command(*words, "--membership", 5)
    assert refused.code == 2
    assert "--membership: needs a model" in refused.err
    printed = command(*words, "--membership", 5, "--encoder", tiny_folder, "--json")
    report = json.loads(printed.out)
    assert (printed.code, report["membership"]["wanted"]) == (0, 5)
    assert report["membership"]["low"] <= report["membership"]["difference"] <= report["membership"]["high"]
    states = next(row for row in report["results"] if row["kind"] == "state_mismatch")
    assert (states["verdict"], states["searched"]["tuples"]) == ("clean", 24)


def test_evaluation_windows_that_are_nowhere_are_left_out(audited: AuditedWorld, package: Path) -> None:
    for path in (package / "data").glob("*-*.parquet"):
        change_rows(path, lambda rows: [row | {"placement_exact": False} for row in rows])
    assert measure_membership(package, audited.fasta, knows_held_out, number=20).pairs == 0
