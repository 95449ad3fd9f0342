"""The genome that one VCF is compared with, when a FASTA, a root or a catalogue knows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError, FastaError, MissingResourceError
from genolewm_assets.sources.prepare import prepare_clinvar, prepare_gnomad
from genolewm_assets.store.artefacts.build import BuildRejectedError
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

DATE = "2026-02-26"
HOMOPOLYMER = 2_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    """Return a tiny world, of which only the genome is built; a run of A lies at 2,000-2,009 of chr17."""
    world = TinyWorld(tmp_path_factory.mktemp("world"))
    bases = world.sequences["chr17"]
    world.sequences["chr17"] = bases[: HOMOPOLYMER - 1] + b"CAAAAAAAAAAG" + bases[HOMOPOLYMER + 11 :]
    world.write_fasta(world.sequences)
    world.write_catalog()
    assert world.materialize("reference/genome").success
    return world


@pytest.fixture
def clinvar(world: TinyWorld, tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a ClinVar file: a deletion that can be left-aligned, and an allele with a REF of its own."""

    def write(*, wrong: bool = False) -> Path:
        base = chr(world.sequences["chr17"][99])
        ref = "ACGT"[("ACGT".index(base) + wrong) % 4]
        alt = "ACGT"[("ACGT".index(base) + 2) % 4]
        records = [
            ("17", 100, 1, ref, alt, ".", "CLNSIG=Benign"),
            ("17", HOMOPOLYMER + 5, 2, "AA", "A", ".", "CLNSIG=Benign"),
        ]
        meta = [f"##fileDate={DATE}", "##reference=GRCh38"]
        return write_text(tmp_path / "clinvar.vcf", vcf_text(records, info=["CLNSIG:.:String"], meta=meta))

    return write


def positions(folder: Path) -> list[int]:
    return pq.read_table(folder / f"clinvar/{DATE}/variants.parquet")["pos"].to_pylist()


@pytest.mark.parametrize("how", ["root", "output", "catalog"])
def test_root_or_catalogue_has_genome(how: str, world: TinyWorld, clinvar: Callable[..., Path], tmp_path: Path) -> None:
    output = world.root / "prepared" if how == "output" else tmp_path / "out"
    known = {"root": {"root": world.root}, "output": {}, "catalog": {"catalog": str(world.catalog)}}[how]
    with pytest.raises(BuildRejectedError, match=r"ref_mismatches_rare \(examined 2, .*ref_mismatches 1\)"):
        prepare_clinvar(clinvar(wrong=True), output, release=DATE, **known)  # type: ignore[arg-type]
    assert not output.exists()
    shard = prepare_clinvar(clinvar(), output, release=DATE, **known)  # type: ignore[arg-type]
    assert positions(output) == [100, HOMOPOLYMER]
    assert "ref_agrees_with_genome" in {check.name for check in shard.manifest.checks}
    assert "reference" in shard.manifest.recipe


def test_a_genome_that_is_not_there(world: TinyWorld, clinvar: Callable[..., Path], tmp_path: Path) -> None:
    vcf, out = clinvar(), tmp_path / "out"
    (tmp_path / "root").mkdir()
    with pytest.raises(MissingResourceError, match="not a root"):
        prepare_clinvar(vcf, out, release=DATE, root=tmp_path / "root")
    (tmp_path / "root/root.json").write_bytes((world.root / "root.json").read_bytes())
    with pytest.raises(MissingResourceError, match=r"reference/genome in .*root: is not published\. Build it"):
        prepare_clinvar(vcf, out, release=DATE, root=tmp_path / "root")
    with pytest.raises(
        MissingResourceError, match=r"genome.fasta of catalogue 'grch38': is not a file on this machine"
    ):
        prepare_clinvar(vcf, out, release=DATE, catalog="grch38")
    # A root without a genome does not stand in the way of a command that does not name it.
    prepare_clinvar(vcf, tmp_path / "root", release=DATE)
    assert positions(tmp_path / "root") == [100, HOMOPOLYMER + 5]


def test_a_genome_that_is_damaged_or_another(clinvar: Callable[..., Path], tmp_path: Path) -> None:
    own = TinyWorld(tmp_path / "own")
    assert own.materialize("reference/genome").success
    genome = own.open("reference/genome").directory / "contigs.parquet"
    genome.chmod(0o644)
    genome.write_bytes(b"")
    with pytest.raises(CorruptResourceError, match=r"reference/genome \(.*contigs\.parquet"):
        prepare_clinvar(clinvar(), tmp_path / "out", release=DATE, root=own.root)
    own.write_fasta({**own.sequences, "chr20": b"ACGT"})
    with pytest.raises(
        FastaError, match=r"is not the genome of catalogue 'tiny': expected chr20 of 24000 bp, got 4 bp"
    ):
        prepare_clinvar(clinvar(), tmp_path / "out", release=DATE, catalog=str(own.catalog))


def test_a_fasta_of_another_assembly_is_refused(clinvar: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "hg19.fa"
    with path.open("wb") as file:
        file.write(b">22\n" + b"N" * 51_304_566 + b"\n")
    message = (
        r"hg19\.fa: contig 'chr22' has the length of another assembly: "
        r"expected 50818468 bp \(GRCh38\), got 51304566 bp \(GRCh37\)\. Give the GRCh38 FASTA"
    )
    vcf = write_text(tmp_path / "gnomad.vcf", vcf_text([("22", 5, ".", "A", "C", "PASS", "AF=1")], info=["AF:A:Float"]))
    for prepare in (
        lambda: prepare_clinvar(clinvar(), tmp_path / "out", release=DATE, reference=path),
        lambda: prepare_gnomad(vcf, tmp_path / "out", release="4.1", reference=path),
    ):
        with pytest.raises(FastaError, match=message):
            prepare()
    assert not (tmp_path / "out").exists()
