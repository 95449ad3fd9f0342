from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import InputError
from genolewm_assets.genome import ContigSet
from genolewm_assets.sources.corpus.aligner import MappyAligner
from genolewm_assets.sources.corpus.files import list_corpus_files, read_records
from genolewm_assets.sources.corpus.genome_slices import GenomeSlices
from genolewm_assets.sources.corpus.writing import audit_corpus_windows, write_corpus_windows
from genolewm_assets.store.artefacts import DerivedFiles
from genolewm_assets.variants import ShardReport
from genolewm_assets.windows.corpus.placement import CorpusPlacer
from genolewm_assets.windows.corpus.records import FAULTS, CorpusSource
from genolewm_assets.windows.corpus.windows import CORPUS_SKIPPED, CORPUS_WINDOWS, CorpusParams
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.sources.corpus import CONTIGS, SMALL, gene, random_bases, read_bases
from genolewm_assets_tests.worlds.sources.corpus_files import gene_row, text_row, write_rows

GENES = CorpusSource.EUKARYOTE_GENERATOR


class TestListing:
    def test_a_folder_a_pattern_and_a_file(self, tmp_path: Path) -> None:
        names = ["part-00002.parquet", "part-00000.parquet", "part-00010.parquet"]
        files = sorted(str(write_rows(tmp_path / "corpus" / name, gene_row())) for name in names)
        (tmp_path / "corpus" / "README.md").write_text("no data")
        assert list_corpus_files(str(tmp_path / "corpus")) == tuple(files)
        assert list_corpus_files(f"file://{tmp_path}/corpus") == tuple(f"file://{file}" for file in files)
        assert list_corpus_files(str(tmp_path / "corpus" / "part-000?0.parquet")) == (files[0], files[2])
        assert list_corpus_files(files[1]) == (files[1],)

    @pytest.mark.parametrize("name", ["absent", "absent/*.parquet", "empty"])
    def test_nothing_there_is_an_error(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(InputError, match="no corpus file at this path: expected a Parquet file"):
            list_corpus_files(str(tmp_path / name))


class TestReading:
    def test_files_and_rows_in_their_order_with_progress(self, tmp_path: Path) -> None:
        first = write_rows(tmp_path / "a.parquet", *(gene_row(record_id=f"a{n}") for n in range(70)))
        second = write_rows(tmp_path / "b.parquet", text_row(record="b0"))
        seen = Heard()
        records = list(read_records([first, second], GENES, progress=seen))
        assert [record.record_id for record in records] == [*(f"a{n}" for n in range(70)), "b0"]
        assert seen == [(64, 71, "records"), (70, 71, "records"), (71, 71, "records")]

    def test_a_row_group_is_not_read_as_a_whole(self, tmp_path: Path) -> None:
        rows = [gene_row(record_id=str(n), sequence=random_bases(n, 16_000).decode()) for n in range(4_000)]
        path = write_rows(tmp_path / "part.parquet", *rows)
        del rows
        before, held = pa.total_allocated_bytes(), []
        for number, _ in enumerate(read_records([path], GENES)):
            if number % 500 == 0:
                held.append(pa.total_allocated_bytes() - before)
        # A page has 1,024 values, and is in memory compressed and as text; the column would be 19 MB more.
        assert pq.read_metadata(path).num_row_groups == 1
        assert max(held) < 2.2 * 1_024 * 16_000

    def test_missing_directory_text_and_truncated(self, tmp_path: Path) -> None:
        whole = write_rows(tmp_path / "whole.parquet", *(gene_row() for _ in range(50)))
        text, cut = tmp_path / "text.parquet", tmp_path / "cut.parquet"
        text.write_text("record_id,sequence\n")
        cut.write_bytes(whole.read_bytes()[:-20])
        for path, problem in (
            (tmp_path / "no.parquet", "does not exist"),
            (tmp_path, "is a directory"),
            (text, "not a readable Parquet file"),
            (cut, "not a readable Parquet file"),
        ):
            with pytest.raises(InputError) as raised:
                list(read_records([path], GENES))
            assert str(raised.value).startswith(f"{path}: {problem}")
            assert "\n" not in str(raised.value)

    def test_a_corrupt_page_is_named(self, tmp_path: Path) -> None:
        rows = [gene_row(record_id=str(n), sequence=random_bases(n, 400).decode()) for n in range(50)]
        path = write_rows(tmp_path / "p.parquet", *rows)
        data = bytearray(path.read_bytes())
        data[500:4_000] = b"\xff" * 3_500
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"p\.parquet: cannot be read"):
            list(read_records([path], GENES))


