"""The catalogue's sections on training: which model encodes the windows, and what is held out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from genolewm_assets.lewm.holdouts import HoldoutPolicy
from genolewm_assets.lewm.states import BLOCK_TOKENS
from genolewm_assets.sources.catalog.fields import FolderName, PolicySection, Section, Share

#: Model of a catalogue that names none: a tiny random one, written on first use (``encoders.tiny_llama``).
BUILT_IN_MODEL = "tiny-llama-random"

_HOLDOUTS = HoldoutPolicy()


class EncoderSection(Section):
    """The causal language model whose states are cached.

    ``model`` is the built-in name, a folder in Hugging Face format (beginning with ``.``, ``/``, ``{root}``), or a hub
    id, which needs ``revision``. ``trusted_code`` repeats the model's name where its own code may run. On which device
    it runs is not part of the catalogue.
    """

    model: str = BUILT_IN_MODEL
    revision: str | None = None
    layer: int = -1
    block_tokens: Annotated[int, Field(gt=0)] = BLOCK_TOKENS
    dtype: Literal["float16", "float32"] = "float16"
    trusted_code: str | None = None


class HoldoutsSection(PolicySection):
    """What never reaches training; the fields are those of ``lewm.holdout_policy.HoldoutPolicy``.

    ``clinvar_genes`` names held-out genes; without it ``clinvar_gene_fraction`` of the gene components is chosen by
    hash, and an empty list holds out none. The temporal holdout of a release is against the one that its
    changes were counted against.
    """

    contigs_validation: Annotated[tuple[FolderName, ...], Field(strict=False)] = _HOLDOUTS.contigs_validation
    contigs_test: Annotated[tuple[FolderName, ...], Field(strict=False)] = _HOLDOUTS.contigs_test
    clinvar_genes: Annotated[tuple[str, ...], Field(strict=False)] | None = _HOLDOUTS.clinvar_genes
    clinvar_gene_fraction: Share = _HOLDOUTS.clinvar_gene_fraction
    haplotype_fraction: Share = _HOLDOUTS.haplotype_fraction
    haplotype_max_blocks: Share = _HOLDOUTS.haplotype_max_blocks
    link_bp: Annotated[int, Field(ge=0)] = _HOLDOUTS.link_bp
    max_block_bp: Annotated[int, Field(gt=0)] = _HOLDOUTS.max_block_bp
    min_stars: Annotated[int, Field(ge=0, le=4)] = _HOLDOUTS.min_stars
    validation_windows: Annotated[int, Field(gt=0)] = _HOLDOUTS.validation_windows
    seed: Annotated[int, Field(ge=0)] = _HOLDOUTS.seed

    @property
    def policy(self) -> HoldoutPolicy:
        """The policy without a temporal holdout."""
        return HoldoutPolicy(**dict(self))


class PackagesSection(Section):
    """What a package's windows are drawn for.

    ``mix`` is the share of emitted tuples by corpus source; reference windows count to ``eukaryote_generator``. A
    package whose windows cannot realise it to two points is refused, unless ``mix_declared`` has its card say so.
    """

    mix: dict[str, Share] | None = None
    mix_declared: bool = False
