"""A step of the graph takes memory by the piece, not by the base; its inputs are what they claim to be."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.steps.window_inputs import SOURCE, write_catalog
from benchmarks.steps.window_memory import measure_step, step_row
from genolewm_assets.genome import Contig
from genolewm_assets.sources.catalog import load_catalog

CONTIG = Contig("chr1", 24_000_000)
#: Bytes that a step may take per base of its contig, above its imports; most of them are taken at any size.
BYTES_PER_BASE = 10


@pytest.mark.slow
def test_windows_of_a_contig_take_memory_by_the_piece(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path, CONTIG, records=0)
    assert not measure_step(catalog, tmp_path / "root", "reference/genome", None, runs=0).failure
    figures = measure_step(catalog, tmp_path / "root", "windows/index", CONTIG.name, runs=0)
    assert not figures.failure
    assert figures.peak_bytes - figures.loaded_bytes < BYTES_PER_BASE * CONTIG.length


def test_the_catalogue_can_be_read_and_names_transcripts(tmp_path: Path) -> None:
    catalog = load_catalog(str(write_catalog(tmp_path, Contig("chr1", 600_000), records=10)))
    assert [contig.length for contig in catalog.contigs] == [600_000]
    with pq.ParquetFile(
        catalog.resolve_url(catalog.corpus.sources[SOURCE].url, root=tmp_path) + "/part-00000.parquet"
    ) as file:
        assert (file.metadata.num_rows, file.num_row_groups) == (10, 1)
        assert all(13_000 <= len(text) + 1 <= 20_000 for text in file.read()["text"].to_pylist())


def test_a_step_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    figures = measure_step(tmp_path / "absent.yaml", tmp_path / "root", "windows/index", "chr1", runs=0)
    assert "failed" in step_row(figures, "nothing")
