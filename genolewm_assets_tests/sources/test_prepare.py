"""One VCF to one shard: what is written, what is refused, and that a failing call leaves everything as it was."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit.reading.geno_lewm import open_geno_lewm
from genolewm_assets.errors import CorruptResourceError, FastaError, InputError, VcfError
from genolewm_assets.genome import GRCH38
from genolewm_assets.sources import prepare
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.sources.prepare import prepare_clinvar, prepare_gnomad
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.store.artefacts.build import BuildRejectedError
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.variants.declared_checks import CLINVAR_CHECKS, GNOMAD_CHECKS
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

BASES = "ACGATTTTTCACACACGTAGCTAGCTAGGATC"
DATE = "2026-02-26"


@pytest.fixture
def gnomad(tmp_path: Path) -> Path:
    info = ["AF:A:Float", "AC:A:Integer", "AN:1:Integer"]
    records = [("chr17", at, ".", BASES[at - 1], "N" if at == 9 else "TA"[BASES[at - 1] == "T"], "PASS", "AF=0.5")
               for at in (1, 3, 9, 12)]  # fmt: skip
    return write_text(tmp_path / "gnomad.vcf", vcf_text(records, info=info))


@pytest.fixture
def clinvar(tmp_path: Path) -> Path:
    return write_clinvar(tmp_path / "clinvar.vcf", "Benign")


def write_clinvar(path: Path, clnsig: str, *, ref: str = "A", pos: int = 1, chrom: str = "17") -> Path:
    records = [(chrom, pos, 7, ref, "C" if ref != "C" else "T", ".", f"CLNSIG={clnsig}")]
    return write_text(path, vcf_text(records, info=["CLNSIG:.:String"], meta=[f"##fileDate={DATE}"]))


@pytest.fixture
def fasta(tmp_path: Path) -> Path:
    return write_text(tmp_path / "genome.fa", f">chr17\n{BASES}\n")


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything under a folder, files with their content."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def test_an_output_holds_the_shards_and_nothing_else(gnomad: Path, clinvar: Path, fasta: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    for reference in (None, fasta):
        shards = [
            prepare_gnomad(gnomad, out, release="4.1", reference=reference),
            prepare_clinvar(clinvar, out, release=DATE, reference=reference),
        ]
        assert [pq.read_metadata(shard.file("variants.parquet")).num_rows for shard in shards] == [3, 1]
        for shard, checks in zip(shards, (GNOMAD_CHECKS, CLINVAR_CHECKS), strict=True):
            assert shard.directory.samefile(out / shard.artefact.asset.split("/")[0] / str(shard.artefact.partition))
            assert read_manifest(shard.directory) == shard.manifest
            # What was not compared is not said to agree.
            named = {name for name in checks if reference or name != "ref_agrees_with_genome"}
            assert {check.name for check in shard.manifest.checks} == named
    assert sorted(path.name for path in out.iterdir()) == ["clinvar", "gnomad"]
    assert sorted(path.name for path in (out / "gnomad").iterdir()) == [".gen", "4.1"]


def test_a_shard_in_the_columns_of_geno_lewm(fasta: Path, tmp_path: Path) -> None:
    longest = BASES[4:21]
    groups = {"AF_afr": 0.25, "AF_remaining": 0.125}
    info = ["AF:A:Float", "AN:1:Integer", *(f"{name}:A:Float" for name in groups)]
    values = ";".join(f"{name}={value}" for name, value in {"AF": 0.5, "AN": 10, **groups}.items())
    records = [("chr17", 1, ".", "A", "T", "PASS", values), ("chr17", 5, ".", longest, longest[0], "PASS", values)]
    vcf = write_text(tmp_path / "gnomad.vcf", vcf_text(records, info=info))
    shard = prepare_gnomad(vcf, tmp_path / "out", release="4.1", reference=fasta, layout="geno-lewm")
    assert shard.directory == (tmp_path / "out/gnomad/4.1").resolve()
    (row,) = pq.ParquetFile(shard.file("variants.parquet")).read().to_pylist()
    known = {"af_global": 0.5, "af_afr": 0.25, "af_oth": 0.125, "filter": "PASS", "schema_version": "1.0.0"}
    unknown = dict.fromkeys(f"af_{group}" for group in ("ami", "amr", "asj", "eas", "fin", "nfe", "sas"))
    assert row == {"chrom": "chr17", "pos": 1, "ref": "A", "alt": "T", **known, **unknown}
    assert (shard.manifest.counts["over_16_bp"], shard.manifest.recipe["layout"]) == (1, "geno-lewm")
    reviewed = "criteria_provided,_single_submitter"
    facts = [f"CLNSIG=Likely_benign;CLNREVSTAT={reviewed};GENEINFO=ONE:1|TWO:2;ALLELEID=99", "CLNSIG=Pathogenic"]
    records = [("17", at, 6 + at, BASES[at - 1], "T", ".", fact) for at, fact in zip((1, 2), facts, strict=True)]
    info = [f"{name}:.:String" for name in ("CLNSIG", "CLNREVSTAT", "GENEINFO")] + ["ALLELEID:1:Integer"]
    vcf = write_text(tmp_path / "clinvar.vcf", vcf_text(records, info=info, meta=[f"##fileDate={DATE}"]))
    shard = prepare_clinvar(vcf, tmp_path / "out", release=DATE, reference=fasta, layout="geno-lewm")
    columns = ("clinical_significance", "review_status", "gene_symbol", "clinvar_id", "schema_version")
    rows = pq.ParquetFile(shard.file("variants.parquet")).read().select(columns).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("LB", reviewed, "ONE", 7, "1.0.0"), ("P", "unknown", None, 8, "1.0.0"),
    ]  # fmt: skip
    # The audit reads both shards, and not the rejects beside them.
    files = open_geno_lewm(tmp_path / "out", None, fasta)
    batches = files.variants("train", ("source", "pos", "label", "clinvar_id"))
    read = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["source"], row["pos"]) for row in read] == [("gnomad", 1), ("clinvar", 1), ("clinvar", 2)]
    assert files.label_key == "VariationID"


STATED = ("##reference=GRCh37", "##contig=<ID=17,assembly=b37>", "##contig=<ID=22,length=51304566>")


@pytest.mark.parametrize("line", STATED)
def test_an_assembly_that_the_file_states_is_compared(line: str, gnomad: Path, clinvar: Path, tmp_path: Path) -> None:
    for vcf in (gnomad, clinvar):
        write_text(vcf, vcf.read_text().replace("#CHROM", f"{line}\n#CHROM"))
    with pytest.raises(VcfError, match=r"gnomad\.vcf: the header .*(GRCh38|50818468 bp)"):
        prepare_gnomad(gnomad, tmp_path / "out", release="4.1")
    with pytest.raises(VcfError, match=r"clinvar\.vcf: the header .*(GRCh38|50818468 bp)"):
        prepare_clinvar(clinvar, tmp_path / "out", release=DATE)
    assert not (tmp_path / "out").exists()


def test_a_gnomad_release_is_the_files_own(gnomad: Path, tmp_path: Path) -> None:
    out, text = tmp_path / "out", gnomad.read_text()
    with pytest.raises(InputError, match=r"--release: is required: .*gnomad\.vcf does not state which gnomAD release"):
        prepare_gnomad(gnomad, out)
    write_text(gnomad, text.replace("#CHROM", "##source=gnomAD v3.1.2\n#CHROM"))
    with pytest.raises(
        VcfError, match=r"another gnomAD release: expected '4\.1', as declared, got 3\.1\.2, stated in ##s"
    ):
        prepare_gnomad(gnomad, out, release="4.1")
    assert not out.exists()
    assert prepare_gnomad(gnomad, out).directory == (out / "gnomad/3.1.2").resolve()


def test_a_file_without_filters_is_accepted_when_told_to(gnomad: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_text(gnomad, gnomad.read_text().replace("\tPASS\t", "\t.\t"))
    message = r"vcf: no allele has FILTER PASS, and that of 4 is '\.', .* published unfiltered, give --accept-unf"
    with pytest.raises(VcfError, match=message):
        prepare_gnomad(gnomad, out, release="4.1")
    assert not out.exists()
    shard = prepare_gnomad(gnomad, out, release="4.1", accept_unfiltered=True)
    assert pq.read_table(shard.file("variants.parquet"))["filter"].to_pylist() == ["."] * 3
    # A record that failed a filter does not fill the shard; one that passed shows that the file has been filtered.
    write_text(gnomad, gnomad.read_text().replace("\t.\tAF", "\tAC0\tAF", 1))
    with pytest.raises(VcfError, match="that of 3 is"):
        prepare_gnomad(gnomad, out, release="4.1")
    write_text(gnomad, gnomad.read_text().replace("\tAC0\tAF", "\tPASS\tAF"))
    assert prepare_gnomad(gnomad, out, release="4.1").manifest.counts["kept"] == 1


@pytest.mark.parametrize("existed", [True, False])
def test_a_failing_call_touches_nothing_that_others_publish_meanwhile(
    existed: bool, gnomad: Path, clinvar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if existed:
        (out / "rejected").mkdir(parents=True)

    def fail(*_: object, **__: object) -> None:
        prepare_gnomad(gnomad, out, release="4.1")
        raise VcfError("late.vcf, line 9", "is broken")

    monkeypatch.setattr(prepare, "build_clinvar_shard", fail)
    with pytest.raises(VcfError, match="line 9"):
        prepare_clinvar(clinvar, out, release=DATE)
    assert pq.read_metadata(out / "gnomad/4.1/variants.parquet").num_rows == 3
    assert sorted(path.name for path in out.iterdir()) == ["gnomad", *(["rejected"] if existed else [])]


def test_a_failing_call_leaves_no_folder_behind(clinvar: Path, tmp_path: Path) -> None:
    bad = write_clinvar(tmp_path / "bad.vcf", "Fine_by_me")
    before = tree(tmp_path)
    with pytest.raises(InputError, match="Fine_by_me"):
        prepare_clinvar(bad, tmp_path / "new" / "deep" / "out", release=DATE)
    assert tree(tmp_path) == before
    prepare_clinvar(clinvar, tmp_path / "out", release=DATE)
    before = tree(tmp_path)
    with pytest.raises(InputError, match="Fine_by_me"):
        prepare_clinvar(bad, tmp_path / "out", release=DATE)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(("change", "figure"), [({"ref": "G"}, "ref_mismatches 1"), ({"pos": 33}, "out_of_range 1")])
def test_a_failed_check_is_named_in_full(change: dict[str, object], figure: str, fasta: Path, tmp_path: Path) -> None:
    vcf = write_clinvar(tmp_path / "hg19.vcf", "Benign", **change)  # type: ignore[arg-type]
    before = tree(tmp_path)
    with pytest.raises(BuildRejectedError) as raised:
        prepare_clinvar(vcf, tmp_path / "out", release=DATE, reference=fasta)
    assert str(raised.value) == (
        f"{vcf}: the shard fails ref_mismatches_rare (examined 1, fraction 1.0, max_fraction 0.001, {figure}). "
        "Nothing was written; check the file and its assembly."
    )
    assert [check.name for check in raised.value.checks if not check.passed] == ["ref_mismatches_rare"]
    assert tree(tmp_path) == before


def test_two_calls_for_one_place_both_succeed(gnomad: Path, tmp_path: Path) -> None:
    def publish(index: int) -> Path:
        return prepare_gnomad(gnomad, tmp_path / "out", release="4.1", min_af=index % 3 / 10).directory

    with ThreadPoolExecutor(4) as pool:
        directories = list(pool.map(publish, range(12)))
    assert len(set(directories)) == 3
    assert (tmp_path / "out/gnomad/4.1").resolve() in directories
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["gnomad"]


def test_a_place_that_is_taken_is_left_alone(gnomad: Path, tmp_path: Path) -> None:
    (tmp_path / "out/gnomad/4.1/chr17").mkdir(parents=True)
    before = tree(tmp_path)
    with pytest.raises(CorruptResourceError, match="is in the place of the published link"):
        prepare_gnomad(gnomad, tmp_path / "out", release="4.1")
    assert tree(tmp_path) == before
    with pytest.raises(InputError, match="--output: is not a folder"):
        prepare_gnomad(gnomad, gnomad / "out", release="4.1")


def test_a_genome_that_does_not_belong_to_the_file(clinvar: Path, fasta: Path, tmp_path: Path) -> None:
    strange = write_text(tmp_path / "strange.fa", ">scaffold_1\nACGT\n>scaffold_2\nACGT\n")
    message = r"strange\.fa: has no contig of GRCh38: expected .*'chr1'.*, got 'scaffold_1', 'scaffold_2'"
    with pytest.raises(FastaError, match=message):
        prepare_clinvar(clinvar, tmp_path / "out", release=DATE, reference=strange)
    elsewhere = write_clinvar(tmp_path / "x.vcf", "Benign", chrom="X")
    with pytest.raises(InputError, match="no record is on a requested contig: expected 'chr17', got 'X'"):
        prepare_clinvar(elsewhere, tmp_path / "out", release=DATE, reference=fasta)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("url", ["https://example.org/a.vcf.gz", "s3://bucket/a.vcf.gz", "file:///data/a.vcf.gz"])
def test_a_url_is_no_path(url: str, fasta: Path, clinvar: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a URL: expected the path of a local file, got a URL\. Download it first"):
        prepare_clinvar(Path(url), tmp_path / "out", release=DATE, reference=fasta)
    with pytest.raises(InputError, match="is a URL"):
        prepare_gnomad(clinvar, tmp_path / "out", release="4.1", reference=Path(url))


class LossyScanner(VcfScanner):
    """Loses the last record of every block, as a scanner with a fault might."""

    def __iter__(self) -> Iterator[VcfBlock]:
        for block in super().__iter__():
            yield block.take(slice(len(block) - 1))


def test_a_scanner_that_loses_records_is_found_out(
    gnomad: Path, clinvar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genolewm_assets.sources.gnomad.shard.VcfScanner", LossyScanner)
    message = r"every_record_accounted_for \(alleles_in 3, alleles_in_source 4, problems alleles_in is not the number"
    with pytest.raises(BuildRejectedError, match=message):
        prepare_gnomad(gnomad, tmp_path / "out", release="4.1")
    write_text(clinvar, clinvar.read_text() + clinvar.read_text().splitlines()[-1].replace("\t7\t", "\t8\t") + "\n")
    monkeypatch.setattr("genolewm_assets.sources.clinvar.shard.VcfScanner", LossyScanner)
    with pytest.raises(BuildRejectedError, match=r"alleles_in 1, alleles_in_source 2"):
        prepare_clinvar(clinvar, tmp_path / "out", release=DATE)


SPELLINGS = ("chr17", "17", "NC_000017.11", "CM000679.2")
DECLARED = ["CLNSIG:.:String", "AF:A:Float", "AN:1:Integer"]


def build_gnomad(vcf: Path, out: Path) -> None:
    """Build as the asset graph does: one contig."""
    build_gnomad_shard(vcf, contig=GRCH38["chr17"], contigs=GRCH38, reference=None, params=GnomadParams(), out_dir=out)


def build_clinvar(vcf: Path, out: Path) -> None:
    """Build as the asset graph does: a file per contig."""
    build_clinvar_shard(vcf, release=DATE, contigs=GRCH38, reference=None, out_dir=out)


@pytest.mark.parametrize("work", [build_gnomad, build_clinvar])
def test_spellings_and_order_of_contigs_change_no_byte(tmp_path: Path, work: Callable[[Path, Path], object]) -> None:
    """In a file whose records are in no order, too."""
    names = {"chr17": SPELLINGS, "chrM": ("chrM", "MT"), "KI270706.1": ("KI270706.1",)}
    draw, written = random.Random(4), []
    records = [(name, at, 7, "A", "CGT"[at % 3], "PASS", "CLNSIG=Benign;AF=0.5;AN=8") for name in names
               for at in range(1, 200)]  # fmt: skip
    for mixes in (False, True):
        folder = tmp_path / str(mixes)
        folder.mkdir()
        if mixes:
            draw.shuffle(records)
            records = [(draw.choice(names[str(record[0])]), *record[1:]) for record in records]
        text = vcf_text(records, info=DECLARED, meta=[f"##fileDate={DATE}"])
        work(write_text(folder / "in.vcf", text), folder / "out")
        written.append(tree(folder / "out"))
    assert written[0] == written[1]
