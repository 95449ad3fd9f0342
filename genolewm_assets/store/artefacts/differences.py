"""Differences, in plain words, between what a build of now would read and what a published artefact was built from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from genolewm_assets.store.artefacts.manifest import InputRef, Manifest
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.files import JsonValue

#: Hex digits by which messages name a manifest, as many as the name of a generation has.
_SHOWN_DIGITS = 12
_ABSENT = "nothing"


def find_differences(wanted: Manifest, found: Manifest) -> Iterator[str]:
    """Yield each difference of asset, partition, code version, recipe, inputs, and failed checks; empty if current."""
    if (wanted.asset, wanted.partition) != (found.asset, found.partition):
        yield f"artefact: {found.where} is published, not {wanted.where}"
    if wanted.code_version != found.code_version:
        yield f"code version: built by {found.code_version}, now {wanted.code_version}"
    yield from _recipe_differences("recipe", wanted.recipe, found.recipe)
    yield from _input_differences(wanted.inputs, found.inputs)
    if found.failed_checks:
        yield f"checks: published with failed checks {', '.join(found.failed_checks)}"


def _recipe_differences(key: str, wanted: JsonValue, found: JsonValue) -> Iterator[str]:
    """Yield the differences of two JSON values; 1, 1.0 and true are different, as they are in a manifest."""
    if _as_text(wanted) == _as_text(found):
        return
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for name in sorted({*wanted, *found}):
            if name not in wanted or name not in found:
                now, then = (_as_text(each[name]) if name in each else _ABSENT for each in (wanted, found))
                yield f"{key} {name}: built from {then}, now {now}"
            else:
                yield from _recipe_differences(f"{key} {name}", wanted[name], found[name])
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (now, then) in enumerate(zip(wanted, found, strict=True)):
            yield from _recipe_differences(f"{key} {index}", now, then)
    else:
        yield f"{key}: built from {_as_text(found)}, now {_as_text(wanted)}"


def _as_text(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _input_differences(wanted: tuple[InputRef, ...], found: tuple[InputRef, ...]) -> Iterator[str]:
    now, then = _digests(wanted), _digests(found)
    for name in sorted({*now, *then}):
        if name not in now:
            yield f"input {name}: was read, would not be read now"
        elif name not in then:
            yield f"input {name}: was not read, would be read now"
        elif now[name] != then[name]:
            yield f"input {name}: built from manifest {_shown(then[name])}, now {_shown(now[name])}"


def _digests(inputs: tuple[InputRef, ...]) -> dict[str, list[str]]:
    """Return the sorted manifest digests of each input; an input that is listed twice has two."""
    digests: dict[str, list[str]] = {}
    for each in inputs:
        digests.setdefault(str(ArtefactId(each.asset, each.partition)), []).append(each.manifest_sha256)
    return {name: sorted(values) for name, values in digests.items()}


def _shown(digests: list[str]) -> str:
    return ", ".join(digest[:_SHOWN_DIGITS] for digest in digests)