def placer() -> CorpusPlacer:
    return CorpusPlacer(CONTIGS, read_bases)


def corpus_file(folder: Path) -> Path:
    rows = []
    for at in range(0, 30_000, 3_000):
        record = gene("chr20", at, at + 5_000, "-" if at % 2_000 else "+")
        rows.append(
            gene_row(
                record_id=f"g{at}",
                sequence=record.sequence.decode(),
                chrom="chr20",
                start=at,
                end=at + 5_000,
                strand=record.strand,
            )
        )
    return write_rows(folder / "part-0.parquet", *rows, gene_row(record_id="short"))


class TestWriting:
    params = CorpusParams(SMALL)

    def test_files_hold_the_rows_and_pass_their_audit(self, tmp_path: Path) -> None:
        paths = [corpus_file(tmp_path)]
        report = write_corpus_windows(
            read_records(paths, GENES), params=self.params, placer=placer(), out_dir=tmp_path / "o"
        )
        windows, skipped = (pq.read_table(tmp_path / "o" / name) for name in ("windows.parquet", "skipped.parquet"))
        CORPUS_WINDOWS.check(windows.schema, where="windows.parquet")
        CORPUS_SKIPPED.check(skipped.schema, where="skipped.parquet")
        assert report.rows == {"windows.parquet": windows.num_rows, "skipped.parquet": 1}
        assert report.counts["windows"] == windows.num_rows == report.counts["placement_exact"] >= 50
        checks = audit_corpus_windows(
            tmp_path / "o", read_records(paths, GENES), params=self.params, placer=placer(), counts=report.counts
        )
        assert all(check.passed for check in checks)

    def test_a_changed_corpus_fails_the_audit(self, tmp_path: Path) -> None:
        path = corpus_file(tmp_path)
        report = write_corpus_windows(
            read_records([path], GENES), params=self.params, placer=placer(), out_dir=tmp_path / "o"
        )
        rows = pq.read_table(path).to_pylist()
        rows[3]["sequence"] = random_bases(77, 5_000).decode()
        write_rows(path, *rows)
        checks = audit_corpus_windows(
            tmp_path / "o", read_records([path], GENES), params=self.params, placer=placer(), counts=report.counts
        )
        # The other bases are not those of the reference at the record's coordinates, either.
        faults = {check.name for check in checks if not check.passed}
        assert faults == {"windows_cut_from_records", "placements_hold"}

    def test_rows_at_fault_are_counted_and_too_many_refuse_the_source(self, tmp_path: Path) -> None:
        rows = pq.read_table(corpus_file(tmp_path)).to_pylist()
        short = [gene_row(record_id=f"s{number}") for number in range(38)]
        faulty = [gene_row(record_id="end", end=100), gene_row(record_id="way", strand="up")]
        paths = [write_rows(tmp_path / "a.parquet", *rows[:4], *faulty[:1], *short), tmp_path / "b.parquet"]
        write_rows(paths[1], *rows[4:], *faulty, *faulty[:1])

        def write(most: float) -> ShardReport:
            records = read_records(paths, GENES, max_faulty_fraction=most)
            return write_corpus_windows(records, params=params, placer=placer(), out_dir=tmp_path / "o")

        params = CorpusParams(SMALL, slice_fraction=0.9)
        report = write(4 / 53)
        assert {name: n for name, n in report.counts.items() if "invalid_c" in name or "strand" in name} == {
            "skipped.invalid_coordinates": 3,
            "skipped.unknown_strand": 1,
        }
        listed = pq.read_table(tmp_path / "o/skipped.parquet", columns=["record_id", "reason"]).to_pylist()
        assert [row["record_id"] for row in listed if row["reason"] in FAULTS] == ["end", "end", "way", "end"]
        checks = audit_corpus_windows(
            tmp_path / "o", read_records(paths, GENES), params=params, placer=placer(), counts=report.counts
        )
        assert [check.name for check in checks if not check.passed] == []
        with pytest.raises(InputError) as raised:
            write(3 / 53)
        assert str(raised.value).startswith(
            f"{paths[1]}: too many rows of this corpus source are at fault, 4 of the first 53 of 53: expected at most "
            "0.0566038 of them, got 3 invalid_coordinates (expected 0 <= start < end on a stated contig; row 4 of "
            "a.parquet: [100, 100) on chr21; row 7 of b.parquet: [100, 100) on chr21; row 9 of b.parquet: [100, 100) "
            "on chr21), 1 unknown_strand (expected '+', '-', '.', 1, -1 or 0; row 8 of b.parquet: 'up'). Correct"
        )

    def test_a_file_that_cannot_be_read_is_told_before_any_row_is_read(self, tmp_path: Path) -> None:
        row = {"record_id": "a", "sequence": "A", "Strand": 1}
        paths = [corpus_file(tmp_path), write_rows(tmp_path / "b.parquet", row)]
        with pytest.raises(InputError, match=r"b\.parquet: column 'Strand' \(int64\) has nearly the name of another"):
            next(read_records(paths, GENES))

    def test_nothing_used_leaves_empty_tables(self, tmp_path: Path) -> None:
        path = write_rows(tmp_path / "p.parquet", gene_row())
        report = write_corpus_windows(
            read_records([path], GENES), params=self.params, placer=placer(), out_dir=tmp_path / "o"
        )
        assert report.rows == {"windows.parquet": 0, "skipped.parquet": 1}
        checks = audit_corpus_windows(
            tmp_path / "o", read_records([path], GENES), params=self.params, placer=placer(), counts=report.counts
        )
        assert all(check.passed for check in checks)


