from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import InputError
from genolewm_assets.mito.genomes.records import GenomeRecord
from genolewm_assets.sources.mito.genomes import CollectionFormat, read_genomes
from genolewm_assets_tests.mito.judged import judge_all
from genolewm_assets_tests.worlds.sources.vcf_files import write_text

FASTA = b">SIM1 first one [haplogroup=H2a]\nACGTN\nacgur\n>SIM2\nAC\n"
BASES = "gatcacaggtctatcaccctattaaccactcacgggagctctccatgcatttggtattttcgtctggggggtatg"


def genbank(
    name: str = "SIM1", bases: str = BASES, source: str = "", length: int | None = None, end: str = "//\n"
) -> str:
    lines = [bases[at : at + 60] for at in range(0, len(bases), 60)]
    origin = "".join(
        f"{1 + 60 * i:>9} {' '.join(line[at : at + 10] for at in range(0, len(line), 10))}\n"
        for i, line in enumerate(lines)
    )
    return (
        f"LOCUS       {name:<16} {length or len(bases):>11} bp    DNA     circular PRI 07-JAN-2024\n"
        f"DEFINITION  Homo sapiens mitochondrion,\n            complete genome.\n"
        f"ACCESSION   {name}\nVERSION     {name}.2\nKEYWORDS    .\n"
        "SOURCE      mitochondrion Homo sapiens (human)\n  ORGANISM  Homo sapiens\n            Eukaryota; Metazoa.\n"
        f"FEATURES             Location/Qualifiers\n     source          1..{len(bases)}\n"
        f'{"":21}/organism="Homo sapiens"\n{source}'
        f'     gene            3..20\n{"":21}/gene="ND1"\nORIGIN\n{origin}{end}'
    )


def qualifier(text: str) -> str:
    return f"{'':21}{text}\n"


def write(folder: Path, text: str | bytes, name: str = "c.fa") -> Path:
    return write_text(folder / name, text)


def read(folder: Path, text: str | bytes, name: str = "c.fa") -> list[GenomeRecord]:
    return list(read_genomes(write(folder, text, name), label=name))


def test_real_genomes_and_rcrs_are_read_and_kept(shared_data: Path) -> None:
    folder = shared_data / "mtdna"
    names = ["rCRS_NC_012920.1.fa.gz", "mt_genomes_1000G_40.fa.gz"]
    records = [record for name in names for record in read_genomes(folder / name, label=name)]
    with pysam.FastaFile(str(folder / names[1])) as file:
        assert [(r.name, r.sequence) for r in records[1:]] == [(n, file.fetch(n).upper()) for n in file.references]
    assert (records[0].name, len(records[0].sequence)) == ("chrM", 16_569)
    assert records[0].description.startswith("NC_012920.1 Homo sapiens mitochondrion")
    assert judge_all(records).rejected == ()


def test_every_packing_gives_the_same_records(tmp_path: Path) -> None:
    expected = [
        GenomeRecord("SIM1", "first one [haplogroup=H2a]", "ACGTNACGTR", "H2a", "c", 1),
        GenomeRecord("SIM2", "", "AC", None, "c", 2),
    ]
    paths = [write(tmp_path, FASTA), write(tmp_path, gzip.compress(FASTA), "c.fasta.gz")]
    paths += [write_text(tmp_path / "c.fna.bgz", FASTA, "bgzip"), write(tmp_path, FASTA, "misnamed.fsa.gz")]
    paths += [write(tmp_path, gzip.compress(FASTA[:20]) + gzip.compress(FASTA[20:]), "two_members.fa")]
    assert [list(read_genomes(path, label="c")) for path in paths] == [expected] * len(paths)


@pytest.mark.parametrize(
    "text",
    [
        b"\r\n".join(FASTA.split(b"\n")),
        b"\n\n" + FASTA,
        b"\xef\xbb\xbf" + FASTA,
        FASTA[:-1],
        FASTA.decode().encode("utf-16"),
    ],
)
def test_line_ends_blank_lines_and_marks_change_nothing(tmp_path: Path, text: bytes) -> None:
    assert read(tmp_path, text) == read(tmp_path, FASTA)


