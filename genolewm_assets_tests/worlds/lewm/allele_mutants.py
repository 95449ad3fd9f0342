"""Mistakes of the filters of alleles, with what an audit finds of them in the package of ``filtered_world``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from genolewm_assets.audit import LeakKind
from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.held_sequences import HeldSequences
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import EditRules
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.genome import RelEdit, Variant, reverse_complement_edit, trim_alleles
from genolewm_assets.holdouts.alleles import find_newly_labelled, list_in_genes, list_in_intervals, list_newly_labelled
from genolewm_assets.holdouts.index import HoldoutIndex
from genolewm_assets.holdouts.schema import VariantOrigin
from genolewm_assets.package_build.split import find_regions
from genolewm_assets.training import opening
from genolewm_assets.training.opening import read_split
from genolewm_assets.variants import allele_spans
from genolewm_assets_tests.referees.sampling import rules_by_bases
from genolewm_assets_tests.referees.sampling.plain_batches import PlainBatchSampler
from genolewm_assets_tests.referees.sampling.plain_sampler import EditSampler
from genolewm_assets_tests.worlds.lewm.filtered_world import GENE_A, RUN_END, deletion, normal_text
from genolewm_assets_tests.worlds.lewm.mutants import BUILD, HOLDOUTS, Mutant, all_of, exchange, nothing

_EDITS, _READER = "genolewm_assets.edits", "genolewm_assets.training.dataset.read_split"

_NEWLY, _LIST_NEW, _IN_INTERVALS, _IN_GENES = find_newly_labelled, list_newly_labelled, list_in_intervals, list_in_genes
_CONTAINS, _REGIONS, _READ = AlleleIndex.contains, find_regions, read_split


def _first_base(table: pa.Table) -> tuple[Any, Any]:
    start, _ = allele_spans(table)
    return start, start + 1


def _only_new(later: pa.Table, earlier: pa.Table) -> tuple[Any, Any]:
    newly, is_new = _NEWLY(later, earlier)
    return newly & is_new, is_new


def _with_two_stars(*given: Any, **kept: Any) -> pa.Table:
    *tables, policy = given
    return _LIST_NEW(*tables, replace(policy, min_stars=2), **kept)


def _trimmed(variant: Variant, _: object) -> Variant:
    return Variant(variant.chrom, *trim_alleles(variant.pos, variant.ref, variant.alt))


def _alleles() -> Iterator[Mutant]:
    kind = LeakKind.HELD_ALLELE
    unlisted = all_of(
        exchange(f"{HoldoutIndex.__module__}.HoldoutIndex.allele_is_held_out", HoldoutIndex._in_intervals),
        exchange(f"{BUILD}.plan.find_regions", lambda *given: replace(_REGIONS(*given), keys={})),
    )
    yield Mutant("listed alleles not looked up, in index and regions", unlisted, kind, "chr17:14111:")
    for name, spell, finds in (
        ("not trimmed", lambda variant, _: variant, "chr17:14121:"),
        ("not left-aligned", _trimmed, normal_text(deletion(RUN_END))),
    ):
        as_spelt = all_of(
            exchange("genolewm_assets.variants.normal_form.normalise", spell),
            exchange(f"{HOLDOUTS}.index._check_normal_form", lambda _: None),
        )
        yield Mutant(f"alleles {name}; check of their form off", as_spelt, kind, finds)
    spans = all_of(
        *(
            exchange(f"{room}.allele_spans", _first_base)
            for room in (f"{HOLDOUTS}.alleles", f"{HOLDOUTS}.index", f"{BUILD}.split")
        )
    )
    yield Mutant("allele by its first base", spans, kind, f"chr17:{GENE_A[0] - 4}:")
    relabelled = exchange(f"{HOLDOUTS}.alleles.find_newly_labelled", _only_new)
    yield Mutant("alleles of T0 that became labelled", relabelled, kind, "chr17:14161:", told=True)
    stars = exchange(f"{HOLDOUTS}.build.list_newly_labelled", _with_two_stars)
    yield Mutant("more than the least stars", stars, kind, "chr17:14101:", told=True)


class _OneStrand:
    """The 31-mers of held-out alleles along the reference only."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._found = set[str]()
        for row in (row for batch in batches for row in batch.to_pylist()):
            made, was = (f"{row['left_context']}{row[name]}{row['right_context']}" for name in ("alt", "ref"))
            self._found |= set(_kmers(made)) - set(_kmers(was))

    def __contains__(self, bases: str) -> bool:
        return not self._found.isdisjoint(_kmers(bases))


