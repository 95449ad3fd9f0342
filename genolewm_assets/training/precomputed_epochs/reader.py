"""Open frozen epochs, whose identity is compared, and map their rows. Not here: writing them (``training``)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from genolewm_assets.edits import PackedWindows
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, GenoLeWMError, MissingResourceError
from genolewm_assets.packages import PackageInfo
from genolewm_assets.store.arrays import ArrayStoreReader, is_complete
from genolewm_assets.store.artefacts import links
from genolewm_assets.store.files import JsonValue, normal_json, reading, resolve_generation
from genolewm_assets.training.precomputed_epochs.rows import FROZEN_ROWS, Thawed

#: Version of the rows and of the random numbers; a store of another version is refused.
ROWS_VERSION: Final = 2
#: Folder of frozen epochs, relative to the root.
FROZEN: Final = "tuples"

#: Columns of the index, which are no arrays.
_INDEX = frozenset({"row", "key"})


def package_digest(info: PackageInfo) -> str:
    """Return the SHA-256 of ``package.json``, which holds the digest of every file and the key of every cache."""
    return hashlib.sha256(info.to_bytes()).hexdigest()


def frozen_config(
    info: PackageInfo, options: Mapping[str, JsonValue], encoder: Mapping[str, JsonValue], *, epochs: int
) -> dict[str, JsonValue]:
    """Return the configuration of frozen epochs, from which the key of their array store is made.

    ``options`` are those that tuples depend on, by the names of ``training.StreamOptions``; the number of windows per
    batch is not among them: rows are the same for all. ``encoder`` is its identity as a recipe.
    """
    config: dict[str, JsonValue] = {
        "rows_version": ROWS_VERSION,
        "package": package_digest(info),
        "release": info.release,
        "options": dict(options),
        "encoder": dict(encoder),
        "epochs": epochs,
    }
    return normal_json(config, f"frozen epochs of {info.release}")


def check_config(
    where: str,
    config: Mapping[str, JsonValue],
    info: PackageInfo,
    options: Mapping[str, JsonValue],
    encoder: Mapping[str, JsonValue] | None,
) -> None:
    """Raise unless frozen epochs are those that a stream of a package would give; None accepts any encoder."""
    if config.get("rows_version") != ROWS_VERSION:
        raise ConfigurationError(
            where,
            "frozen epochs of another version",
            expected=f"version {ROWS_VERSION}",
            got=repr(config.get("rows_version")),
            remedy="Materialise tuples/frozen again",
        )
    if config["package"] != package_digest(info):
        raise ConfigurationError(
            where,
            "frozen from another package",
            expected=f"package.json {package_digest(info)[:12]} of {info.release}",
            got=f"{str(config['package'])[:12]} of {config['release']}",
            remedy="Open the package that was frozen, or materialise tuples/frozen of this release",
        )
    frozen = config["options"]
    assert isinstance(frozen, dict)
    wanted = normal_json(options, where)
    for name in sorted({*frozen, *wanted}):
        if frozen.get(name) != wanted.get(name):
            raise ConfigurationError(
                f"{where}: {name}",
                "the epochs were frozen with another value",
                expected=repr(frozen.get(name)),
                got=repr(wanted.get(name)),
                remedy="Give the value that was frozen, leave frozen out, or freeze with yours (lewm.write_frozen)",
            )
    if encoder is not None and (parts := differing_parts(config["encoder"], normal_json(encoder, where))):
        raise ConfigurationError(
            f"{where}: encoder",
            "the states are of another encoder",
            expected=str(parts[0]),
            got=str(parts[1]),
            remedy="Give the encoder that froze the epochs, or leave encoder out",
        )


def differing_parts(recorded: JsonValue, given: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    """Return the entries of two recipes that differ, those of each by name; an empty list if none does."""
    stored = recorded if isinstance(recorded, dict) else {}
    differing = sorted(name for name in {*stored, *given} if stored.get(name) != given.get(name))
    return [{name: side.get(name) for name in differing} for side in (stored, given)] if differing else []


def frozen_location(release: str, package: str) -> str:
    """Return where the frozen epochs of a package lie, relative to the root.

    ``package`` is its path there, whose last part is a digest of all that the package is made from.
    """
    return f"{FROZEN}/{release}-{package.rpartition('/')[2]}"


class FrozenEpochs:
    """Reader of frozen epochs; it keeps no file open, and its pickle is small.

    ``directory`` is the array store, or a published link to it, which is resolved once, here. Raises
    :class:`MissingResourceError` if there is no finished store, :class:`CorruptResourceError` if it does not hold
    frozen epochs.
    """

    def __init__(self, directory: Path) -> None:
        self._reader = ArrayStoreReader(directory, check=True)
        config, arrays = self._reader.fingerprint["config"], self._reader.arrays.keys()
        epochs = config.get("epochs") if isinstance(config, dict) else None
        expected = set(FROZEN_ROWS.columns) - _INDEX
        if not isinstance(config, dict) or not isinstance(epochs, int) or epochs < 1 or set(arrays) != expected:
            raise CorruptResourceError(
                str(directory),
                "holds no frozen epochs",
                expected=f"arrays {', '.join(sorted(expected))}",
                got=", ".join(sorted(arrays)),
                remedy="Name a store of tuples/frozen, or the root that contains it",
            )
        #: What :func:`frozen_config` states.
        self.config: Mapping[str, JsonValue] = config
        #: Number of epochs, from epoch 0 on, and visits of an epoch.
        self.n_epochs, self.n_visits = epochs, len(self._reader) // epochs

    @property
    def directory(self) -> Path:
        """Folder of the store."""
        return self._reader.directory

    def keys(self) -> list[str]:
        """Return the key of every row, ``epoch:visit``, in order."""
        return self._reader.keys()

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows of one array of ``FROZEN_ROWS`` without copying them."""
        return self._reader.get_slice(start, stop, name)

    def check_epoch(self, epoch: int) -> None:
        """Raise :class:`ConfigurationError` if an epoch was not frozen."""
        if epoch >= self.n_epochs:
            raise ConfigurationError(
                f"epoch {epoch}",
                f"is not frozen in {self.directory}",
                expected=f"0 to {self.n_epochs - 1}",
                got=f"{epoch}",
                remedy="Take epochs modulo n_epochs, or raise packages.frozen_epochs in the catalogue and materialise "
                "tuples/frozen",
            )

    def read(self, epoch: int, first: int, windows: PackedWindows) -> Thawed:
        """Return the tuples of the visits of an epoch from ``first`` on, whose windows the schedule gives.

        Rows that differ from their checksum, or are of other windows, raise CorruptResourceError.
        """
        self.check_epoch(epoch)
        start = epoch * self.n_visits + first
        stop = start + len(windows)
        rows = {name: self._reader.get_slice(start, stop, name) for name in self._reader.arrays}
        if rows["window_id"].tobytes() != windows.window_ids.tobytes():
            raise CorruptResourceError(
                str(self.directory),
                f"rows {start} to {stop - 1} are of other windows than epoch {epoch} visits from visit {first} on",
                remedy="Materialise tuples/frozen again with this version",
            )
        return Thawed.of(rows, windows)


