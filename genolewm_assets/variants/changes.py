"""Compare the alleles of two ClinVar releases: rows of added, removed and changed alleles, and counts.

Not here: the choice of a release's predecessor (``defs``), checks of a written table (:mod:`.change_checks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import CLASSES
from genolewm_assets.variants.schema import ALLELE_KEY, CLINVAR_CHANGES, Change
from genolewm_assets.variants.spans import Bools, Int64s, allele_keys, as_bools

#: Columns that are compared, and for each the flag column that states whether it differs.
COMPARED: Mapping[str, str] = {
    "clnsig": "text_changed",
    "label": "class_changed",
    "clinvar_id": "id_changed",
    "stars": "stars_changed",
    "genes": "genes_changed",
}

#: Columns of a ClinVar table that :func:`find_changes` needs.
CHANGE_COLUMNS: tuple[str, ...] = (*ALLELE_KEY, "clnsig", "label", "clinvar_id", "stars", "gene_symbols", "gene_ids")

#: Row number that stands for an allele missing from a release.
_MISSING_ROW = -1


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Rows, int64, in both tables of the alleles in both releases, in one order; of removed ones, and of added ones."""

    earlier: Int64s
    later: Int64s
    removed: Int64s
    added: Int64s


def find_changes(earlier: pa.Table, later: pa.Table) -> tuple[pa.Table, Counter[str]]:
    """Compare the alleles of one contig in two releases.

    Parameters
    ----------
    earlier, later
        Tables with :data:`CHANGE_COLUMNS`, in any order; each allele at most once.

    Returns
    -------
    table : pyarrow.Table
        Schema ``CLINVAR_CHANGES``, sorted by pos, ref and alt. Two nulls do not differ; a null and any other value do.
    counts : Counter
        ``alleles.earlier``, ``alleles.later``, ``persisting``, ``unchanged``, ``added``, ``removed``, ``changed``, each
        flag of :data:`COMPARED`, ``added.<class>``, ``removed.<class>``, zeros included; and, of persisting alleles,
        each ``class.<from>_to_<to>`` above 0.
    """
    # take() is slow on columns of many chunks.
    earlier, later = (with_genes(table.select(list(CHANGE_COLUMNS)).combine_chunks()) for table in (earlier, later))
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


def with_genes(clinvar: pa.Table) -> pa.Table:
    """Return a ClinVar table with the column ``genes``: NCBI GeneIDs in their order, ``|`` between, ``?`` for none."""
    ids = clinvar["gene_ids"].combine_chunks()
    genes = pc.fill_null(pc.cast(ids.flatten(), pa.string()), "?")
    offsets = pc.subtract(ids.offsets, ids.offsets[0]) if len(ids) else pa.array([0], pa.int32())
    return clinvar.append_column("genes", pc.binary_join(pa.ListArray.from_arrays(offsets, genes), "|"))


def transitions(counts: Mapping[str, int]) -> Int64s:
    """Return the counts of :func:`find_changes` by class as a matrix.

    Returns
    -------
    ndarray
        int64, shape (7, 7): alleles by class in the earlier release (rows) and in the later release (columns), in the
        order of :data:`~genolewm_assets.genome.CLASSES`. The last row counts added alleles, the last column removed
        ones.
    """
    matrix = np.zeros((len(CLASSES) + 1, len(CLASSES) + 1), dtype=np.int64)
    for i, before in enumerate(CLASSES):
        matrix[i, :-1] = [counts.get(f"class.{before}_to_{after}", 0) for after in CLASSES]
    matrix[:-1, -1] = [counts[f"removed.{name}"] for name in CLASSES]
    matrix[-1, :-1] = [counts[f"added.{name}"] for name in CLASSES]
    return matrix


def _pair(earlier: pa.Table, later: pa.Table) -> _Pairs:
    """Match the alleles of two tables."""
    found = pc.index_in(allele_keys(later), value_set=allele_keys(earlier))
    place: Int64s = pc.fill_null(found, _MISSING_ROW).to_numpy(zero_copy_only=False).astype(np.int64)
    in_both = place != _MISSING_ROW
    lost = np.ones(earlier.num_rows, dtype=bool)
    lost[place[in_both]] = False
    return _Pairs(place[in_both], np.flatnonzero(in_both), np.flatnonzero(lost), np.flatnonzero(~in_both))


def _differ(earlier: pa.ChunkedArray, later: pa.ChunkedArray, pairs: _Pairs) -> Bools:
    """Compare a column over the alleles in both releases: bool, shape (n_persisting,), true if it differs."""
    before, after = earlier.take(pa.array(pairs.earlier)), later.take(pa.array(pairs.later))
    missing: Bools = as_bools(pc.is_null(before)) != as_bools(pc.is_null(after))
    return missing | as_bools(pc.not_equal(before, after))


def _count_classes(earlier: pa.ChunkedArray, later: pa.ChunkedArray, pairs: _Pairs) -> dict[str, int]:
    """Count persisting alleles by class before and after, and added and removed alleles by their class."""
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
    """Return the index of each label in :data:`~genolewm_assets.genome.CLASSES`; 6 for a label that is not in it."""
    codes: Int64s = pc.fill_null(pc.index_in(labels, value_set=pa.array(CLASSES)), len(CLASSES)).to_numpy()
    return codes.astype(np.int64)


def _rows(earlier: pa.Table, later: pa.Table, chosen: _Pairs, flags: Mapping[str, Bools]) -> pa.Table:
    """Return one row per chosen allele: schema ``CLINVAR_CHANGES``; ``flags`` have shape (n_pairs,)."""
    n_pairs, n_removed, n_added = len(chosen.earlier), len(chosen.removed), len(chosen.added)
    before = _take(earlier, chosen.earlier, chosen.removed, np.full(n_added, _MISSING_ROW))
    after = _take(later, chosen.later, np.full(n_removed, _MISSING_ROW), chosen.added)
    kinds = [str(Change.CHANGED), str(Change.REMOVED), str(Change.ADDED)]
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "change": pa.array(kinds).take(pa.array(np.repeat([0, 1, 2], [n_pairs, n_removed, n_added]))),
        **{f"{name}_from": before[name] for name in COMPARED},
        **{f"{name}_to": after[name] for name in COMPARED},
        **{flag: pa.array(np.append(differs, np.zeros(n_removed + n_added, bool))) for flag, differs in flags.items()},
    }
    for name in (*ALLELE_KEY, "gene_symbols", "gene_ids"):
        columns[name] = pc.coalesce(after[name], before[name])
    table = pa.table([columns[name] for name in CLINVAR_CHANGES.columns], schema=CLINVAR_CHANGES.arrow)
    return table.sort_by([(name, "ascending") for name in ALLELE_KEY])


def _take(table: pa.Table, *rows: Int64s) -> pa.Table:
    """Return rows by number; a row of nulls for :data:`_MISSING_ROW`."""
    at = np.concatenate(rows)
    return table.take(pa.array(at, pa.int64(), mask=at == _MISSING_ROW))
