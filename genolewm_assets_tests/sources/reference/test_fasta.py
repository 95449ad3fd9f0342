from __future__ import annotations

import gzip
import hashlib
import os
import random
from pathlib import Path

import pyarrow.parquet as pq
import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import FastaError, UnknownContigError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.catalog.catalog import load_catalog
from genolewm_assets.sources.files.local import Compression
from genolewm_assets.sources.reference.fasta import (
    CONTIGS_NAME,
    FASTA_NAME,
    ContigPieces,
    FastaReader,
    check_fasta,
    compare_contigs,
    prepare_genome,
)
from genolewm_assets.windows.reference.schema import GENOME_CONTIGS
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.places import CATALOGS
from genolewm_assets_tests.worlds.sources.vcf_files import write_text

RANDOM = random.Random(3)
CHR1 = "N" * 70 + "".join(RANDOM.choices("ACGTacgt", k=100_000)) + "NNRYNN" + "ACGT" * 25
CHR2 = "".join(RANDOM.choices("ACGT", k=61))
CHRM = "GATCACAGGT" * 10 + "N" + "ACGT" * 3
SEQUENCES = {"chr1": CHR1, "chr2": CHR2, "chrM": CHRM}


def md5(sequence: str) -> str:
    return hashlib.md5(sequence.upper().encode()).hexdigest()


CONTIGS = ContigSet(
    [
        Contig("chr1", len(CHR1), md5=md5(CHR1), aliases=("1", "NC_000001.11")),
        Contig("chr2", len(CHR2), md5=md5(CHR2), aliases=("2",)),
        Contig("chrM", len(CHRM), md5=md5(CHRM), circular=True, aliases=("MT",)),
    ]
)


def fasta_text(sequences: dict[str, str], width: int = 60, end: str = "\n") -> bytes:
    lines = []
    for name, sequence in sequences.items():
        lines.append(f">{name} described")
        lines += [sequence[at : at + width] for at in range(0, len(sequence), width)]
    return (end.join(lines) + end).encode()


def write(path: Path, text: bytes, compression: Compression = Compression.BGZF) -> Path:
    return write_text(path, text, {"bgzf": "bgzip"}.get(compression, compression))


@pytest.mark.parametrize("compression", Compression)
def test_every_packing_gives_the_same_contigs(tmp_path: Path, compression: Compression) -> None:
    source = write(tmp_path / "source", fasta_text({**SEQUENCES, "chrUn_1": "ACGTN"}), compression)
    assert check_fasta(source) is compression
    out = tmp_path / "out"
    out.mkdir()
    table = prepare_genome(source, out, CONTIGS)
    indexes = [f"{FASTA_NAME}.fai", f"{FASTA_NAME}.gzi"]
    assert sorted(file.name for file in out.iterdir()) == [CONTIGS_NAME, FASTA_NAME, *indexes]
    assert [tuple(row[name] for name in GENOME_CONTIGS.columns) for row in table.to_pylist()] == [
        ("chr1", 100_176, False, md5(CHR1), 100_100, 2),
        ("chr2", 61, False, md5(CHR2), 61, 1),
        ("chrM", 113, True, md5(CHRM), 112, 2),
    ]
    GENOME_CONTIGS.check(pq.read_schema(out / CONTIGS_NAME), where="contigs.parquet")
    assert pq.read_table(out / CONTIGS_NAME).equals(table)
    assert compare_contigs(table, CONTIGS) == []
    with FastaReader(out / FASTA_NAME) as reader:
        assert dict(reader.contigs) == {"chr1": 100_176, "chr2": 61, "chrM": 113, "chrUn_1": 5}
        assert {name: reader.read_contig(name).decode() for name in SEQUENCES} == {
            name: sequence.upper() for name, sequence in SEQUENCES.items()
        }


def test_bgzipped_input_is_copied_byte_for_byte(tmp_path: Path) -> None:
    source = write(tmp_path / "source.fa.gz", fasta_text(SEQUENCES))
    (tmp_path / "out").mkdir()
    prepare_genome(source, tmp_path / "out", CONTIGS)
    assert (tmp_path / "out" / FASTA_NAME).read_bytes() == source.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("source")] == ["source.fa.gz"]


@pytest.mark.parametrize("spellings", [("1", "2", "MT"), ("NC_000001.11", "chr2", "chrM")])
def test_other_spellings_become_canonical(tmp_path: Path, spellings: tuple[str, ...]) -> None:
    text = fasta_text(dict(zip(spellings, SEQUENCES.values(), strict=True)))
    source = tmp_path / "source.fa"
    source.write_bytes(text)
    assert compare_contigs(prepare_genome(source, tmp_path, CONTIGS), CONTIGS) == []
    with FastaReader(tmp_path / FASTA_NAME, CONTIGS) as reader:
        assert list(reader.contigs) == ["chr1", "chr2", "chrM"]
        assert reader.read_contig("chr1").decode() == CHR1.upper()
        with pytest.raises(UnknownContigError, match="one of chr1, chr2, chrM, got 'chrX'"):
            reader.read_contig("chrX")


