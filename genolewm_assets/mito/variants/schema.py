"""Schemas of the mitochondrial tables of variants and of reference sites."""

from __future__ import annotations

import pyarrow as pa

from genolewm_assets.genome import EditType, Label
from genolewm_assets.store.tables import TableSchema, column, nullable, one_of

MITO_VARIANTS = TableSchema(
    "mito_variants",
    "mitochondrial allele of gnomAD or ClinVar, normalised on the circle",
    pa.schema(
        [
            column("chrom", pa.string(), "canonical contig name"),
            column("pos", pa.int64(), "1-based position of the first base of ref, from 1 to the contig's length"),
            column("ref", pa.string(), "reference allele, upper-case ACGT; reads on from the last base to the first"),
            column("alt", pa.string(), "alternate allele, upper-case ACGT"),
            column("kind", pa.string(), f"one of the closed set EditType: {one_of(EditType)}"),
            column("in_gnomad", pa.bool_(), "gnomAD has the allele, whatever its FILTER"),
            column("in_clinvar", pa.bool_(), "ClinVar has the allele"),
            nullable("filter", pa.string(), "gnomAD: PASS, or the failed filters with ';' between"),
            nullable("ac_hom", pa.int64(), "gnomAD: samples homoplasmic for the allele (level 0.95 and above)"),
            nullable("ac_het", pa.int64(), "gnomAD: samples heteroplasmic for the allele (level 0.10 to under 0.95)"),
            nullable("an", pa.int64(), "gnomAD: samples with a call"),
            nullable("af_hom", pa.float64(), "gnomAD: share of samples homoplasmic for the allele, 0 to 1"),
            nullable("af_het", pa.float64(), "gnomAD: share of samples heteroplasmic for the allele, 0 to 1"),
            nullable("max_hl", pa.float64(), "gnomAD: highest heteroplasmy level seen in a sample, 0 to 1"),
            nullable("clinvar_id", pa.int64(), "ClinVar: VariationID"),
            nullable("label", pa.string(), f"ClinVar: class from CLNSIG alone: {one_of(Label)}"),
            nullable("stars", pa.int8(), "ClinVar: review stars, 0 to 4"),
            nullable("clnsig", pa.string(), "ClinVar: aggregate germline classification as published"),
            nullable("conditions", pa.string(), "ClinVar: CLNDN as published"),
            nullable("gene_symbols", pa.list_(pa.string()), "ClinVar: genes at the allele, in ClinVar's order"),
        ]
    ),
    ("chrom", "pos", "ref", "alt"),
    closed={"kind": tuple(EditType), "label": tuple(Label)},
)

MITO_SITES = TableSchema(
    "mito_sites",
    "base of the mitochondrial reference",
    pa.schema(
        [
            column("chrom", pa.string(), "canonical contig name"),
            column("pos", pa.int64(), "1-based position"),
            column("ref", pa.string(), "reference base; N for rCRS's placeholder at 3,107"),
            column(
                "pop_hl", pa.float32(), "highest max_hl of the site's PASS alleles of gnomAD, 0 to 1; 0 without any"
            ),
            column("af_hom", pa.float64(), "sum of af_hom over these alleles"),
            column("af_het", pa.float64(), "sum of af_het over these alleles"),
            column("gnomad_alleles", pa.int32(), "PASS alleles of gnomAD at the site"),
            column("clinvar_alleles", pa.int32(), "alleles of ClinVar at the site"),
            column("pathogenic", pa.bool_(), "one of these has the class P or LP"),
        ]
    ),
    ("chrom", "pos"),
)

#: Tables declared in this module.
TABLES: tuple[TableSchema, ...] = (MITO_VARIANTS, MITO_SITES)
