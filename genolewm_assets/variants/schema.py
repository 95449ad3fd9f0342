"""Schemas of the allele tables: shards of gnomAD and ClinVar, rejected alleles, changes between ClinVar releases.

Writers cast to a schema, asset checks validate against it, and ``make docs`` shows it. ``pos`` is 1-based as in VCF.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from genolewm_assets.genome import Label
from genolewm_assets.store.tables import TableSchema, column, nullable, one_of


class RejectReason(StrEnum):
    """Why an allele is not a usable sequence variant; each such allele has a row in ``rejects.parquet``."""

    MISSING_ALT = "missing_alt"
    IUPAC = "iupac"
    SYMBOLIC = "symbolic"
    SPANNING_DELETION = "spanning_deletion"
    NOT_A_SEQUENCE = "not_a_sequence"
    TOO_LONG = "too_long"
    OUT_OF_RANGE = "out_of_range"
    REF_NOT_ACGT = "ref_not_acgt"
    REF_MISMATCH = "ref_mismatch"
    NO_CHANGE = "no_change"
    DUPLICATE = "duplicate"
    CONFLICTING_RECORDS = "conflicting_records"


class Change(StrEnum):
    """Kind of change of an allele from the earlier to the later release."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


def allele_fields() -> list[pa.Field]:
    """Return the fields of the columns ``ALLELE_KEY``."""
    return [
        column("chrom", pa.string(), "canonical contig name"),
        column("pos", pa.int64(), "1-based position of the first base of ref, left-aligned and trimmed"),
        column("ref", pa.string(), "reference allele, upper-case ACGT"),
        column("alt", pa.string(), "alternate allele, upper-case ACGT"),
    ]


#: Genetic ancestry groups of gnomAD; the group ``oth`` of old releases is named ``remaining``.
ANCESTRY_GROUPS: tuple[str, ...] = ("afr", "ami", "amr", "asj", "eas", "fin", "mid", "nfe", "sas", "remaining")


#: Columns that identify an allele, in sort order.
ALLELE_KEY = ("chrom", "pos", "ref", "alt")

GNOMAD_VARIANTS = TableSchema(
    "gnomad_variants",
    "normalised allele of gnomAD",
    pa.schema(
        [
            *allele_fields(),
            nullable("rsid", pa.string(), "dbSNP identifiers as the VCF gives them, ';' between several"),
            column("filter", pa.string(), "FILTER of the record: PASS, '.', or the failed filters with ';' between"),
            column("af", pa.float64(), "allele frequency, 0 to 1; on chrM the share of homoplasmic carriers (AF_hom)"),
            nullable("ac", pa.int64(), "allele count; on chrM homoplasmic carriers (AC_hom)"),
            nullable("an", pa.int64(), "allele number; on chrM samples with a call"),
            nullable("nhomalt", pa.int64(), "individuals homozygous for the alternate allele"),
            nullable("hemizygote_count", pa.int64(), "XY carriers outside the pseudo-autosomal regions"),
            nullable("grpmax", pa.string(), "group with the highest allele frequency (popmax of old releases)"),
            nullable("af_grpmax", pa.float64(), "allele frequency in that group, 0 to 1"),
            *(
                nullable(f"af_{g}", pa.float64(), f"allele frequency in the group {g!r}, 0 to 1")
                for g in ANCESTRY_GROUPS
            ),
            nullable("ac_het", pa.int64(), "chrM: samples heteroplasmic for the allele"),
            nullable("af_het", pa.float64(), "chrM: share of samples heteroplasmic for the allele, 0 to 1"),
            nullable("max_hl", pa.float64(), "chrM: highest heteroplasmy level seen, 0 to 1"),
            nullable("lcr", pa.bool_(), "in a low-complexity region; null where the release has no such flag"),
            nullable("segdup", pa.bool_(), "in a segmental duplication; null where the release has no such flag"),
            nullable(
                "non_par", pa.bool_(), "outside the pseudo-autosomal regions; null where the release has no such flag"
            ),
            nullable("not_called_in_exomes", pa.bool_(), "outside of exome calling; null where the file is not joint"),
            nullable("not_called_in_genomes", pa.bool_(), "not called in genomes; null where the file is not joint"),
        ]
    ),
    ALLELE_KEY,
)

