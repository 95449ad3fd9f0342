"""Rows of the inputs of a package, from simulated bases: windows, alleles of gnomAD and ClinVar, corpus windows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.vcf.simulated_genome import one_base_alleles, spread_positions
from genolewm_assets.genome import PROFILES, Contig
from genolewm_assets.holdouts import HOLDOUT_ALLELES
from genolewm_assets.variants import ANCESTRY_GROUPS, CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets.windows.corpus.windows import CORPUS_WINDOWS
from genolewm_assets.windows.reference.schema import WINDOWS

#: Alleles per million bases: gnomAD's of 1 % and more, and ClinVar's.
_GNOMAD, _CLINVAR = 3_900, 1_150
_PROFILE = PROFILES["default"]
_ACGT = np.frombuffer(b"ACGT", np.uint8)
_GENE_BP = 40_000
_ROWS = 1_024
_LABELS = {"P": 0.06, "LP": 0.04, "B": 0.08, "LB": 0.22, "VUS": 0.5, "OTHER": 0.1}
_STARS = (0.1, 0.7, 0.18, 0.015, 0.005)


def window_rows(contig: Contig, bases: bytes) -> Iterator[pa.Table]:
    """Yield the window index of a contig without gaps, schema ``WINDOWS``."""
    tiled = _PROFILE.tile(contig)
    for first in range(0, len(tiled), _ROWS):
        starts, ends = (each[first : first + _ROWS] for each in (tiled.start, tiled.end))
        spans = [bases[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        digests = [hashlib.sha256(span).digest() for span in spans]
        yield _table(
            WINDOWS.arrow,
            len(spans),
            contig=[contig.name] * len(spans),
            start=starts,
            end=ends,
            window_hash=digests,
            window_id=[digest.hex()[:32] for digest in digests],
            gc=np.full(len(spans), 0.5, np.float32),
            frame=(starts % 6).astype(np.int8),
            strand=["+"] * len(spans),
            gap_distance_bp=np.minimum(starts, contig.length - ends),
            sequence=[span.decode() for span in spans],
            left_flank=[bases[start - _PROFILE.margin_bp : start].decode() for start in starts.tolist()],
            right_flank=[bases[end : end + _PROFILE.margin_bp].decode() for end in ends.tolist()],
        )


def gnomad_rows(contig: Contig, bases: bytes, *, per_mbp: int = _GNOMAD) -> pa.Table:
    """Return the common alleles of a contig, schema ``GNOMAD_VARIANTS``: ``per_mbp`` per million bases."""
    rng, n = np.random.default_rng([7, contig.length]), contig.length * per_mbp // 1_000_000
    alleles = _alleles(contig, bases, _positions(contig, n, rng), rng)
    shares = rng.beta(0.4, 1.5, (n, 1 + len(ANCESTRY_GROUPS)))
    groups = {f"af_{group}": shares[:, 1 + at] for at, group in enumerate(ANCESTRY_GROUPS)}
    return _table(
        GNOMAD_VARIANTS.arrow,
        n,
        **alleles,
        **groups,
        rsid=[f"rs{number}" for number in rng.integers(1, 1 << 30, n).tolist()],
        filter=["PASS"] * n,
        af=np.maximum(shares[:, 0], 0.01),
        ac=rng.integers(1_500, 150_000, n),
        an=np.full(n, 152_312),
        nhomalt=rng.integers(0, 10_000, n),
    )


def clinvar_rows(contig: Contig, bases: bytes, release: int) -> pa.Table:
    """Return the alleles of a contig in release 0 or 1, schema ``CLINVAR_VARIANTS``; each has a tenth of its own."""
    rng, n = np.random.default_rng([8, contig.length]), contig.length * _CLINVAR // 1_000_000
    within = Contig(contig.name, contig.length // 2)
    # Every other stretch of 40 kb is a gene; alleles stand in genes only, so that genes do not join into one component.
    alleles = _alleles(contig, bases, _in_genes(_positions(within, n, rng)), rng)
    genes = (alleles["pos"] // (2 * _GENE_BP) + (contig.length % 997) * 100_000).tolist()
    text = [f"not_provided|Simulated_condition_{number}" for number in rng.integers(0, 5_000, n).tolist()]
    whole = _table(
        CLINVAR_VARIANTS.arrow,
        n,
        **alleles,
        clinvar_id=np.arange(n) + contig.length,
        allele_id=np.arange(n),
        label=rng.choice(list(_LABELS), n, p=list(_LABELS.values())),
        stars=rng.choice(5, n, p=_STARS).astype(np.int8),
        clnsig=["Uncertain_significance"] * n,
        clnrevstat=["criteria_provided,_single_submitter"] * n,
        gene_symbols=[[f"SIM{gene}"] for gene in genes],
        gene_ids=[[gene] for gene in genes],
        variant_type=["single_nucleotide_variant"] * n,
        consequence=["SO:0001583|missense_variant"] * n,
        conditions=text,
        hgvs=[f"NC_000001.11:g.{pos}A>C" for pos in alleles["pos"].tolist()],
    )
    return whole.filter(pa.array(rng.integers(0, 10, n) != release))


def held_rows(contig: Contig, bases: bytes, n: int) -> pa.Table:
    """Return ``n`` alleles of a contig that the temporal holdout keeps from training, schema ``HOLDOUT_ALLELES``."""
    rng = np.random.default_rng([10, contig.length])
    alleles = _alleles(contig, bases, _positions(contig, n, rng) if n else np.zeros(0, np.int64), rng)
    return _table(
        HOLDOUT_ALLELES.arrow,
        n,
        **alleles,
        holdout=["holdout-temporal"] * n,
        role=["test"] * n,
        source=["clinvar"] * n,
        label=["P"] * n,
        stars=np.full(n, 2, np.int8),
        clinvar_id=np.arange(n) + contig.length,
        gene_ids=[[]] * n,
        unit=[contig.name] * n,
        reason=["new"] * n,
    )


def corpus_rows(source: str, n: int) -> Iterator[pa.Table]:
    """Yield ``n`` windows of a corpus source, unplaced, schema ``CORPUS_WINDOWS``."""
    rng, size, margin = np.random.default_rng([9, len(source)]), _PROFILE.window_bp, _PROFILE.margin_bp
    for first in range(0, n, _ROWS):
        rows = range(first, min(n, first + _ROWS))
        texts = [_ACGT[rng.integers(0, 4, size + 2 * margin)].tobytes() for _ in rows]
        digests = [hashlib.sha256(text[margin:-margin]).digest() for text in texts]
        yield _table(
            CORPUS_WINDOWS.arrow,
            len(rows),
            source=[source] * len(rows),
            record_id=[f"{source}.{row}" for row in rows],
            window_index=[0] * len(rows),
            start=[margin] * len(rows),
            end=[margin + size] * len(rows),
            window_bp=[size] * len(rows),
            sequence=[text[margin:-margin].decode() for text in texts],
            left_flank=[text[:margin].decode() for text in texts],
            right_flank=[text[-margin:].decode() for text in texts],
            window_hash=digests,
            window_id=[digest.hex()[:32] for digest in digests],
            gc=[0.5] * len(rows),
            maybe_human=[False] * len(rows),
            spliced=[False] * len(rows),
            placement_how=["none"] * len(rows),
            placement_exact=[False] * len(rows),
        )


def _positions(contig: Contig, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return ``n`` different 1-based positions, ascending."""
    return np.unique(spread_positions(rng, contig, n + n // 50, shared=0))[:n]


def _in_genes(pos: NDArray[np.int64]) -> NDArray[np.int64]:
    return pos + pos // _GENE_BP * _GENE_BP


def _alleles(
    contig: Contig, bases: bytes, pos: NDArray[np.int64], rng: np.random.Generator
) -> dict[str, NDArray[np.generic]]:
    """Return a normalised allele at every position: SNVs, and a tenth insertions and deletions of a base."""
    ref, alt = one_base_alleles(rng, np.frombuffer(bases, np.uint8)[np.stack([pos - 1, pos])])
    return {"chrom": np.full(len(pos), contig.name), "pos": pos, "ref": ref, "alt": alt}


def _table(schema: pa.Schema, n: int, **columns: object) -> pa.Table:
    """Return a table of a schema; columns that are not given are null."""
    arrays = [
        pa.array(columns[each.name], each.type) if each.name in columns else pa.nulls(n, each.type) for each in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
