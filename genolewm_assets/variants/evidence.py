"""Which of several ClinVar records of one allele counts, and the class of those that contradict each other.

Not here: the class of one record (``sources.clinvar.terms``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from genolewm_assets.genome import Label

#: Words of CLNSIG that state something about pathogenicity; ``no_known_pathogenicity`` does not.
_CLASS = re.compile(r"conflicting|pathogenic(?!ity)|benign|uncertain_significance", re.IGNORECASE)
#: Pairs of classes that differ in certainty alone, with what both together are.
_TOGETHER: Mapping[frozenset[str], str] = {
    frozenset((Label.P, Label.LP)): Label.LP,
    frozenset((Label.B, Label.LB)): Label.LB,
}
_MILDER = (Label.LP, Label.LB)


def evidence_of(record: Mapping[str, object]) -> tuple[int, int]:
    """Return the evidence of a record with ``label``, ``clnsig`` and ``stars``; the smallest counts.

    A record that states a class counts before one that states none, then one with more review stars.
    """
    stated = record["label"] != Label.OTHER or _CLASS.search(str(record["clnsig"] or "")) is not None
    return int(not stated), -int(str(record["stars"]))


def preference_of(record: Mapping[str, object]) -> tuple[object, ...]:
    """Return the order in which records of one allele are kept; the VariationID decides between equal classes alone."""
    return *evidence_of(record), record["label"] not in _MILDER, record["clinvar_id"]


def merge_labels(labels: Collection[str]) -> str:
    """Return the class of records of equal evidence: that of all, LP for P with LP, LB for B with LB, else OTHER."""
    one, *others = set(labels)
    return _TOGETHER.get(frozenset(labels), Label.OTHER) if others else one


def name_record(record: Mapping[str, object]) -> str:
    """Return VariationID, class and stars of a record, for people."""
    return f"{record['clinvar_id']} {record['label']} {record['stars']}*"
