from __future__ import annotations

from genolewm_assets.lewm.holdouts.schema import HOLDOUT_ALLELES, TABLES
from genolewm_assets.variants.schema import CLINVAR_VARIANTS


def test_every_column_is_described_and_keys_are_columns() -> None:
    for table in TABLES:
        assert all(table.describe(column) for column in table.columns)
        assert set(table.key) <= set(table.columns)
        assert not any(table.arrow.field(name).nullable for name in table.key)


def test_columns_shared_with_clinvar_have_its_types() -> None:
    shared = set(HOLDOUT_ALLELES.columns) & set(CLINVAR_VARIANTS.columns)
    assert {"chrom", "pos", "ref", "alt", "label", "stars", "clinvar_id", "gene_ids"} == shared
    for name in shared:
        assert HOLDOUT_ALLELES.arrow.field(name).type == CLINVAR_VARIANTS.arrow.field(name).type