def test_differences_from_the_pinned_genome_are_named(tmp_path: Path) -> None:
    source = tmp_path / "source.fa"
    altered = {"chr1": CHR1[:-1], "chr2": "T" + CHR2[1:] if CHR2[0] != "T" else "A" + CHR2[1:]}
    source.write_bytes(fasta_text(altered))
    differences = compare_contigs(prepare_genome(source, tmp_path, CONTIGS), CONTIGS)
    assert [str(each) for each in differences] == [
        "chr1: length: expected 100176, got 100175",
        f"chr2: MD5: expected {md5(CHR2)}, got {md5(altered['chr2'])}",
        "chrM: length: expected 113, got not in the FASTA",
    ]


def test_progress_counts_bases_to_the_end(tmp_path: Path) -> None:
    seen = Heard()
    source = write(tmp_path / "source.fa.gz", fasta_text({**SEQUENCES, "other": "ACGT"}))
    prepare_genome(source, tmp_path, CONTIGS, progress=seen)
    total = len(CHR1) + len(CHR2) + len(CHRM)
    bases = [call for call in seen if call[2] == "bp checked"]
    assert bases == [
        (len(CHR1), total, "bp checked"),
        (len(CHR1) + len(CHR2), total, "bp checked"),
        (total, total, "bp checked"),
    ]