#: records, records of 12,800 bp or more, windows of full size, windows with short ones, by what they are placed
REAL = {
    "eukaryote_generator": (48, 16, 47, 77, {"coordinates": 69, "contig_name": 2, "none": 6}),
    "mrna_evo2": (584, 0, 0, 154, {"contig_name": 142, "mappy": 12}),
    "mrna_splice_evo2": (143, 0, 0, 88, {"coordinates": 59, "mappy": 29}),
    "prokaryote_evo2": (30, 30, 320, 320, {"none": 320}),
}


@pytest.mark.nightly
@pytest.mark.parametrize("source", CorpusSource)
def test_the_real_sequences(
    source: CorpusSource, shared_data: Path, sliced_fasta: Path, sliced_contigs: ContigSet, tmp_path: Path
) -> None:
    records, long, full, windows, placed = REAL[source]
    files = [Path(file) for file in list_corpus_files(str(shared_data / "corpus" / source))]
    genome = GenomeSlices(sliced_fasta, sliced_contigs, DerivedFiles(tmp_path / "derived"))
    placer = CorpusPlacer(sliced_contigs, genome, MappyAligner(genome, spliced=source.is_transcribed))
    for params, expected in ((CorpusParams(), full), (CorpusParams(short_windows=True), windows)):
        out = tmp_path / str(params.short_windows)
        report = write_corpus_windows(read_records(files, source), params=params, placer=placer, out_dir=out)
        assert (report.counts["records_in"], report.counts["windows"]) == (records, expected)
        assert report.counts["coordinates.refuted"] == report.counts["placed.stated"] == 0
        # Transcripts whose outer exons are less than half of them.
        is_spliced = source is CorpusSource.MRNA_SPLICE_EVO2
        assert report.counts["coordinates.unverifiable"] == (report.counts["placed.mappy"] if is_spliced else 0)
        assert report.counts["bases_lost_non_acgt"] == 0
        checks = audit_corpus_windows(
            out, read_records(files, source), params=params, placer=placer, counts=report.counts
        )
        assert [check for check in checks if not check.passed] == []
        if not params.short_windows:
            assert report.counts["records_used"] == long
    table = pq.read_table(out / "windows.parquet")
    assert Counter(table["placement_how"].to_pylist()) == placed
    if source is CorpusSource.EUKARYOTE_GENERATOR:
        assert report.counts["placement_exact"] == placed["coordinates"]
        human = set(zip(table["taxonomy"].to_pylist(), table["placed_contig"].to_pylist(), strict=True))
        assert {("Homo Sapiens", "chr7"), ("Homo Sapiens", "chr12"), ("Homo sapiens", "chr21")} < human
    if source is CorpusSource.MRNA_EVO2:
        assert set(table["placed_contig"].to_pylist()) == {"chr21"}
