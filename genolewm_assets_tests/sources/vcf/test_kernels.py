"""Compiled loops on edges, on arbitrary bytes, and once more with every index checked, which they leave out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.sources.vcf import kernels as vcf_kernels
from genolewm_assets_tests.places import REPOSITORY

Ints = npt.NDArray[np.int32]


def ints(*values: int) -> Ints:
    return np.array(values, np.int32)


def text_of(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def spans_of(pieces: list[bytes | None]) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
    """Return pieces one after another, as values of INFO with keys between, with where each is; None is absent."""
    at, to, text = [], [], b""
    for piece in pieces:
        text += b";K="
        at.append(-1 if piece is None else len(text))
        text += piece or b""
        to.append(-1 if piece is None else len(text))
    return text_of(text), ints(*at), ints(*to)


def split(data: bytes, columns: int) -> tuple[int, Ints, npt.NDArray[np.int64], Ints]:
    text = text_of(data)
    lines = vcf_kernels.count_line_ends(text)
    assert lines == data.count(b"\n")
    starts, pos, alts = np.empty((9, lines), np.int32), np.empty(lines, np.int64), np.empty(lines, np.int32)
    return vcf_kernels.split_lines(text, columns, starts, pos, alts), starts, pos, alts


def is_record(line: bytes, columns: int) -> bool:
    fields = line.split(b"\t")
    # Sample columns are counted, not looked at.
    filled = all(fields[:8]) and (columns == 8 or b"\t".join(fields[8:]) != b"")
    digits = len(fields) == columns and fields[1].isdigit() and len(fields[1]) <= 10
    return filled and digits and not line.startswith(b"#")


_FIELDS = st.sampled_from(
    [b"1", b"chr1", b"0012", b"A,C", b",", b".", b"x=1;y", b"", b"#", b"\r", b"12345678901", b" 1"]
)
_LINES = st.lists(_FIELDS, min_size=6, max_size=12).map(b"\t".join) | st.tuples(
    *[st.sampled_from([b"1", b"A,C", b"9999999999"])] * 8
).map(b"\t".join)


@given(
    st.lists(_LINES | st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=6), st.integers(8, 11)
)
def test_lines_are_split_up_to_the_first_that_is_no_record(lines: list[bytes], columns: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    plain = [line.removesuffix(b"\r") for line in lines]
    expected = next((at for at, line in enumerate(plain) if not is_record(line, columns)), len(lines))
    read, starts, pos, alts = split(data, columns)
    assert read == expected
    for at, line in enumerate(plain[:read]):
        fields = line.split(b"\t")
        assert [data[starts[c, at] : starts[c + 1, at] - 1] for c in range(8)] == fields[:8]
        assert (pos[at], alts[at]) == (int(fields[1]), fields[4].count(b",") + 1)


def test_nothing_to_split() -> None:
    assert split(b"", 8)[0] == split(b"", 9)[0] == 0
    for bad in (
        b"\n",
        b"\r\n",
        b"\r\r\n",
        b"\t" * 7 + b"\n",
        b"a\t1\t.\tA\tC\t.\t.\t\n",
        b"a\t1\t.\tA\tC\t.\t.\t.\t\n",
    ):
        assert split(bad, 8)[0] == split(bad, 9)[0] == 0


@given(st.lists(st.sampled_from([b"chr1", b"chr2", b"chr11", b"", b"chr"]), max_size=12))
def test_runs_begin_where_a_span_differs(pieces: list[bytes]) -> None:
    text, at, to = spans_of(list(pieces))
    first = np.empty(len(pieces) + 1, np.int32)
    runs = vcf_kernels.find_runs(text, at, to, first)
    assert first[:runs].tolist() == [i for i, piece in enumerate(pieces) if i == 0 or pieces[i - 1] != piece]


def find(pieces: list[bytes | None], count: Ints, index: Ints) -> tuple[int, list[bytes | None]]:
    text, at, to = spans_of(pieces)
    one_at, one_to = np.empty(len(at), np.int32), np.empty(len(at), np.int32)
    row = vcf_kernels.find_elements(text, at, to, count, index, one_at, one_to)
    found = [None if a < 0 else text[a:b].tobytes() for a, b in zip(one_at, one_to, strict=True)]
    return row, found


@given(st.data())
def test_every_allele_gets_its_own_element(data: st.DataObject) -> None:
    element = st.sampled_from([b"", b"0.5", b".", b"7", b"x" * 30])
    lists = data.draw(st.lists(st.none() | st.lists(element, min_size=1, max_size=5).map(b",".join), max_size=6))
    counts = [1 if each is None else each.count(b",") + 1 for each in lists]
    rows = [(i, j) for i, count in enumerate(counts) for j in range(count)]
    # Some alleles of a record may be gone already.
    rows = [row for row in rows if data.draw(st.integers(0, 3))]
    text, at, to = spans_of(lists)
    record = np.array([i for i, _ in rows], np.int64)
    one_at, one_to = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    bad = vcf_kernels.find_elements(
        text, at[record], to[record], ints(*(counts[i] for i, _ in rows)), ints(*(j for _, j in rows)), one_at, one_to
    )
    assert bad == -1
    for (i, j), a, b in zip(rows, one_at, one_to, strict=True):
        whole = lists[i]
        if whole is None or whole in {b"", b"."}:
            assert a == b == -1
        else:
            assert text[a:b].tobytes() == whole.split(b",")[j]


def test_a_list_of_another_length_is_named() -> None:
    assert find([b"1,2", b"3"], ints(2, 2), ints(0, 0))[0] == 1
    assert find([b"1,2,3"], ints(2), ints(0))[0] == 0
    assert find([b",", b","], ints(2, 3), ints(1, 0))[0] == 1
    assert find([None, b"", b"."], ints(2, 2, 2), ints(1, 0, 1)) == (-1, [None, None, None])
    assert find([], ints(), ints()) == (-1, [])


@given(st.lists(st.none() | st.text("0123456789.eE+-, x", max_size=24).map(str.encode), max_size=8))
def test_numbers_are_read_as_python_reads_them_or_left_alone(pieces: list[bytes | None]) -> None:
    text, at, to = spans_of(pieces)
    state = np.empty(len(pieces), np.uint8)
    counts, shares = np.empty(len(pieces), np.int64), np.empty(len(pieces), np.float64)
    vcf_kernels.parse_counts(text, at, to, counts, state)
    for piece, value, what in zip(pieces, counts.tolist(), state.tolist(), strict=True):
        if piece in {None, b"", b"."}:
            assert what == vcf_kernels.MISSING
        else:
            assert (what == vcf_kernels.VALUE) == (piece.isdigit() and len(piece) <= 18)
            assert what == vcf_kernels.OTHER or value == int(piece)
    vcf_kernels.parse_shares(text, at, to, shares, state)
    for piece, share, what in zip(pieces, shares.tolist(), state.tolist(), strict=True):
        if piece in {None, b"", b"."}:
            assert what == vcf_kernels.MISSING
        elif what == vcf_kernels.VALUE:
            assert share == float(piece) <= 1.0
        else:
            assert what == vcf_kernels.OTHER


def test_most_numbers_of_gnomad_are_read_by_the_loop() -> None:
    text, at, to = spans_of([b"0.000123457", b"1.31406e-05", b"0.00000e+00", b"1", b"0", b"1.00000e+00", b"0.5"])
    values, state = np.empty(7, np.float64), np.empty(7, np.uint8)
    vcf_kernels.parse_shares(text, at, to, values, state)
    assert state.tolist() == [vcf_kernels.VALUE] * 7


@given(st.lists(st.none() | st.sampled_from([b"", b".", b"..", b"a", b"xyz" * 20]), max_size=20), st.booleans())
def test_spans_are_laid_out_and_gathered(pieces: list[bytes | None], dot_is_missing: bool) -> None:
    text, at, to = spans_of(pieces)
    offsets, valid = np.empty(len(pieces) + 1, np.int32), np.zeros((len(pieces) + 7) // 8, np.uint8)
    nulls = vcf_kernels.measure(text, at, to, dot_is_missing, offsets, valid)
    out = np.empty(offsets[-1], np.uint8)
    vcf_kernels.gather(text, at, offsets, out)
    gone = {None, b"", b"."} if dot_is_missing else {None}
    assert nulls == sum(piece in gone for piece in pieces)
    assert np.unpackbits(valid, count=len(pieces), bitorder="little").tolist() == [p not in gone for p in pieces]
    found = [out[offsets[i] : offsets[i + 1]].tobytes() for i in range(len(pieces))]
    assert found == [b"" if piece in gone else piece for piece in pieces]


def test_no_rows_and_no_text() -> None:
    text, none = text_of(b""), ints()
    assert vcf_kernels.count_line_ends(text) == 0
    assert vcf_kernels.find_runs(text, none, none, np.empty(1, np.int32)) == 0
    head, chain = np.full(256, -1, np.int32), ints(-1)
    spans = np.full((1, 0), -1, np.int32)
    assert vcf_kernels.locate_keys(text, none, none, text_of(b"AF"), ints(0, 2), head, chain, spans, spans.copy()) == -1
    vcf_kernels.parse_counts(text, none, none, np.empty(0, np.int64), np.empty(0, np.uint8))
    vcf_kernels.parse_shares(text, none, none, np.empty(0, np.float64), np.empty(0, np.uint8))
    counts = np.array([3, 4, 2, 1], np.int64)
    vcf_kernels.count_lines(text, counts)
    assert counts.tolist() == [3, 4, 2, 1]


@pytest.mark.nightly
def test_no_loop_reads_or_writes_outside_an_array(tmp_path: Path) -> None:
    """Compiled loops do not check indices; the tests of what they do are run again with loops that do."""
    here = Path(__file__).parent
    files = [str(here / f"test_{name}.py") for name in ("kernels", "block", "scan", "text")]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not nightly", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    run = subprocess.run(
        command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=500
    )
    assert run.returncode == 0, run.stdout[-4_000:]
