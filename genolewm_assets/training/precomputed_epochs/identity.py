"""What identifies frozen epochs: package, options of the stream, encoder and number of epochs.

Not here: the identity of an encoder (``encoders``), keys of any array store (``store.arrays``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.packages import PackageInfo
from genolewm_assets.store.files import JsonValue, normal_json

#: Version of the rows and of the random numbers; a store of another version is refused.
ROWS_VERSION: Final = 2


def package_digest(info: PackageInfo) -> str:
    """Return the SHA-256 of ``package.json``, which holds the digest of every file and the key of every cache."""
    return hashlib.sha256(info.to_bytes()).hexdigest()


def frozen_config(
    info: PackageInfo, options: Mapping[str, JsonValue], encoder: Mapping[str, JsonValue], *, epochs: int
) -> dict[str, JsonValue]:
    """Return the configuration of frozen epochs, from which the key of their array store is made.

    Parameters
    ----------
    info
        Content of the package's ``package.json``.
    options
        Options of the stream that tuples depend on, by the names of ``training.StreamOptions``. The number of
        windows per batch is not among them: rows are the same for all.
    encoder
        Identity of the encoder as a recipe.
    epochs
        Number of epochs, from epoch 0 on.
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
    """Raise unless frozen epochs are those that a stream of a package would give.

    ``info``, ``options``, ``encoder``: as for :func:`frozen_config`; without an encoder that of the store is accepted:
    a package that refers to caches names it by their keys.
    """
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
    if encoder is not None:
        _check_encoder(where, config["encoder"], normal_json(encoder, where))


def _check_encoder(where: str, frozen: JsonValue, given: Mapping[str, JsonValue]) -> None:
    cached = frozen if isinstance(frozen, dict) else {}
    differing = sorted(name for name in {*cached, *given} if cached.get(name) != given.get(name))
    if differing:
        expected, got = ({name: side.get(name) for name in differing} for side in (cached, given))
        raise ConfigurationError(
            f"{where}: encoder",
            "the states are of another encoder",
            expected=str(expected),
            got=str(got),
            remedy="Give the encoder that froze the epochs, or leave encoder out",
        )
