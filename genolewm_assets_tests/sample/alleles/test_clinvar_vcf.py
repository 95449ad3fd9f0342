from __future__ import annotations

from pathlib import Path

import pysam
import pytest

from genolewm_assets_tests.referees.census import read_rows, read_text

FILES = {"2024-01-07": "clinvar_20240107.vcf.gz", "2025-01-05": "clinvar_20250105.vcf.gz"}
release = pytest.mark.parametrize("day", FILES)


@release
def test_htslib_reads_it(day: str, sample_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pysam.VariantFile(str(sample_dir / "releases" / FILES[day])) as vcf:
        declared = set(vcf.header.info)
        used = {name for record in vcf for name in record.info}
    assert used == declared
    # htslib misses the index, which these files have no need of, and must have nothing else to say.
    assert [line for line in capfd.readouterr().err.splitlines() if "index file" not in line] == []


@release
def test_header(day: str, sample_dir: Path) -> None:
    lines = read_text(sample_dir / "releases" / FILES[day]).splitlines()
    assert f"##fileDate={day}" in lines
    assert any(line.startswith("##source=simulated") for line in lines)


@pytest.mark.parametrize(
    ("day", "names"),
    [("2024-01-07", ["chr17", "chr20", "chr21", "chrM"]), ("2025-01-05", ["17", "20", "21", "MT"])],
)
def test_contigs_are_spelled_in_the_two_ways_and_in_order(day: str, names: list[str], sample_dir: Path) -> None:
    places = [(c[0], int(c[1])) for c, _ in read_rows(sample_dir / "releases" / FILES[day])]
    assert list(dict.fromkeys(name for name, _ in places)) == [*names, "NW_009646201.1"]
    for name in names:
        positions = [pos for chrom, pos in places if chrom == name]
        assert positions == sorted(positions)


@release
def test_identifiers_are_unique_and_not_the_allele_ids(day: str, sample_dir: Path) -> None:
    rows = list(read_rows(sample_dir / "releases" / FILES[day]))
    ids = [columns[2] for columns, _ in rows]
    assert len(ids) == len(set(ids))
    assert not set(ids) & {info["ALLELEID"] for _, info in rows}


def test_wordings_are_those_of_their_time(sample_dir: Path) -> None:
    old, new = (
        [(info.get("CLNSIG", ""), info.get("CLNREVSTAT", "")) for _, info in read_rows(sample_dir / "releases" / name)]
        for name in FILES.values()
    )
    assert any("interpretation" in term for term, _ in old)
    assert not any("classification" in text for pair in old for text in pair)
    assert any("classification" in term for term, _ in new)
    assert not any("interpretation" in text for pair in new for text in pair)


def test_only_the_newer_release_has_somatic_fields(sample_dir: Path) -> None:
    somatic = [
        sum("ONC" in info or "SCI" in info for _, info in read_rows(sample_dir / "releases" / name))
        for name in FILES.values()
    ]
    assert somatic == [0, 8]


@release
def test_some_records_have_no_germline_classification(day: str, sample_dir: Path) -> None:
    rows = list(read_rows(sample_dir / "releases" / FILES[day]))
    assert sum("CLNSIG" not in info for _, info in rows) == 4
    assert sum("CLNSIGINCL" in info for _, info in rows) == 3


@release
def test_variant_types_agree_with_the_alleles(day: str, sample_dir: Path) -> None:
    seen = set()
    for columns, info in read_rows(sample_dir / "releases" / FILES[day]):
        kind = info["CLNVC"]
        seen.add((kind, info["CLNVCSO"]))
        if kind == "Deletion":
            assert len(columns[3]) > len(columns[4])
        elif kind in ("Duplication", "Insertion"):
            assert len(columns[3]) < len(columns[4])
    assert len(seen) == 5