@pytest.mark.parametrize(
    ("title", "name", "description", "haplogroup"),
    [
        ("a", "a", "", None),
        ("a b haplogroup=L0a'b x", "a", "b haplogroup=L0a'b x", "L0a'b"),
        ("a haplogroup=H1b1+16362; x", "a", "haplogroup=H1b1+16362; x", "H1b1+16362"),
        ("a [organism=Homo] [haplogroup=R0a2'3'8]", "a", "[organism=Homo] [haplogroup=R0a2'3'8]", "R0a2'3'8"),
        ("a [Haplogroup = U5a2a1 ] x", "a", "[Haplogroup = U5a2a1 ] x", "U5a2a1"),
        ("a haplogroup=K1a [haplogroup=K1a]", "a", "haplogroup=K1a [haplogroup=K1a]", "K1a"),
        ('a haplogroup="K1a"', "a", 'haplogroup="K1a"', "K1a"),
        ("a haplogroup=", "a", "haplogroup=", None),
        ("a [haplogroup= ]", "a", "[haplogroup= ]", None),
        ("a superhaplogroup=M", "a", "superhaplogroup=M", None),
        (" a  b", "a", "b", None),
        ("", "", "", None),
        ("gi|1|gb|AF1.1| é", "gi|1|gb|AF1.1|", "é", None),
    ],
)
def test_titles(tmp_path: Path, title: str, name: str, description: str, haplogroup: str | None) -> None:
    (record,) = read(tmp_path, f">{title}\nACGT\n")
    assert (record.name, record.description, record.haplogroup) == (name, description, haplogroup)
    assert record.sequence == "ACGT"


@pytest.mark.parametrize(
    ("source", "haplogroup"),
    [
        ("", None),
        (qualifier('/haplogroup="H2a2a1"'), "H2a2a1"),
        (qualifier('/note="haplogroup: J1c"'), "J1c"),
        (qualifier('/note="origin: X; haplogroup: M7b1a1+16192; y"'), "M7b1a1+16192"),
        (qualifier('/note="a note') + qualifier('that runs on, haplogroup=T2b"'), "T2b"),
        (qualifier('/note="haplogroup: J1c"') + qualifier('/haplogroup="H2"'), "H2"),
        (qualifier('/note="haplogroup assigned by a program"'), None),
        (qualifier('/note="one"') + qualifier('/note="haplogroup: K"'), "K"),
    ],
)
def test_genbank_states_the_haplogroup_in_its_source(tmp_path: Path, source: str, haplogroup: str | None) -> None:
    (record,) = read(tmp_path, genbank(source=source), "c.gb")
    expected = ("SIM1.2", "Homo sapiens mitochondrion, complete genome", BASES.upper())
    assert (record.name, record.description.rstrip("."), record.sequence) == expected
    assert (record.haplogroup, record.number, record.problem) == (haplogroup, 1, "")


@given(
    st.lists(
        st.tuples(st.text("abAB01_.|", min_size=1), st.text("ACGTRYSWKMBDHVNacgtuU-*X ", max_size=300)), min_size=1
    ),
    st.integers(1, 80),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, genomes: list[tuple[str, str]], width: int, end: str
) -> None:
    lines = []
    for name, sequence in genomes:
        lines += [f">{name} x", *(sequence[at : at + width] for at in range(0, len(sequence), width))]
    found = read(tmp_path_factory.getbasetemp(), end.join(lines).encode())
    assert [(r.name, r.sequence) for r in found] == [
        (name, sequence.replace(" ", "").upper().replace("U", "T")) for name, sequence in genomes
    ]
    assert [r.number for r in found] == list(range(1, len(genomes) + 1))


