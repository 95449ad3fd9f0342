"""A finding about a place that a catalogue names, and the examinations that make findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from genolewm_assets.errors import CatalogError, ConfigurationError, GenoLeWMError
from genolewm_assets.sources.catalog import InvalidCatalogError

#: What an examination yields: a fault as an error, and as text what was not looked at.
Answers: TypeAlias = Iterator[GenoLeWMError | str]

_KEY = re.compile(r" \(([^()]*)\)$")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes
    ----------
    place
        Key of the catalogue, such as ``gnomad.sources.chr21.url``.
    text
        What is wrong, or what was not looked at.
    exit_code
        Exit code of a build that meets the fault; 0 if the finding is no fault.
    """

    place: str
    text: str
    exit_code: int = 0

    @property
    def is_fault(self) -> bool:
        """Whether a build would fail or compare less than the catalogue asks for."""
        return self.exit_code != 0

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Examination:
    """One place of a catalogue and how it is looked at.

    Attributes
    ----------
    place, url
        Key of the catalogue, and the URL or path as the catalogue writes it.
    look
        Takes the resolved URL or path, yields faults and notes; an error that it raises is a fault too.
    """

    place: str
    url: str
    look: Callable[[str], Answers]

    def run(self, url: str) -> list[Finding]:
        """Return the findings about the resolved URL or path."""
        found: list[Finding] = []
        try:
            found.extend(
                _fault(self.place, answer) if isinstance(answer, GenoLeWMError) else Finding(self.place, answer)
                for answer in self.look(url)
            )
        except GenoLeWMError as error:
            found.append(_fault(self.place, error))
        return found


def invalid_keys(error: CatalogError) -> list[Finding]:
    """Return one finding for each invalid key of a catalogue that cannot be loaded."""
    return contradictions(error.faults if isinstance(error, InvalidCatalogError) else [error])


def contradictions(errors: Iterable[ConfigurationError]) -> list[Finding]:
    """Return errors about keys of a catalogue as findings; the place is the key that each names."""
    return [_fault(match[1] if (match := _KEY.search(error.where)) else error.where, error) for error in errors]


def _fault(place: str, error: GenoLeWMError) -> Finding:
    where = f"{error.where}: " if error.where == place or error.where.endswith(f"({place})") else ""
    return Finding(place, str(error).removeprefix(where), error.exit_code)
