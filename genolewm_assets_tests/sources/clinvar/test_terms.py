from __future__ import annotations

import pytest

from genolewm_assets.errors import UnknownTermError, VcfError
from genolewm_assets.sources.clinvar.terms import label_of, parse_genes, stars_of
from genolewm_assets_tests.rows import each_row


@each_row(
    ("clnsig", "label"),
    [
        *((None, "OTHER"), ("Pathogenic", "P"), ("Likely_pathogenic", "LP"), ("Benign", "B")),
        *(("Likely_benign", "LB"), ("Uncertain_significance", "VUS"), ("Pathogenic/Likely_pathogenic", "LP")),
        *(("Benign/Likely_benign", "LB"), ("Pathogenic,_low_penetrance", "P")),
        ("Likely_pathogenic,_low_penetrance", "LP"),
        ("Pathogenic/Likely_pathogenic/Pathogenic,_low_penetrance", "LP"),
        ("Pathogenic/Pathogenic,_low_penetrance|other", "P"),
        ("Pathogenic/Likely_pathogenic/Pathogenic,_low_penetrance/Established_risk_allele", "LP"),
        *(("Pathogenic/Likely_risk_allele", "P"), ("Uncertain_significance/Uncertain_risk_allele", "VUS")),
        *(("Likely_risk_allele", "OTHER"), ("Conflicting_interpretations_of_pathogenicity", "OTHER")),
        ("Conflicting_classifications_of_pathogenicity", "OTHER"),
        ("Conflicting_classifications_of_pathogenicity|Pathogenic", "OTHER"),
        ("Conflicting_interpretations_of_pathogenicity,_risk_factor", "OTHER"),
        *(("conflicting_data_from_submitters", "OTHER"), ("Benign|Pathogenic", "OTHER")),
        *(("Likely_benign|Likely_pathogenic|risk_factor", "OTHER"), ("Uncertain_significance|Pathogenic", "OTHER")),
        *(("Uncertain_significance/Likely_benign", "OTHER"), ("Pathogenic|risk_factor", "P")),
        *(("Pathogenic,_risk_factor", "P"), ("drug_response|Pathogenic|other", "P")),
        *(("Pathogenic/Likely_pathogenic,_other", "LP"), ("Benign/Likely_benign|association", "LB")),
        *(("Uncertain_significance|drug_response", "VUS"), ("drug_response", "OTHER")),
        *(("association_not_found", "OTHER"), ("Affects|risk_factor", "OTHER"), ("protective", "OTHER")),
        *(("not_provided", "OTHER"), ("no_classification_for_the_single_variant", "OTHER")),
        ("no_classifications_from_unflagged_records", "OTHER"),
        ("no_interpretation_for_the_single_variant", "OTHER"),
    ],
)
def test_label(clnsig: str | None, label: str) -> None:
    assert label_of(clnsig, where="") == label


@each_row("clnsig", ["Pathogenicish", "Pathogenic|Bening", "Pathogenic||Benign", "5", "Likely"])
def test_unknown_classification_is_named(clnsig: str) -> None:
    with pytest.raises(UnknownTermError, match=r"a\.vcf, line 7: CLNSIG term .* is not in the vocabulary") as caught:
        label_of(clnsig, where="a.vcf, line 7")
    assert repr(clnsig) in str(caught.value)


@each_row(
    ("status", "stars"),
    [
        *((None, 0), ("practice_guideline", 4), ("reviewed_by_expert_panel", 3)),
        ("criteria_provided,_multiple_submitters,_no_conflicts", 2),
        ("criteria_provided,_conflicting_interpretations", 1),
        *(("criteria_provided,_conflicting_classifications", 1), ("criteria_provided,_single_submitter", 1)),
        *(("no_assertion_criteria_provided", 0), ("no_assertion_provided", 0)),
        *(("no_interpretation_for_the_single_variant", 0), ("no_classification_provided", 0)),
        *(("no_classification_for_the_single_variant", 0), ("no_classifications_from_unflagged_records", 0)),
    ],
)
def test_stars_of_old_and_new_wordings(status: str | None, stars: int) -> None:
    assert stars_of(status, where="") == stars


def test_unknown_review_status_is_named() -> None:
    with pytest.raises(UnknownTermError, match="CLNREVSTAT term 'reviewed_by_someone'"):
        stars_of("reviewed_by_someone", where="")


@each_row(
    ("text", "genes"),
    [
        (None, ((), ())),
        ("BRCA1:672", (("BRCA1",), (672,))),
        ("BRCA1:672|LOC126862571:126862571", (("BRCA1", "LOC126862571"), (672, 126862571))),
        ("MT-TF", (("MT-TF",), (None,))),
        ("MT-ATP6|MT-ATP8:4509", (("MT-ATP6", "MT-ATP8"), (None, 4509))),
        ("HLA-DRB1:3123|C4B_2:100293534", (("HLA-DRB1", "C4B_2"), (3123, 100293534))),
    ],
)
def test_genes(text: str | None, genes: tuple[tuple[str, ...], tuple[int | None, ...]]) -> None:
    assert parse_genes(text, where="") == genes


@each_row(
    "text",
    ["BRCA1:x", ":672", "BRCA1:672|", "BRCA1:", "A:B:7", "<b>BRCA1</b>:672", "BR CA1:672", "BRCA1:0", "BRCA1:-7"],
)
def test_malformed_genes_are_named(text: str) -> None:
    with pytest.raises(VcfError, match="line 7: INFO/GENEINFO cannot be read"):
        parse_genes(text, where="a.vcf, line 7")