class _OnlyMade(HeldSequences):
    """Looks at the edited bases, which stand behind the unedited ones."""

    __slots__ = ()

    def __contains__(self, bases: str) -> bool:
        return super().__contains__(bases.rpartition("N")[2])


def _holding(kind: type[Any]) -> Any:
    """Return a function that reads a split and tells held-out alleles by another class."""
    return lambda package, *more: replace(_READ(package, *more), held_sequences=kind(package.context_batches()))


def _kmers(bases: str) -> Iterator[str]:
    return (bases[at : at + 31] for at in range(len(bases) - 30))


class _Forward(EditPlace):
    """Takes every window as one along the reference."""

    __slots__ = ()

    def __init__(self, window: WindowRecord) -> None:
        super().__init__(replace(window, strand=window.strand and "+"))


def _not_left_aligned(place: EditPlace, edit: RelEdit) -> RelEdit:
    return reverse_complement_edit(edit, place._size) if place._is_reverse else edit


def _stream() -> Iterator[Mutant]:
    kind, unplaced, of_gene = LeakKind.RECREATED_ALLELE, "mrna_evo2 ", "mrna_splice_evo2 "
    of_gnomad = exchange(
        f"{HOLDOUTS}.build.list_in_intervals",
        lambda table, origin, *more: _IN_INTERVALS(
            table.slice(0, 0) if origin is VariantOrigin.GNOMAD else table, origin, *more
        ),
    )
    yield Mutant("common alleles in intervals not listed", of_gnomad, kind, of_gene, told=True)
    of_clinvar = exchange(
        f"{HOLDOUTS}.build.list_in_genes", lambda table, *more, **named: _IN_GENES(table.slice(0, 0), *more, **named)
    )
    yield Mutant("alleles of genes not listed", of_clinvar, kind, of_gene, told=True)
    rules, plain = EditRules.__module__, exchange(f"{opening.__name__}.BatchSampler", PlainBatchSampler)
    forward = exchange(f"{EditSampler.__module__}.EditPlace", _Forward)
    taken_back, one_strand = (exchange(_READER, _holding(each)) for each in (_OnlyMade, _OneStrand))
    shifted = exchange(
        f"{AlleleIndex.__module__}.AlleleIndex.contains",
        lambda index, chrom, pos, ref, alt: _CONTAINS(index, chrom, pos + 1, ref, alt),
    )
    for name, mutate, finds in (
        ("joined alleles not looked up", exchange(f"{rules}._joined_alleles", nothing), "chr17:150"),
        ("edits not looked up", exchange(f"{rules}.EditRules._is_held_out", lambda *_: False), "chr17:141"),
        ("edits looked up one base off", shifted, "chr17:141"),
        (
            "edits on - not left-aligned",
            exchange(f"{_EDITS}.placed_edits.EditPlace.on_reference", _not_left_aligned),
            "chr17:14",
        ),
        ("edits on - taken as on +", forward, "chr17:14"),
        ("unedited bases of a held-out allele", taken_back, "mrna_evo2 "),
        ("contexts forgotten", exchange(f"{BUILD}.writer.context_tables", nothing), unplaced),
        ("contexts of one strand", one_strand, unplaced),
        (
            "contexts without the bases around an edit",
            exchange(f"{rules_by_bases.__name__}.around", lambda bases, start, end: bases[start:end]),
            unplaced,
        ),
    ):
        # The rules of the plain sampler are changed, which draws what the compiled one draws.
        yield Mutant(name, all_of(plain, mutate), kind, finds)


ALLELE_MUTANTS = (*_alleles(), *_stream())
