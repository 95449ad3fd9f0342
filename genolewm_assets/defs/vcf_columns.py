"""Fields of ClinVar's VCF that the shard is made from, as the UI shows them.

The file is kept as NCBI published it and has more; ``sources.clinvar`` reads these.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

#: Fields by name, in the order of the file; ``INFO/`` before those of the INFO column.
CLINVAR_FIELDS: Mapping[str, tuple[str, str]] = {
    "CHROM": ("String", "contig as NCBI spells it, without 'chr'"),
    "POS": ("Integer", "1-based position of the first base of REF"),
    "ID": ("Integer", "VariationID"),
    "REF": ("String", "reference allele"),
    "ALT": ("String", "alternate alleles, ',' between several"),
    "INFO/ALLELEID": ("Integer", "AlleleID"),
    "INFO/CLNSIG": ("String", "aggregate germline classification"),
    "INFO/CLNSIGCONF": ("String", "classifications in conflict, with their numbers of submissions"),
    "INFO/CLNSIGINCL": ("String", "classification of haplotypes or genotypes that include the allele"),
    "INFO/CLNREVSTAT": ("String", "review status, from which the stars follow"),
    "INFO/ONC": ("String", "aggregate oncogenicity classification"),
    "INFO/SCI": ("String", "aggregate somatic clinical impact"),
    "INFO/GENEINFO": ("String", "genes as symbol:GeneID, '|' between several"),
    "INFO/CLNVC": ("String", "variant type"),
    "INFO/MC": ("String", "molecular consequence: Sequence Ontology id and term"),
    "INFO/CLNDN": ("String", "preferred names of the conditions"),
    "INFO/CLNHGVS": ("String", "top-level HGVS expression"),
    "INFO/RS": ("String", "dbSNP numbers without 'rs'"),
}


def clinvar_vcf_schema() -> dg.TableSchema:
    """Return the fields as columns."""
    return dg.TableSchema(
        columns=[dg.TableColumn(name, kind, description=text) for name, (kind, text) in CLINVAR_FIELDS.items()]
    )
