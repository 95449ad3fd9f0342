"""Blocks of records: columns, values per allele, numbers; and compiled loops once more with every index checked."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.fuzz.vcf_check import check_vcf, make_input
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.sources.scanned_vcf import infos_of, one_block, records_of
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text


def block_of(folder: Path, *infos: str, alt: str = "C", version: str = "v4.2") -> VcfBlock:
    """Return one record per INFO column; the first is on line 3."""
    text = vcf_text([("chr1", at, ".", "A", alt, "PASS", info) for at, info in enumerate(infos, 1)])
    return one_block(write_text(folder / "a.vcf", text.replace("v4.2", version, 1)))


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
    with pytest.raises(VcfError, match=r"line 3: INFO/AF cannot be read"):
        block.share(0, "AF", ".e5")


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


#: What is no number of the specification: Python and other readers take some of them for one.
NO_NUMBERS = (
    *("1" * 19, "9" * 5000, "0_1.0", "1_0", "0.1 ", " 0.1", "0x1", "1e", "..", "\u0661", "+-1", "e5", ".e5", "1e5.0"),
    "0.1f",
)


@given(st.lists(st.text("0123456789.eE+-, x", max_size=24) | _DECIMALS | st.sampled_from(NO_NUMBERS), max_size=8))
@example([*NO_NUMBERS])
def test_values_are_read_as_a_plain_parser_reads_them_or_refused(texts: list[str]) -> None:
    for text in texts:
        check_vcf(make_input(vcf_text([("chr1", 5, ".", "A", "C", "PASS", f"AF={text};AN={text}")]).encode()))


def test_lists_and_items_of_info_are_those_of_a_plain_parser() -> None:
    records = [
        ("chr17", 9, "rs1", "A", "C,G", "PASS", "AF=0.25,0.5;AC=1,2"),
        ("chr17", 3, ".", "A", "*", ".", "AF=."),
        ("chr17", 3, ".", "A", "C,G", ".", "AN=0.1,"),
        ("chr17", 4, ".", "A", "C,<DEL>,*", ".", "AC=7,.,9"),
        ("chr21", 7, "x;y", "T", ".", "AC0;RF", "."),
        *(("chr21", 8, "x;y", "T", ".", ".", info) for info in ("AF=1;;AC=2;", ";;", "AC=;AF", "=3;AF=0")),
    ]
    check_vcf(make_input(vcf_text(records).encode()))


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
