from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from genolewm_assets.errors import InputError
from genolewm_assets.sources.corpus.files import look_at_corpus_file, read_records
from genolewm_assets.sources.corpus.layouts import find_layout
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.corpus_files import gene_row, text_row, write_rows

GENES, MRNA, SPLICED = (CorpusSource.EUKARYOTE_GENERATOR, CorpusSource.MRNA_EVO2, CorpusSource.MRNA_SPLICE_EVO2)


def read_one(tmp_path: Path, row: dict[str, object], source: CorpusSource = GENES) -> CorpusRecord:
    (record,) = read_records([write_rows(tmp_path / "part.parquet", row)], source)
    return record


def test_a_gene_with_its_coordinates(tmp_path: Path) -> None:
    record = read_one(tmp_path, gene_row(sequence="acgtUnRy", end=108))
    assert record == CorpusRecord(
        GENES, "G1", b"ACGTTNRY", taxonomy="Homo sapiens", contig="chr21", span=(100, 108), strand="-", junctions=()
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
        ("chr17:42458880-42458919(-) exons=1 junctions=.", (42_458_879, 42_458_919), "-", ()),
        ("chr17:7-46(+) exons=1", (6, 46), "+", ()),
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
def test_a_taxon_is_that_of_its_field_or_of_the_source(tmp_path: Path, metadata: object, taxonomy: str | None) -> None:
    record = read_one(tmp_path, {"text": "ACGT", "record": "x", "metadata": metadata}, CorpusSource.PROKARYOTE_EVO2)
    assert record.taxonomy == taxonomy
    assert record.maybe_human is (taxonomy in (None, "Homo sapiens"))


FAULTS = [
    (gene_row(record_id=None), "no_id", "none"),
    (gene_row(record_id=""), "no_id", "none"),
    (gene_row(start=140, end=140), "invalid_coordinates", "[140, 140) on chr21"),
    (gene_row(start=-1), "invalid_coordinates", "[-1, 140) on chr21"),
    (gene_row(end=None), "invalid_coordinates", "[100, None) on chr21"),
    (gene_row(chrom=None), "invalid_coordinates", "[100, 140) on None"),
    (gene_row(end=1 << 62), "invalid_coordinates", f"[100, {1 << 62}) on chr21"),
    (gene_row(start=100.5), "not_a_whole_number", "start '100.5'"),
    (gene_row(end="140 bp"), "not_a_whole_number", "end '140 bp'"),
    (gene_row(taxonomy=9606.5), "not_a_whole_number", "taxonomy '9606.5'"),
    (gene_row(end=139), "length_differs", "40 bases for 39"),
    (gene_row(strand="forward"), "unknown_strand", "'forward'"),
    (gene_row(strand=2), "unknown_strand", "'2'"),
    (text_row("chr17:0-100(+)"), "invalid_coordinates", "[-1, 100) on chr17"),
    (text_row("chr17:100-9(+)"), "invalid_coordinates", "[99, 9) on chr17"),
    (text_row("chr17:1-39(+) exons=2 junctions=9"), "length_differs", "40 bases for 39"),
    (text_row("chr17:1-90(+) exons=1"), "length_differs", "40 bases for 90"),
    (text_row("chr17:1-90(+) exons=3 junctions=5"), "invalid_junctions", "'5' for 3 exons"),
    (text_row("chr17:1-90(+) exons=3 junctions=9,5"), "invalid_junctions", "'9,5' for 3 exons"),
    (text_row("chr17:1-90(+) exons=2 junctions=five"), "invalid_junctions", "'five'"),
]


@each_row("row, reason, got", FAULTS)
def test_a_bad_row_is_told_and_the_next_is_read(tmp_path: Path, row: dict[str, object], reason: str, got: str) -> None:
    source, good = (GENES, gene_row()) if "sequence" in row else (SPLICED, text_row())
    for name, value in good.items():
        if row[name] is not None and type(row[name]) is not type(value):
            good[name] = type(row[name])(value) if name in ("start", "end") else None
    bad, whole = read_records([write_rows(tmp_path / "part.parquet", row, good)], source)
    assert (bad.fault, whole.fault) == ((reason, got), None)
    assert (bad.record_id, bad.sequence) == (row.get("record_id", row.get("record")) or "", b"ACGT" * 10)
    assert (bad.contig, bad.span, bad.junctions) == (None, None, None)
    assert whole.sequence == b"ACGT" * 10


def test_a_transcript_s_sequence_may_be_shorter_than_its_place_and_an_empty_one_has_no_length(tmp_path: Path) -> None:
    assert read_one(tmp_path, gene_row(end=900), MRNA).fault is None
    assert read_one(tmp_path, gene_row(sequence="")).fault is None


@st.composite
def gene_tables(draw: st.DrawFn) -> pd.DataFrame:
    """Valid genes, some without coordinates, as the plain table has them."""
    rows = []
    for number in range(draw(st.integers(1, 6))):
        start, size = draw(st.integers(0, 1 << 22)), draw(st.integers(1, 30))
        place = {"chrom": "chr21", "start": start, "end": start + size, "strand": draw(st.sampled_from("+-."))}
        stated = place if draw(st.booleans()) else dict.fromkeys(place)
        rows.append(
            gene_row(record_id=f"g{number}", sequence="A" * size, taxonomy=draw(st.sampled_from(["9606", "562"])))
            | stated
        )
    return pd.DataFrame(rows)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gene_tables(), st.data())
