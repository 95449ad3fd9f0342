"""What a package says of itself, once for its card and for ``croissant.json``. Not here: numbers (``card``)."""

from __future__ import annotations

from genolewm_assets.genome import Holdout
from genolewm_assets.packages import NO_ASSERTION, NOT_STATED, PRETRAINED_ON, PackageInfo

SUMMARY = (
    "Windows of the reference genome and of a pretraining corpus with their sequences, the normalised alleles that "
    "edits are drawn from, and the holdouts that training never sees."
)
COORDINATES = "Coordinates: `start`, `end` are 0-based half-open, `pos` is 1-based as in VCF."
UNMASKED = "The other rows may be held out: never train on a whole table."
LICENSES = (
    f"The package is under the licences of its sources, all of them; {NO_ASSERTION} means that the catalogue states "
    "none. When the sources were read is not in these files, so that equal inputs give equal bytes: releases and "
    "digests say what was read, and `provenance.json` when the package was built."
)

DEFINITIONS = {
    Holdout.CHR: "whole contigs, or blocks of them",
    Holdout.CLINVAR: "gene components: all their alleles, of any class and source, and every window that meets one",
    Holdout.HAPLOTYPES: "blocks of neighbouring common alleles, with every window that meets one; no edit is single",
    Holdout.TEMPORAL: "alleles without a P, LP, B or LB label at T0 that have one, with enough review stars, at the "
    "package's release; alleles, not windows, leave training",
}

_LIMITS = (
    "What the encoder whose states a predictor learns from was itself pretrained on: {pretrained_on}. These holdouts "
    "bound what the predictor has seen, not what the encoder has; `genolewm audit DIR --encoder MODEL --membership "
    "200` measures whether an encoder finds held-out windows easier than training windows like them.",
    "`validation` is for watching training; `test` has its own files and its own digest, and is for the final figure.",
    "Flagged windows touch a segmental duplication or an excluded region of the reference: report results on them "
    "apart (columns `segmental_duplication`, `excluded_region`; null where the catalogue has no such track).",
    "Indels change the 6-mer frame of everything behind them, which moves a causal encoder's states by itself. The "
    "re-framed windows under `controls/` are unedited and moved by 1 to 5 bp: what that alone does.",
)
_COLLECTION = (
    "Nothing was collected from people for this package: it is computed from the published files under Sources. "
    "Windows tile the reference genome and records of the corpus, alleles are records of gnomAD and ClinVar in normal "
    "form, and what the holdouts name is taken out of training and counted.",
)
_BIASES = (
    "The reference is one assembly of few donors, and the windows and their edits are written on it.",
    "gnomAD alleles are common ones, and common among those whom gnomAD sampled: groups that it has few of are "
    "represented less well.",
    "ClinVar labels are submitted, more for genes that laboratories test and people who are tested, and a label may "
    "be wrong: `stars` says how far it was reviewed.",
    "Shares of origins and of edits are chosen (tables above), not those of nature.",
)
_PERSONAL = (
    "No name, phenotype or genotype of a person. Alleles have frequencies over a population, or labels of "
    "submissions. `holdouts/haplotypes.parquet` lists, without samples, which alleles occur together in held-out "
    "blocks and on how many haplotypes of the phased source: one with a single carrier is of one person.",
    "Forensic profiles and heteroplasmy of samples are other assets, and never part of a package.",
)
_USES = (
    "Training and evaluation of models that predict what an edit does to the representation of a DNA window.",
    "Not for diagnosis, and not for identifying people: labels and scores are for research.",
)
_MAINTENANCE = (
    "A package is immutable. A later ClinVar release or a corrected source makes another one beside it; holdouts of "
    "earlier packages of a root stay held out.",
)


def title(info: PackageInfo) -> str:
    """Return the title of a package."""
    return f"Windows and alleles for genomic world models, ClinVar {info.release}"


def statements(info: PackageInfo) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return triples: property of the Responsible-AI vocabulary of Croissant, headline of the card, sentences."""
    known = info.sources.get(PRETRAINED_ON, NOT_STATED)
    limits = tuple(text.replace("{pretrained_on}", known) for text in _LIMITS)
    return (
        ("dataLimitations", "Limits", limits),
        ("dataUseCases", "Uses", _USES),
        ("dataCollection", "Collection", _COLLECTION),
        ("dataBiases", "Biases", _BIASES),
        ("personalSensitiveInformation", "Personal information", _PERSONAL),
        ("dataReleaseMaintenancePlan", "Maintenance", _MAINTENANCE),
    )
