"""What a header declares, and how its contig names are understood.

A header is read up to a number of lines and bytes, whatever way the file is opened.
"""

from __future__ import annotations

import tracemalloc
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import UnknownContigError, VcfError
from genolewm_assets.genome import GRCH38, Contig, ContigSet
from genolewm_assets.sources.vcf.contig_names import ContigNames, is_assembly_contig
from genolewm_assets.sources.vcf.header import parse_file_date, parse_header
from genolewm_assets.sources.vcf.header_size import MAX_HEADER_BYTES, MAX_HEADER_LINES, read_header_lines
from genolewm_assets.sources.vcf.remote import RemoteVcf
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.sources.index_files import index_beside
from genolewm_assets_tests.worlds.sources.scanned_vcf import one_block, scan
from genolewm_assets_tests.worlds.sources.vcf_files import COLUMNS, vcf_text, write_text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_header(tmp_path: Path, end: str) -> None:
    meta = [
        "##fileDate=20260226",
        '##INFO=<ID=vep,Number=.,Type=String,Description="a, b=c \\"quoted\\", ID=no">',
        '##INFO=<ID=AF,Number=A,Type=Float,Description="first">',
        '##INFO=<ID=AF,Number=1,Type=Integer,Description="second">',
        '##FILTER=<ID=AC0,Description="zero">',
        "##contig=<ID=chr17,length=83257441,assembly=GRCh38>",
        "##contig=<ID=17>",
    ]
    record = "17\t1\t.\tA\tC\t.\t.\t.\tGT\t0|0\t0|1"
    text = end.join(["##fileformat=VCFv4.1", *meta, COLUMNS + "\tFORMAT\tHG1\tHG2", record]) + end
    with VcfScanner(write_text(tmp_path / "a.vcf", text)) as scanner:
        header = scanner.header
    assert header.version == "v4.1"
    assert header.file_date == date(2026, 2, 26)
    assert header.info["AF"] == ("A", "Float", "first")
    assert header.info["vep"].number == "."
    assert set(header.info) == {"vep", "AF"}
    assert header.contigs == {"chr17": 83_257_441, "17": None}
    assert header.samples == ("HG1", "HG2")


@each_row(("text", "day"), [("2026-02-26", date(2026, 2, 26)), ("yesterday", None), ("", None)])
def test_file_date(text: str, day: date | None) -> None:
    assert parse_file_date(text) == day


@each_row(
    ("version", "encoded"),
    [
        *(("v4.0", False), ("v4.2", False), ("v4.3", True), ("v4.4", True), ("v5.0", True), ("4.3", False)),
        *(("", False), ("v" + "9" * 5000 + ".3", False)),
    ],
)
def test_values_are_percent_encoded_from_4_3_on(version: str, encoded: bool) -> None:
    assert parse_header([f"##fileformat=VCF{version}"], ()).percent_encoded is encoded


@pytest.mark.timeout(20)
@each_row(
    "line",
    [
        "##INFO=<" + "a" * 1_000_000 + ">",
        "##INFO=<ID=AF," + 'a="' * 300_000 + ">",
        "##INFO=<" + "a=" * 500_000 + ">",
        '##INFO=<ID=AF,Description="' + "\\" * 1_000_000 + ">",
        "##contig=<ID=1,length=" + "9" * 1_000_000 + ">",
    ],
)
def test_a_long_header_line_costs_no_more_than_its_length(line: str) -> None:
    header = parse_header([line], ())
    assert header.version == ""
    assert set(header.contigs.values()) <= {None}


