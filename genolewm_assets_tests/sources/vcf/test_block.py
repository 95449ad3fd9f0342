"""Blocks of records: columns, values per allele, numbers; and compiled loops once more with every index checked."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf import kernels as vcf_kernels
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.sources.scanned_vcf import infos_of, one_block, records_of
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text


def block_of(folder: Path, *infos: str, alt: str = "C", version: str = "v4.2") -> VcfBlock:
    """Return one record per INFO column; the first is on line 3."""
    text = vcf_text([("chr1", at, ".", "A", alt, "PASS", info) for at, info in enumerate(infos, 1)])
    return one_block(write_text(folder / "a.vcf", text.replace("v4.2", version, 1)))


def test_number_a_values_follow_their_allele(tmp_path: Path) -> None:
    records = [
        ("chr17", 9, "rs1", "A", "C,G", "PASS", "AF=0.25,0.5;AC=1,2"),
        ("chr17", 3, ".", "A", "*", ".", "AF=."),
        ("chr17", 4, ".", "A", "C,<DEL>,*", ".", "AC=7,.,9"),
        ("chr21", 7, "x;y", "T", ".", "AC0;RF", "."),
        ("chr21", 8, "x;y", "T", ".", "AC0;RF", "AC=3;AF=0.125"),
    ]
    rows = one_block(write_text(tmp_path / "a.vcf", vcf_text(records))).alleles()
    assert rows.record.tolist() == [0, 0, 1, 2, 2, 2, 3, 4]
    assert rows.index.tolist() == [0, 1, 0, 0, 1, 2, 0, 0]
    assert rows.alts().to_pylist() == ["C", "G", "*", "C", "<DEL>", "*", ".", "."]
    assert rows.shares_of("AF").arrow().to_pylist() == [0.25, 0.5, None, None, None, None, None, 0.125]
    assert rows.counts_of("AC").arrow().to_pylist() == [1, 2, None, 7, None, 9, None, 3]
    assert rows.strings_of("AC").to_pylist() == ["1", "2", None, "7", None, "9", None, "3"]
    assert [rows.line_of(at) for at in range(8)] == [3, 3, 4, 5, 5, 5, 6, 7]
    some = rows.take(np.array([1, 4, 5, 7]))
    assert some.alts().to_pylist() == ["G", "<DEL>", "*", "."]
    assert some.counts_of("AC").arrow().to_pylist() == [2, None, 9, 3]
    assert len(some.block) == 3
    masked = rows.take(np.arange(8) == 5)
    assert (masked.alts().to_pylist(), masked.where(0)) == (["*"], rows.where(5))


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ("AF=0.1", "does not have one value per ALT allele: expected 2 values, got '0.1'"),
        ("AF=0.1,0.2,0.3", "does not have one value per ALT allele"),
        ("AF=x,0.1", "INFO/AF cannot be read: expected a number from 0 to 1, got 'x'"),
        ("AF=1.5,0.1", "INFO/AF cannot be read"),
        ("AF=-0.5,0.1", "INFO/AF cannot be read"),
        ("AF=inf,0.1", "INFO/AF cannot be read"),
    ],
)
def test_bad_frequency_is_named(tmp_path: Path, info: str, message: str) -> None:
    for place, infos in enumerate([(info,), ("AF=0.5,0.5", "AF=.", info)]):
        with pytest.raises(VcfError, match=f"a.vcf, line {3 + 2 * place}: .*{message}"):
            block_of(tmp_path, *infos, alt="C,G").alleles().shares_of("AF")


def test_values_that_do_not_fit_several_alts_are_those_of_joined_records(tmp_path: Path) -> None:
    joined = r"It has 2 ALTs: several records seem to have been joined, as `bcftools norm -m \+any` does"
    for info in ("AF=0.1", "AF=x,0.1", "AF=0.1,"):
        with pytest.raises(VcfError, match=joined):
            block_of(tmp_path, info, alt="C,G").alleles().shares_of("AF")
    with pytest.raises(VcfError, match=joined):
        block_of(tmp_path, "AN=5,7", alt="C,G").counts_of("AN")
    for info in ("AF=0.1,0.2", "AF=x"):
        with pytest.raises(VcfError, match="Fetch the file again or report it to its publisher"):
            block_of(tmp_path, info).alleles().shares_of("AF")


def test_bad_count_is_named_and_nan_is_missing(tmp_path: Path) -> None:
    block = block_of(tmp_path, "AF=nan", "AN=1e3;AC=-1;AF=NaN")
    assert block.alleles().shares_of("AF").arrow().to_pylist() == [None, None]
    assert block.shares_of("AF").arrow().null_count == 2
    with pytest.raises(VcfError, match="line 4: INFO/AN cannot be read: expected a count, got '1e3'"):
        block.counts_of("AN")
    with pytest.raises(VcfError, match="INFO/AC cannot be read"):
        block.alleles().counts_of("AC")
    for bad in ("1" * 19, "9" * 5000, "+1", "1.0", "0x1", "1_0", "1 ", "\u0661"):
        with pytest.raises(
            VcfError, match=f"line 3: INFO/AN cannot be read: expected a count, got '{re.escape(bad[:40])}'"
        ):
            block_of(tmp_path, f"AN={bad}").counts_of("AN")


@pytest.mark.parametrize(
    "text", ["0_1.0", "0.1 ", " 0.1", "0x1", "1e", "..", "\u0661", "+-1", "e5", ".e5", "1e5.0", "0.1f"]
)
def test_what_is_no_number_of_the_specification_is_refused(tmp_path: Path, text: str) -> None:
    block = block_of(tmp_path, f"AF={text}")
    with pytest.raises(VcfError, match=r"line 3: INFO/AF cannot be read: expected a number from 0 to 1"):
        block.shares_of("AF")
    with pytest.raises(VcfError, match=r"line 3: INFO/AF cannot be read"):
        block.share(0, "AF", text)


_DECIMALS = st.builds(
    lambda whole, digits, sign, power: f"{whole}.{digits}" + (f"e{sign}{power}" if power is not None else ""),
    st.sampled_from(["", "0", "00"]),
    st.text("0123456789", min_size=1, max_size=25),
    st.sampled_from(["", "-", "+"]),
    st.none() | st.integers(0, 400),
)


@given(st.lists(_DECIMALS | st.floats(0, 1).map(repr) | st.floats(0, 1, width=32).map(str), min_size=1, max_size=20))
def test_numbers_are_rounded_as_python_does(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    texts = [text for text in texts if float(text) <= 1.0] or ["1"]
    block = block_of(tmp_path_factory.mktemp("numbers"), *(f"AF={text}" for text in texts))
    assert block.shares_of("AF").values.tolist() == [float(text) for text in texts]


@pytest.mark.parametrize("info", ["AF=0.1;AC=1;AF=0.1", "AF=0.1;AF=0.9", "AF=.;X;AF=0.9", "AF;AF=1", "AF;X;AF"])
def test_an_info_key_that_is_there_twice_is_refused(tmp_path: Path, info: str) -> None:
    block = block_of(tmp_path, "AF=0.5", info)
    for ask in (block.shares_of, block.flag, block.strings_of, lambda key: block.locate(["AC", key])):
        with pytest.raises(VcfError, match=r"a\.vcf, line 4: INFO/AF occurs twice"):
            ask("AF")
    assert block.counts_of("AC").arrow().to_pylist() == [None, 1 if "AC" in info else None]


def test_empty_items_of_info_are_passed_over(tmp_path: Path) -> None:
    block = block_of(tmp_path, "AF=1;;AC=2;", ";;", "AC=;AF", "=3;AF=0")
    assert infos_of(block, ["AF", "AC"]) == [{"AF": "1", "AC": "2"}, {}, {"AC": None, "AF": None}, {"AF": "0"}]
    assert block.counts_of("AC").arrow().to_pylist() == [2, None, None, None]


def test_a_comma_that_is_encoded_parts_no_values(tmp_path: Path) -> None:
    rows = block_of(tmp_path, "X=a%2Cb,c", alt="C,G", version="v4.3").alleles()
    assert rows.strings_of("X").to_pylist() == ["a,b", "c"]


def test_distinct_names_of_contigs(tmp_path: Path) -> None:
    chroms = ["1", "1", "11", "1", "chrM", "chrM", "chrN"]
    text = vcf_text([(chrom, at, ".", "A", "C", "PASS", ".") for at, chrom in enumerate(chroms)])
    block = one_block(write_text(tmp_path / "a.vcf", text))
    names, codes = block.distinct_chroms()
    assert (names, codes.tolist()) == (["1", "11", "chrM", "chrN"], [0, 0, 1, 0, 2, 2, 3])
    names, codes = block.take(slice(0, 0)).distinct_chroms()
    assert (names, codes.tolist()) == ([], [])


def test_records_are_taken_with_what_was_located(tmp_path: Path) -> None:
    block = block_of(tmp_path, "AF=0.1", "AC=2", "AF=0.3;AC=3")
    block.locate(["AF"])
    for rows in (np.array([2, 0]), slice(0, 3, 2)):
        some = block.take(rows)
        order = [2, 0] if isinstance(rows, np.ndarray) else [0, 2]
        assert [each.pos for each in records_of(some)] == [at + 1 for at in order]
        assert some.shares_of("AF").values.tolist() == [[0.1, 0, 0.3][at] for at in order]
        assert some.counts_of("AC").arrow().to_pylist() == [[None, 2, 3][at] for at in order]
        assert some.where(0).endswith(f"a.vcf, line {order[0] + 3}")


def test_a_block_of_no_records(tmp_path: Path) -> None:
    block = block_of(tmp_path, "AF=0.1").take(np.array([], np.int64))
    rows = block.alleles()
    assert (len(block), len(rows), list(records_of(block)), infos_of(block, ["AF"])) == (0, 0, [], [])
    assert rows.shares_of("AF").arrow().equals(pa.array([], pa.float64()))
    assert rows.counts_of("AC").arrow().equals(pa.array([], pa.int64()))
    assert rows.alts().equals(pa.array([], pa.string()))
    assert len(rows.take(np.array([], np.int64))) == 0


def test_a_long_value_is_not_repeated_in_its_error(tmp_path: Path) -> None:
    value = "x" * 100_000
    block = block_of(tmp_path, f"AF={value};AN={value}", alt="C,G")
    for rows, key in ((block.alleles(), "AF"), (block, "AN")):
        for read in (rows.shares_of, rows.counts_of):
            with pytest.raises(VcfError) as caught:
                read(key)
            assert len(str(caught.value)) < 500


def test_what_was_read_stays_valid_after_the_file_is_closed(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.vcf", vcf_text([("chr1", 1, ".", "A", "C", "PASS", "AF=0.5")]))
    with VcfScanner(path) as scanner:
        blocks = list(scanner)
    path.unlink()
    assert math.isclose(blocks[0].shares_of("AF").values[0], 0.5)


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


@pytest.mark.nightly
def test_no_loop_reads_or_writes_outside_an_array(tmp_path: Path) -> None:
    """Compiled loops do not check indices; the tests of what they do are run again with loops that do."""
    here = Path(__file__).parent
    files = [str(here / f"test_{name}.py") for name in ("block", "scan", "text", "truth")]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not nightly", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    run = subprocess.run(
        command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=500
    )
    assert run.returncode == 0, run.stdout[-4_000:]
