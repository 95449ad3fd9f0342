"""The figures of SAMPLE_FACTS, counted again from the files, and further releases in the listing of the sample."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import MissingResourceError
from genolewm_assets.sample import add_next_release, write_sample, writer
from genolewm_assets.sample.bgzip import END_OF_FILE, compress_blocks, write_bgzip
from genolewm_assets.sample.genome.draws import Draws
from genolewm_assets.sample.writer import CONTENT_MD5
from genolewm_assets.sources.clinvar import read_listing
from genolewm_assets.store.artefacts.build import BuildRejectedError
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.referees.census import (
    GNOMAD_FILES,
    SAMPLE_FACTS,
    clinvar_alleles,
    content_digests,
    count_changes,
    count_corpus,
    count_genome,
    count_gnomad,
    count_phased,
    read_rows,
)
from genolewm_assets_tests.referees.mito_census import count_heteroplasmy, count_mito_genomes
from genolewm_assets_tests.rows import each_row


class _Steps:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None]] = []

    def advance(self, done: int, total: int | None, unit: str) -> None:
        self.seen.append((done, total))


def _bytes(folder: Path) -> dict[str, bytes]:
    files = [f for f in sorted(folder.resolve().rglob("*")) if f.is_file() and f.name != "provenance.json"]
    return {str(f.relative_to(folder.resolve())): f.read_bytes() for f in files}


def test_a_second_call_reuses_the_files(sample_root: Path) -> None:
    before = (sample_root / "sample/files").readlink()
    steps = _Steps()
    assert write_sample(sample_root, progress=steps).reused
    assert ((sample_root / "sample/files").readlink(), steps.seen) == (before, [])


def test_files_are_small_and_each_has_its_checksum_beside(sample_dir: Path) -> None:
    sizes = {name: len(data) for name, data in _bytes(sample_dir).items()}
    assert sum(sizes.values()) < 40e6
    assert 0 < sum(size for name, size in sizes.items() if name.startswith("corpus/")) < 6e6
    # Not beside Parquet: a folder of it is read whole. Not in a run folder, where no instrument writes them.
    compressed = {name for name in CONTENT_MD5 if not name.endswith(".parquet") and not name.startswith("forensic/")}
    assert set(sizes) == {*CONTENT_MD5, *(f"{name}.md5" for name in compressed), "manifest.json"}


def test_the_store_finds_nothing_wrong(sample_root: Path) -> None:
    assert open_input(Root(sample_root), ArtefactId("sample/sources"), "sample/files").manifest.failed_checks == ()


def test_the_listing_keeps_what_is_put_there_and_gets_back_what_it_lacks(sample_root: Path, sample_dir: Path) -> None:
    listing = sample_root / "sample/clinvar"
    wanted = {file.name: file.read_bytes() for file in (sample_dir / "releases").iterdir()}
    assert {file.name: file.read_bytes() for file in listing.iterdir()} == wanted
    dropped, removed = listing / "clinvar_20250302.vcf.gz", listing / "clinvar_20240107.vcf.gz"
    dropped.write_bytes(b"anything")
    removed.unlink()
    try:
        assert write_sample(sample_root).reused
        assert {file.name: file.read_bytes() for file in listing.iterdir()} == {**wanted, dropped.name: b"anything"}
    finally:
        dropped.unlink()


def test_a_root_without_its_sample_says_what_to_run(sample_root: Path, tmp_path: Path) -> None:
    writer.check_sample(sample_root)
    with pytest.raises(MissingResourceError, match=r"sources are not there\. Run genolewm demo"):
        writer.check_sample(tmp_path)


def test_another_process_writes_the_same_bytes_and_a_damaged_file_is_replaced(tmp_path: Path, sample_dir: Path) -> None:
    code = "import sys; from pathlib import Path; from genolewm_assets.sample import write_sample;"
    code += "write_sample(Path(sys.argv[1]))"
    first, second = (
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    )
    assert (first.wait(120), second.wait(120)) == (0, 0)
    wanted = _bytes(sample_dir)
    assert _bytes(tmp_path / "sample/files") == wanted
    damaged = tmp_path / "sample" / "gnomad" / "gnomad.joint.v4.1.sites.chr17.vcf.bgz"
    data = bytearray(damaged.read_bytes())
    data[1_000] ^= 1
    damaged.write_bytes(bytes(data))
    steps = _Steps()
    assert not write_sample(tmp_path, progress=steps).reused
    assert steps.seen == [(n, 34) for n in range(1, 35)]
    assert _bytes(tmp_path / "sample/files") == wanted


def test_contents_other_than_the_pinned_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_sources", lambda: iter([("reference.fa.gz", b">chr17\nACGT\n")]))
    with pytest.raises(BuildRejectedError) as caught:
        write_sample(tmp_path)
    (check,) = caught.value.checks
    assert (check.name, check.passed) == ("contents_match_pins", False)
    assert set(check.figures) == {"reference.fa.gz"}
    assert not (tmp_path / "sample/files").exists()


@given(st.binary(max_size=2_000))
def test_round_trip(data: bytes) -> None:
    assert gzip.decompress(compress_blocks(data)) == data


@pytest.mark.parametrize("size", [0, 1, 65_279, 65_280, 65_281, 200_000])
def test_htslib_reads_incompressible_data_of_every_size(size: int, tmp_path: Path) -> None:
    data = Draws(size).below(256, size).astype("uint8").tobytes()
    path = tmp_path / "x.gz"
    write_bgzip(path, data)
    with pysam.BGZFile(str(path), "rb", None) as file:
        assert file.read(size + 1) == data
    assert path.read_bytes().endswith(END_OF_FILE)


def test_empty_data_is_the_end_marker_alone() -> None:
    assert compress_blocks(b"") == END_OF_FILE


def test_checksum_stands_beside(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.vcf.bgz"
    write_bgzip(path, b"##fileformat=VCFv4.2\n")
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    assert (tmp_path / "deep" / "x.vcf.bgz.md5").read_text() == f"{digest}  x.vcf.bgz\n"


def test_contents_are_the_pinned_ones(sample_dir: Path) -> None:
    assert content_digests(sample_dir) == dict(CONTENT_MD5)


def test_genome_facts(sample_dir: Path) -> None:
    assert count_genome(sample_dir / "reference.fa.gz") == dict(SAMPLE_FACTS.genome)


@each_row("contig", GNOMAD_FILES)
def test_gnomad_facts(contig: str, sample_dir: Path, sequences: dict[str, str]) -> None:
    found = count_gnomad(sample_dir / "gnomad" / GNOMAD_FILES[contig], contig, sequences[contig])
    assert found == SAMPLE_FACTS.gnomad[contig]
    fates = found.failed + found.low_af + found.low_an + found.kept + sum(found.rejects.values())
    assert fates == found.alleles


@each_row("contig", SAMPLE_FACTS.phased)
def test_phased_facts(contig: str, sample_dir: Path) -> None:
    assert count_phased(sample_dir / "haplotypes" / f"phased.{contig}.vcf.gz") == SAMPLE_FACTS.phased[contig]


def test_clinvar_facts_and_changes(sample_dir: Path, sequences: dict[str, str]) -> None:
    first, old = clinvar_alleles(sample_dir / "releases" / "clinvar_20240107.vcf.gz", sequences)
    second, new = clinvar_alleles(sample_dir / "releases" / "clinvar_20250105.vcf.gz", sequences)
    assert {"2024-01-07": first, "2025-01-05": second} == dict(SAMPLE_FACTS.clinvar)
    assert count_changes(old, new) == SAMPLE_FACTS.changes
    for facts in (first, second):
        assert facts.kept + sum(facts.rejects.values()) + facts.other_contig == facts.records


@each_row("source", SAMPLE_FACTS.corpus)
def test_corpus_facts(source: str, sample_dir: Path) -> None:
    facts = SAMPLE_FACTS.corpus[source]
    assert count_corpus(sample_dir / "corpus" / source / "part-00000.parquet") == facts
    assert facts.windows >= 60
    assert facts.short_windows > 0


def test_mito_genome_facts(sample_dir: Path, sequences: dict[str, str]) -> None:
    facts = SAMPLE_FACTS.mito_genomes
    assert count_mito_genomes(sample_dir / "mtdna", sequences["chrM"]) == facts
    assert facts.kept + sum(facts.rejects.values()) == facts.fasta_records + facts.genbank_records


@pytest.mark.parametrize("level", SAMPLE_FACTS.heteroplasmy)
def test_heteroplasmy_facts(level: str, sample_dir: Path) -> None:
    path = sample_dir / "mtdna" / f"heteroplasmy_{level.lower()}.vcf.gz"
    assert count_heteroplasmy(path, level) == SAMPLE_FACTS.heteroplasmy[level]


def test_wrong_references_stay_under_the_threshold_of_the_catalogue() -> None:
    for facts in SAMPLE_FACTS.gnomad.values():
        assert 0 < facts.rejects["ref_mismatch"] < 0.001 * facts.alleles
    for release in SAMPLE_FACTS.clinvar.values():
        assert 0 < release.rejects["ref_mismatch"] < 0.001 * release.records


def test_windows_suffice_for_holdouts() -> None:
    windows = {name: facts.windows for name, facts in SAMPLE_FACTS.genome.items()}
    assert min(windows["chr17"], windows["chr20"]) >= 150
    assert windows["chr21"] >= 150


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
