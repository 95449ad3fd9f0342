"""Canonical JSON: equal values give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from genolewm_assets.errors import ConfigurationError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


def canonical_json(value: object, where: str) -> bytes:
    """Serialise a value as canonical JSON: sorted keys, UTF-8, indent 2, a final newline.

    Raises
    ------
    ConfigurationError
        If a value has no JSON form, a key is not text, or a number is not finite.
    """
    try:
        _check_keys(value)
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=2)
        return f"{text}\n".encode()
    except (TypeError, ValueError, RecursionError) as err:
        raise ConfigurationError(
            where, f"cannot be written as JSON ({err})", remedy="Use finite numbers, text, lists and dicts only"
        ) from err


def normal_json(value: Mapping[str, JsonValue], where: str) -> dict[str, JsonValue]:
    """Return a deep copy with the types that reading the JSON back gives; raises as :func:`canonical_json`."""
    copied: dict[str, JsonValue] = json.loads(canonical_json(dict(value), where))
    return copied


def _check_keys(value: object) -> None:
    # json.dumps would convert the keys 1, None and True to text without an error.
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is not text")
            _check_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_keys(inner)
