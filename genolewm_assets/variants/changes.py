"""What became of each allele between two ClinVar releases: two tables in, the rows that differ and their counts out.

Not here: which release comes before which (``defs.clinvar_changes``), and whether a written table is right
(``release_change_checks``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import CLASSES
from genolewm_assets.variants.schema import ALLELE_KEY, CLINVAR_CHANGES
from genolewm_assets.variants.spans import Bools, Int64s, allele_keys, as_bools

#: What is compared, and the column that tells whether it differs.
COMPARED: Mapping[str, str] = {
    "clnsig": "text_changed",
    "label": "class_changed",
    "clinvar_id": "id_changed",
    "stars": "stars_changed",
}

#: Columns of a ClinVar table that are read here.
CHANGE_COLUMNS: tuple[str, ...] = (*ALLELE_KEY, *COMPARED, "gene_symbols", "gene_ids")

#: Row number of an allele that a release does not have.
_NOWHERE = -1


class Change(StrEnum):
    """What became of an allele."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Row numbers of one contig's alleles: int64, each shape (n,).

    Attributes
    ----------
    earlier, later
        Of the alleles that both releases have, in one order.
    removed
        In the earlier table, of what the later release lacks.
    added
        In the later table, of what the earlier release lacks.
    """

    earlier: Int64s
    later: Int64s
    removed: Int64s
    added: Int64s


def find_changes(earlier: pa.Table, later: pa.Table) -> tuple[pa.Table, Counter[str]]:
    """Compare the alleles of one contig in two releases.

    Parameters
    ----------
    earlier, later
        With :data:`CHANGE_COLUMNS`, no allele twice, in any order.

    Returns
    -------
    table : pyarrow.Table
        Schema ``CLINVAR_CHANGES``, sorted by pos, ref and alt.
    counts : Counter
        ``alleles.earlier``, ``alleles.later``, ``persisting``, ``unchanged``, ``added``, ``removed``, ``changed``, each
        flag of :data:`COMPARED`, ``added.<class>``, ``removed.<class>``, zeros included; and, over the persisting
        alleles, ``class.<from>_to_<to>`` where there are any.

    Notes
    -----
    Two texts that are both missing do not differ; one that is missing differs from any other.
    """
    # Rows are taken by number below, which is slow in tables of many pieces.
    earlier, later = (table.select(list(CHANGE_COLUMNS)).combine_chunks() for table in (earlier, later))
    pairs = _pair(earlier, later)
    flags = {flag: _differ(earlier[name], later[name], pairs) for name, flag in COMPARED.items()}
    changed = np.logical_or.reduce(list(flags.values()))
    counts = Counter(
        {
            "alleles.earlier": earlier.num_rows,
            "alleles.later": later.num_rows,
            "persisting": len(changed),
            "unchanged": int(np.count_nonzero(~changed)),
            "changed": int(np.count_nonzero(changed)),
            "added": len(pairs.added),
            "removed": len(pairs.removed),
            **{flag: int(np.count_nonzero(differs)) for flag, differs in flags.items()},
            **_count_classes(earlier["label"], later["label"], pairs),
        }
    )
    kept = _Pairs(pairs.earlier[changed], pairs.later[changed], pairs.removed, pairs.added)
    return _rows(earlier, later, kept, {flag: differs[changed] for flag, differs in flags.items()}), counts


def transitions(counts: Mapping[str, int]) -> Int64s:
    """Return the matrix of classes that the counts hold.

    Returns
    -------
    ndarray
        int64, shape (7, 7): alleles by class in the earlier release and class in the later one, in the order of
        :data:`~genolewm_assets.genome.CLASSES`; the last row counts added alleles, the last column removed ones.
    """
    matrix = np.zeros((len(CLASSES) + 1, len(CLASSES) + 1), dtype=np.int64)
    for i, before in enumerate(CLASSES):
        matrix[i, :-1] = [counts.get(f"class.{before}_to_{after}", 0) for after in CLASSES]
    matrix[:-1, -1] = [counts[f"removed.{name}"] for name in CLASSES]
    matrix[-1, :-1] = [counts[f"added.{name}"] for name in CLASSES]
    return matrix


def _pair(earlier: pa.Table, later: pa.Table) -> _Pairs:
    """Find each allele of one table in the other."""
    found = pc.index_in(allele_keys(later), value_set=allele_keys(earlier))
    place: Int64s = pc.fill_null(found, _NOWHERE).to_numpy(zero_copy_only=False).astype(np.int64)
    in_both = place != _NOWHERE
    lost = np.ones(earlier.num_rows, dtype=bool)
    lost[place[in_both]] = False
    return _Pairs(place[in_both], np.flatnonzero(in_both), np.flatnonzero(lost), np.flatnonzero(~in_both))


def _differ(earlier: pa.ChunkedArray, later: pa.ChunkedArray, pairs: _Pairs) -> Bools:
    """Compare a column of the alleles that both releases have."""
    before, after = earlier.take(pa.array(pairs.earlier)), later.take(pa.array(pairs.later))
    missing: Bools = as_bools(pc.is_null(before)) != as_bools(pc.is_null(after))
    return missing | as_bools(pc.not_equal(before, after))


def _count_classes(earlier: pa.ChunkedArray, later: pa.ChunkedArray, pairs: _Pairs) -> dict[str, int]:
    """Count the persisting alleles from class to class, and the others by the class that they have."""
    n = len(CLASSES)
    before, after = _class_codes(earlier), _class_codes(later)
    both = np.bincount(before[pairs.earlier] * (n + 1) + after[pairs.later], minlength=(n + 1) ** 2)
    kept = {(i, j): count for (i, j), count in np.ndenumerate(both.reshape(n + 1, n + 1)[:n, :n]) if count}
    removed = np.bincount(before[pairs.removed], minlength=n + 1).tolist()
    added = np.bincount(after[pairs.added], minlength=n + 1).tolist()
    return {
        **{f"class.{CLASSES[i]}_to_{CLASSES[j]}": int(count) for (i, j), count in kept.items()},
        **{f"removed.{name}": removed[i] for i, name in enumerate(CLASSES)},
        **{f"added.{name}": added[i] for i, name in enumerate(CLASSES)},
    }


def _class_codes(labels: pa.ChunkedArray) -> Int64s:
    """Return each label's place in :data:`~genolewm_assets.genome.CLASSES`; one that is not there counts for none."""
    codes: Int64s = pc.fill_null(pc.index_in(labels, value_set=pa.array(CLASSES)), len(CLASSES)).to_numpy()
    return codes.astype(np.int64)


