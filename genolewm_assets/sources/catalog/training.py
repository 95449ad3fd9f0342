"""Sections of the catalogue for training: encoder, holdouts and packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.holdouts import HoldoutPolicy, TemporalSetting
from genolewm_assets.hub import COMMIT
from genolewm_assets.packages import EDIT_SHARES, MAX_VISITS, NOT_STATED, POSSIBLE, PackageMix, Shares, window_shares
from genolewm_assets.sources.catalog.fields import FolderName, PolicySection, Section, Share, refusal
from genolewm_assets.states import BLOCK_TOKENS
from genolewm_assets.variants import ReleaseKey

#: Hub id by the name that a catalogue may give instead.
MODEL_PRESETS: Mapping[str, str] = {"carbon-500m": "HuggingFaceBio/Carbon-500M"}

#: What the authors of a model say that it was pretrained on, by hub id.
_PRETRAINING: Mapping[str, str] = {
    MODEL_PRESETS["carbon-500m"]: "a corpus that holds the human genome, held-out contigs included"
}
_HOLDOUTS = HoldoutPolicy()

#: Largest accepted age of T0 in months: a century.
_MAX_MONTHS = 1_200


def _parse_temporal(value: object) -> TemporalSetting:
    """Parse ``off``, a release key or ``{months: N}``; YAML reads an unquoted ``off`` as false."""
    if isinstance(value, TemporalSetting):
        return value
    if value is False or value == "off":
        return TemporalSetting()
    if isinstance(value, dict) and set(value) == {"months"}:
        months = value["months"]
        if type(months) is not int or not 1 <= months <= _MAX_MONTHS:
            raise refusal("not an age", key="months", expected=f"1 to {_MAX_MONTHS:,} months", got=repr(months))
        return TemporalSetting(months=months)
    try:
        if isinstance(value, str):
            return TemporalSetting(release=str(ReleaseKey.parse(value)))
    except GenoLeWMError:
        pass
    expected = "off, a release such as 2024-01-07, or {months: 12}"
    raise refusal("not a temporal holdout", expected=expected, got=repr(value))


def _as_yaml(setting: TemporalSetting) -> object:
    """Return a setting as the catalogue writes it."""
    return str(setting) if setting.months is None else {"months": setting.months}


Temporal: TypeAlias = Annotated[TemporalSetting, PlainValidator(_parse_temporal), PlainSerializer(_as_yaml)]


class EncoderSection(Section):
    """The DNA language model whose states are cached; without a model every asset but states and packages is built.

    ``encoder: off`` in place of the section builds packages without states.
    """

    #: A folder in Hugging Face format (beginning with ``.``, ``/`` or ``{root}``), a hub id or the preset
    #: ``carbon-500m``, which need ``revision``, or ``tiny-llama-random``, a tiny model of random weights for tests.
    model: str | None = None
    #: Commit of the model on the hub.
    revision: str | None = None
    #: Hidden state that is stored, counted as ``transformers`` does; -1: the last one.
    layer: int = -1
    #: 6-mers of a block, over which states are averaged.
    block_tokens: Annotated[int, Field(gt=0)] = BLOCK_TOKENS
    #: Precision of the stored states.
    dtype: Literal["float16", "float32"] = "float16"
    #: Precision of the forward pass; a cache whose states ``bfloat16`` rounds too much is refused
    #: (``precision_sufficient``).
    compute: Literal["float32", "bfloat16"] = "float32"
    #: If the model's own code may run: the value of ``model`` again.
    trusted_code: str | None = None
    #: What the model was pretrained on, for the card of packages.
    pretrained_on: Annotated[str | None, Field(min_length=1, max_length=300, pattern=r"^[^|\r\n]+$")] = None

    @property
    def pretraining(self) -> str:
        """What the model was pretrained on, for the card of a package; ``not stated`` where nobody says."""
        return self.pretrained_on or _PRETRAINING.get(self.source or "", NOT_STATED)

    @property
    def source(self) -> str | None:
        """``model`` with a preset replaced by its hub id; None if no model is named."""
        return None if self.model is None else MODEL_PRESETS.get(self.model, self.model)

    @property
    def trusted_source(self) -> str | None:
        """``trusted_code`` with a preset replaced by its hub id."""
        return None if self.trusted_code is None else MODEL_PRESETS.get(self.trusted_code, self.trusted_code)

    @property
    def is_folder(self) -> bool:
        """Whether the model is a folder of this machine, and not a hub id."""
        return self.source is not None and self.source.startswith((".", "/", "{root}"))

    @property
    def settings(self) -> dict[str, Any]:
        """What identifies the states besides the model, as arguments of ``encoders.read_identity``."""
        return {**self.model_dump(exclude={"model", "pretrained_on"}), "trusted_code": self.trusted_source}

    @property
    def summary(self) -> str:
        """The model with its settings, in one line."""
        if self.source is None:
            return "none named: embeddings and packages are refused (`encoder: off` builds packages without states)"
        revision = f" at {self.revision}" if self.revision else ""
        code = "may run" if self.trusted_code else "does not run"
        precision = f"computed in {self.compute}, stored in {self.dtype}"
        return f"{self.source}{revision}, layer {self.layer}, {precision}; its own code {code}"

    @model_validator(mode="after")
    def _preset_is_pinned(self) -> EncoderSection:
        if self.model in MODEL_PRESETS and not COMMIT.fullmatch(self.revision or ""):
            raise refusal(
                f"{self.model} needs the commit of {self.source}",
                key="revision",
                expected="40 hexadecimal digits",
                got=repr(self.revision),
                remedy=f"Copy the commit hash from https://huggingface.co/{self.source}/commits/main",
            )
        return self


class HoldoutsSection(PolicySection):
    """What is held out of training.

    The fields are those of :class:`~genolewm_assets.holdouts.HoldoutPolicy`.
    """

    contigs_validation: Annotated[tuple[FolderName, ...], Field(strict=False)] = _HOLDOUTS.contigs_validation
    contigs_test: Annotated[tuple[FolderName, ...], Field(strict=False)] = _HOLDOUTS.contigs_test
    block_bp: Annotated[int, Field(gt=0)] | None = _HOLDOUTS.block_bp
    block_validation_fraction: Share = _HOLDOUTS.block_validation_fraction
    block_test_fraction: Share = _HOLDOUTS.block_test_fraction
    clinvar_genes: Annotated[tuple[str, ...], Field(strict=False)] | None = _HOLDOUTS.clinvar_genes
    clinvar_gene_fraction: Share = _HOLDOUTS.clinvar_gene_fraction
    haplotype_fraction: Share = _HOLDOUTS.haplotype_fraction
    haplotype_max_blocks: Share = _HOLDOUTS.haplotype_max_blocks
    link_bp: Annotated[int, Field(ge=0)] = _HOLDOUTS.link_bp
    max_block_bp: Annotated[int, Field(gt=0)] = _HOLDOUTS.max_block_bp
    #: T0 of the temporal holdout: ``off``, a release, or ``{months: N}``, the newest release at least N months older
    #: than the package's, which the root keeps until ``genolewm holdouts t0`` or a changed ``temporal`` moves it.
    temporal: Temporal = TemporalSetting(months=12)
    min_stars: Annotated[int, Field(ge=0, le=4)] = _HOLDOUTS.min_stars
    validation_windows: Annotated[int, Field(gt=0)] = _HOLDOUTS.validation_windows
    seed: Annotated[int, Field(ge=0)] = _HOLDOUTS.seed
    #: Largest share of the alleles of two releases that may change their side, or their genes; a release in which more
    #: would is refused.
    max_moved_fraction: Share = _HOLDOUTS.max_moved_fraction
    #: ``windows``: every window that shares a base, flanks included, with an evaluation window of a holdout of
    #: intervals or with a held-out interval leaves training; ``none``: they are only counted.
    buffer: Literal["none", "windows"] = "windows"

    @property
    def policy(self) -> HoldoutPolicy:
        """The policy without T0, which depends on the release."""
        fields = {name: value for name, value in self if name != "temporal"}
        return HoldoutPolicy(**fields, temporal_setting=str(self.temporal))


class EditShares(Section):
    """Share of tuples by source of the edit, 0 to 1; they add up to 1."""

    #: Common alleles.
    gnomad: Share = EDIT_SHARES["gnomad"]
    #: Random changes of one base.
    synthetic_snv: Share = EDIT_SHARES["synthetic_snv"]
    #: Random insertions and deletions.
    synthetic_indel: Share = EDIT_SHARES["synthetic_indel"]
    #: Alleles labelled P or LP.
    clinvar: Share = EDIT_SHARES["clinvar"]


class DeclaredMix(Section):
    """Shares that a package serves where it cannot serve the wanted ones; those of each group add up to 1."""

    #: Share by corpus source and ``reference``; not given: the wanted ones.
    windows: dict[str, Share] | None = None
    #: Share by source of the edit; not given: the wanted ones.
    edits: EditShares | None = None


#: Kinds of fault that an audit looks for; those of ``genolewm_assets.audit.LeakKind``.
AuditedKind: TypeAlias = Literal[
    "held_interval",
    "false_place",
    "held_record",
    "held_sequence",
    "held_allele",
    "recreated_allele",
    "false_edit",
    "duplicate",
    "shared_evaluation",
    "wrong_label",
    "late_label",
    "few_stars",
    "wrong_context",
    "unshown_allele",
    "wrong_mix",
    "state_mismatch",
]


class EvaluationSection(Section):
    """What ``packages/evaluation`` trains its probes on."""

    #: Training tuples, and most tuples that are scored of each holdout.
    tuples: Annotated[int, Field(ge=100)]


class PackagesSection(PolicySection):
    """The mix of a package: which windows and edits an epoch of training serves, and how it is audited."""

    #: Share of tuples by corpus source and ``reference``; not given: eukaryote_generator 0.5, mrna_evo2 0.25,
    #: mrna_splice_evo2 0.1, prokaryote_evo2 0.15.
    mix: dict[str, Share] | None = None
    #: What reference windows take of the share of ``eukaryote_generator``, if ``mix`` does not name ``reference``; not
    #: given: 0.9.
    reference_share: Share | None = None
    #: Share of tuples by source of the edit.
    edits: EditShares = EditShares()
    #: A package whose epoch is planned with a share that differs by more than two percentage points is refused
    #: (``mix_served``), unless its shares are stated here; ``true`` accepts those that windows and alleles make
    #: possible.
    mix_declared: bool | DeclaredMix = False
    #: Accept a package whose training has no gnomAD, or no P or LP ClinVar, allele although the sources have some.
    without_alleles: bool = False
    #: Most visits of one window in an epoch.
    max_visits: Annotated[int, Field(gt=0)] = MAX_VISITS
    #: Fewest review stars of a ClinVar allele of training; no star and none stated are the same.
    min_training_stars: Annotated[int, Field(ge=0, le=4)] = 0
    #: Labels that training knows: those of the package's release (``newest``) or of T0.
    knowledge: Literal["newest", "T0"] = "newest"
    #: Least number of training tuples that ``packages/audit`` draws; it draws on until each piece of windows was drawn.
    audit_tuples: Annotated[int, Field(gt=0)] = 1_000_000
    #: Leaks of each kind that the audit plants in a part of the package, to see how many it finds.
    audit_planted: Annotated[int, Field(gt=0)] = 20
    #: Kinds of search that the audit may not be able to make whole, such as ``held_sequence`` with a part of a genome;
    #: otherwise such an audit fails.
    audit_may_lack: list[AuditedKind] = Field(default_factory=list)
    #: Epochs of training that ``tuples/frozen`` stores; 0 turns that asset off.
    frozen_epochs: Annotated[int, Field(ge=0, le=1_000)] = 0
    #: Turns ``packages/evaluation`` on, which needs an encoder.
    evaluation: EvaluationSection | None = None

    @property
    def policy(self) -> PackageMix:
        """The mix of a package."""
        wanted = Shares(window_shares(self.mix, self.reference_share), dict(self.edits))
        if isinstance(self.mix_declared, bool):
            declared = POSSIBLE if self.mix_declared else None
            return PackageMix(wanted, declared, self.max_visits, self.min_training_stars)
        given = self.mix_declared
        windows = wanted.windows if given.windows is None else window_shares(given.windows, self.reference_share)
        shares = Shares(windows, dict(given.edits or self.edits))
        return PackageMix(wanted, shares, self.max_visits, self.min_training_stars)


def check_asked(
    holdouts: HoldoutsSection,
    packages: PackagesSection,
    encoder: EncoderSection | None,
    releases: Sequence[str] | None,
) -> None:
    """Refuse a T0 that is not among the releases, knowledge at T0 where there is none, evaluation without states."""
    if packages.evaluation is not None and encoder is None:
        raise refusal(
            "an evaluation needs states, and the encoder is off",
            key="packages.evaluation",
            expected="no such key",
            got=f"{{tuples: {packages.evaluation.tuples}}}",
            remedy="Leave it out, or name an encoder",
        )
    named = holdouts.temporal.release
    if named is not None and releases is not None and named not in releases:
        raise refusal(
            "release is not in 'clinvar.releases'",
            key="holdouts.temporal",
            expected=f"one of {', '.join(releases)}",
            got=repr(named),
        )
    if packages.knowledge == "T0" and str(holdouts.temporal) == "off":
        raise refusal(
            "there is no T0, because holdouts.temporal is off",
            key="packages.knowledge",
            expected="'newest'",
            got="'T0'",
            remedy="Name T0 in holdouts.temporal, or leave knowledge out",
        )
