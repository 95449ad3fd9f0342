"""Section of the catalogue for the pretraining corpus: its files, the share used, and the tiling."""

from __future__ import annotations

import difflib
from typing import Annotated

from pydantic import Field, model_validator

from genolewm_assets.genome import WindowProfile
from genolewm_assets.hub import HUB_SCHEME, HubFiles
from genolewm_assets.sources.catalog.fields import CorpusUrl, Section, Share, TermsSection, refusal
from genolewm_assets.windows.corpus import CorpusParams, CorpusSource

#: Names of the configurations of the corpus.
CORPUS_SOURCES = tuple(source.value for source in CorpusSource)

_CORPUS = CorpusParams()


class CorpusSourceEntry(Section):
    """The Parquet files of one source of the corpus."""

    #: A Parquet file, a folder of them or a pattern with ``*`` or ``**``; or files of a data set of the Hugging Face
    #: hub, ``hf://datasets/OWNER/NAME@COMMIT/PATH``, which the hub's client downloads into its cache.
    url: CorpusUrl
    #: Use, and download, only the first N files in sorted order.
    files: Annotated[int, Field(ge=1)] | None = None
    #: Commit or tag that local copies are of; in a hub URL, the commit after ``@`` is.
    revision: Annotated[str, Field(min_length=1)] | None = None

    @property
    def hub(self) -> HubFiles | None:
        """The files as files of the hub; None if the URL is none of the hub."""
        return HubFiles.parse(self.url) if self.url.startswith(HUB_SCHEME) else None

    @property
    def pinned(self) -> dict[str, str]:
        """The commit or tag that the files are of as ``revision``, for recipes; empty if none is known."""
        revision = self.revision if self.hub is None else self.hub.repository.commit
        return {} if revision is None else {"revision": revision}

    @model_validator(mode="after")
    def _revision_is_that_of_the_url(self) -> CorpusSourceEntry:
        if self.revision not in (None, self.pinned.get("revision")):
            expected = f"{self.pinned['revision']!r}, as in url, or no revision"
            raise refusal("differs from the commit in url", key="revision", expected=expected, got=repr(self.revision))
        return self


class CorpusSection(TermsSection):
    """The pretraining corpus: files, share of records, and tiling; a source that is not listed has no partition."""

    #: Share of the records that is used, chosen by hash of their ids with ``seed``.
    slice_fraction: Annotated[float, Field(gt=0, le=1)] = _CORPUS.slice_fraction
    #: Seed of that choice.
    seed: Annotated[int, Field(ge=0)] = _CORPUS.seed
    #: Whether a sequence too short for the window profile gives one shorter window.
    short_windows: bool = _CORPUS.short_windows
    #: Largest share of the rows of a source that may be at fault; they are counted and left out.
    max_faulty_fraction: Share = 0.01
    #: A source of more records is divided into pieces, which are built one by one; at least 32, so that none is empty.
    records_per_piece: Annotated[int, Field(ge=32)] = 65_536
    #: Files of ``eukaryote_generator``, ``mrna_evo2``, ``mrna_splice_evo2`` and ``prokaryote_evo2``, each by its name.
    sources: dict[str, CorpusSourceEntry] = Field(default_factory=dict)

    def params(self, profile: WindowProfile) -> CorpusParams:
        """Return the parameters of corpus windows of a profile."""
        others = {*TermsSection.model_fields, "sources", "max_faulty_fraction", "records_per_piece"}
        return CorpusParams(profile, **self.model_dump(exclude=others))

    @model_validator(mode="after")
    def _sources_are_known(self) -> CorpusSection:
        for name in self.sources:
            if name not in CORPUS_SOURCES:
                near = difflib.get_close_matches(name, CORPUS_SOURCES, 1)
                expected = repr(near[0]) if near else f"one of {', '.join(CORPUS_SOURCES)}"
                raise refusal("unknown corpus source", key=f"sources.{name}", expected=expected, got=repr(name))
        return self
