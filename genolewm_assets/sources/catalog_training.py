"""The catalogue's sections on training: which model encodes the windows, and what is held out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from genolewm_assets.sources.catalog_fields import FolderName, Section, Share

#: Model of a catalogue that names none: a tiny random one, written on first use (``encoders.tiny_llama``).
BUILT_IN_MODEL = "tiny-llama-random"


class EncoderSection(Section):
    """The causal language model whose states are cached.

    ``model`` is the built-in name, a folder in Hugging Face format (beginning with ``.``, ``/``, ``{root}``), or a hub
    id, which needs ``revision``. ``trusted_code`` repeats the model's name where its own code may run. On which device
    it runs is not part of the catalogue.
    """

    model: str = BUILT_IN_MODEL
    revision: str | None = None
    layer: int = -1
    block_tokens: Annotated[int, Field(gt=0)] = 64
    dtype: Literal["float16", "float32"] = "float16"
    trusted_code: str | None = None


class HoldoutsSection(Section):
    """What never reaches training; the fields are those of ``lewm.holdout_policy.HoldoutPolicy``.

    ``clinvar_genes`` names held-out genes; without it ``clinvar_gene_fraction`` of the gene components is chosen by
    hash, and an empty list holds out none. The temporal holdout of a release is against the one that its
    changes were counted against.
    """

    contigs_validation: Annotated[tuple[FolderName, ...], Field(strict=False)] = ("chr20",)
    contigs_test: Annotated[tuple[FolderName, ...], Field(strict=False)] = ("chr21",)
    clinvar_genes: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    clinvar_gene_fraction: Share = 0.2
    haplotype_fraction: Share = 0.02
    haplotype_max_blocks: Share = 0.5
    link_bp: Annotated[int, Field(ge=0)] = 1_000
    max_block_bp: Annotated[int, Field(gt=0)] = 10_000
    min_stars: Annotated[int, Field(ge=0, le=4)] = 1
    validation_windows: Annotated[int, Field(gt=0)] = 500
    seed: Annotated[int, Field(ge=0)] = 0


class PackagesSection(Section):
    """What a package's windows are drawn for.

    ``mix`` is the share of emitted tuples by corpus source; reference windows count to ``eukaryote_generator``. A
    package whose windows cannot realise it to two points is refused, unless ``mix_declared`` has its card say so.
    """

    mix: dict[str, Share] | None = None
    mix_declared: bool = False
