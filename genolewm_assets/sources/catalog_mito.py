"""The catalogue's section on mitochondrial genomes: where they are, which are fit, how they are divided."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from genolewm_assets.sources.catalog_fields import FileMd5, Section, Share, Url, refusal


class MitoFile(Section):
    """One file; ``md5`` is its own, or ``published`` for the one in ``<url>.md5``."""

    url: Url
    md5: FileMd5 | None = None


class MitoCollection(MitoFile):
    """A collection of genomes; ``format`` where the name does not tell it."""

    format: Literal["fasta", "genbank"] | None = None


class MitoQc(Section):
    """Which genomes are fit; the fields are those of ``mito.genome_qc.GenomeQcPolicy``."""

    min_length_bp: Annotated[int, Field(gt=0)] = 15_400
    max_length_bp: Annotated[int, Field(gt=0)] = 17_700
    max_n_fraction: Share = 0.01
    max_ambiguous_fraction: Share = 0.01
    min_junction_repeat_bp: Annotated[int, Field(gt=0)] = 20

    @model_validator(mode="after")
    def _lengths_are_possible(self) -> MitoQc:
        if self.min_length_bp > self.max_length_bp:
            expected = f"at most max_length_bp ({self.max_length_bp})"
            raise refusal("no length is allowed", key="min_length_bp", expected=expected, got=f"{self.min_length_bp}")
        return self


class MitoSplit(Section):
    """How genomes are divided; the fields are those of ``mito.genome_split.SplitPolicy``."""

    max_differences: Annotated[int, Field(ge=0)] = 10
    validation: Share = 0.1
    test: Share = 0.1
    by_haplogroup: bool = True
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _something_is_left(self) -> MitoSplit:
        if (taken := self.validation + self.test) >= 1:
            raise refusal(
                "leaves nothing for training", key="validation", expected="with test under 1", got=f"{taken:g}"
            )
        return self


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