def open_frozen(
    path: Path | str,
    info: PackageInfo,
    options: Mapping[str, JsonValue],
    encoder: Mapping[str, JsonValue] | None = None,
) -> FrozenEpochs:
    """Open the frozen epochs of a package; ``path`` is the folder of the array store, or the root that contains it.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        If there are none, or the store is damaged.
    ConfigurationError
        If they were frozen from another package, with other options or another encoder.
    """
    epochs = FrozenEpochs(Path(path)) if is_complete(Path(path)) else _find(Path(path), info)
    check_config(str(path), epochs.config, info, options, encoder)
    return epochs


def _find(root: Path, info: PackageInfo) -> FrozenEpochs:
    """Return the frozen epochs of a package in a root."""
    folder, refused = root / FROZEN, []
    with reading(root):
        found = list(links(folder)) if folder.is_dir() else []
    for link in found:
        if not link.name.startswith(f"{info.release}-"):
            continue
        try:
            epochs = FrozenEpochs(resolve_generation(link))
        except GenoLeWMError as err:
            refused.append(err)
            continue
        if epochs.config["package"] == package_digest(info):
            return epochs
    if refused:
        raise refused[0]
    raise MissingResourceError(
        str(root),
        f"holds no frozen epochs of this package of {info.release}",
        remedy="Set packages.frozen_epochs in the catalogue and materialise tuples/frozen of the release, or name the "
        "folder of a store that lewm.write_frozen wrote",
    )