TWO = genbank("SIM1") + "\n" + genbank("SIM2")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.fa", b"", "c.fa: the file is empty"),
        ("c.fa", b"\n \n", "c.fa: holds no record: expected fasta records"),
        ("c.fa.gz", gzip.compress(b"", mtime=0), "c.fa.gz: holds no record"),
        ("c.fa", b"ACGT\n>a\nACGT\n", "c.fa: not FASTA: expected '>' first, got 'ACGT'"),
        ("c.fa", b"\x89PNG\r\n\x1a\n" + b"\xff" * 9, "c.fa: not FASTA"),
        ("c.fa", genbank(), "c.fa: not FASTA: expected '>' first, got 'LOCUS"),
        ("c.gb", FASTA, "c.gb: not GenBank: expected LOCUS first, got '>SIM1 first one"),
        ("c.fa", FASTA[:30] + b"\0" + FASTA[30:], "c.fa:1: NUL byte"),
        ("c.fa", FASTA.decode().encode("utf-16-le"), "c.fa:1: NUL byte"),
        ("c.gb", TWO.replace("SIM2.2", "SIM2\0"), "c.gb:24: NUL byte"),
        ("c.fa.gz", gzip.compress(FASTA, mtime=0)[:-9], "c.fa.gz: truncated or corrupt gzip"),
        ("c.fa.gz", gzip.compress(FASTA, mtime=0)[:-5] + b"abcde", "c.fa.gz: truncated or corrupt gzip"),
        ("c.gb", TWO[:-3], "c.gb: record 'SIM2' is truncated: expected // at its end"),
        ("c.gb", TWO.replace("//", "", 1), "c.gb: record 'SIM1' is truncated"),
        ("c.gb", TWO[: len(TWO) // 3], "c.gb: record 'SIM1' is truncated"),
        ("c.gb", TWO.replace("LOCUS  ", "HEAD   ", 1), "c.gb: not GenBank"),
        ("c.txt", FASTA, "c.txt: unknown file name ending: expected .fa, .*got '.txt'.*fasta or genbank"),
        ("c.gz", gzip.compress(FASTA, mtime=0), "c.gz: unknown file name ending"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_one_error(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")) as caught:
        read(tmp_path, text, name)
    assert "\n" not in str(caught.value)


def test_truncated_bgzip_a_folder_and_nothing_are_told(tmp_path: Path) -> None:
    whole = write_text(tmp_path / "c.fa.gz", FASTA * 100, "bgzip").read_bytes()
    with pytest.raises(InputError, match="truncated bgzip"):
        read(tmp_path, whole[:-28], "c.fa.gz")
    with pytest.raises(InputError, match="is a directory: expected a FASTA or GenBank file"):
        list(read_genomes(tmp_path, file_format=CollectionFormat.FASTA))
    with pytest.raises(InputError, match="does not exist"):
        list(read_genomes(tmp_path / "none.fa"))


TWO_HAPLOGROUPS = genbank(source=qualifier('/haplogroup="H1"') + qualifier('/haplogroup="U5"'))
PARTS = genbank("SIM9", "", length=16_569).replace("ORIGIN\n", "CONTIG      join(AC1.1:1..16569)\n")


@pytest.mark.parametrize(
    ("name", "text", "reason", "detail"),
    [
        ("c.fa", b">b\xe9d x\nACGT\n", "unreadable", "its title has bytes that are not UTF-8; save the file as UTF-8"),
        ("c.fa", ">bad\n>SIM2\nAC\n", "no_sequence", "the record has no base"),
        ("c.fa", ">bad\n;AC\n", "alphabet", "1 no IUPAC codes, the first ';' at base 1"),
        ("c.fa", b">bad\nAC\xff\xfe1G\n", "alphabet", "3 no IUPAC codes, the first '\ufffd' at base 3"),
        ("c.fa", ">bad\nAC\u00df\u017f\n", "alphabet", "2 no IUPAC codes, the first '\u00df' at base 3"),
        ("c.fa", ">bad haplogroup=H1 [haplogroup=U5]\nAC\n", "unreadable", "states several haplogroups: 'H1', 'U5'"),
        ("c.gb", TWO_HAPLOGROUPS, "unreadable", "states several haplogroups: 'H1', 'U5'"),
        ("c.fa", ">\nACGT\n", "no_name", "the record has no name"),
        ("c.gb", PARTS, "no_sequence", "the record has no base"),
        ("c.gb", genbank("SIM9", "", length=16_569), "no_sequence", "the record has no base"),
        ("c.gb", genbank(bases=BASES.replace("a", "z")), "alphabet", "15 no IUPAC codes, the first 'Z' at base 2"),
        ("c.gb", genbank(length=76), "unreadable", "Expected sequence length 76, found 75"),
        ("c.gb", genbank().replace("bp  ", "xx  "), "unreadable", "not readable as genbank"),
        ("c.gb", "LOCUS\n//\n", "unreadable", "not readable as genbank"),
    ],
)
def test_a_bad_record_is_a_reject_and_the_next_one_is_read(
    tmp_path: Path, name: str, text: str | bytes, reason: str, detail: str
) -> None:
    raw = text.encode() if isinstance(text, str) else text
    good = FASTA if name == "c.fa" else genbank("SIM3").encode()
    found = read(tmp_path, raw + good, name)
    rejected = judge_all(found[:1]).rejected
    assert [str(r.reason) for r in rejected] == [reason]
    assert detail in rejected[0].detail
    assert found[-1].sequence == ("AC" if name == "c.fa" else BASES.upper())


@pytest.mark.parametrize(("name", "extra"), [("c.fa", b"\n"), ("c.gb", b"\n//\n")])
def test_a_record_that_is_too_long_is_passed_over(tmp_path: Path, name: str, extra: bytes) -> None:
    good = FASTA if name == "c.fa" else genbank().encode()
    head = b">HUGE x\n" if name == "c.fa" else genbank("HUGE", end="").encode()
    text = good + head + b"ACGT" * 5_000 + extra + good
    path = write(tmp_path, text, name)
    (huge,) = [r for r in read_genomes(path, max_record_characters=9_000) if r.problem]
    size = len(head) + 20_000 + len(extra)
    assert (huge.name, huge.sequence, huge.problem) == ("HUGE", "", f"over 9,000 characters: {size:,}")
    assert not any(r.problem.startswith("over") for r in read_genomes(path, max_record_characters=size))


@pytest.mark.parametrize("mark", [">b", "LOCUS"])
def test_a_mark_inside_a_long_line_begins_no_record(tmp_path: Path, mark: str) -> None:
    """Lines are read in pieces of 64 kB; here one begins with what begins a record."""
    if mark == "LOCUS":
        note = f"COMMENT     {'x' * (65_536 - 12)}{mark} //\n"
        text, name = genbank().replace("FEATURES", f"{note}FEATURES"), "c.gb"
    else:
        text, name = f">a {'x' * (65_536 - 3)}{mark}\nACGT\n", "c.fa"
    (record,) = read(tmp_path, text, name)
    if mark == "LOCUS":
        assert (record.name, record.sequence, record.problem) == ("SIM1", "", "a line of over 1,000 characters")
    else:
        assert (record.sequence, record.problem) == ("ACGT", "")


def test_a_line_of_a_genbank_record_has_an_end(tmp_path: Path) -> None:
    """Biopython takes the square of its length for a comment."""
    for size in (988, 989, 10**6):
        text = genbank().replace("FEATURES", f"COMMENT     {'x' * (size - 1)}\nFEATURES")
        (record,) = read(tmp_path, text, "c.gb")
        assert record.problem == ("a line of over 1,000 characters" if size > 988 else "")


@pytest.mark.nightly
@pytest.mark.parametrize(("ends", "pieces"), [(b"", 64), (b"\n", 2)])
def test_memory_is_bounded_for_a_gigabase(tmp_path: Path, ends: bytes, pieces: int) -> None:
    piece = gzip.compress((b"ACGT" * 20 + ends) * 200_000, compresslevel=1)
    path = write(tmp_path, gzip.compress(FASTA + b">HUGE\n") + piece * pieces + gzip.compress(b"\n" + FASTA), "c.fa.gz")
    tracemalloc.start()
    records = list(read_genomes(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [r.name for r in records] == ["SIM1", "SIM2", "HUGE", "SIM1", "SIM2"]
    assert [r.name for r in records if r.problem] == ["HUGE"]
    assert peak < 8 << 20
