"""Alleles in many spellings on short contigs full of repeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
from hypothesis import strategies as st

from genolewm_assets.genome import Contig
from genolewm_assets.variants.ledger import RAW_FIELDS
from genolewm_assets_tests.referees.plain_alleles import Row

SEQUENCE = b"NNGATTTTTCACACACGTN"
TOY = Contig("chr1", len(SEQUENCE), aliases=("1",))
SCHEMA = pa.schema([*RAW_FIELDS, ("score", pa.int64()), ("words", pa.list_(pa.string()))])

#: Repeats at the contig's start, of one, two and three bases, a gap, ambiguity codes, no gap at the end.
REPETITIVE = b"AAAACACACACTTTTTTGNNNNNTTGATGATGATGAACCCCCRTRCMAAAAGTCTCTCTCAGGGGT"
LONG = Contig("chr2", len(REPETITIVE))
Spelling = tuple[int, str, str, int]


def best_score(row: Mapping[str, object]) -> tuple[object, ...]:
    return (-int(str(row["score"])),)


def rows_of(spellings: Sequence[Spelling]) -> list[Row]:
    """Return rows whose line is their place in the list; every second identifier is missing."""
    cells = (
        (line, "1", pos, ref, alt, f"id{score}" if score % 2 else None, score, ["w"] * (score % 3))
        for line, (pos, ref, alt, score) in enumerate(spellings, 1)
    )
    return [dict(zip(SCHEMA.names, row, strict=True)) for row in cells]


def batches_of(rows: list[Row], cuts: Sequence[int] = ()) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_pylist(rows, schema=SCHEMA).combine_chunks()
    borders = [0, *sorted(cuts), len(rows)]
    for start, end in pairwise(borders):
        # A slice of a larger table, as a scanner may give it; and an empty batch where two cuts are one.
        yield pa.RecordBatch.from_arrays([column.chunk(0)[start:end] for column in table.columns], schema=SCHEMA)


@st.composite
def spellings(draw: st.DrawFn) -> Spelling:
    """Alleles of LONG: sound ones of every type and spelling, in any case, and everything that is none."""
    start = draw(st.integers(0, len(REPETITIVE) - 1))
    true = REPETITIVE[start : start + draw(st.integers(1, 8))].decode()
    ref = draw(st.sampled_from([true] * 6 + [true.replace("R", "A").replace("M", "C"), "A", "*", "", "ß", "N"]))
    following = REPETITIVE[start : start + 30].decode()
    alt = draw(
        st.one_of(
            st.sampled_from("ACGT"),
            st.text("ACGT", min_size=1, max_size=6),
            st.integers(1, len(ref) or 1).map(lambda n: ref[:n]),
            st.integers(0, len(ref)).map(lambda n: ref[n:]),
            st.integers(1, 22).map(lambda n: ref + following[len(ref) : len(ref) + n]),
            st.text("ACGTacgtNRnr.*<>[]", max_size=4),
            st.sampled_from([".", "*", "<DEL>", "G]17:198982]", "N", "é", "ﬀ", "C" * 21]),
        )
    )
    if draw(st.integers(0, 5)) == 0:
        ref, alt = draw(st.sampled_from([(ref.lower(), alt), (ref, alt.lower()), (ref.title(), alt.lower())]))
    pos = draw(st.sampled_from([start + 1] * 12 + [0, -1, start + 2, len(REPETITIVE), -(2**63), 2**63 - 1]))
    return pos, ref, alt, draw(st.integers(0, 3))
