from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from genolewm_assets.errors import InputError
from genolewm_assets.lewm.corpus.records import CorpusRecord, CorpusSource
from genolewm_assets.sources.corpus.files import read_records
from genolewm_assets.sources.corpus.layouts import find_layout
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.corpus_files import gene_row, text_row, write_rows

GENES, MRNA, SPLICED = (
    CorpusSource.EUKARYOTE_GENERATOR,
    CorpusSource.MRNA_EVO2,
    CorpusSource.MRNA_SPLICE_EVO2,
)


def read_one(tmp_path: Path, row: dict[str, object], source: CorpusSource = GENES) -> CorpusRecord:
    (record,) = read_records([write_rows(tmp_path / "part.parquet", row)], source)
    return record


def test_a_gene_with_its_coordinates(tmp_path: Path) -> None:
    record = read_one(tmp_path, gene_row(sequence="acgtUnRy"))
    assert record == CorpusRecord(
        GENES,
        "G1",
        b"ACGTTNRY",
        taxonomy="Homo sapiens",
        contig="chr21",
        span=(100, 140),
        strand="-",
        junctions=(),
    )


def test_a_gene_without_coordinates_takes_the_accession_of_its_id(tmp_path: Path) -> None:
    bare = {"chrom": None, "start": None, "end": None, "strand": None}
    record = read_one(tmp_path, gene_row(record_id="ActB|NC_000007.14", **bare))
    assert (record.contig, record.span, record.strand) == ("NC_000007.14", None, None)
    assert read_one(tmp_path, gene_row(record_id="ActB|mouse", **bare)).contig is None


def test_a_file_of_genes_may_have_two_columns_only(tmp_path: Path) -> None:
    record = read_one(tmp_path, {"record_id": "x", "sequence": "ACGT"})
    assert (record.taxonomy, record.contig, record.span) == (None, None, None)


def test_a_null_sequence_is_an_empty_one(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "p.parquet", gene_row(), gene_row(sequence=None))
    assert [record.sequence for record in read_records([path], GENES)] == [b"ACGT" * 10, b""]


@pytest.mark.parametrize(
    ("note", "span", "strand", "junctions"),
    [
        ("chr17:1-100(+) exons=3 junctions=5,12", (0, 100), "+", (5, 12)),
        ("chr17:42458880-42522582(-) exons=1 junctions=.", (42_458_879, 42_522_582), "-", ()),
        ("chr17:7-8(+) exons=1", (6, 8), "+", ()),
        ("chr17:7-80(+) exons=4", (6, 80), "+", None),
        ("chr17:7-80(+)", (6, 80), "+", None),
    ],
)
def test_coordinates_in_a_note_are_1_based(
    tmp_path: Path, note: str, span: tuple[int, int], strand: str, junctions: tuple[int, ...] | None
) -> None:
    record = read_one(tmp_path, text_row(note), SPLICED)
    assert (record.contig, record.span, record.strand, record.junctions) == ("chr17", span, strand, junctions)
    assert record.note == note


@pytest.mark.parametrize(
    ("note", "source", "contig"),
    [
        ("Ensembl transcript, chr21", "ensembl", "chr21"),
        ("Ensembl transcript", "ensembl_mrna_chr20", "chr20"),
        ("a transcript", "human_spliced_mrna.chrX", "chrX"),
        ("chromatin transcript of chr211x", "mrna", None),
        ("Escherichia coli 536, complete genome", "bacteria_NC_008253.1_Ecoli_536", None),
        (None, None, None),
    ],
)
def test_a_contig_that_is_only_named(tmp_path: Path, note: str | None, source: str | None, contig: str | None) -> None:
    if note is None:
        record = read_one(tmp_path, {"text": "ACGT", "record": "x"}, MRNA)
    else:
        record = read_one(tmp_path, text_row(note, source), MRNA)
    assert (record.contig, record.span, record.junctions) == (contig, None, None)


def test_metadata_may_be_plain_text(tmp_path: Path) -> None:
    record = read_one(tmp_path, {"text": "ACGT", "record": "x", "metadata": "chr20:11-20(-)"}, MRNA)
    assert (record.contig, record.span, record.strand) == ("chr20", (10, 20), "-")


@pytest.mark.parametrize(
    ("metadata", "taxonomy"),
    [
        ({"source": "bacteria_NC_008253.1_Ecoli_536", "note": "Escherichia coli 536, complete genome"}, "bacteria"),
        ({"source": "Archaea_X", "note": None}, "Archaea"),
        ({"source": "bacterial_vector", "note": None}, None),
        ({"source": "human_not_bacteria_1", "note": "bacteria_1"}, None),
        ({"source": "data_train_chunk1.jsonl.gz", "note": None}, None),
        ({"source": "bacteria_1", "note": None, "taxonomy": "Homo sapiens"}, "Homo sapiens"),
        ({"source": None, "note": None, "taxonomy": "d__Bacteria;p__Bacillota"}, "d__Bacteria;p__Bacillota"),
        ("bacteria_NC_008253.1", None),
    ],
)
def test_a_taxon_is_stated_by_its_field_or_the_first_word_of_the_source(
    tmp_path: Path, metadata: object, taxonomy: str | None
) -> None:
    record = read_one(tmp_path, {"text": "ACGT", "record": "x", "metadata": metadata}, CorpusSource.PROKARYOTE_EVO2)
    assert record.taxonomy == taxonomy
    assert record.maybe_human is (taxonomy in (None, "Homo sapiens"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (gene_row(record_id=None), "record has no id: expected text, got None"),
        (gene_row(record_id=""), "record has no id: expected text, got ''"),
        (gene_row(start=140, end=140), "invalid coordinates: expected 0 <= start < end, got [140, 140) (0-based)"),
        (gene_row(start=-1), "invalid coordinates"),
        (text_row("chr17:0-100(+)"), "invalid coordinates: expected 0 <= start < end, got [-1, 100) (0-based)"),
        (text_row("chr17:100-9(+)"), "invalid coordinates"),
        (text_row("chr17:1-90(+) exons=3 junctions=5"), "junctions do not fit the exons: expected 2 ascending offsets"),
        (text_row("chr17:1-90(+) exons=3 junctions=9,5"), "junctions do not fit the exons"),
        (
            text_row("chr17:1-90(+) exons=2 junctions=five"),
            "junctions are not numbers: expected '84,248' or '.', got 'f",
        ),
    ],
)
def test_an_impossible_row_is_named(tmp_path: Path, row: dict[str, object], message: str) -> None:
    good = gene_row() if "sequence" in row else text_row()
    path = write_rows(tmp_path / "part.parquet", good, good, row)
    with pytest.raises(InputError) as raised:
        list(read_records([path], SPLICED))
    assert str(raised.value).startswith(f"{path} (row 2): {message}")


@each_row(
    "schema",
    [
        pa.schema([]),
        pa.schema([("seq", pa.string()), ("id", pa.string())]),
        pa.schema([("sequence", pa.string()), ("record", pa.string())]),
        pa.schema([("sequence", pa.binary()), ("record_id", pa.string())]),
    ],
)
def test_another_layout_is_refused_with_the_columns_found(schema: pa.Schema) -> None:
    with pytest.raises(InputError, match="not a layout of the pretraining corpus: expected text columns 'record_id'"):
        find_layout(schema, where="x.parquet")
