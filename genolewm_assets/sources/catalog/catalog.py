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
    Keys,
    Md5,
    Release,
    Section,
    Share,
    TermsSection,
    Url,
    catalog_error,
    refusal,
)
from genolewm_assets.sources.catalog.forensic import ForensicSection
from genolewm_assets.sources.catalog.mito import MitoSection
from genolewm_assets.sources.catalog.strict_yaml import read_yaml
from genolewm_assets.sources.catalog.training import EncoderSection, HoldoutsSection, PackagesSection, check_asked
from genolewm_assets.sources.files import SCHEME
from genolewm_assets.variants import MAX_REF_MISMATCH_FRACTION, MIN_AF, MIN_AN_FRACTION, in_order, is_before


class HaplotypeSource(Section):
    """A VCF with the phased genotypes of one contig; ``md5: published`` reads the ``.md5`` file beside it."""

    url: Url
    release: FolderName
    md5: FileMd5 | None = None


class HaplotypesSection(TermsSection):
    """Phased genotypes by contig; on a contig without a source, haplotype blocks are formed by distance alone."""

    sources: dict[str, HaplotypeSource] = Field(default_factory=dict)


#: Folder of the catalogues that ship with the package.
BUILT_IN_FOLDER = Path(__file__).resolve().parents[2] / "catalogs"


class ContigEntry(Section):
    """One contig of the genome; ``aliases`` are added to the usual ones (``21``, ``MT``) and accessions of GRCh38."""

    name: FolderName
    length: Annotated[int, Field(gt=0)]
    md5: Md5
    circular: bool = False
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

    segmental_duplication: Url | None = None
    excluded_region: Url | None = None
    repeat: Url | None = None

    @property
    def urls(self) -> dict[str, str]:
        """Tracks of the catalogue: name to URL; tracks that are not given are left out."""
        return {name: url for name in STRATA if (url := getattr(self, name)) is not None}


class GenomeSection(TermsSection):
    """The reference genome: one FASTA, pinned by the MD5 of each contig and, if ``md5`` is given, of the file."""

    name: FolderName
    fasta: Url
    md5: FileMd5 | None = None
    contigs: Annotated[tuple[ContigEntry, ...], Field(strict=False, min_length=1)]
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

    profile: FolderName = "default"
    window_bp: int | None = None
    stride_bp: int | None = None
    margin_bp: int | None = None
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


class GnomadSource(Section):
    """The gnomAD VCF of one contig; ``md5`` is the MD5 of the file, or ``published`` if ``<url>.md5`` states it.

    ``accept_unfiltered`` keeps records whose FILTER is ``.``. ``joint_rescue`` keeps alleles of joint files that fail
    the filters of one data type only, with the frequencies of the other.

    ``read`` says how a remote file is read. ``download`` stores it first. ``stream`` scans it once as it passes, checks
    its ``md5`` and stores nothing; an interrupted scan goes on where it was. The file must be BGZF. ``ranges`` reads
    only the contig's part of an indexed file, of which no ``md5`` can be checked.
    """

    url: Url
    release: FolderName
    md5: FileMd5 | None = None
    read: Literal["download", "stream", "ranges"] = "download"
    accept_unfiltered: bool = False
    joint_rescue: bool = False

    @model_validator(mode="after")
    def _check_md5_can_be_checked(self) -> GnomadSource:
        if self.read == "ranges" and self.md5 is not None:
            raise refusal(
                "md5 is given for a file that is read in ranges",
                expected="read: download or stream, or no md5",
                got="read: ranges",
                remedy="The MD5 of the whole file cannot be checked when only ranges are read",
            )
        return self


class GnomadSection(TermsSection):
    """Rules for common variants, and the source of each contig; a contig without a source gets an empty shard."""

    min_af: Share = MIN_AF
    min_an_fraction: Share = MIN_AN_FRACTION
    max_ref_mismatch_fraction: Share = MAX_REF_MISMATCH_FRACTION
    sources: dict[str, GnomadSource] = Field(default_factory=dict)


class FreshnessSection(Section):
    """Age in days of the newest release built beyond which the check ``newest_release_built`` warns, or is an error."""

    warn_days: Annotated[float, Field(gt=0, le=36_525)] = 35
    fail_days: Annotated[float, Field(gt=0, le=36_525)] = 45

    @model_validator(mode="after")
    def _warning_comes_first(self) -> FreshnessSection:
        if self.warn_days >= self.fail_days:
            expected = f"less than fail_days ({self.fail_days:g})"
            raise refusal(
                "warning is not before failure", key="warn_days", expected=expected, got=f"{self.warn_days:g}"
            )
        return self


class ClinvarSection(TermsSection):
    """The listing of ClinVar releases, and which releases are used.

    ``releases`` lists the releases to use, ``packaged`` the releases that get a package; the default of both is all.
    ``begin: newest`` begins a root with the newest release on offer: only this one and later ones are used.
    ``predecessors`` maps a release to the release it is compared with; by default that is the newest earlier release
    published when the changes are first computed. The listing is read every ``listing_interval_s`` seconds.
    ``freshness: off`` is for a listing of fixed, old releases: their age is not judged.
    """

    listing: Url
    listing_interval_s: Annotated[int, Field(ge=5)] = 3600
    freshness: Annotated[FreshnessSection | None, OFF] = FreshnessSection()
    begin: Literal["all", "newest"] = "all"
    releases: Keys | None = None
    packaged: Keys | None = None
    predecessors: dict[Release, Release] = Field(default_factory=dict)
    max_ref_mismatch_fraction: Share = MAX_REF_MISMATCH_FRACTION

    @property
    def newest_first(self) -> bool:
        """Whether releases older than the first one that the root used are left out."""
        return self.begin == "newest"

    @model_validator(mode="after")
    def _keys_agree(self) -> ClinvarSection:
        if self.newest_first and self.releases is not None:
            raise refusal("the releases are listed", key="begin", expected="no clinvar.releases", got="'newest'")
        for later, earlier in self.predecessors.items():
            if not is_before(earlier, later):
                raise refusal(
                    "predecessor is not earlier", key=f"predecessors.{later}", expected=f"before {later}", got=earlier
                )
        named = {"packaged": self.packaged or (), "predecessors": (*self.predecessors, *self.predecessors.values())}
        for name, keys in named.items():
            unknown = in_order(set(keys) - set(self.releases or keys))
            if unknown:
                expected = f"one of {', '.join(self.releases or ())}"
                raise refusal("release is not in 'releases'", key=name, expected=expected, got=repr(unknown[0]))
        return self


class Catalog(Section):
    """A validated catalogue; URLs are kept as written, so that recipes do not depend on the catalogue's folder."""

    name: FolderName
    base: Url = "."
    generator: Literal["sample"] | None = None
    genome: GenomeSection
    windows: WindowsSection = WindowsSection()
    gnomad: GnomadSection = GnomadSection()
    clinvar: ClinvarSection
    haplotypes: HaplotypesSection = HaplotypesSection()
    corpus: CorpusSection = CorpusSection()
    encoder: Annotated[EncoderSection | None, OFF] = EncoderSection()
    holdouts: HoldoutsSection = HoldoutsSection()
    packages: PackagesSection = PackagesSection()
    mito: MitoSection = MitoSection()
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
