"""Join the mitochondrial alleles of gnomAD and ClinVar, and tabulate the population's alleles at each reference site.

The population's level ``pop_hl`` is never used as the ``het`` of a genome, because it describes other samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.errors import InputError
from genolewm_assets.genome import HARMFUL, Variant
from genolewm_assets.mito.variants.circular_alleles import changed_bases, normalise_on_circle
from genolewm_assets.mito.variants.schema import MITO_SITES, MITO_VARIANTS
from genolewm_assets.variants import evidence_of, merge_labels, preference_of

#: Columns of the joined table that come from gnomAD, and their names in the gnomAD shard.
FROM_GNOMAD: Mapping[str, str] = {
    "filter": "filter",
    "ac_hom": "ac",
    "ac_het": "ac_het",
    "an": "an",
    "af_hom": "af",
    "af_het": "af_het",
    "max_hl": "max_hl",
}

#: Columns that come from ClinVar, under the same names as in the ClinVar shard.
FROM_CLINVAR = ("clinvar_id", "label", "stars", "clnsig", "conditions", "gene_symbols")

#: Columns that decide between several ClinVar rows of one allele.
_EVIDENCE = ["clinvar_id", "label", "stars", "clnsig"]

_UNFILTERED = "PASS"
_ALLELE = MITO_VARIANTS.key

_Key: TypeAlias = tuple[int, str, str]


def join_variants(
    gnomad: pa.Table, clinvar: pa.Table, reference: bytes, *, chrom: str
) -> tuple[pa.Table, Counter[str]]:
    """Join the alleles of two shards by their normal form on the circle.

    Parameters
    ----------
    gnomad, clinvar
        Rows of the mitochondrial contig, with the columns of the shards' schemas; either may be empty.
    reference
        The complete circular contig, upper-case ASCII.

    Returns
    -------
    table : pyarrow.Table
        Schema ``MITO_VARIANTS``, sorted by pos, ref and alt.
    counts : Counter
        ``gnomad.rows`` = ``gnomad.alleles`` + ``gnomad.merged``, and the same for ``clinvar``; ``respelt``, rows whose
        normal form on the circle differs from the linear one; ``alleles``, rows of the table; ``in_both``, alleles of
        both sources; ``clinvar.conflicting``, alleles of which rows of equal evidence state different classes.

    Raises
    ------
    InputError
        If a row is on another contig or does not agree with the reference.

    Notes
    -----
    If several rows of a source are one allele on the circle, one row is kept. Counts are not summed, because a sample
    may have been counted under both forms. gnomAD: the row with FILTER PASS, then the one with most carriers is kept.
    ClinVar: the row with most evidence is kept, and rows of equal evidence whose classes differ have the class of both
    (:mod:`~genolewm_assets.variants.settle`). Of equal rows the first is kept.
    """
    gnomad_members, counts = _members("gnomad", gnomad, reference=reference, chrom=chrom)
    clinvar_members, further = _members("clinvar", clinvar, reference=reference, chrom=chrom)
    carriers = (_numbers(gnomad["ac"]) + _numbers(gnomad["ac_het"])).tolist()
    failed = [text != _UNFILTERED for text in gnomad["filter"].to_pylist()]
    records = clinvar.select(_EVIDENCE).to_pylist()
    gnomad_rows = _kept(gnomad_members, [(fails, -n) for fails, n in zip(failed, carriers, strict=True)])
    clinvar_rows = _kept(clinvar_members, list(map(preference_of, records)))
    keys = sorted(gnomad_rows.keys() | clinvar_rows.keys())
    counts.update(further)
    counts.update(alleles=len(keys), in_both=len(gnomad_rows.keys() & clinvar_rows.keys()))
    population, clinical = _take(gnomad, gnomad_rows, keys), _take(clinvar, clinvar_rows, keys)
    pos, ref, alt = zip(*keys, strict=True) if keys else ((), (), ())
    labels = _merged_labels(records, clinvar_members, clinvar_rows)
    counts.update({"clinvar.conflicting": len(labels)})
    columns = {
        "chrom": [chrom] * len(keys),
        "pos": list(pos),
        "ref": list(ref),
        "alt": list(alt),
        "kind": [str(Variant(chrom, *key).kind) for key in keys],
        "in_gnomad": [key in gnomad_rows for key in keys],
        "in_clinvar": [key in clinvar_rows for key in keys],
        **{name: population[column] for name, column in FROM_GNOMAD.items()},
        **{name: clinical[name] for name in FROM_CLINVAR},
        "label": [labels.get(key, own) for key, own in zip(keys, clinical["label"].to_pylist(), strict=True)],
    }
    return pa.table([columns[name] for name in MITO_VARIANTS.columns], schema=MITO_VARIANTS.arrow), counts


def tabulate_sites(variants: pa.Table, reference: bytes, *, chrom: str) -> pa.Table:
    """Return schema ``MITO_SITES``, the alleles and levels of the population: row i is the base at ``pos`` i + 1.

    Parameters
    ----------
    variants
        Table of schema ``MITO_VARIANTS``.
    reference, chrom
        As in :func:`join_variants`.

    Notes
    -----
    An allele counts at every base that it changes or deletes, and an insertion at the base that it follows. Insertions
    and deletions are placed as alignment places them
    (:func:`~genolewm_assets.mito.variants.circular_alleles.changed_bases`). The population columns use alleles of
    gnomAD with FILTER PASS only. The other alleles have no carrier that passed (npg), are at artefact-prone sites, or
    are stacked indels (Laricchia et al. 2022); their levels reflect sequencing errors.
    """
    row, site = _sites(variants, reference)
    passing = _flags(pc.equal(variants["filter"], _UNFILTERED))
    clinical = _flags(variants["in_clinvar"])
    harmful = _flags(pc.is_in(variants["label"], value_set=pa.array(HARMFUL)))
    pop_hl = np.zeros(len(reference), dtype=np.float32)
    trusted, trusted_site = row[passing[row]], site[passing[row]]
    np.maximum.at(pop_hl, trusted_site, _numbers(variants["max_hl"]).astype(np.float32)[trusted])

    def counted(chosen: NDArray[np.bool_]) -> NDArray[np.int32]:
        return np.bincount(site[chosen[row]], minlength=len(reference)).astype(np.int32)

    def added(name: str) -> NDArray[np.float64]:
        weights = _numbers(variants[name])[trusted]
        return np.bincount(trusted_site, weights=weights, minlength=len(reference)).astype(np.float64)

    columns = {
        "chrom": [chrom] * len(reference),
        "pos": np.arange(1, len(reference) + 1),
        "ref": list(reference.decode("ascii")),
        "pop_hl": pop_hl,
        "af_hom": added("af_hom"),
        "af_het": added("af_het"),
        "gnomad_alleles": counted(passing),
        "clinvar_alleles": counted(clinical),
        "pathogenic": counted(harmful) > 0,
    }
    return pa.table([columns[name] for name in MITO_SITES.columns], schema=MITO_SITES.arrow)


def _members(
    source: str, table: pa.Table, *, reference: bytes, chrom: str
) -> tuple[dict[_Key, list[int]], Counter[str]]:
    """Return the rows of each normalised allele, and the counts of rows, alleles and merged rows."""
    members: dict[_Key, list[int]] = {}
    respelt = 0
    for row, variant in enumerate(_variants(table)):
        if (got := variant.chrom) != chrom:
            raise InputError(f"{source}, row {row}", "is on another contig", expected=repr(chrom), got=repr(got))
        normal = normalise_on_circle(variant, reference)
        respelt += normal != variant
        members.setdefault((normal.pos, normal.ref, normal.alt), []).append(row)
    counts = {
        f"{source}.rows": table.num_rows,
        f"{source}.alleles": len(members),
        f"{source}.merged": table.num_rows - len(members),
        "respelt": respelt,
    }
    return members, Counter(counts)


def _kept(members: Mapping[_Key, Sequence[int]], preference: Sequence[tuple[object, ...]]) -> dict[_Key, int]:
    """Return the row of each allele that is kept: the one with the smallest preference."""
    return {key: min(rows, key=lambda row: (preference[row], row)) for key, rows in members.items()}


def _merged_labels(
    records: Sequence[dict[str, Any]], members: Mapping[_Key, Sequence[int]], kept: Mapping[_Key, int]
) -> dict[_Key, str]:
    """Return the class of each allele whose rows of equal evidence contradict the row that is kept."""
    labels: dict[_Key, str] = {}
    for key, rows in members.items():
        best = records[kept[key]]
        peers = {records[row]["label"] for row in rows if evidence_of(records[row]) == evidence_of(best)}
        if (label := merge_labels(peers)) != best["label"]:
            labels[key] = label
    return labels


def _variants(table: pa.Table) -> Iterable[Variant]:
    return (Variant(*row) for row in zip(*(table[name].to_pylist() for name in _ALLELE), strict=True))


def _take(table: pa.Table, rows: Mapping[_Key, int], keys: Iterable[_Key]) -> pa.Table:
    """Return the row of each allele; an allele without a row gives a row of nulls."""
    # Chunks are combined first, because taking rows from many chunks is slow.
    return table.combine_chunks().take(pa.array([rows.get(key) for key in keys], pa.int64()))


def _sites(variants: pa.Table, reference: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of a row and a 0-based site at which its allele counts: two int64 arrays of shape (n_pairs,)."""
    places = enumerate(changed_bases(variant, reference) for variant in _variants(variants))
    pairs = dict.fromkeys((row, place.start) for row, changed in places for place in changed)
    found = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column of numbers: float64, shape (n_rows,); a null counts as 0."""
    return np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(), dtype=np.float64)


def _flags(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return a boolean column: bool, shape (n_rows,); a null counts as false."""
    return np.asarray(pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False), dtype=bool)
