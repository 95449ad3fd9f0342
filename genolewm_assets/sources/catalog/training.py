"""Sections of the catalogue for training: encoder, holdouts and packages."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from genolewm_assets.lewm.holdouts import HoldoutPolicy
from genolewm_assets.lewm.states import BLOCK_TOKENS
from genolewm_assets.sources.catalog.fields import FolderName, PolicySection, Section, Share

#: Default model: a tiny Llama with random weights, written on first use (``encoders.tiny_llama``).
BUILT_IN_MODEL = "tiny-llama-random"

_HOLDOUTS = HoldoutPolicy()


class EncoderSection(Section):
    """The causal language model whose states are cached.

    ``model`` is the built-in name, a folder in Hugging Face format (beginning with ``.``, ``/`` or ``{root}``), or a
    hub id, which needs ``revision``. If the model's own code may run, ``trusted_code`` repeats the value of ``model``.
    The device is not part of the catalogue.
    """

    model: str = BUILT_IN_MODEL
    revision: str | None = None
    layer: int = -1
    block_tokens: Annotated[int, Field(gt=0)] = BLOCK_TOKENS
    dtype: Literal["float16", "float32"] = "float16"
    trusted_code: str | None = None


class HoldoutsSection(PolicySection):
    """What is held out of training; the fields are those of :class:`~genolewm_assets.lewm.holdouts.HoldoutPolicy`.

    ``clinvar_genes`` names held-out genes; an empty list holds out none. If it is missing, ``clinvar_gene_fraction`` of
    the gene components is chosen by hash. The temporal holdout of a release compares it with the predecessor of its
    ``clinvar/changes``.
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
    """The mix of corpus sources in a package.

    ``mix`` is the share of emitted tuples by corpus source, 0 to 1; reference windows count as ``eukaryote_generator``.
    A package whose windows cannot realise the mix to within two percentage points is refused; with ``mix_declared`` it
    is accepted and its card states the deviation.
    """

    mix: dict[str, Share] | None = None
    mix_declared: bool = False