@each_row("attribute", ["a=,", 'a="",', '\\"'])
def test_a_long_header_line_takes_little_memory(attribute: str) -> None:
    """Attributes that are not read are not kept, and a text in quotation marks is not remembered letter by letter."""
    line = '##INFO=<ID=AF,x="' + attribute * ((1 << 18) // len(attribute)) + ">"
    tracemalloc.start()
    try:
        parse_header([line], ())
        taken_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken_bytes < 2 << 20


RECORD = "chr17\t3\t.\tG\tT\t.\tPASS\tAF=0.5\n"
FIRST = "##fileformat=VCFv4.2\n"
LAST = f"{COLUMNS}\n{RECORD}"
TOO_MANY = r", line 100001: the header is too large: expected at most 100,000 lines and 16 MiB, got more\. Check that"


def header(lines: int, line: str = "##x=y") -> str:
    """Return a VCF whose header has ``lines`` lines."""
    return FIRST + f"{line}\n" * (lines - 2) + LAST


@pytest.mark.parametrize("how", ["plain", "gzip", "bgzip"])
def test_lines_are_bounded(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.vcf"
    assert len(scan(write_text(path, header(MAX_HEADER_LINES), how))) == 1
    with path.open("rb") as file:
        read_header_lines(file, label="a.vcf")
    write_text(path, header(MAX_HEADER_LINES + 1), how)
    with pytest.raises(VcfError, match=f"{path}{TOO_MANY}"):
        scan(path)
    with pytest.raises(VcfError, match=rf"^a\.vcf{TOO_MANY}"), path.open("rb") as file:
        read_header_lines(file, label="a.vcf")


@pytest.mark.parametrize("line", ["##x=" + "y" * 999, "##x=" + "y" * ((6 << 20) - 1)])
def test_bytes_are_bounded(tmp_path: Path, line: str) -> None:
    most = (MAX_HEADER_BYTES - len(FIRST) - len(COLUMNS) - 1) // (len(line) + 1)
    path = tmp_path / "a.vcf"
    assert len(scan(write_text(path, header(most + 2, line), "gzip"))) == 1
    write_text(path, header(most + 3, line), "gzip")
    message = rf"a\.vcf, line {most + 2}: the header is too large"
    with pytest.raises(VcfError, match=message):
        scan(path)
    with pytest.raises(VcfError, match=message), path.open("rb") as file:
        read_header_lines(file, label="a.vcf")


def test_sample_names_are_bounded(tmp_path: Path) -> None:
    names = "\tFORMAT" + "\tS1" * (MAX_HEADER_BYTES // 3)
    with pytest.raises(VcfError, match=r"a\.vcf, line 2: the header is too large"):
        scan(write_text(tmp_path / "a.vcf", FIRST + COLUMNS + names + "\n" + RECORD, "gzip"))


def test_an_indexed_file_and_a_remote_file_have_the_same_bounds(tmp_path: Path, site: WebServer) -> None:
    vcf = write_text(tmp_path / "all.vcf.gz", header(MAX_HEADER_LINES + 1), "bgzip")
    index_beside(vcf, vcf, csi=False)
    site.files.update({"all.vcf.gz": vcf.read_bytes(), "all.vcf.gz.tbi": Path(f"{vcf}.tbi").read_bytes()})
    for source in (vcf, RemoteVcf(site.url("all.vcf.gz"))):
        with pytest.raises(VcfError, match=rf"all\.vcf\.gz{TOO_MANY}"):
            scan(source, contig=GRCH38["chr17"])


def test_the_headers_of_cohorts_pass(tmp_path: Path) -> None:
    """Contigs with decoys and HLA alleles, a thousand INFO fields with VEP's format, a caller's command, samples."""
    consequences = "|".join(f"field_{number}" for number in range(300))
    lines = [f"##contig=<ID=HLA-{number},length=3000,assembly=GRCh38>" for number in range(3_366)]
    lines += [f'##INFO=<ID=vep{at},Number=.,Type=String,Description="Format: {consequences}">' for at in range(1_000)]
    lines += [
        '##GATKCommandLine=<ID=GenotypeGVCFs,CommandLine="' + "--variant gs://cohort/sample.g.vcf " * 50_000 + '">'
    ]
    samples = "\tFORMAT" + "".join(f"\tHG{number:07}" for number in range(100_000))
    text = FIRST + "\n".join(lines) + f"\n{COLUMNS}{samples}\n" + RECORD[:-1] + "\tGT" + "\t0|1" * 100_000 + "\n"
    with VcfScanner(write_text(tmp_path / "a.vcf", text, "bgzip")) as scanner:
        assert (len(scanner.header.contigs), len(scanner.header.info)) == (3_366, 1_000)
        assert len(scanner.header.samples) == 100_000
        assert sum(len(block) for block in scanner) == 1


TOY_CONTIGS = Contig("chr1", 19, aliases=("1",))
CONTIGS = ContigSet([TOY_CONTIGS, Contig("chr2", 10)])


@each_row(
    ("name", "known"),
    [
        *(("chr5", True), ("MT", True), ("NC_000003.12", True), ("NW_009646201.1", True), ("NT_187633.1", True)),
        *(("KI270706.1", True), ("GL000194.1", True), ("chr1_KI270706v1_random", True), ("chrUn_GL000195v1", True)),
        *(("chr6_GL000250v2_alt", True), ("chrUn_JTFH01000001v1_decoy", True), ("HLA-A*01:01:01:01", True)),
        *(("chrEBV", True), ("chr99", False), ("scaffold_1", False), ("BRCA1", False), ("chr17x", False)),
        ("chr17v2", False),
    ],
)
def test_assembly_contigs(name: str, known: bool) -> None:
    assert is_assembly_contig(name) is known


def test_contig_names(tmp_path: Path) -> None:
    text = vcf_text([(name, 3, ".", "G", "C", "PASS", ".") for name in ("1", "chr1", "chr7", "chr99")])
    names = ContigNames(CONTIGS)
    block = one_block(write_text(tmp_path / "a.vcf", text))
    assert [names.resolve(name, block.where) for name in ("1", "chr1", "chr7")] == [TOY_CONTIGS, TOY_CONTIGS, None]
    names.check_met(CONTIGS, where="a.vcf")
    message = r"^a\.vcf: no record is on a requested contig: expected 'chr2', got '1', 'chr1', 'chr7'\."
    with pytest.raises(VcfError, match=message):
        names.check_met([CONTIGS["chr2"]], where="a.vcf")
    with pytest.raises(UnknownContigError, match=r"a\.vcf, line 6: .*'chr99'"):
        names.resolve("chr99", block.take(slice(3, 4)).where)


@given(st.lists(st.sampled_from(["1", "chr1", "chr2", "chr7", "HLA-A*01:01", "KI270706.1"]), min_size=1, max_size=30))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_block_is_divided_by_contig_and_not_by_spelling(tmp_path: Path, spellings: list[str]) -> None:
    text = vcf_text([(name, at, ".", "G", "C", "PASS", f"X={at}") for at, name in enumerate(spellings, 1)])
    block = one_block(write_text(tmp_path / "a.vcf", text))
    expected: dict[Contig | None, list[tuple[int, str, str]]] = {}
    for at, name in enumerate(spellings, 1):
        contig = {"1": TOY_CONTIGS, "chr1": TOY_CONTIGS, "chr2": CONTIGS["chr2"]}.get(name)
        expected.setdefault(contig, []).append((at, name, str(at)))
    found = {
        contig: list(zip(part.pos.tolist(), part.chroms().to_pylist(), part.strings_of("X").to_pylist(), strict=True))
        for contig, part in ContigNames(CONTIGS).divide(block)
    }
    assert list(found.items()) == list(expected.items())


def test_the_commonest_contigs_beside_chromosomes_are_told_above_a_hundredth(tmp_path: Path) -> None:
    """A chromosome that the genome lacks is left out knowingly, however its name is spelled."""
    others = [f"KI27070{at}.1" for at in range(6) for _ in range(6 - at)]
    told = {f"other_contig.KI27070{at}.1": 6 - at for at in range(5)}
    for known, expected in ((2_078, told), (2_079, {})):
        chroms = [*others, *["NC_000007.14", "chr7", "22", "MT"] * 5, *["1"] * (known - 20)]
        text = vcf_text([(name, 3, ".", "G", "C", "PASS", ".") for name in chroms])
        names = ContigNames(CONTIGS)
        with VcfScanner(write_text(tmp_path / "a.vcf", text)) as scanner:
            for block in scanner:
                list(names.divide(block))
        assert names.other_contigs() == expected


def test_an_accession_of_a_contig_by_another_name_is_refused() -> None:
    """The catalogue has chromosome 13 as '13', with another sequence than GRCh38's."""
    names = ContigNames(ContigSet([Contig("13", 500, aliases=("chr13",))]))
    with pytest.raises(UnknownContigError, match=r"'NC_000013\.11' is GRCh38's 13, which this genome has"):
        names.resolve("NC_000013.11", lambda _: "a.vcf, line 3")


def test_an_unknown_name_is_told_with_its_first_line(tmp_path: Path) -> None:
    names = ["1", "chr1", "chr7", "1", "chr99", "chr1", "chr99"]
    text = vcf_text([(name, 3, ".", "G", "C", "PASS", ".") for name in names])
    with pytest.raises(UnknownContigError, match=r"a\.vcf, line 7: .*'chr99'"):
        next(ContigNames(CONTIGS).divide(one_block(write_text(tmp_path / "a.vcf", text))))


@pytest.mark.timeout(20)
@each_row("name", ["chr" + "_v1" * 300_000 + "!", "chr" + "v" * 1_000_000, "HLA-" + "x" * 1_000_000, "x" * 1_000_000])
def test_an_endless_name_is_no_contig(name: str) -> None:
    assert not is_assembly_contig(name)
    with pytest.raises(UnknownContigError) as raised:
        ContigNames(CONTIGS).resolve(name, lambda _: "a.vcf, line 3")
    assert str(raised.value).startswith("a.vcf, line 3: not a contig of this genome")
    assert len(str(raised.value)) < 300
