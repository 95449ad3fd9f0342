"""Hypothesis strategies for the genome vocabulary: contigs, intervals, circular genomes, variants, edits."""

from __future__ import annotations

import hypothesis.strategies as st

from genolewm_assets.genome import TOKEN_BP, Contig, Interval, RelEdit, Variant

BASES = "ACGT"


def sequences(min_size: int = 0, max_size: int = 200, alphabet: str = BASES) -> st.SearchStrategy[str]:
    """Sequences over an alphabet, every second one of a low complexity in which indels have room to move."""
    plain = st.text(alphabet, min_size=min_size, max_size=max_size)
    units = st.lists(st.tuples(st.text(alphabet, min_size=1, max_size=4), st.integers(1, 12)), min_size=1, max_size=20)
    repeats = units.map(lambda parts: "".join(unit * n for unit, n in parts)[:max_size]).filter(
        lambda s: len(s) >= min_size
    )
    return plain | repeats


@st.composite
def contigs(draw: st.DrawFn, *, circular: bool | None = None, min_length: int = 1, max_length: int = 5_000) -> Contig:
    name = draw(st.from_regex(r"chr[1-9A-Z][0-9]?", fullmatch=True))
    topology = draw(st.booleans()) if circular is None else circular
    return Contig(name, draw(st.integers(min_length, max_length)), topology)


@st.composite
def intervals(draw: st.DrawFn, *, contig: str = "chr1", length: int = 1_000) -> Interval:
    """Intervals inside a contig, empty ones included."""
    start = draw(st.integers(0, length))
    return Interval(contig, start, draw(st.integers(start, length)))


def circular_genomes(min_size: int = 12, max_size: int = 200) -> st.SearchStrategy[str]:
    """Circular genomes; a few bases are N."""
    return sequences(min_size, max_size, alphabet=BASES * 5 + "N")


@st.composite
def variants(draw: st.DrawFn, reference: str, *, chrom: str = "chr1") -> Variant:
    """Variants of every type whose REF agrees with the reference, in no particular spelling."""
    start = draw(st.integers(0, len(reference) - 1))
    ref = reference[start : start + draw(st.integers(1, 12))]
    alt = draw(_alternatives(ref, reference[start:]))
    return Variant(chrom, start + 1, ref, alt)


@st.composite
def edits(draw: st.DrawFn, window: str) -> RelEdit:
    """Edits of every type anywhere in a window."""
    start = draw(st.integers(0, len(window) - 1))
    ref = window[start : start + draw(st.integers(1, 8))]
    return RelEdit(start, ref, draw(_alternatives(ref, window[start:])))


@st.composite
def edit_lists(draw: st.DrawFn, window: str, *, max_size: int = 3) -> tuple[RelEdit, ...]:
    """One to three edits of a window with at least one token between neighbours; none inserts bases behind it."""
    inside = edits(window).filter(lambda edit: edit.rel_end < len(window) or not edit.alt.startswith(edit.ref))
    chosen: list[RelEdit] = []
    for edit in sorted(draw(st.lists(inside, min_size=1, max_size=max_size * 2))):
        if not chosen or edit.rel_pos - chosen[-1].rel_end >= TOKEN_BP:
            chosen.append(edit)
    return tuple(draw(st.permutations(chosen[:max_size])))


def _alternatives(ref: str, following: str) -> st.SearchStrategy[str]:
    """Alternate alleles for ref: replaced, cut at either end, lengthened by new bases or by a copy of what follows."""
    replaced = st.text(BASES, min_size=1, max_size=12)
    cut_right = st.integers(1, len(ref)).map(lambda n: ref[:n])
    cut_left = st.integers(0, len(ref) - 1).map(lambda n: ref[n:])
    inserted = st.text(BASES, min_size=1, max_size=12).map(lambda bases: ref[0] + bases + ref[1:])
    copied = st.integers(1, 8).map(lambda n: ref + following[len(ref) - 1 : len(ref) - 1 + n])
    return (replaced | cut_right | cut_left | inserted | copied).filter(lambda alt: alt != ref)