CLINVAR_VARIANTS = TableSchema(
    "clinvar_variants",
    "normalised allele of ClinVar with its class",
    pa.schema(
        [
            *allele_fields(),
            column("clinvar_id", pa.int64(), "VariationID"),
            nullable("allele_id", pa.int64(), "AlleleID"),
            column("label", pa.string(), f"class from CLNSIG alone: {one_of(Label)}"),
            nullable("clnsig", pa.string(), "aggregate germline classification as published"),
            nullable("clnsig_conf", pa.string(), "classifications in conflict, as published"),
            nullable("clnsig_incl", pa.string(), "classification of haplotypes that include the allele; never labels"),
            column("stars", pa.int8(), "review stars, 0 to 4"),
            nullable("clnrevstat", pa.string(), "review status as published"),
            nullable("oncogenicity", pa.string(), "ONC as published; never labels"),
            nullable("somatic_impact", pa.string(), "SCI as published; never labels"),
            column("gene_symbols", pa.list_(pa.string()), "genes at the allele, in ClinVar's order"),
            column("gene_ids", pa.list_(pa.int64()), "NCBI GeneIDs, parallel to gene_symbols; null where missing"),
            nullable("variant_type", pa.string(), "CLNVC"),
            nullable("consequence", pa.string(), "MC: Sequence Ontology terms as published"),
            nullable("conditions", pa.string(), "CLNDN as published"),
            nullable("hgvs", pa.string(), "CLNHGVS"),
            nullable("rsid", pa.string(), "dbSNP identifier with its 'rs'"),
        ]
    ),
    ALLELE_KEY,
    closed={"label": tuple(Label)},
)

CLINVAR_CHANGES = TableSchema(
    "clinvar_changes",
    "normalised allele that a ClinVar release added, removed or changed against its predecessor",
    pa.schema(
        [
            *allele_fields(),
            column("change", pa.string(), f"{one_of(Change)}; an allele without any change has no row"),
            nullable("clinvar_id_from", pa.int64(), "VariationID in the predecessor; null for an added allele"),
            nullable("clinvar_id_to", pa.int64(), "VariationID in the release; null for a removed allele"),
            nullable("label_from", pa.string(), "class in the predecessor; null for an added allele"),
            nullable("label_to", pa.string(), "class in the release; null for a removed allele"),
            nullable("clnsig_from", pa.string(), "CLNSIG in the predecessor; null also where it has none"),
            nullable("clnsig_to", pa.string(), "CLNSIG in the release; null also where it has none"),
            nullable("stars_from", pa.int8(), "review stars in the predecessor, 0 to 4; null for an added allele"),
            nullable("stars_to", pa.int8(), "review stars in the release, 0 to 4; null for a removed allele"),
            nullable(
                "genes_from", pa.string(), "NCBI GeneIDs in the predecessor, '|' between; null for an added allele"
            ),
            nullable("genes_to", pa.string(), "the same in the release; null for a removed allele"),
            column("gene_symbols", pa.list_(pa.string()), "genes as the release has them; the predecessor, if removed"),
            column("gene_ids", pa.list_(pa.int64()), "NCBI GeneIDs, parallel to gene_symbols; null where missing"),
            column("text_changed", pa.bool_(), "CLNSIG differs; false unless the allele is in both releases"),
            column("class_changed", pa.bool_(), "the class differs; false unless the allele is in both"),
            column("id_changed", pa.bool_(), "the VariationID differs; false unless the allele is in both"),
            column("stars_changed", pa.bool_(), "the review stars differ; false unless the allele is in both"),
            column("genes_changed", pa.bool_(), "the genes differ; false unless the allele is in both"),
        ]
    ),
    ALLELE_KEY,
    closed={"change": tuple(Change), "label_from": tuple(Label), "label_to": tuple(Label)},
)

REJECTS = TableSchema(
    "rejects",
    "allele of the source that the shard does not hold because it is not a usable sequence variant",
    pa.schema(
        [
            column("file", pa.string(), "name of the source file"),
            column("line", pa.int64(), "1-based line in the decompressed file"),
            column("chrom", pa.string(), "contig as the source spells it"),
            column("pos", pa.int64(), "POS as the source gives it, 1-based"),
            column("ref", pa.string(), "REF as the source gives it"),
            column("alt", pa.string(), "the one ALT rejected, as the source gives it"),
            nullable("record_id", pa.string(), "ID of the record"),
            column("reason", pa.string(), "one of the closed set RejectReason"),
            nullable("detail", pa.string(), "what was found, where the reason alone does not say"),
        ]
    ),
    ("file", "line", "alt"),
    closed={"reason": tuple(RejectReason)},
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (GNOMAD_VARIANTS, CLINVAR_VARIANTS, CLINVAR_CHANGES, REJECTS)
