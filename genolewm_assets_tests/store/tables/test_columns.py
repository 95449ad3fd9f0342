from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.store.tables.columns import (
    list_column,
    number_column,
    numbers_of,
    repeated_text,
    text_column,
)
from genolewm_assets_tests.worlds.sources import clinvar_records
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=20)
SCRIPT = """
import sys
from pathlib import Path
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
vcf, bases, out = sys.argv[1:]
contigs = ContigSet([Contig("chr17", len(bases), aliases=("17",)), Contig("chrM", len(bases), aliases=("MT",))])
report = build_clinvar_shard(
    Path(vcf), release="r", contigs=contigs, reference=lambda _: bases.encode(), out_dir=Path(out)
)
print(report.counts["kept"], report.counts["rejected"], *sorted({"pandas", "aiohttp"} & set(sys.modules)))
"""


@given(numbers=st.lists(st.integers(-(2**62), 2**62), max_size=20), data=st.data())
def test_numbers(numbers: list[int], data: st.DataObject) -> None:
    for kind in (np.int64, np.int8, np.bool_):
        values = np.array(numbers, np.int64).astype(kind)
        there = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), np.bool_)
        assert number_column(values).equals(pa.array(values))
        column = number_column(values, there)
        column.validate(full=True)
        assert column.equals(pa.array(values, mask=~there))
    column = number_column(np.array(numbers, np.int64))
    for part in (column, column.slice(1), column.slice(2, 3)):
        assert numbers_of(part).tolist() == part.to_pylist()
        assert not numbers_of(part).flags.writeable or not len(part)


@given(texts=TEXTS)
def test_texts(texts: list[str | None]) -> None:
    column = text_column(texts)
    column.validate(full=True)
    assert column.equals(pa.array(texts, pa.string()))


@given(lists=st.lists(st.none() | TEXTS, max_size=10))
def test_lists(lists: list[list[str | None] | None]) -> None:
    column = list_column(lists, text_column([text for each in lists for text in each or ()]))
    column.validate(full=True)
    assert column.equals(pa.array(lists, pa.list_(pa.string())))


def test_repeated_text() -> None:
    assert repeated_text("chr1", 3).to_pylist() == ["chr1"] * 3
    assert repeated_text("chr1", 0).type == pa.string()


@pytest.mark.parametrize("chrom", ["17", "MT"])
@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_a_build_from_a_local_file_imports_neither_pandas_nor_http(tmp_path: Path, chrom: str) -> None:
    more = ";GENEINFO=A:1|B:2;RS=5;CLNREVSTAT=reviewed_by_expert_panel"
    records = [
        # A contig out of its turn: the rows of both are spooled.
        clinvar_records.record(chrom=chrom, alt="T", name=7),
        clinvar_records.record(pos=8, ref="TT", alt="T", more=more),
        clinvar_records.record(pos=7, ref="TT", alt="T", name=8),
        clinvar_records.record(pos=3, ref="A", name=9),
        clinvar_records.record(pos=3, alt="A,C", name=10),
    ]
    vcf = write_text(tmp_path / "in.vcf", vcf_text(records, info=[*clinvar_records.INFO, "RS:.:String"]))
    arguments = [sys.executable, "-c", SCRIPT, str(vcf), clinvar_records.SEQUENCE.decode(), str(tmp_path / "out")]
    told = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    assert told.split() == ["4", "2"]
