"""Section of the catalogue for mitochondrial genomes: files, quality control, and the division into splits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from genolewm_assets.mito.genomes import DEFAULT_POLICY, GenomeQcPolicy, SplitPolicy
from genolewm_assets.sources.catalog.fields import FileMd5, PolicySection, Section, Share, Url, refusal

_SPLIT = SplitPolicy()


class MitoFile(Section):
    """One VCF whose samples have the names of genomes."""

    #: URL or path of the file.
    url: Url
    #: MD5 of the file, or ``published`` if ``<url>.md5`` states it.
    md5: FileMd5 | None = None


class MitoCollection(MitoFile):
    """A file with a collection of genomes."""

    #: Its format, if the name does not show it.
    format: Literal["fasta", "genbank"] | None = None


class MitoQc(PolicySection):
    """Which genomes are accepted.

    The fields are those of :class:`~genolewm_assets.mito.genomes.GenomeQcPolicy`.
    """

    min_length_bp: Annotated[int, Field(gt=0)] = DEFAULT_POLICY.min_length_bp
    max_length_bp: Annotated[int, Field(gt=0)] = DEFAULT_POLICY.max_length_bp
    max_n_fraction: Share = DEFAULT_POLICY.max_n_fraction
    max_ambiguous_fraction: Share = DEFAULT_POLICY.max_ambiguous_fraction
    min_junction_repeat_bp: Annotated[int, Field(gt=0)] = DEFAULT_POLICY.min_junction_repeat_bp

    @property
    def policy(self) -> GenomeQcPolicy:
        """The settings of the section as a policy."""
        return GenomeQcPolicy(**dict(self))


class MitoSplit(PolicySection):
    """Division of genomes into splits.

    The fields are those of :class:`~genolewm_assets.mito.genomes.SplitPolicy`.
    """

    max_differences: Annotated[int, Field(ge=0)] = _SPLIT.max_differences
    validation: Share = _SPLIT.validation
    test: Share = _SPLIT.test
    by_haplogroup: bool = _SPLIT.by_haplogroup
    seed: Annotated[int, Field(ge=0)] = _SPLIT.seed

    @property
    def policy(self) -> SplitPolicy:
        """The settings of the section as a policy."""
        return SplitPolicy(**dict(self))


class MitoSection(Section):
    """Mitochondrial genomes; without collections the mitochondrial assets are published empty."""

    #: FASTA or GenBank files of genomes.
    genomes: Annotated[tuple[MitoCollection, ...], Field(strict=False)] = ()
    #: VCFs with FORMAT AF or HL, whose samples have the names of genomes.
    heteroplasmy: Annotated[tuple[MitoFile, ...], Field(strict=False)] = ()
    #: Which genomes are accepted.
    qc: MitoQc = MitoQc()
    #: How genomes are divided into splits.
    split: MitoSplit = MitoSplit()
    #: Bases of a token.
    k: Annotated[int, Field(ge=1, le=8)] = 6
    #: How the heteroplasmy levels of a token's bases become one: their mean, or that of the first base.
    het_pool: Literal["mean", "start"] = "mean"

    @model_validator(mode="after")
    def _files_are_told_apart(self) -> MitoSection:
        # Tables identify the file of a genome by the file name alone.
        seen: set[str] = set()
        for kind, files in (("genomes", self.genomes), ("heteroplasmy", self.heteroplasmy)):
            for index, file in enumerate(files):
                name = file.url.rstrip("/").rpartition("/")[2]
                if name in seen:
                    raise refusal("another file has this name", key=f"{kind}[{index}].url", got=repr(name))
                seen.add(name)
        return self
