"""Catalogues: YAML files that name the genome, its contigs and every source of a data set.

Dagster definitions read a catalogue at import, so this module imports neither pysam nor fsspec. An invalid catalogue
raises one :class:`CatalogError` with the file and the path of the key: ``grch38.yaml (genome.contigs[3].md5)``.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from genolewm_assets.errors import CatalogError, GenoLeWMError
from genolewm_assets.genome import PROFILES, Contig, ContigSet, WindowProfile, genome_digest, known_aliases
from genolewm_assets.packages import STRATA
from genolewm_assets.sources.catalog.corpus import CorpusSection
from genolewm_assets.sources.catalog.fields import (
    FOLDER_NAME,
    OFF,
    FileMd5,
    FolderName,
    Md5,
    Section,
    TermsSection,
    Url,
    catalog_error,
    refusal,
)
from genolewm_assets.sources.catalog.forensic import ForensicSection
from genolewm_assets.sources.catalog.mito import MitoSection
from genolewm_assets.sources.catalog.strict_yaml import read_yaml
from genolewm_assets.sources.catalog.training import EncoderSection, HoldoutsSection, PackagesSection, check_asked
from genolewm_assets.sources.catalog.variants import ClinvarSection, GnomadSection, HaplotypesSection
from genolewm_assets.sources.files import SCHEME

#: Folder of the catalogues that ship with the package.
BUILT_IN_FOLDER = Path(__file__).resolve().parents[2] / "catalogs"


class ContigEntry(Section):
    """One contig of the genome."""

    #: Canonical name, such as ``chr21``.
    name: FolderName
    #: Number of bases.
    length: Annotated[int, Field(gt=0)]
    #: MD5 of the upper-case sequence.
    md5: Md5
    #: Whether it is a circle, as chrM.
    circular: bool = False
    #: Names besides the usual ones (``21``, ``MT``) and the accessions of GRCh38.
    aliases: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @cached_property
    def contig(self) -> Contig:
        """The contig with all its aliases."""
        aliases = dict.fromkeys((*known_aliases(self.name, self.length), *self.aliases))
        return Contig(
            self.name,
            self.length,
            circular=self.circular,
            md5=self.md5,
            aliases=tuple(alias for alias in aliases if alias != self.name),
        )


class Tracks(TermsSection):
    """BED files; the share of each window that a file covers becomes a column of the window index."""

    #: BED file of segmental duplications.
    segmental_duplication: Url | None = None
    #: BED file of regions that analyses exclude.
    excluded_region: Url | None = None
    #: BED file of repeats.
    repeat: Url | None = None

    @property
    def urls(self) -> dict[str, str]:
        """Tracks of the catalogue: name to URL; tracks that are not given are left out."""
        return {name: url for name in STRATA if (url := getattr(self, name)) is not None}


class GenomeSection(TermsSection):
    """The reference genome: one FASTA, pinned by the MD5 of each contig and, if ``md5`` is given, of the file."""

    #: Name of the assembly, such as ``GRCh38``.
    name: FolderName
    #: URL or path of the FASTA.
    fasta: Url
    #: MD5 of the file, or ``published`` if ``<fasta>.md5`` states it.
    md5: FileMd5 | None = None
    #: The contigs that are used, in their order.
    contigs: Annotated[tuple[ContigEntry, ...], Field(strict=False, min_length=1)]
    #: BED files of properties of the genome.
    tracks: Tracks = Tracks()

    @model_validator(mode="after")
    def _names_are_unambiguous(self) -> GenomeSection:
        seen: dict[str, int] = {}
        for index, entry in enumerate(self.contigs):
            if entry.name in seen:
                first = f"genome.contigs[{seen[entry.name]}]"
                raise refusal("duplicate contig", key=f"contigs[{index}].name", got=f"{entry.name!r}, also {first}")
            seen[entry.name] = index
        try:
            ContigSet([entry.contig for entry in self.contigs])
        except GenoLeWMError as error:
            problem = f"{error.where}: {error.problem}"
            raise refusal(problem, key="contigs", expected=error.expected, got=error.got) from error
        return self


class WindowsSection(Section):
    """The tiling: the name of a built-in profile, or a new name with ``window_bp`` and ``stride_bp``."""

    #: Name of a built-in profile (``default``: 12,288 bp windows every 8,192 bp), or a new name.
    profile: FolderName = "default"
    #: Bases of a window.
    window_bp: int | None = None
    #: Bases from the start of one window to that of the next.
    stride_bp: int | None = None
    #: Known bases that lie before and after every window; indels use them as flanks.
    margin_bp: int | None = None
    #: Add a window at the end of a run of known bases that the stride does not reach.
    cover_tails: bool | None = None

    @cached_property
    def window_profile(self) -> WindowProfile:
        """The window profile of this section."""
        built_in = PROFILES.get(self.profile)
        stated = {name: value for name, value in self if name != "profile" and value is not None}
        if built_in is not None:
            if any(getattr(built_in, name) != value for name, value in stated.items()):
                raise refusal(
                    "numbers differ from those of the built-in profile",
                    expected=str(built_in),
                    got=str(stated),
                    remedy="Give the profile another name",
                )
            return built_in
        if self.window_bp is None or self.stride_bp is None:
            raise refusal(
                "no built-in profile has this name",
                expected=f"one of {', '.join(PROFILES)}, or window_bp and stride_bp beside the name",
                got=repr(self.profile),
            )
        usual = PROFILES["default"]
        return WindowProfile(
            self.profile,
            window_bp=self.window_bp,
            stride_bp=self.stride_bp,
            margin_bp=usual.margin_bp if self.margin_bp is None else self.margin_bp,
            cover_tails=usual.cover_tails if self.cover_tails is None else self.cover_tails,
        )

    @model_validator(mode="after")
    def _profile_is_possible(self) -> WindowsSection:
        try:
            _ = self.window_profile
        except GenoLeWMError as error:
            raise refusal(error.problem, expected=error.expected, got=error.got, remedy=error.remedy) from error
        return self


class Catalog(Section):
    """A validated catalogue; URLs are kept as written, so that recipes do not depend on the catalogue's folder."""

    #: Name of the catalogue, which a root keeps for good.
    name: FolderName
    #: Folder or URL that relative paths start at, itself relative to the catalogue's folder; ``{root}`` is the root.
    base: Url = "."
    #: ``sample``: the files named are simulated into the root before anything is built.
    generator: Literal["sample"] | None = None
    #: The reference genome.
    genome: GenomeSection
    #: How contigs are cut into windows.
    windows: WindowsSection = WindowsSection()
    #: Common variants.
    gnomad: GnomadSection = GnomadSection()
    #: Clinical variants, release by release.
    clinvar: ClinvarSection
    #: Phased genotypes.
    haplotypes: HaplotypesSection = HaplotypesSection()
    #: The pretraining corpus.
    corpus: CorpusSection = CorpusSection()
    #: The model whose states are cached; ``off``: packages without states.
    encoder: Annotated[EncoderSection | None, OFF] = EncoderSection()
    #: What training must not see.
    holdouts: HoldoutsSection = HoldoutsSection()
    #: The mix of a package, and its audit.
    packages: PackagesSection = PackagesSection()
    #: Mitochondrial genomes.
    mito: MitoSection = MitoSection()
    #: Run folders of instrument files.
    forensic: ForensicSection = ForensicSection()

    _file: Path = PrivateAttr(default=Path("catalog.yaml"))

    @property
    def file(self) -> Path:
        """The YAML file, absolute."""
        return self._file

    @cached_property
    def contigs(self) -> ContigSet:
        """The contigs in the catalogue's order."""
        return ContigSet([entry.contig for entry in self.genome.contigs])

    @cached_property
    def genome_digest(self) -> str:
        """Hexadecimal SHA-256 over the names, lengths and MD5s of the contigs."""
        return genome_digest(self.contigs)

    @property
    def window_profile(self) -> WindowProfile:
        """The window profile that contigs are tiled with."""
        return self.windows.window_profile

    def resolve_url(self, url: str, *, root: Path) -> str:
        """Return the URL, or the absolute path, that a URL of this catalogue stands for.

        A relative path is joined to ``base``, and a relative ``base`` to the folder of the catalogue file; ``root``
        replaces ``{root}``.
        """
        place, base = (text.replace("{root}", str(root.absolute())) for text in (url, self.base))
        if SCHEME.match(place):
            return place
        if SCHEME.match(base) and not place.startswith("/"):
            return f"{base.rstrip('/')}/{place.removeprefix('./')}"
        return os.path.normpath(self._file.parent / base / place)

    @model_validator(mode="after")
    def _sections_agree(self) -> Catalog:
        named = [("gnomad", contig) for contig in self.gnomad.sources]
        for section, contig in [*named, *(("haplotypes", contig) for contig in self.haplotypes.sources)]:
            if contig not in self.contigs:
                meant = self.contigs.find(contig)
                expected = repr(meant.name) if meant else f"one of {', '.join(self.contigs.names)}"
                raise refusal(
                    "source of a contig that the genome does not have",
                    key=f"{section}.sources.{contig}",
                    expected=expected,
                    got=repr(contig),
                )
        for contig in self.haplotypes.sources:
            if self.contigs[contig].circular:
                raise refusal(
                    "phased genotypes of a circular contig",
                    key=f"haplotypes.sources.{contig}",
                    expected="a linear contig",
                    got=repr(contig),
                )
        check_asked(self.holdouts, self.packages, self.encoder, self.clinvar.releases)
        profile, block_bp = self.window_profile, self.holdouts.block_bp
        if block_bp is not None and block_bp < (least := profile.window_bp + 2 * profile.margin_bp):
            raise refusal(
                "a window would reach over a block",
                key="holdouts.block_bp",
                expected=f"at least {least:,} bp",
                got=f"{block_bp:,} bp",
            )
        longest = max((entry.length for entry in self.genome.contigs if not entry.circular), default=None)
        if longest is not None and profile.window_bp + 2 * profile.margin_bp > longest:
            raise refusal(
                "no linear contig holds a window and its margins",
                key="windows.window_bp",
                expected=f"at most {longest - 2 * profile.margin_bp:,} bp",
                got=f"{profile.window_bp:,} bp",
            )
        return self


