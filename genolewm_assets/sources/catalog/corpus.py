"""The catalogue's section on the pretraining corpus: where it is, which share is used, how it becomes windows."""

from __future__ import annotations

import difflib
from typing import Annotated

from pydantic import Field, model_validator

from genolewm_assets.genome import WindowProfile
from genolewm_assets.lewm.corpus import CorpusParams, CorpusSource
from genolewm_assets.sources.catalog.fields import Section, Url, refusal

CORPUS_SOURCES = tuple(source.value for source in CorpusSource)

_CORPUS = CorpusParams()


class CorpusSourceEntry(Section):
    """One configuration of the pretraining corpus: a Parquet file, a folder of them, or a pattern with ``*``."""

    url: Url


class CorpusSection(Section):
    """The pretraining corpus: which share of its records, and how they become windows.

    ``slice_fraction`` of the records are taken by hash of their ids with ``seed``; ``short_windows`` gives a sequence
    too short for the window profile one shorter window. A source left out has no partition.
    """

    slice_fraction: Annotated[float, Field(gt=0, le=1)] = _CORPUS.slice_fraction
    seed: Annotated[int, Field(ge=0)] = _CORPUS.seed
    short_windows: bool = _CORPUS.short_windows
    sources: dict[str, CorpusSourceEntry] = Field(default_factory=dict)

    def params(self, profile: WindowProfile) -> CorpusParams:
        """Return how the corpus becomes windows of a profile."""
        return CorpusParams(profile, **self.model_dump(exclude={"sources"}))

    @model_validator(mode="after")
    def _sources_are_known(self) -> CorpusSection:
        for name in self.sources:
            if name not in CORPUS_SOURCES:
                near = difflib.get_close_matches(name, CORPUS_SOURCES, 1)
                expected = repr(near[0]) if near else f"one of {', '.join(CORPUS_SOURCES)}"
                raise refusal("unknown corpus source", key=f"sources.{name}", expected=expected, got=repr(name))
        return self
