from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.sources.vcf.count import AlleleCount, count_records
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

RECORDS = [
    ("chr1", 1, ".", "A", "C", "PASS", "AF=0.1,0.2"),
    ("chr2", 2, ".", "A", "C,G,T", "PASS", "."),
    ("chr2", 3, ".", "A", ".", "PASS", "."),
]


def count(*pieces: bytes) -> tuple[int, int]:
    """Feed a text piece by piece; return records and alleles."""
    counter = AlleleCount()
    for piece in pieces:
        counter.feed(piece)
    return counter.records, counter.alleles


def count_plainly(text: str) -> tuple[int, int]:
    fields = [line.removesuffix("\r").split("\t") for line in text.removeprefix("\ufeff").split("\n")]
    alts = [each[4] for each in fields if len(each) > 4 and not each[0].startswith("#")]
    return len(alts), sum(alt.count(",") + 1 for alt in alts)


@pytest.mark.parametrize("how", ["plain", "gzip", "bgzip"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_alternate_alleles_of_every_contig_are_counted(tmp_path: Path, how: str, end: str) -> None:
    for text, records in (
        (vcf_text(RECORDS, end=end), 3),
        (vcf_text(RECORDS, end=end).rstrip(), 3),
        (vcf_text(RECORDS, end=end) + end + end, 3),
        (vcf_text([], end=end), 0),
    ):
        assert count_records(write_text(tmp_path / "a.vcf", text, how)) == records
        assert count(text.encode()) == (records, 5 if records else 0)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_text_may_be_cut_anywhere(end: str, mark: str) -> None:
    text = (mark + vcf_text(RECORDS, info=["AF:A:Float"], end=end) + end).encode()
    assert count(*(bytes([byte]) for byte in text)) == (3, 5)
    for cut in range(len(text) + 1):
        assert count(text[:cut], b"", text[cut:]) == (3, 5)


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Lines of tabs, commas and anything else, with header lines among them, and the text in pieces."""
    first, others = st.text("A,.#é", min_size=1, max_size=4), st.lists(st.text("A,.#é", max_size=4), max_size=6)
    line = st.builds(lambda chrom, rest: "\t".join([chrom, *rest]), first, others)
    lines = draw(st.lists(line | st.just("") | st.just("##x=1\t2\t3\t4\t5,6"), max_size=8))
    text = draw(st.sampled_from(["", "\ufeff##f\n"])) + draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    data = text.encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return text, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(cut_texts())
def test_the_count_equals_the_plain_count(case: tuple[str, list[bytes]]) -> None:
    text, pieces = case
    assert count(*pieces) == count_plainly(text)


def test_the_count_of_nothing() -> None:
    assert count() == count(b"") == (0, 0)
