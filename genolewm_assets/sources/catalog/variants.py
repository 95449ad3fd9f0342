"""Sections of the catalogue for variants: gnomAD, ClinVar and phased genotypes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from genolewm_assets.sources.catalog.fields import (
    OFF,
    FileMd5,
    FolderName,
    Keys,
    Release,
    Section,
    Share,
    TermsSection,
    Url,
    refusal,
)
from genolewm_assets.variants import MAX_REF_MISMATCH_FRACTION, MIN_AF, MIN_AN_FRACTION, in_order, is_before


class GnomadSource(Section):
    """The gnomAD VCF of one contig."""

    #: URL or path of the VCF.
    url: Url
    #: gnomAD release, such as ``4.1``; a header that says otherwise is refused.
    release: FolderName
    #: MD5 of the file, or ``published`` if ``<url>.md5`` states it.
    md5: FileMd5 | None = None
    #: How a remote file is read. ``download`` stores it first. ``stream`` scans it once as it passes, checks its MD5
    #: and stores nothing; an interrupted scan goes on where it was; the file must be BGZF. ``ranges`` reads only the
    #: contig's part of an indexed file, of which no ``md5`` can be checked. The shard is the same either way.
    read: Literal["download", "stream", "ranges"] = "download"
    #: Keep records whose FILTER is ``.``.
    accept_unfiltered: bool = False
    #: Keep alleles of joint files that fail the filters of one data type only, with the frequencies of the other.
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

    #: Least allele frequency of an allele that is kept; on chrM every site is.
    min_af: Share = MIN_AF
    #: Least allele number, as a share of the largest one of the contig.
    min_an_fraction: Share = MIN_AN_FRACTION
    #: Largest share of the records whose REF may differ from the genome.
    max_ref_mismatch_fraction: Share = MAX_REF_MISMATCH_FRACTION
    #: One VCF for each contig, by the contig's name.
    sources: dict[str, GnomadSource] = Field(default_factory=dict)


class FreshnessSection(Section):
    """Age in days of the newest release built beyond which the check ``newest_release_built`` warns, or is an error."""

    #: Age at which the check warns.
    warn_days: Annotated[float, Field(gt=0, le=36_525)] = 35
    #: Age at which the check is an error.
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
    """The listing of ClinVar releases, and which releases are used."""

    #: Folder or page that names the VCFs of the releases.
    listing: Url
    #: Seconds between two looks at the listing.
    listing_interval_s: Annotated[int, Field(ge=5)] = 3600
    #: Greatest age of the newest release; ``off``, for a listing of fixed, old releases: it is not judged.
    freshness: Annotated[FreshnessSection | None, OFF] = FreshnessSection()
    #: ``newest``: begin the root with the newest release on offer; only this one and later ones are used.
    begin: Literal["all", "newest"] = "all"
    #: Releases to use; none named: all of the listing.
    releases: Keys | None = None
    #: Releases that get a package; none named: all that are used.
    packaged: Keys | None = None
    #: Release to the one that it is compared with; otherwise that is the newest earlier release published when the
    #: changes are first computed.
    predecessors: dict[Release, Release] = Field(default_factory=dict)
    #: Largest share of the records whose REF may differ from the genome.
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


class HaplotypeSource(Section):
    """A VCF with the phased genotypes (``GT``) of one linear contig."""

    #: URL or path of the VCF.
    url: Url
    #: Name of its release.
    release: FolderName
    #: MD5 of the file, or ``published`` if ``<url>.md5`` states it.
    md5: FileMd5 | None = None


class HaplotypesSection(TermsSection):
    """Phased genotypes by contig; on a contig without a source, haplotype blocks are formed by distance alone."""

    #: One VCF for each contig, by the contig's name.
    sources: dict[str, HaplotypeSource] = Field(default_factory=dict)
