"""What fuzzing and a hostile reading of the scanner found: each went wrong once."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf.count import count_records
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.fuzz import index_check
from genolewm_assets_tests.fuzz.seeds import index_seeds, vcf_seeds
from genolewm_assets_tests.fuzz.vcf_check import check_vcf, make_input
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

SNV = ("chr1", 5, ".", "A", "C", "PASS", "AF=0.5")


def test_a_header_line_in_the_form_of_a_record_is_refused(tmp_path: Path) -> None:
    """It was read as a record of contig ``#...``, which the count of alleles passes over."""
    path = write_text(tmp_path / "a.vcf", vcf_text([SNV, ("##INFO=<ID=AF,chr1", *SNV[1:]), SNV]))
    with (
        VcfScanner(path, threads=1) as scanner,
        pytest.raises(VcfError, match="line 4: a header line follows the first"),
    ):
        list(scanner)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_contig_that_begins_as_a_byte_order_mark_does_is_counted(mark: str, tmp_path: Path) -> None:
    """The count took its record for a header."""
    path = write_text(tmp_path / "a.vcf", mark + vcf_text([("\uf8ffchr1", *SNV[1:]), SNV]))
    with VcfScanner(path, threads=1) as scanner:
        assert sum(map(len, scanner)) == scanner.alleles == count_records(path) == 2


@pytest.mark.parametrize("value", ["\u0131nf", "\u0131nf\u0131n\u0131ty", "\u0130NF", "\u0661"])
def test_letters_that_only_look_like_a_number_are_refused(value: str, tmp_path: Path) -> None:
    """A pattern that ignores case took a dotless i for an i, and ``float`` did not."""
    path = write_text(tmp_path / "a.vcf", vcf_text([(*SNV[:-1], f"AF={value}")]))
    with VcfScanner(path, threads=1) as scanner:
        (block,) = scanner
        with pytest.raises(VcfError, match="line 3: INFO/AF cannot be read: expected a number from 0 to 1"):
            block.shares_of("AF")


@pytest.mark.parametrize(
    "line", ["##contig=<ID=chr1,length={}>".format("9" * 5_000), "##INFO=<{}>".format("a" * 1_000_000)]
)
def test_a_header_line_of_any_length_is_read(line: str, tmp_path: Path) -> None:
    """Python refuses to read a number of 5,000 digits; a search from every letter took hours."""
    path = write_text(tmp_path / "a.vcf", vcf_text([SNV], meta=[line]))
    with VcfScanner(path, threads=1) as scanner:
        assert set(scanner.header.contigs.values()) <= {None}


def test_a_version_of_any_length_is_read(tmp_path: Path) -> None:
    text = vcf_text([SNV]).replace("VCFv4.2", f"VCFv4.{'3' * 5_000}")
    with VcfScanner(write_text(tmp_path / "a.vcf", text), threads=1) as scanner:
        assert scanner.header.percent_encoded


def test_very_many_alleles_cost_no_more_than_their_text(tmp_path: Path) -> None:
    """Each allele walked the whole list: 80,000 of them took a minute and a half."""
    number = 300_000
    values = ",".join(f"0.{at % 10}" for at in range(number))
    text = vcf_text([SNV, ("chr1", 6, ".", "A", ",".join("CG" * (number // 2)), "PASS", f"AF={values}"), SNV])
    with VcfScanner(write_text(tmp_path / "a.vcf", text), threads=1) as scanner:
        rows = next(iter(scanner)).alleles()
        assert rows.alts().to_pylist()[:5] == ["C", "C", "G", "C", "G"]
        assert rows.shares_of("AF").values[-3:].tolist() == [0.8, 0.9, 0.5]
    some = rows.take([0, 3, 4, 4, number + 1])  # type: ignore[arg-type]
    assert some.alts().to_pylist() == ["C", "C", "G", "G", "C"]
    assert some.shares_of("AF").values.tolist() == [0.5, 0.2, 0.3, 0.3, 0.5]


@pytest.mark.parametrize("data", [*vcf_seeds(), make_input(b""), b""])
def test_where_fuzzing_begins(data: bytes) -> None:
    check_vcf(data)


@pytest.mark.parametrize("data", [*index_seeds(), b""])
def test_where_fuzzing_of_indexes_begins(data: bytes) -> None:
    index_check.check_index(data)
