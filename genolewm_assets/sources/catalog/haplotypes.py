"""Section of the catalogue for phased genotypes."""

from __future__ import annotations

from pydantic import Field

from genolewm_assets.sources.catalog.fields import FileMd5, FolderName, Section, Url


class HaplotypeSource(Section):
    """A VCF with the phased genotypes of one contig; ``md5: published`` reads the ``.md5`` file beside it."""

    url: Url
    release: FolderName
    md5: FileMd5 | None = None


class HaplotypesSection(Section):
    """Phased genotypes by contig; on a contig without a source, haplotype blocks are formed by distance alone."""

    sources: dict[str, HaplotypeSource] = Field(default_factory=dict)
