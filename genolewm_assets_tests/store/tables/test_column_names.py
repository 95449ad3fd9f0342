from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from genolewm_assets.store.tables.outside_columns import find_misspelt
from genolewm_assets_tests.rows import each_row

KNOWN = ("record_id", "sequence", "taxonomy", "chrom", "start", "end", "strand")


@each_row(
    "meant, names",
    [
        ("start", ("Start", "strat", "starts")),
        ("end", ("END", "edn")),
        ("record_id", ("record-id", "Record ID")),
        ("chrom", ("#chrom", "chr", "chromosome")),
        ("strand", ("strnad",)),
        ("taxonomy", ("taxon",)),
        (None, ("strain", "species_type", "gene_type", "source", "length")),
    ],
)
def test_a_name_is_a_slip_of_a_missing_one_or_another_name(meant: str | None, names: tuple[str, ...]) -> None:
    found = [find_misspelt([name], KNOWN) for name in names]
    assert found == [{} if meant is None else {name: meant} for name in names]


def test_beside_the_known_name_another_one_is_another_column() -> None:
    assert find_misspelt(["start", "Start", "started"], ("start",)) == {}


@given(st.sampled_from(KNOWN), st.integers(0, 30), st.sampled_from("abcxyz"))
def test_every_single_slip_is_found(known: str, at: int, letter: str) -> None:
    at %= len(known)
    for slip in (
        known[:at] + known[at + 1 :],
        known[:at] + letter + known[at:],
        known[:at] + letter + known[at + 1 :],
        known[:at] + known[at : at + 2][::-1] + known[at + 2 :],
    ):
        assert slip == known or find_misspelt([slip], [known]) == {slip: known}
