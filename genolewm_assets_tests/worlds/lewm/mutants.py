"""Mistakes of filters, as an audit sees them; another filter that would hide one is off too, and the name says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from genolewm_assets.audit import LeakKind

Patch: TypeAlias = pytest.MonkeyPatch
Mutate: TypeAlias = Callable[[Patch], None]

HOLDOUTS, BUILD = "genolewm_assets.holdouts", "genolewm_assets.package_build"
#: Tuples that are drawn where the stream leaks.
STREAM_TUPLES = 3_000


@dataclass(frozen=True)
class Mutant:
    """A mistake of a filter.

    Attributes
    ----------
    name
        What is mistaken, and which other filter is off.
    mutate
        Makes the mistake.
    kind, finds
        Kind of leak, and part of what names the leak.
    similarity
        Whether windows are compared with held-out sequence.
    others_off
        Switches other filters off, for the mutant and its control.
    told
        Whether the mistake changes what the package says is held out: the audit is given the tables of the control.
    """

    name: str
    mutate: Mutate
    kind: LeakKind
    finds: str
    similarity: bool = True
    others_off: Mutate | None = None
    told: bool = False

    @property
    def least_tuples(self) -> int:
        return STREAM_TUPLES if self.kind is LeakKind.RECREATED_ALLELE else 0


def exchange(target: str, value: object) -> Mutate:
    """Return what exchanges a name of a module or class; ``target`` is its whole path."""
    return lambda patch: patch.setattr(target, value)


def all_of(*parts: Mutate) -> Mutate:
    def mutate(patch: Patch) -> None:
        for part in parts:
            part(patch)

    return mutate


def nothing(*_: object, **__: object) -> Iterator[Any]:
    return iter(())
