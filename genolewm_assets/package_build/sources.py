"""Inputs and settings of a package. Not here: what is made of them (``plan``, ``writer``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import GRCH38, Bases, ContigSet
from genolewm_assets.holdouts import HOLDOUT_HAPLOTYPES, HOLDOUT_SIMILAR, HoldoutPolicy
from genolewm_assets.packages import CacheRef, Knowledge, PackageMix, SourceTerms
from genolewm_assets.store.artefacts import Published
from genolewm_assets.store.tables import read_batches

#: Rows per batch of a corpus table; about 25 MB with the sequences.
_BATCH_ROWS = 2_048


@dataclass(frozen=True, slots=True)
class PackageSources:
    """Inputs and settings of a package.

    Attributes
    ----------
    release
        ClinVar release, ISO date.
    genome_digest
        Digest of the reference genome.
    windows
        Window index (``windows.reference.WINDOWS``) by linear contig, in the genome's order.
    corpus
        Corpus windows (``CORPUS_WINDOWS``) by source, in memory or as the path of their Parquet file.
    gnomad, clinvar
        Shards by contig (``GNOMAD_VARIANTS``, ``CLINVAR_VARIANTS``), of which the columns ``SHARD_COLUMNS`` are read;
        may be read on demand. A contig without windows is not used.
    intervals, alleles, corpus_rows, similar, haplotypes
        The holdout tables, schemas ``HOLDOUT_INTERVALS`` to ``HOLDOUT_HAPLOTYPES``.
    policy
        Parameters that the holdouts were made with.
    reference
        Function that returns the upper-case bases of a contig, by its name: ``bytes``, or pieces read on demand.
    holdout_counts
        Counts of the holdouts' manifest.
    clinvar_t0
        Shards of T0 by contig, if training knows nothing after T0 and so uses their alleles and labels. None: training
        uses ``clinvar``.
    caches
        Caches of encoder states, at most one per contig and corpus source.
    pieces
        Published ``windows/index`` and ``corpus/windows`` by contig and piece, in the order of training: the package
        refers to their training windows. Those of other contigs and pieces are copied into it.
    contigs
        Contigs of the genome.
    margin_bp
        Length of each flank of a window, in bases.
    mix
        Wanted and declared shares of the tuples of an epoch.
    without_alleles
        Whether to accept a package whose training windows hold no allele of a source that has some.
    versions
        Release of each source for the card, by name.
    terms
        Release, licence and citation of each kind of source, by name.

    Raises
    ------
    ConfigurationError
        If a cache belongs to no contig or source of the package, or a contig or source has two caches.
    """

    release: str
    genome_digest: str
    windows: Mapping[str, pa.Table]
    corpus: Mapping[str, pa.Table | Path]
    gnomad: Mapping[str, pa.Table]
    clinvar: Mapping[str, pa.Table]
    intervals: pa.Table
    alleles: pa.Table
    corpus_rows: pa.Table
    policy: HoldoutPolicy
    reference: Callable[[str], Bases]
    similar: pa.Table = field(default_factory=HOLDOUT_SIMILAR.empty)
    haplotypes: pa.Table = field(default_factory=HOLDOUT_HAPLOTYPES.empty)
    holdout_counts: Mapping[str, int] = field(default_factory=dict)
    clinvar_t0: Mapping[str, pa.Table] | None = None
    caches: Sequence[CacheRef] = ()
    pieces: Mapping[str, Published] = field(default_factory=dict)
    contigs: ContigSet = GRCH38
    margin_bp: int = 256
    mix: PackageMix = field(default_factory=PackageMix)
    without_alleles: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    terms: Mapping[str, SourceTerms] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = [cache.source for cache in self.caches]
        unknown = set(named) - {*self.windows, *self.corpus}
        if unknown or len(set(named)) != len(named):
            raise ConfigurationError(
                f"package {self.release}",
                "a cache belongs to no contig or corpus source of the package, or a source has two caches",
                expected=f"at most one for each of {[*self.windows, *self.corpus]}",
                got=str(named),
            )

    @property
    def knowledge(self) -> Knowledge:
        """The release whose labels training uses."""
        return Knowledge.NEWEST if self.clinvar_t0 is None else Knowledge.T0

    def cache_of(self, source: str) -> CacheRef | None:
        """Return the cache of a contig or corpus source, or None."""
        return next((cache for cache in self.caches if cache.source == source), None)

    def corpus_batches(self, source: str, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Read a corpus table in row order; yield batches of at most 65,536 rows, each with its first row's number.

        Without ``columns``, and so with the bases, a batch has at most 2,048 rows.
        """
        table, row, n_rows = self.corpus[source], 0, 32 * _BATCH_ROWS if columns else _BATCH_ROWS
        batches = (
            read_batches(table, n_rows, columns)
            if isinstance(table, Path)
            else table.select(columns or table.column_names).to_batches(n_rows)
        )
        for batch in batches:
            yield row, pa.table(batch)
            row += batch.num_rows
