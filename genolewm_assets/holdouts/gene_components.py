"""Groups of genes that must stay in one split because windows can cover several of them.

A gene's span is that of the alleles for which ClinVar names it. Not here: which are held out (``held_intervals``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Interval, connect
from genolewm_assets.variants import Int64s, allele_spans

# Symbol that NCBI gives to elements and loci without a name.
_LOCUS = re.compile(r"LOC\d+")
#: Beginning of a component's id; the gene that names it follows.
GENE_UNIT = "gene:"
_SPAN = pa.schema([("contig", pa.string()), ("gene", pa.string()), ("start", pa.int64()), ("end", pa.int64())])


@dataclass(frozen=True, slots=True)
class GeneComponent:
    """Group of genes whose spans overlap or are less than a window's footprint apart, or that share an allele."""

    #: ``gene:`` and the smallest NCBI GeneID of the named genes, else of the LOC elements, else the first ``symbol:``
    #: name.
    id: str
    symbols: tuple[str, ...]
    genes: frozenset[str]
    #: From first to last allele, one per contig (two for a pseudo-autosomal gene); 0-based half-open.
    spans: tuple[Interval, ...]


class GeneComponents:
    """Sequence of gene components, sorted by first span, with lookup by gene and by allele."""

    def __init__(self, components: Iterable[GeneComponent], symbols: Iterable[tuple[str, str]]) -> None:
        self._components = tuple(sorted(components, key=lambda component: (component.spans[0], component.id)))
        self._by_gene = {gene: i for i, component in enumerate(self._components) for gene in component.genes}
        self._genes = pa.array(list(self._by_gene), pa.string())
        self._indices = np.array([*self._by_gene.values(), -1], dtype=np.int64)
        self._by_symbol: defaultdict[str, set[int]] = defaultdict(set)
        for gene, symbol in symbols:
            self._by_symbol[symbol].add(self._by_gene[gene])

    def __len__(self) -> int:
        return len(self._components)

    def __getitem__(self, index: int) -> GeneComponent:
        return self._components[index]

    def __iter__(self) -> Iterator[GeneComponent]:
        return iter(self._components)

    def of_alleles(self, clinvar: pa.Table) -> Int64s:
        """Return the index of each allele's component, -1 for none: int64, shape (n_rows,)."""
        rows, genes = _allele_genes(clinvar)
        found = np.full(clinvar.num_rows, -1, dtype=np.int64)
        # All genes of an allele are in the same component, so it does not matter which of them is assigned last.
        found[rows] = self._indices[pc.fill_null(pc.index_in(genes, value_set=self._genes), -1).to_numpy()]
        return found

    def named(self, names: Iterable[str]) -> set[int]:
        """Return the indices of the components that contain any of the given genes."""
        found: set[int] = set()
        for name in names:
            indices = {self._by_gene[name]} if name in self._by_gene else self._by_symbol.get(name, set())
            if not indices:
                raise ConfigurationError(
                    "holdouts.clinvar_genes",
                    "no ClinVar allele names this gene, so it cannot be held out",
                    expected="a symbol or NCBI GeneID of the releases used",
                    got=repr(name),
                    remedy="Correct the name or remove it from the list",
                )
            found |= indices
        return found


def find_gene_components(clinvar: Iterable[pa.Table], *, reach_bp: int) -> GeneComponents:
    """Group by single linkage the genes with fewer than ``reach_bp`` bases between them or with a common allele."""
    spans, symbols, together = _read_genes(clinvar)
    root = connect([*_neighbours(spans, reach_bp), *together])
    members: defaultdict[str, list[tuple[str, int, int, str]]] = defaultdict(list)
    for span in spans:
        members[root.get(span[3], span[3])].append(span)
    symbols_of: defaultdict[str, list[str]] = defaultdict(list)
    for gene, symbol in symbols:
        symbols_of[gene].append(symbol)
    return GeneComponents((_component(spans, symbols_of) for spans in members.values()), symbols)