BAD_INPUT = {
    "missing": (None, "does not exist: expected a FASTA file"),
    "empty": (b"", "the file is empty"),
    "not FASTA": (b"##fileformat=VCFv4.2\n", "not FASTA: expected '>' first, got '##fileformat=VCFv4.2'"),
    "binary": (bytes(range(256)) * 10, "not FASTA"),
    "only a gzip header": (gzip.compress(b"")[:10], "truncated or corrupt gzip"),
    "truncated gzip": (gzip.compress(fasta_text(SEQUENCES))[:-500], "truncated or corrupt gzip"),
    "gzip of nothing": (gzip.compress(b""), "not FASTA"),
    "not ASCII": (b">chr1\nACGT\n>chr2 caf\xc3\xa9\nACGT\n", "not ASCII: got byte 0xc3 at offset 20"),
    "ragged lines": (b">chr1\nACGT\nACGTACGT\nAC\n", "cannot be indexed"),
    "two records of one name": (b">chr1\nACGT\n>chr1\nACGT\n", "two records have one name: expected 2 names, got 1"),
    "protein": (b">chr1\nACGTN\nMKVLQ\n", r"\(chr1\):9: not a nucleotide: expected IUPAC codes, got 'L'"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_named(tmp_path: Path, case: str, capfd: pytest.CaptureFixture[str]) -> None:
    content, message = BAD_INPUT[case]
    source = tmp_path / "source.fa"
    if content is not None:
        source.write_bytes(content)
    (tmp_path / "out").mkdir()
    with pytest.raises(FastaError, match=message) as raised:
        prepare_genome(source, tmp_path / "out", CONTIGS)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_errors_name_the_source_and_not_the_copy(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for compression in Compression:
        source = write(tmp_path / "source.fa", b">chr1\nACGTN\nMKVLQ\n", compression)
        with pytest.raises(FastaError) as raised:
            prepare_genome(source, tmp_path / "out", CONTIGS)
        assert str(raised.value).startswith(f"{source} (chr1):9: not a nucleotide")


@pytest.mark.timeout(10)
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FastaError, match="is not a regular file: expected a FASTA file"):
        check_fasta(tmp_path / "pipe")


@pytest.mark.parametrize("cut", [28, 29, 1000, 20_000])
def test_truncated_bgzip_is_found(tmp_path: Path, cut: int) -> None:
    source = write(tmp_path / "source.fa.gz", fasta_text(SEQUENCES))
    source.write_bytes(source.read_bytes()[:-cut])
    with pytest.raises(FastaError, match="truncated bgzip"):
        prepare_genome(source, tmp_path, CONTIGS)


def test_reader_does_not_trust_an_index_older_than_the_fasta(tmp_path: Path) -> None:
    source = write(tmp_path / "plain.fa", fasta_text(SEQUENCES), Compression.PLAIN)
    pysam.faidx(str(source))
    source.write_bytes(fasta_text({"chr2": CHR2, "chr1": CHR1}))
    index = tmp_path / "plain.fa.fai"
    os.utime(index, (1, 1))
    with FastaReader(source) as reader:
        assert list(reader.contigs) == ["chr2", "chr1"]
        assert reader.read_contig("chr1").decode() == CHR1.upper()


@pytest.mark.parametrize("replaced", [{"chr0": "ACGT", **SEQUENCES}, {"chr1": CHR1[:500]}])
def test_an_index_of_another_fasta_is_found(tmp_path: Path, replaced: dict[str, str]) -> None:
    source = write(tmp_path / "plain.fa", fasta_text(SEQUENCES), Compression.PLAIN)
    pysam.faidx(str(source))
    source.write_bytes(fasta_text(replaced))
    os.utime(source, (1, 1))
    with FastaReader(source) as reader:
        for read in (lambda: reader.read_contig("chr1"), lambda: reader.open_contig(Contig("chr1", 1))):
            with pytest.raises(FastaError, match=r"length|not a nucleotide|cannot be read"):
                read()


@given(st.binary(max_size=60), st.integers(1, 9), st.integers(-70, 70), st.integers(-70, 70))
def test_a_contig_in_pieces_is_sliced_as_bytes_are(whole: bytes, piece_bp: int, start: int, end: int) -> None:
    pieces = ContigPieces(len(whole), lambda first, last: whole[first:last], piece_bp=piece_bp)
    whole = whole.upper()
    assert len(pieces) == len(whole)
    for part in (slice(start, end), slice(start, None), slice(None, end)):
        assert pieces[part] == whole[part]
    assert [pieces[at] for at in range(-len(whole), len(whole))] == list(whole + whole)
    with pytest.raises(IndexError):
        _ = pieces[len(whole)]


def test_a_contig_in_order_keeps_few_pieces_and_in_any_other_is_not_read_for_ever() -> None:
    bases, read = random.Random(5).randbytes(5_000).upper(), []

    def read_piece(start: int, end: int) -> bytes:
        read.append(start)
        return bases[start:end]

    pieces = ContigPieces(len(bases), read_piece, piece_bp=10)
    for _ in range(2):
        assert b"".join(pieces[at : at + 7] for at in range(0, len(bases), 7)) == bases
    assert read == 2 * list(range(0, len(bases), 10))
    for at in random.Random(6).choices(range(len(bases)), k=20_000):
        assert pieces[at] == bases[at]
    assert len(read) <= 9 * 500


@pytest.mark.parametrize("compression", [Compression.PLAIN, Compression.BGZF])
def test_a_contig_is_read_only_where_it_is_asked_for(tmp_path: Path, compression: Compression) -> None:
    long = CHR1[:-1] * 30
    broken = f"{long[:1_500_000]}!{long[1_500_001:]}"
    source = write(tmp_path / "source.fa", fasta_text({**SEQUENCES, "chr1": broken}), compression)
    with FastaReader(source) as reader:
        contig = reader.open_contig(Contig("chr1", len(long)))
        assert contig[1_048_000 - 10 : 1_048_576].decode() == long[1_048_000 - 10 : 1_048_576].upper()
        assert contig[2_500_000] == ord(long[2_500_000].upper())
        with pytest.raises(FastaError, match=r"chr1\):1,500,001: not a nucleotide"):
            _ = contig[1_048_000:1_049_000]
        with pytest.raises(UnknownContigError):
            reader.open_contig(Contig("chrX", 1))


@pytest.mark.slow
def test_the_real_slices_are_the_catalogue_s_genome(shared_data: Path, tmp_path: Path) -> None:
    catalog = load_catalog(CATALOGS / "shared_data.yaml")
    source = Path(catalog.resolve_url(catalog.genome.fasta, root=tmp_path))
    assert source.is_relative_to(shared_data)
    table = prepare_genome(source, tmp_path, catalog.contigs)
    assert compare_contigs(table, catalog.contigs) == []
    for suffix in ("", ".fai", ".gzi"):
        beside = source.with_name(source.name + suffix)
        assert (tmp_path / f"{FASTA_NAME}{suffix}").read_bytes() == beside.read_bytes()
    by_name = {row["contig"]: row for row in table.to_pylist()}
    assert by_name["chr17"]["acgt_bases"] == 43_600_000 - 42_425_000 + 1
    assert by_name["chrM"]["acgt_runs"] == 2
    assert by_name["chr20"]["length"] == 64_444_167


def test_one_contig_under_two_names_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source.fa"
    source.write_bytes(fasta_text({"chr1": "ACGT", "1": "ACGT"}))
    with pytest.raises(FastaError, match="contig 'chr1' occurs twice"):
        prepare_genome(source, tmp_path, CONTIGS)
