"""Write frozen epochs, continuing an interrupted run. Not here: what a row holds (``precomputed_epochs``)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.packages import Package
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays import ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.artefacts import BuildReport
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import map_ahead
from genolewm_assets.training.batches import TrainingBatch, encode_targets
from genolewm_assets.training.epoch_checks import FreezingEncoder, check_frozen
from genolewm_assets.training.precomputed_epochs import FrozenEpochs, RowSizes, frozen_config, measure_rows, pack_rows

if TYPE_CHECKING:
    from genolewm_assets.training.dataset import GenoLeWMDataset

#: Visits per checksum, on which the bytes of the store depend, and per call of the encoder and commit.
BATCH_ROWS: Final = 32

#: Options of a dataset that say how batches are read, not what they hold.
_READING: Final = frozenset(
    {"epoch", "position", "rank", "world_size", "last_batches", "windows_per_batch", "with_states", "frozen"}
)


def write_frozen(
    directory: Path | str,
    package: Path | str | Package,
    encoder: FreezingEncoder,
    *,
    epochs: int,
    sources: Mapping[str, str] | None = None,
    progress: Progress = NO_PROGRESS,
    **options: Any,
) -> BuildReport:
    """Draw epochs of training, encode their edited windows, store both, and check what was stored.

    Parameters
    ----------
    directory
        Folder of the store: new, or with the rows of an interrupted call, which are kept.
    package
        Folder of the package, or an open package.
    encoder
        Encoder of the package's caches; it computes the edited windows, all of a window together.
    epochs
        Number of epochs, from epoch 0 on.
    sources
        SHA-256 of what the package was read from, by name, for the fingerprint.
    progress
        Receives the number of visits measured, encoded, then checked.
    **options
        Options of :class:`~genolewm_assets.training.GenoLeWMDataset` that say what batches hold, ``cache_root``
        among them.

    Returns
    -------
    BuildReport
        Numbers of rows (visits), tuples and epochs, size in bytes, and the checks of
        ``genolewm_assets.training.epoch_checks``. ``run``: ``tuples_encoded`` by this call and ``encoding_s``,
        seconds that it took with writing.

    Raises
    ------
    ConfigurationError, BusyError, VersionError, InputError, ResourceError
        As the dataset and :class:`~genolewm_assets.store.arrays.ArrayStoreWriter`; also the errors of the encoder, and
        if an option says how batches are read, or the caches are of another encoder.

    Notes
    -----
    The epochs are drawn twice: first to measure how large rows are, then to be stored. Drawing takes about a hundredth
    of the time of encoding.
    """
    # Definitions of assets import this module, and load no torch.
    from genolewm_assets.training.dataset import GenoLeWMDataset

    _check_options(epochs, options)
    directory = Path(directory)
    dataset = GenoLeWMDataset(package, encoder=encoder, windows_per_batch=BATCH_ROWS, rank=0, world_size=1, **options)
    recipe = encoder.identity.as_recipe()
    config = frozen_config(dataset.package.info, dataset.options, recipe, epochs=epochs)
    sizes, n_rows = _measure(dataset.without_states(), epochs, int(str(recipe["hidden_size"])), progress)
    started = time.monotonic()
    with ArrayStoreWriter(
        directory, sizes.arrays, key_config=config, commit_rows=BATCH_ROWS, batch_rows=BATCH_ROWS
    ) as writer:
        done = writer.n_rows
        if done < n_rows:
            _write_rows(writer, dataset, encoder, sizes, n_rows=n_rows, epochs=epochs, progress=progress)
        seconds = time.monotonic() - started
        writer.finalize(compute_fingerprint(config, dict(sources or {})))
    frozen = FrozenEpochs(directory)
    checks = check_frozen(frozen, dataset, encoder, n_rows=n_rows, batch_rows=BATCH_ROWS, progress=progress)
    return BuildReport(
        counts={
            "visits": n_rows,
            "tuples": n_rows * sizes.n_edits,
            "epochs": epochs,
            "size_bytes": sum(path.stat().st_size for path in directory.iterdir()),
        },
        rows={"index.parquet": n_rows},
        checks=checks,
        run={
            "tuples_encoded": (n_rows - done) * sizes.n_edits,
            "encoding_s": round(seconds, 3),
            **_described(encoder, n_rows - done, sizes, seconds),
        },
    )


def _check_options(epochs: int, options: Mapping[str, Any]) -> None:
    if epochs < 1:
        raise ConfigurationError("epochs", "out of range", expected="at least 1", got=f"{epochs}")
    if wrong := sorted(_READING & options.keys()):
        raise ConfigurationError(
            wrong[0], "says how batches are read, not what they hold", remedy="Leave the option out when freezing"
        )


def _measure(dataset: GenoLeWMDataset, epochs: int, hidden: int, progress: Progress) -> tuple[RowSizes, int]:
    """Draw every epoch; return the sizes of rows that hold any visit, and the number of visits."""

    def drawn() -> Iterator[Any]:
        for epoch in range(epochs):
            dataset.set_epoch(epoch)
            for batch in dataset:
                at = epoch * dataset.n_batches + batch.position + 1
                progress.advance(at, epochs * dataset.n_batches, "batches measured")
                yield batch.edits, batch.stated

    return measure_rows(drawn(), hidden=hidden)


def _write_rows(
    writer: ArrayStoreWriter,
    dataset: GenoLeWMDataset,
    encoder: FreezingEncoder,
    sizes: RowSizes,
    *,
    n_rows: int,
    epochs: int,
    progress: Progress,
) -> None:
    """Encode and commit the rows that the store does not have."""
    n_visits, done = n_rows // epochs, writer.n_rows

    def encode(batch: TrainingBatch) -> tuple[TrainingBatch, NDArray[np.float32]]:
        return batch, encode_targets(batch, encoder)

    first = done
    # One thread encodes; meanwhile this one draws the next batch and writes the last.
    with closing(map_ahead(encode, _batches(dataset, done, n_visits, epochs), threads=1, ahead=1)) as results:
        for batch, targets in results:
            assert batch.source_states is not None
            rows = pack_rows(batch.edits, batch.stated, batch.windows, (batch.source_states, targets), sizes)
            at = batch.epoch * n_visits + batch.position * BATCH_ROWS
            # After a kill, the rows of a batch may be there in part.
            stop, there = at + len(batch.windows), first - at
            keys = [f"{row // n_visits}:{row % n_visits}" for row in range(first, stop)]
            writer.write_batch({name: array[there:] for name, array in rows.items()}, keys=keys)
            progress.advance(stop - done, n_rows - done, "visits encoded")
            first = stop


def _batches(dataset: GenoLeWMDataset, done: int, n_visits: int, epochs: int) -> Iterator[TrainingBatch]:
    """Yield the batches from the one on that holds row ``done``."""
    for epoch in range(done // n_visits, epochs):
        dataset.resume(epoch, max(0, done - epoch * n_visits) // BATCH_ROWS)
        yield from dataset


def _described(encoder: FreezingEncoder, visits: int, sizes: RowSizes, seconds: float) -> Mapping[str, JsonValue]:
    """Return what an encoder states of a run: device, precision, libraries."""
    describe = getattr(encoder, "describe_run", None)
    if describe is None:
        return {}
    facts = describe(n_windows=visits * sizes.n_edits, seconds=seconds, window_bp=sizes.tokens * 6)
    return {name: fact for name, fact in facts.items() if isinstance(fact, str)}
