"""Further releases in the listing of the sample."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from genolewm_assets.sample import add_next_release
from genolewm_assets.sources.clinvar import read_listing
from genolewm_assets_tests.referees.census import read_rows

Alleles = dict[tuple[str, ...], tuple[str, str]]


@pytest.fixture
def root(sample_root: Path, tmp_path: Path) -> Path:
    """Return a copy of the root of the sample."""
    return Path(shutil.copytree(sample_root, tmp_path / "root", symlinks=True))


def alleles(file: Path) -> Alleles:
    """Return VariationID and class of each allele."""
    return {(*columns[:2], *columns[3:5]): (columns[2], info.get("CLNSIG", "")) for columns, info in read_rows(file)}


def test_each_call_publishes_the_release_of_the_next_week(root: Path) -> None:
    listing = root / "sample/clinvar"
    before = {file.name: file.read_bytes() for file in listing.iterdir()}
    first, second = add_next_release(root), add_next_release(root)
    assert [(each.derived_from, each.day) for each in (first, second)] == [
        ("2025-01-05", "2025-01-12"),
        ("2025-01-12", "2025-01-19"),
    ]
    found = read_listing(str(listing))
    assert [file.day for file in found.files] == ["2024-01-07", "2025-01-05", "2025-01-12", "2025-01-19"]
    assert found.unfinished == {}
    assert {name: (listing / name).read_bytes() for name in before} == before
    assert len(list(listing.iterdir())) == len(before) + 4
    assert b"##fileDate=2025-01-12\n" in gzip.decompress(first.file.read_bytes())


def test_some_alleles_are_classified_anew_some_are_new_and_some_gone(root: Path) -> None:
    release = add_next_release(root)
    before, after = alleles(root / "sample/clinvar/clinvar_20250105.vcf.gz"), alleles(release.file)
    assert len(after.keys() - before.keys()) == release.added > 0
    assert len(before.keys() - after.keys()) == release.removed > 0
    both = before.keys() & after.keys()
    assert sum(before[key][1] != after[key][1] for key in both) == release.reclassified > 0
    assert all(before[key][0] == after[key][0] for key in both)
    assert len({name for name, _ in after.values()}) == len({name for name, _ in before.values()}) - (
        len({before[key][0] for key in before.keys() - after.keys()}) - release.added
    )


def test_equal_listings_give_equal_bytes(root: Path, sample_root: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(sample_root, tmp_path / "other", symlinks=True))
    assert add_next_release(root).file.read_bytes() == add_next_release(other).file.read_bytes()


def test_a_bad_release_states_wrong_bases_and_no_release_is_derived_from_it(
    root: Path, sequences: dict[str, str]
) -> None:
    names = {"17": "chr17", "20": "chr20", "21": "chr21", "MT": "chrM"}

    def wrong(file: Path) -> int:
        rows = ((names[c[0]], int(c[1]) - 1, c[3]) for c, _ in read_rows(file) if c[0] in names)
        return sum(sequences[name][at : at + len(ref)] != ref for name, at, ref in rows)

    planted = wrong(root / "sample/clinvar/clinvar_20250105.vcf.gz")
    bad, good = add_next_release(root, bad=True), add_next_release(root)
    assert bad.wrong_ref > 0
    assert abs(wrong(bad.file) - planted - bad.wrong_ref) <= planted
    assert (good.derived_from, good.day, good.wrong_ref) == ("2025-01-05", "2025-01-19", 0)
    assert wrong(good.file) <= planted


def test_a_file_of_somebody_else_is_passed_over(root: Path) -> None:
    (root / "sample/clinvar/clinvar_20250302.vcf.gz").write_bytes(b"not gzip")
    release = add_next_release(root)
    assert (release.derived_from, release.day) == ("2025-01-05", "2025-03-09")
