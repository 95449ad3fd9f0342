"""Quantities of the API, such as ``500m`` and ``64Gi``, as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

Amounts: TypeAlias = dict[str, Fraction]

_UNITS = {"": Fraction(1), "m": Fraction(1, 1000), "k": Fraction(1000), "M": Fraction(10**6), "G": Fraction(10**9)} | {
    f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGT", 1)
}


def amounts(quantities: Mapping[str, str]) -> Amounts:
    """Return quantities as numbers."""
    return {name: _number(text) for name, text in quantities.items()}


def requested(pod_spec: Mapping[str, object]) -> Amounts:
    """Return what the containers of a pod ask for together; of a resource without a request, its limit."""
    total: Amounts = {}
    containers = pod_spec["containers"]
    assert isinstance(containers, list)
    for container in containers:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, amount in amounts(asked).items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def _number(text: str) -> Fraction:
    found = re.fullmatch(r"([0-9.]+)([mkMG]|[KMGT]i)?", str(text))
    assert found is not None, text
    return Fraction(found[1]) * _UNITS[found[2] or ""]
