"""What a user decides about holdouts, and the hash that decides the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from genolewm_assets.errors import ConfigurationError, UnknownContigError
from genolewm_assets.genome import GRCH38, ContigSet, Split, draw_bits
from genolewm_assets.store.files import JsonValue
from genolewm_assets.variants import is_before

#: How far the share of windows that the haplotype blocks remove may lie from the policy's.
HAPLOTYPE_TOLERANCE = 0.003


@dataclass(frozen=True, slots=True)
class HoldoutPolicy:
    """What is held out.

    Parameters
    ----------
    contigs_validation, contigs_test
        Whole contigs, by any known name.
    clinvar_genes
        Genes held out, by symbol or NCBI GeneID, each with its whole component; None: ``clinvar_gene_fraction`` of the
        components by hash; empty: none.
    clinvar_gene_fraction
        Share of gene components, 0 to 1.
    haplotype_fraction
        Share of all windows, 0 to 1, that held-out blocks take out of training.
    haplotype_max_blocks
        Largest share of blocks, 0 to 1, taken to reach it: where few windows have common alleles, training keeps some.
    link_bp
        Common alleles at most this far apart belong to one block, in bases.
    max_block_bp
        A block is cut before it gets longer, in bases.
    temporal
        (earlier, later) ClinVar release; None: no temporal holdout.
    min_stars
        Review stars that a label needs to be measured on.
    validation_windows
        Most windows per holdout that validation uses.
    seed
        Of every hash.

    Raises
    ------
    ConfigurationError
        If a number is impossible, the releases are not in order, or a contig is in both roles.
    """

    contigs_validation: tuple[str, ...] = ("chr20",)
    contigs_test: tuple[str, ...] = ("chr21",)
    clinvar_genes: tuple[str, ...] | None = None
    clinvar_gene_fraction: float = 0.2
    haplotype_fraction: float = 0.02
    haplotype_max_blocks: float = 0.5
    link_bp: int = 1_000
    max_block_bp: int = 10_000
    temporal: tuple[str, str] | None = None
    min_stars: int = 1
    validation_windows: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("clinvar_gene_fraction", "haplotype_fraction", "haplotype_max_blocks"):
            _check_range(name, getattr(self, name), 0, 1)
        _check_range("link_bp", self.link_bp, 0, None)
        _check_range("max_block_bp", self.max_block_bp, max(1, self.link_bp), None)
        _check_range("min_stars", self.min_stars, 0, 4)
        _check_range("validation_windows", self.validation_windows, 0, None)
        if self.temporal is not None and not is_before(*self.temporal):
            raise ConfigurationError(
                "holdouts.temporal",
                "releases are not in order",
                expected="an earlier and a later release",
                got=f"{self.temporal[0]!r}, {self.temporal[1]!r}",
            )
        both = sorted(set(self.contigs_validation) & set(self.contigs_test))
        if both:
            raise ConfigurationError(
                "holdouts.contigs", f"contig {both[0]!r} is in both roles", remedy="Give it to validation or to test"
            )

    def canonical(self, contigs: ContigSet) -> HoldoutPolicy:
        """Return the policy with the canonical names of its contigs; one that the genome lacks gets GRCh38's name.

        Raises
        ------
        UnknownContigError
            If a name belongs to no contig of either.
        """
        return replace(
            self,
            contigs_validation=tuple(canonical_name(name, contigs) for name in self.contigs_validation),
            contigs_test=tuple(canonical_name(name, contigs) for name in self.contigs_test),
        )

    def contig_roles(self) -> dict[str, Split]:
        """Return the role of every contig that is held out as a whole."""
        roles = dict.fromkeys(self.contigs_validation, Split.VALIDATION)
        return roles | dict.fromkeys(self.contigs_test, Split.TEST)

    def draw(self, purpose: str, unit: str) -> int:
        """Return 64 random bits that depend on the seed and the arguments alone."""
        return draw_bits(purpose, self.seed, unit)

    def divide(self, units: Iterable[str]) -> dict[str, Split]:
        """Divide units into validation and test, by hash of each alone.

        Notes
        -----
        Where chance leaves a side empty, one unit moves over: the one nearest to the border. A single unit serves
        validation, since that is what training is watched with.
        """
        draws = {unit: self.draw("role", unit) for unit in sorted(set(units))}
        roles = {unit: Split.VALIDATION if bits >> 63 == 0 else Split.TEST for unit, bits in draws.items()}
        if draws and Split.VALIDATION not in roles.values():
            roles[min(draws, key=lambda unit: draws[unit])] = Split.VALIDATION
        elif len(draws) > 1 and Split.TEST not in roles.values():
            roles[max(draws, key=lambda unit: draws[unit])] = Split.TEST
        return roles

    def as_recipe(self) -> dict[str, JsonValue]:
        """Return everything the holdouts depend on, as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def canonical_name(name: str, contigs: ContigSet) -> str:
    """Return the canonical name of a contig of the genome or, where the genome lacks it, of GRCh38.

    Raises
    ------
    UnknownContigError
        With the nearest spellings of the genome.
    """
    try:
        return contigs.resolve(name).name
    except UnknownContigError as err:
        try:
            return GRCH38.resolve(name).name
        except UnknownContigError:
            raise err from None


def _check_range(name: str, value: float, low: float, high: float | None) -> None:
    if value < low or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"{low} to {high}"
        raise ConfigurationError(f"holdouts.{name}", "impossible value", expected=expected, got=f"{value}")