def _rows(earlier: pa.Table, later: pa.Table, chosen: _Pairs, flags: Mapping[str, Bools]) -> pa.Table:
    """Return one row per chosen allele; ``flags`` are those of the pairs."""
    n_pairs, n_removed, n_added = len(chosen.earlier), len(chosen.removed), len(chosen.added)
    before = _take(earlier, chosen.earlier, chosen.removed, np.full(n_added, _NOWHERE))
    after = _take(later, chosen.later, np.full(n_removed, _NOWHERE), chosen.added)
    kinds = [str(Change.CHANGED), str(Change.REMOVED), str(Change.ADDED)]
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "change": pa.array(kinds).take(pa.array(np.repeat([0, 1, 2], [n_pairs, n_removed, n_added]))),
        **{f"{name}_from": before[name] for name in COMPARED},
        **{f"{name}_to": after[name] for name in COMPARED},
        **{flag: pa.array(np.append(differs, np.zeros(n_removed + n_added, bool))) for flag, differs in flags.items()},
    }
    for name in set(CHANGE_COLUMNS) - set(COMPARED):
        columns[name] = pc.coalesce(after[name], before[name])
    table = pa.table([columns[name] for name in CLINVAR_CHANGES.columns], schema=CLINVAR_CHANGES.arrow)
    return table.sort_by([(name, "ascending") for name in ALLELE_KEY])


def _take(table: pa.Table, *rows: Int64s) -> pa.Table:
    """Return rows by number, nulls for :data:`_NOWHERE`."""
    at = np.concatenate(rows)
    return table.take(pa.array(at, pa.int64(), mask=at == _NOWHERE))