def _read_genes(
    clinvar: Iterable[pa.Table],
) -> tuple[list[tuple[str, int, int, str]], list[tuple[str, str]], set[tuple[str, str]]]:
    """Return span and symbols of each gene, sorted, and pairs that connect genes named together, table by table."""
    bounds, symbols, together = [_SPAN.empty_table()], set[tuple[str, str]](), set[tuple[str, str]]()
    for table in clinvar:
        entries = _entries(table)
        grouped = entries.group_by(["contig", "gene"]).aggregate([("start", "min"), ("end", "max")])
        bounds.append(grouped.select(["contig", "gene", "start_min", "end_max"]).rename_columns(_SPAN.names))
        pairs = entries.group_by(["gene", "symbol"]).aggregate([])
        symbols.update(zip(pairs["gene"].to_pylist(), pairs["symbol"].to_pylist(), strict=True))
        together |= _named_together(entries)
    grouped = pa.concat_tables(bounds).group_by(["contig", "gene"]).aggregate([("start", "min"), ("end", "max")])
    columns = (grouped[name].to_pylist() for name in ("contig", "start_min", "end_max", "gene"))
    return sorted(zip(*columns, strict=True)), sorted(symbols), together


def _allele_genes(clinvar: pa.Table) -> tuple[Int64s, pa.Array]:
    """Return row number (int64) and gene (string) of every (allele, gene) pair, in the order of the rows."""
    ids, symbols = (clinvar[name].combine_chunks() for name in ("gene_ids", "gene_symbols"))
    named = pc.binary_join_element_wise("symbol:", pc.list_flatten(symbols), "")
    genes = pc.coalesce(pc.cast(pc.list_flatten(ids), pa.string()), named)
    return pc.list_parent_indices(ids).to_numpy().astype(np.int64), genes


def _entries(clinvar: pa.Table) -> pa.Table:
    """Return one row per (allele, gene), with the number of the allele's row in the table."""
    rows, genes = _allele_genes(clinvar)
    at = pa.array(rows)
    start, end = (pa.array(bound).take(at) for bound in allele_spans(clinvar))
    symbols = pc.list_flatten(clinvar["gene_symbols"].combine_chunks())
    contig = clinvar["chrom"].combine_chunks().take(at)
    return pa.table([at, genes, symbols, contig, start, end], ["row", "gene", "symbol", "contig", "start", "end"])


def _neighbours(spans: Sequence[tuple[str, int, int, str]], reach_bp: int) -> Iterable[tuple[str, str]]:
    """Yield pairs that connect all genes less than ``reach_bp`` apart; spans are sorted by contig and start."""
    current, chain_end, head = "", 0, ""
    for contig, start, end, gene in spans:
        if contig == current and start - chain_end < reach_bp:
            yield head, gene
            chain_end = max(chain_end, end)
        else:
            current, chain_end, head = contig, end, gene


def _named_together(entries: pa.Table) -> set[tuple[str, str]]:
    """Return pairs that connect all genes named for the same allele."""
    rows, genes = entries["row"].to_numpy(), entries["gene"].combine_chunks()
    first = np.flatnonzero(rows[1:] == rows[:-1])
    pairs = pa.table([genes.take(pa.array(first)), genes.take(pa.array(first + 1))], ["one", "other"])
    distinct = pairs.group_by(["one", "other"]).aggregate([])
    return set(zip(distinct["one"].to_pylist(), distinct["other"].to_pylist(), strict=True))


def _component(spans: Iterable[tuple[str, int, int, str]], symbols_of: dict[str, list[str]]) -> GeneComponent:
    places: dict[str, tuple[int, int]] = {}
    genes = set()
    for contig, start, end, gene in spans:
        first, last = places.get(contig, (start, end))
        places[contig] = min(first, start), max(last, end)
        genes.add(gene)
    named = {gene for gene in genes if any(not _LOCUS.fullmatch(symbol) for symbol in symbols_of[gene])} or genes
    smallest = min(named, key=lambda gene: (not gene.isdecimal(), int(gene) if gene.isdecimal() else 0, gene))
    return GeneComponent(
        id=f"{GENE_UNIT}{smallest}",
        symbols=tuple(sorted({symbol for gene in named for symbol in symbols_of[gene]})),
        genes=frozenset(genes),
        spans=tuple(Interval(contig, *place) for contig, place in sorted(places.items())),
    )
