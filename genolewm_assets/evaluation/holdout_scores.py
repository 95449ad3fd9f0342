"""Train the probes on a package and score them on its holdouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from genolewm_assets.encoders import CausalLMStateEncoder
from genolewm_assets.evaluation.examples import Examples, collect, squared_errors
from genolewm_assets.evaluation.predictors import fit_probes, fit_ridge, one_thread
from genolewm_assets.evaluation.scores import auroc, interval, resampled_auroc
from genolewm_assets.evaluation.table import CAUSAL, EVALUATION, MASKED, READOUT, SIZE, ZERO_SHOT
from genolewm_assets.genome import Holdout, Split
from genolewm_assets.lewm import GenoLeWMDataset, GenoLeWMTestDataset
from genolewm_assets.packages import EVALUATION_CONTEXT_BP, N_EDITS, SCORED, Package
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays import ArrayStoreReader
from genolewm_assets.training import labelled_batches

#: Training tuples, and most test tuples of a holdout, unless a number is given.
TUPLES = 4_096
#: Windows of a batch: 64 tuples.
_WINDOWS = 8
#: Decimals of the figures: more than any of them means.
_DECIMALS = 6
_LIKELIHOODS = {"causal": CAUSAL, "masked": MASKED}


def load_encoder(package: Package, folder: Path | str, *, device: str = "cpu") -> CausalLMStateEncoder:
    """Load the encoder of a package's states: a folder in Hugging Face format, with the settings of its caches.

    Raises
    ------
    ConfigurationError, MissingResourceError, CorruptResourceError
        If the model or its device cannot be used; without caches, its last hidden state is taken, in float32.
    """
    settings: dict[str, Any] = {}
    for cache in package.caches.values():
        config = ArrayStoreReader(cache).fingerprint["config"]
        recipe = config.get("encoder") if isinstance(config, dict) else None
        if isinstance(recipe, dict):
            names = ("layer", "block_tokens", "dtype", "compute")
            settings = {name: recipe[name] for name in names if name in recipe}
            break
    return CausalLMStateEncoder(folder, device=device, **settings)


def evaluate(
    package: Package,
    encoder: CausalLMStateEncoder,
    *,
    tuples: int = TUPLES,
    seed: int = 0,
    frozen: Path | None = None,
    progress: Progress = NO_PROGRESS,
) -> pa.Table:
    """Train probes on a package, and score them and the encoder alone on the test tuples of every holdout.

    Parameters
    ----------
    package
        An open package; unedited windows that its caches do not hold are encoded.
    encoder
        The encoder of its states; see :func:`load_encoder`.
    tuples
        Number of training tuples, drawn with default options, and largest number of test tuples of a holdout, which
        are then spread evenly over it.
    seed
        Seed of the training tuples, of the residual probe and of the resamples.
    frozen
        Frozen epochs of ``seed`` to read the training tuples from: their root, or a store.

    Returns
    -------
    pyarrow.Table
        Schema ``EVALUATION``, by holdout and model. With an encoder on the CPU the same on every run.

    Raises
    ------
    ConfigurationError
        If the encoder is not that of the caches, or ``frozen`` is of another package, seed or encoder.
    MissingResourceError, CorruptResourceError
        If states or frozen epochs are missing or damaged.
    """
    options: dict[str, Any] = {"encoder": encoder, "windows_per_batch": _WINDOWS}
    with one_thread():
        dataset = GenoLeWMDataset(package, frozen=frozen, seed=seed, **options)
        train = collect(_epochs(dataset), encoder, tuples, what="training", progress=progress)
        labelled = labelled_batches(package, most=tuples, encoder=encoder)
        taught = collect(labelled, encoder, tuples, what="labelled training alleles", progress=progress)
        probes = {name: (probe, _readout(probe, taught)) for name, probe in fit_probes(train, seed=seed).items()}
        likelihood, rows = encoder.load_likelihood(), list[dict[str, object]]()
        for holdout, on_bench in _holdouts(package).items():
            batches = _spread(package, holdout, on_bench, tuples, options)
            asked = likelihood if on_bench else None
            test = collect(batches, encoder, tuples, likelihood=asked, what=holdout, progress=progress)
            # Labels of sampled edits are no bench: the same allele may come often, or in few of its windows.
            bench = test.decided if on_bench else np.zeros(len(test), dtype=bool)
            shared = {"holdout": holdout, "tuples": "alleles" if on_bench else "windows", "n_tuples": len(test)}
            score = SIZE if likelihood is None else _LIKELIHOODS[likelihood.kind]
            rows += [shared | row for row in _rows(test, bench, probes, score, seed)]
    return pa.Table.from_pylist(rows, schema=EVALUATION.arrow)


def _epochs(dataset: GenoLeWMDataset) -> Iterator[Any]:
    """Yield the batches of epoch after epoch."""
    for epoch in range(1_000_000):
        dataset.set_epoch(epoch)
        yield from dataset


def _holdouts(package: Package) -> dict[str, bool]:
    """Return the holdouts with test windows, and whether each has a bench of alleles."""
    windows = set(package.windows(Split.TEST, ["holdout"])["holdout"].to_pylist())
    alleles = package.variants(Split.TEST, ["holdout", "scoring"]).to_pylist()
    benches = {row["holdout"] for row in alleles if row["scoring"] == SCORED}
    return {str(holdout): holdout in benches for holdout in Holdout if holdout in windows}


def _spread(package: Package, holdout: str, on_bench: bool, tuples: int, options: Mapping[str, Any]) -> Any:
    """Return the test batches of a holdout; where it has more tuples, every k-th group of eight."""
    if on_bench:
        options = {**options, "coverage": "alleles"}
    else:
        sizes = package.windows(Split.TEST, ["holdout", "window_bp"])
        shortest = pc.min(sizes.filter(pc.equal(sizes["holdout"], holdout))["window_bp"]).as_py()
        options = {**options, "min_left_context_bp": min(EVALUATION_CONTEXT_BP, shortest // 2)}
    whole = GenoLeWMTestDataset(package, holdout, **options)
    if whole.n_batches * _WINDOWS * N_EDITS <= tuples:
        return whole
    options["windows_per_batch"] = 1
    every = -(-GenoLeWMTestDataset(package, holdout, **options).n_batches * N_EDITS // tuples)
    # Ranks share an epoch by taking batches in turn.
    return GenoLeWMTestDataset(package, holdout, **options, rank=0, world_size=every)


def _readout(probe: Any, taught: Examples) -> Any:
    """Fit what ranks alleles by a probe: a linear function of direction and size of the predicted change, to labels."""
    if taught.harmful.all() or not taught.harmful.any():
        return lambda changes: torch.zeros(len(changes), 1)
    labels = torch.from_numpy(taught.harmful)[:, None]
    ridge = fit_ridge(_direction_and_size(probe(taught.features, taught.kinds)), labels, taught.windows)
    return lambda changes: ridge(_direction_and_size(changes))


def _direction_and_size(changes: torch.Tensor) -> torch.Tensor:
    """Return unit vectors and the logarithm of the length: the change of an indel is ten times that of an SNV."""
    size = changes.norm(dim=1, keepdim=True) + 1e-12
    return torch.cat((changes / size, size.log()), dim=1)


def _rows(
    test: Examples, bench: NDArray[np.bool_], probes: Mapping[str, Any], score: str, seed: int
) -> Iterator[dict[str, object]]:
    """Yield one row per model of a holdout; ``bench`` tells which tuples are ranked, ``score`` how the encoder does."""
    harmful, genes, own = test.harmful[bench], test.genes[bench], torch.from_numpy(bench)
    n_genes, n_harmful = len(np.unique(genes)), int(harmful.sum())
    counts = {"n_harmful": n_harmful, "n_benign": len(harmful) - n_harmful, "n_genes": n_genes}

    def resampled(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return resampled_auroc(scores, harmful, genes, seed=seed) if n_genes > 1 else np.empty(0)

    sizes = test.changes[own].double().norm(dim=1).numpy()
    alone = sizes if test.losses is None else test.losses[bench]
    base, base_resampled = auroc(alone, harmful), resampled(alone)
    for name, (probe, readout) in probes.items():
        changes = probe(test.features, test.kinds)
        error, unchanged = squared_errors(changes, test.changes.double()).tolist()
        scores = readout(changes[own]).squeeze(1).double().numpy()
        found, drawn = auroc(scores, harmful), resampled(scores)
        yield {
            **counts,
            "model": name,
            "latent_error": _rounded(error / unchanged if unchanged else np.nan),
            "score": READOUT,
            **_with_interval("auroc", found, drawn),
            "auroc_of_size": _rounded(auroc(changes[own].norm(dim=1).numpy(), harmful)),
            **_with_interval("gain", found - base, drawn - base_resampled),
        }
    yield {**counts, "model": ZERO_SHOT, "score": score, **_with_interval("auroc", base, base_resampled)}


def _with_interval(name: str, value: float, resampled: NDArray[np.float64]) -> dict[str, float | None]:
    low, high = interval(resampled)
    return {name: _rounded(value), f"{name}_low": _rounded(low), f"{name}_high": _rounded(high)}


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), _DECIMALS)