def test_a_table_of_any_spelling_reads_like_plain(tmp_path: Path, table: pd.DataFrame, data: st.DataObject) -> None:
    plain = table.astype({"start": "Int64", "end": "Int64"})
    spelt = plain.copy()
    for name in ("start", "end"):
        kind = data.draw(st.sampled_from(["Int64", "Float64", "text", "object"]))
        if kind == "text":
            spelt[name] = plain[name].astype("str").where(plain[name].notna(), data.draw(st.sampled_from(["", None])))
        elif kind == "object":
            spelt[name] = plain[name].astype("object").where(plain[name].notna(), None)
        else:
            spelt[name] = plain[name].astype(kind)
    if data.draw(st.booleans()):
        numbers = plain["strand"].map({"+": 1, "-": -1, ".": 0})
        spelt["strand"] = data.draw(
            st.sampled_from([numbers, numbers.astype("Int8"), numbers.astype("Int8").astype("str")])
        )
        spelt["strand"] = spelt["strand"].where(plain["strand"].notna(), None)
    if data.draw(st.booleans()):
        spelt["taxonomy"] = plain["taxonomy"].astype(data.draw(st.sampled_from(["int64", "float64", "uint16"])))
    for name in data.draw(st.sets(st.sampled_from(["record_id", "chrom"]))):
        spelt[name] = plain[name].astype("category")
    for frame, name in ((plain, "plain"), (spelt, "spelt")):
        frame.to_parquet(tmp_path / name, index=name == "spelt")
    read = [list(read_records([tmp_path / name], GENES)) for name in ("plain", "spelt")]
    assert read[0] == read[1]
    assert [record.span is None for record in read[0]] == plain["start"].isna().tolist()


@each_row(
    "column, message",
    [
        ({"Start": pa.array([1.0])}, "column 'Start' (double) has nearly the name of another: expected 'start'"),
        ({"taxnomy": pa.array(["a"])}, "column 'taxnomy' (string) has nearly the name of another: expected 'taxonomy'"),
        ({"start": pa.array([[1]])}, "column 'start' has another type: expected whole numbers"),
        ({"sequence": pa.array([b"A"])}, "column 'sequence' has another type: expected text, got binary"),
        ({"strand": pa.array([True])}, "column 'strand' has another type: expected text or whole numbers, got bool"),
        ({"start": pa.array([1]), "end": pa.array([5])}, "lacks column 'chrom': expected 'chrom', 'start' and 'end'"),
        ({"chr": pa.array(["chr1"]), "start": pa.array([1])}, "column 'chr' (string) has nearly the name of another"),
        ({"metadata": pa.array([7])}, "column 'metadata' has another type: expected text, got int64"),
        ({"metadata": pa.array([{"Note": "x"}])}, "(metadata): column 'Note' (string) has nearly the name of another"),
        ({"metadata": pa.array([{"note": 7}])}, "(metadata): column 'note' has another type: expected text, got int64"),
        ({"meta_data": pa.array(["x"])}, "column 'meta_data' (string) has nearly the name of another"),
    ],
)
def test_a_column_that_would_be_ignored_is_an_error(tmp_path: Path, column: dict[str, pa.Array], message: str) -> None:
    words = ("record", "text") if any("data" in name for name in column) else ("record_id", "sequence")
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table({words[0]: ["a"], words[1]: ["ACGT"], **column}), path)
    with pytest.raises(InputError) as raised:
        list(read_records([path], GENES))
    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)
    assert str(raised.value) == str(look_at_corpus_file(path)[0])


@each_row(
    "schema, remedy",
    [
        (pa.schema([]), "Point the catalogue's corpus section at"),
        (pa.schema([("base", pa.string()), ("id", pa.string())]), "Point the catalogue's corpus section at"),
        (pa.schema([("sequence", pa.string()), ("record", pa.string())]), "Point the catalogue's corpus section at"),
        (
            pa.schema([("Sequence", pa.string()), ("Record-ID", pa.string())]),
            "Rename 'Sequence' to 'sequence', Rename 'Record-ID' to 'record_id'.",
        ),
    ],
)
def test_another_layout_is_refused_with_the_columns_found(schema: pa.Schema, remedy: str) -> None:
    with pytest.raises(
        InputError, match="not a layout of the pretraining corpus: expected text columns 'rec"
    ) as raised:
        find_layout(schema, where="x.parquet")
    assert remedy in str(raised.value)