def built_in_catalogs() -> tuple[str, ...]:
    """Return the names of the catalogues that ship with the package, sorted."""
    return tuple(sorted(file.stem for file in BUILT_IN_FOLDER.glob("*.yaml")))


def load_catalog(name_or_path: str | Path) -> Catalog:
    """Read and validate a built-in catalogue (``sample``, ``grch38``), or a YAML file.

    Raises
    ------
    CatalogError
        If the catalogue does not exist or is invalid; the message names the file, the path of the first invalid key and
        the expected value.
    """
    file = _catalog_file(name_or_path)
    data = read_yaml(file)
    try:
        catalog = Catalog.model_validate(data)
    except ValidationError as error:
        raise catalog_error(file, error.errors(include_url=False)) from None
    catalog._file = file
    return catalog


def _catalog_file(name_or_path: str | Path) -> Path:
    built_in = BUILT_IN_FOLDER / f"{name_or_path}.yaml"
    if isinstance(name_or_path, str) and FOLDER_NAME.fullmatch(name_or_path) and built_in.is_file():
        return built_in
    file = Path(name_or_path).absolute()
    if not file.is_file():
        raise CatalogError(
            str(name_or_path),
            "no such catalogue",
            expected=f"a built-in name ({', '.join(built_in_catalogs())}) or a YAML file",
            got="a folder" if file.is_dir() else "no such path",
        )
    return file
