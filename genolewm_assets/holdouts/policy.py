"""Parameters of the holdouts, and the hash that divides held-out units into validation and test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import GRCH38, ContigSet, Split, draw_bits
from genolewm_assets.holdouts.temporal import TemporalRule
from genolewm_assets.store.files import JsonValue
from genolewm_assets.variants import is_before

#: Allowed absolute difference between the share of windows that haplotype blocks remove and ``haplotype_fraction``.
HAPLOTYPE_TOLERANCE = 0.003
#: Parameters that decide no side.
_NOT_DECIDING = frozenset(
    {"temporal", "temporal_rule", "min_stars", "validation_windows", "max_moved_fraction", "buffer"}
)


_SHARES = (
    "block_validation_fraction",
    "block_test_fraction",
    "clinvar_gene_fraction",
    "haplotype_fraction",
    "haplotype_max_blocks",
    "max_moved_fraction",
)


class Buffer(StrEnum):
    """Training windows that are removed although they meet no held-out interval.

    ``windows``, the default: those that share a base with an evaluation window of a holdout of intervals or with a
    held-out interval, the flanks of both included. ``none``: none; how many share bases is counted.
    """

    NONE = "none"
    WINDOWS = "windows"


@dataclass(frozen=True, slots=True)
class HoldoutPolicy:
    """Parameters of the holdouts.

    Parameters
    ----------
    contigs_validation, contigs_test
        Contigs held out as a whole, by any known name.
    block_bp
        Size of blocks that the other linear contigs are divided into, in bases; None: they are not divided.
    block_validation_fraction, block_test_fraction
        Share of the blocks that have windows, 0 to 1, held out for validation and for test; at least one block if it is
        above 0. Blocks of both never touch.
    clinvar_genes
        Genes to hold out, by symbol or NCBI GeneID, each with its whole gene component. None: choose
        ``clinvar_gene_fraction`` of the gene components by hash. Empty: hold out no gene.
    clinvar_gene_fraction
        Share of gene components to hold out, 0 to 1; used if ``clinvar_genes`` is None.
    haplotype_fraction
        Target share of all windows, 0 to 1, that held-out haplotype blocks exclude from training.
    haplotype_max_blocks
        Largest share of blocks, 0 to 1, that may be held out to reach ``haplotype_fraction``. The limit leaves common
        alleles in training where few windows have any.
    link_bp
        Common alleles whose positions differ by at most this many bases belong to one block.
    max_block_bp
        Largest length of a block, in bases; a longer one is cut.
    temporal
        (earlier, later) ClinVar release, T0 and T1; None: no temporal holdout.
    temporal_setting, temporal_rule
        The catalogue's ``holdouts.temporal`` as text, and the rule that gave T0 or none (``TemporalRule``).
    min_stars
        Smallest number of ClinVar review stars, 0 to 4, with which a labelled allele is used for evaluation.
    validation_windows
        Largest number of validation windows per holdout.
    seed
        Seed of every hash.
    max_moved_fraction
        Largest share, 0 to 1, of the alleles of two releases that may change their side, or their genes.
    buffer
        Value of :class:`Buffer`; packages apply it, the holdout tables do not depend on it.

    Raises
    ------
    ConfigurationError
        If a number is out of range, ``buffer`` is unknown, the releases are not in order, or a contig has both roles.
    """

    contigs_validation: tuple[str, ...] = ("chr20",)
    contigs_test: tuple[str, ...] = ("chr21",)
    block_bp: int | None = None
    block_validation_fraction: float = 0.1
    block_test_fraction: float = 0.1
    clinvar_genes: tuple[str, ...] | None = None
    clinvar_gene_fraction: float = 0.2
    haplotype_fraction: float = 0.02
    haplotype_max_blocks: float = 0.5
    link_bp: int = 1_000
    max_block_bp: int = 10_000
    temporal: tuple[str, str] | None = None
    temporal_setting: str = "off"
    temporal_rule: TemporalRule = TemporalRule.OFF
    min_stars: int = 1
    validation_windows: int = 500
    seed: int = 0
    max_moved_fraction: float = 0.02
    buffer: str = Buffer.WINDOWS

    def __post_init__(self) -> None:
        for name in _SHARES:
            _check_range(name, getattr(self, name), 0, 1)
        _check_range("block_bp", 1 if self.block_bp is None else self.block_bp, 1, None)
        _check_range("link_bp", self.link_bp, 0, None)
        _check_range("max_block_bp", self.max_block_bp, max(1, self.link_bp), None)
        _check_range("min_stars", self.min_stars, 0, 4)
        _check_range("validation_windows", self.validation_windows, 0, None)
        if self.buffer not in list(Buffer):
            expected = " or ".join(map(repr, map(str, Buffer)))
            raise ConfigurationError("holdouts.buffer", "unknown", expected=expected, got=repr(self.buffer))
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
                "holdouts.contigs", f"contig {both[0]!r} has both roles", remedy="Give it to validation or to test"
            )

    def canonical(self, contigs: ContigSet) -> HoldoutPolicy:
        """Return the policy with canonical names of contigs, those of the genome or, where it lacks one, of GRCh38."""
        return replace(
            self,
            contigs_validation=tuple(canonical_name(name, contigs) for name in self.contigs_validation),
            contigs_test=tuple(canonical_name(name, contigs) for name in self.contigs_test),
        )

    def contig_roles(self) -> dict[str, Split]:
        """Return the role, validation or test, of every contig that is held out as a whole."""
        roles = dict.fromkeys(self.contigs_validation, Split.VALIDATION)
        return roles | dict.fromkeys(self.contigs_test, Split.TEST)

    def draw(self, purpose: str, unit: str) -> int:
        """Return 64 random bits, 0 to 2**64 - 1, that depend on the seed and the arguments alone."""
        return draw_bits(purpose, self.seed, unit)

    def divide(self, units: Iterable[str]) -> dict[str, Split]:
        """Divide units into validation and test by the hash of each; return the role by id.

        If one role would be empty, the unit whose hash is nearest to the threshold moves to it. A single unit goes to
        validation, which is used to monitor training.
        """
        draws = {unit: self.draw("role", unit) for unit in sorted(set(units))}
        roles = {unit: Split.VALIDATION if bits >> 63 == 0 else Split.TEST for unit, bits in draws.items()}
        if draws and Split.VALIDATION not in roles.values():
            roles[min(draws, key=lambda unit: draws[unit])] = Split.VALIDATION
        elif len(draws) > 1 and Split.TEST not in roles.values():
            roles[max(draws, key=lambda unit: draws[unit])] = Split.TEST
        return roles

    def keeps_sides_of(self, recipe: object) -> bool:
        """Tell whether the sides of holdouts with the policy ``recipe`` hold under this one: nothing decides otherwise.

        The later release, the bounds and what is left out beside evaluation windows may differ; T0 may not.
        """
        mine = self.as_recipe()
        if not isinstance(recipe, Mapping):
            return False
        same = all(recipe.get(name) == value for name, value in mine.items() if name not in _NOT_DECIDING)
        starts = {each[0] for each in (mine["temporal"], recipe.get("temporal")) if isinstance(each, list)}
        return same and len(starts) < 2

    def as_recipe(self) -> dict[str, JsonValue]:
        """Return all parameters as JSON values, for the recipe of a build."""
        values = asdict(self) | {"buffer": str(self.buffer)}
        if self.block_bp is None:  # what no block has decides nothing
            values = {name: value for name, value in values.items() if not name.startswith("block_")}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def canonical_name(name: str, contigs: ContigSet) -> str:
    """Return the canonical name of a contig of the genome or, if the genome lacks it, of GRCh38."""
    return (contigs.find(name) or GRCH38.find(name) or contigs.resolve(name)).name


def _check_range(name: str, value: float, low: float, high: float | None) -> None:
    if value < low or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"{low} to {high}"
        raise ConfigurationError(f"holdouts.{name}", "value out of range", expected=expected, got=f"{value}")
