"""The catalogue's section on mitochondrial genomes: where they are, which are fit, how they are divided."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from genolewm_assets.mito.genomes import DEFAULT_POLICY, GenomeQcPolicy, SplitPolicy
from genolewm_assets.sources.catalog.fields import FileMd5, PolicySection, Section, Share, Url, refusal

_SPLIT = SplitPolicy()


class MitoFile(Section):
    """One file; ``md5`` is its own, or ``published`` for the one in ``<url>.md5``."""

    url: Url
    md5: FileMd5 | None = None


class MitoCollection(MitoFile):
    """A collection of genomes; ``format`` where the name does not tell it."""

    format: Literal["fasta", "genbank"] | None = None


class MitoQc(PolicySection):
    """Which genomes are fit; the fields are those of ``mito.genome_qc.GenomeQcPolicy``."""

    min_length_bp: Annotated[int, Field(gt=0)] = DEFAULT_POLICY.min_length_bp
    max_length_bp: Annotated[int, Field(gt=0)] = DEFAULT_POLICY.max_length_bp
    max_n_fraction: Share = DEFAULT_POLICY.max_n_fraction
    max_ambiguous_fraction: Share = DEFAULT_POLICY.max_ambiguous_fraction
    min_junction_repeat_bp: Annotated[int, Field(gt=0)] = DEFAULT_POLICY.min_junction_repeat_bp

    @property
    def policy(self) -> GenomeQcPolicy:
        """The policy that the section states."""
        return GenomeQcPolicy(**dict(self))


class MitoSplit(PolicySection):
    """How genomes are divided; the fields are those of ``mito.genome_split.SplitPolicy``."""

    max_differences: Annotated[int, Field(ge=0)] = _SPLIT.max_differences
    validation: Share = _SPLIT.validation
    test: Share = _SPLIT.test
    by_haplogroup: bool = _SPLIT.by_haplogroup
    seed: Annotated[int, Field(ge=0)] = _SPLIT.seed

    @property
    def policy(self) -> SplitPolicy:
        """The policy that the section states."""
        return SplitPolicy(**dict(self))


class MitoSection(Section):
    """Mitochondrial genomes; without collections the assets of the track are declared empty.

    ``heteroplasmy`` are VCFs with FORMAT AF or HL, whose samples are named as the genomes are. ``k`` is the bases of a
    token; ``het_pool`` says how the levels of its bases become one.
    """

    genomes: Annotated[tuple[MitoCollection, ...], Field(strict=False)] = ()
    heteroplasmy: Annotated[tuple[MitoFile, ...], Field(strict=False)] = ()
    qc: MitoQc = MitoQc()
    split: MitoSplit = MitoSplit()
    k: Annotated[int, Field(ge=1, le=8)] = 6
    het_pool: Literal["mean", "start"] = "mean"

    @model_validator(mode="after")
    def _files_are_told_apart(self) -> MitoSection:
        # Tables say by its name which file a genome is from.
        seen: set[str] = set()
        for kind, files in (("genomes", self.genomes), ("heteroplasmy", self.heteroplasmy)):
            for index, file in enumerate(files):
                name = file.url.rstrip("/").rpartition("/")[2]
                if name in seen:
                    raise refusal("another file has this name", key=f"{kind}[{index}].url", got=repr(name))
                seen.add(name)
        return self
