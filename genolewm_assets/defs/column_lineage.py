"""Which upstream columns each column of a table comes from.

Declared, not traced: tests hold it against the schemas, the graph, and the values of tables that were built. A source
is written ``asset.column``; columns of an artefact's further tables are ``<noun>.<column>``, as in its column schema.
Not here: which rows were chosen (a window leaves training because of an allele, but no column of it comes from one).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import dagster as dg

from genolewm_assets.lewm.package_schema import STRATA
from genolewm_assets.lewm.schema import ALLELE_KEY
from genolewm_assets.mito.variants import FROM_CLINVAR, FROM_GNOMAD

#: By column: its sources; none where the value is made in the asset, or comes from outside the graph.
Sources: TypeAlias = Mapping[str, tuple[str, ...]]

_SHARDS = ("clinvar/shard", "gnomad/shard")
_BLOCK_ID = tuple(f"gnomad/shard.{name}" for name in ALLELE_KEY)
_PLACEMENT = tuple(
    f"corpus/windows.{name}" for name in ("placed_contig", "placed_start", "placed_end", "placement_how", "maybe_human")
)
_REFERENCE_BASES = ("windows/index.start", "windows/index.end")


def _same(asset: str, columns: Iterable[str], *, noun: str = "", suffixes: Iterable[str] = ("",)) -> Sources:
    """Columns that hold what the column of the same name holds upstream."""
    return {f"{noun}{name}{suffix}": (f"{asset}.{name}",) for name in columns for suffix in suffixes}


def _all_of(asset: str, columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{asset}.{name}" for name in columns)


def _made_here(*columns: str) -> Sources:
    return dict.fromkeys(columns, ())


def _membership(noun: str = "") -> Sources:
    """Holdout and role of a row in a split: of the stretch it meets or the allele it is."""
    nouns = ("intervals", "alleles")
    return {
        f"{noun}{name}": _all_of("holdouts/manifest", (f"{n}.{name}" for n in nouns)) for name in ("holdout", "role")
    }


def _alleles(noun: str) -> Sources:
    """Keys of alleles that come from either shard."""
    return {f"{noun}{name}": tuple(f"{shard}.{name}" for shard in _SHARDS) for name in ALLELE_KEY}


_CLINVAR_SHARD: Sources = {
    "chrom": ("clinvar/release.CHROM",),
    **{name: _all_of("clinvar/release", ("POS", "REF", "ALT")) for name in ("pos", "ref", "alt")},
    "clinvar_id": ("clinvar/release.ID",),
    "allele_id": ("clinvar/release.INFO/ALLELEID",),
    "label": ("clinvar/release.INFO/CLNSIG",),
    "clnsig": ("clinvar/release.INFO/CLNSIG",),
    "clnsig_conf": ("clinvar/release.INFO/CLNSIGCONF",),
    "clnsig_incl": ("clinvar/release.INFO/CLNSIGINCL",),
    "stars": ("clinvar/release.INFO/CLNREVSTAT",),
    "clnrevstat": ("clinvar/release.INFO/CLNREVSTAT",),
    "oncogenicity": ("clinvar/release.INFO/ONC",),
    "somatic_impact": ("clinvar/release.INFO/SCI",),
    "gene_symbols": ("clinvar/release.INFO/GENEINFO",),
    "gene_ids": ("clinvar/release.INFO/GENEINFO",),
    "variant_type": ("clinvar/release.INFO/CLNVC",),
    "consequence": ("clinvar/release.INFO/MC",),
    "conditions": ("clinvar/release.INFO/CLNDN",),
    "hgvs": ("clinvar/release.INFO/CLNHGVS",),
    "rsid": ("clinvar/release.INFO/RS",),
}

_COMPARED = ("clnsig", "label", "clinvar_id", "stars")

_CLINVAR_CHANGES: Sources = {
    **_same("clinvar/shard", ALLELE_KEY),
    "change": _all_of("clinvar/shard", (*ALLELE_KEY, *_COMPARED)),
    **_same("clinvar/shard", _COMPARED, suffixes=("_from", "_to")),
    **_same("clinvar/shard", ("gene_symbols", "gene_ids")),
    "text_changed": ("clinvar/shard.clnsig",),
    "class_changed": ("clinvar/shard.label",),
    "id_changed": ("clinvar/shard.clinvar_id",),
    "stars_changed": ("clinvar/shard.stars",),
}

_HOLDOUTS: Sources = {
    **_made_here("intervals.holdout", "intervals.role", "intervals.reason"),
    "intervals.contig": tuple(f"{shard}.chrom" for shard in _SHARDS),
    "intervals.start": tuple(f"{shard}.pos" for shard in _SHARDS),
    "intervals.end": tuple(f"{shard}.{name}" for shard in _SHARDS for name in ("pos", "ref")),
    "intervals.unit": ("clinvar/shard.gene_ids", "clinvar/shard.gene_symbols", *_BLOCK_ID),
    "intervals.name": ("clinvar/shard.gene_symbols", *_BLOCK_ID),
    **_made_here("alleles.holdout", "alleles.role", "alleles.source"),
    **_alleles("alleles."),
    **_same("clinvar/shard", ("label", "stars", "clinvar_id", "gene_ids"), noun="alleles."),
    "alleles.unit": ("clinvar/shard.gene_ids", "clinvar/shard.gene_symbols", *_BLOCK_ID),
    "alleles.reason": ("clinvar/shard.label", "clinvar/shard.stars", "clinvar/shard.gene_ids"),
    **_same("corpus/windows", ("source", "record_id", "window_index"), noun="corpus."),
    "corpus.holdout": _PLACEMENT,
    "corpus.reason": _PLACEMENT,
}

_PACKAGE: Sources = {
    "window_id": ("windows/index.window_id", "corpus/windows.window_id"),
    "window_hash": ("windows/index.window_hash", "corpus/windows.window_hash"),
    "origin": ("corpus/windows.source",),
    "contig": ("windows/index.contig", "corpus/windows.placed_contig"),
    "start": ("windows/index.start", "corpus/windows.placed_start"),
    "end": ("windows/index.end", "corpus/windows.placed_end"),
    "strand": ("windows/index.strand", "corpus/windows.strand"),
    **_same("corpus/windows", ("placement_exact", "record_id", "window_index")),
    "window_bp": (*_REFERENCE_BASES, "corpus/windows.window_bp"),
    "frame": ("windows/index.frame", "corpus/windows.start"),
    "gc": ("windows/index.gc", "corpus/windows.gc"),
    **_same("windows/index", STRATA),
    "sequence": (*_REFERENCE_BASES, "corpus/windows.sequence"),
    "left_flank": ("windows/index.start", "corpus/windows.left_flank"),
    "right_flank": ("windows/index.end", "corpus/windows.right_flank"),
    **_membership(),
    **_made_here("cache_key"),
    "cache_row": ("embeddings/cache.row", "embeddings/corpus.row"),
    **_made_here("variants.source"),
    **_alleles("variants."),
    "variants.af": ("gnomad/shard.af",),
    **_same("clinvar/shard", ("label", "stars", "clinvar_id", "gene_ids"), noun="variants."),
    **_membership("variants."),
    "controls.window_id": _REFERENCE_BASES,
    "controls.source_window_id": ("windows/index.window_id",),
    **_same("windows/index", ("contig", "start", "end"), noun="controls."),
    **_made_here("controls.shift_bp", "controls.cache_key"),
    "controls.sequence": _REFERENCE_BASES,
    **_membership("controls."),
    "controls.cache_row": ("embeddings/cache.row",),
}

_SPELT_ALLELE = ("pos", "ref", "alt")
_GNOMAD_AT_SITE = _all_of("gnomad/shard", (*_SPELT_ALLELE, "filter"))
_CLINVAR_AT_SITE = _all_of("clinvar/shard", _SPELT_ALLELE)

_MITO_VARIANTS: Sources = {
    **_alleles(""),
    "kind": tuple(f"{shard}.{name}" for shard in _SHARDS for name in ("ref", "alt")),
    "in_gnomad": _all_of("gnomad/shard", ALLELE_KEY),
    "in_clinvar": _all_of("clinvar/shard", ALLELE_KEY),
    **{name: (f"gnomad/shard.{column}",) for name, column in FROM_GNOMAD.items()},
    **_same("clinvar/shard", FROM_CLINVAR),
    **_made_here("sites.chrom", "sites.pos", "sites.ref"),
    "sites.pop_hl": (*_GNOMAD_AT_SITE, "gnomad/shard.max_hl"),
    "sites.af_hom": (*_GNOMAD_AT_SITE, "gnomad/shard.af"),
    "sites.af_het": (*_GNOMAD_AT_SITE, "gnomad/shard.af_het"),
    "sites.gnomad_alleles": _GNOMAD_AT_SITE,
    "sites.clinvar_alleles": _CLINVAR_AT_SITE,
    "sites.pathogenic": (*_CLINVAR_AT_SITE, "clinvar/shard.label"),
}

_MITO_TOKENS: Sources = {
    **_made_here("row"),
    "key": ("mito/genomes.name",),
    "split": ("mito/genomes.split",),
    "het": ("mito/genomes.name", "mito/genomes.differences"),
    **dict.fromkeys(("n_tokens", "input_ids", "position_ids"), ("mito/genomes.differences",)),
}

#: Tables with columns that come from tables upstream; each lists every column it has.
COLUMN_SOURCES: Mapping[str, Sources] = {
    "clinvar/shard": _CLINVAR_SHARD,
    "clinvar/changes": _CLINVAR_CHANGES,
    "embeddings/cache": {
        **_made_here("row"),
        "key": ("windows/index.contig", "windows/index.start"),
        "states": _REFERENCE_BASES,
    },
    "embeddings/corpus": {
        **_made_here("row"),
        "key": ("corpus/windows.record_id", "corpus/windows.window_index"),
        "states": ("corpus/windows.sequence",),
    },
    "holdouts/manifest": _HOLDOUTS,
    "mito/tokens": _MITO_TOKENS,
    "mito/variants": _MITO_VARIANTS,
    "packages/split": _PACKAGE,
}


def column_lineage(asset: str) -> dg.TableColumnLineage | None:
    """Return the column lineage of an asset's tables; None where no column comes from a table upstream."""
    if asset not in COLUMN_SOURCES:
        return None
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(asset_key=dg.AssetKey(upstream.split("/")), column_name=name)
                for upstream, name in map(split_source, sources)
            ]
            for column, sources in COLUMN_SOURCES[asset].items()
            if sources
        }
    )


def split_source(source: str) -> tuple[str, str]:
    """Return asset and column.

    >>> split_source("holdouts/manifest.alleles.role")
    ('holdouts/manifest', 'alleles.role')
    """
    asset, _, column = source.partition(".")
    return asset, column
