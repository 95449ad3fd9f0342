"""Collections of both formats become tables, and calls of samples the levels of the genomes of their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from Bio import SeqIO
from Bio.Seq import Seq
from Bio.SeqFeature import SeqFeature, SimpleLocation
from Bio.SeqRecord import SeqRecord

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Contig
from genolewm_assets.mito.genomes.checks import GENOME_CHECKS
from genolewm_assets.mito.genomes.records import GenomeRecord, GenomeReject
from genolewm_assets.mito.genomes.split import SplitPolicy
from genolewm_assets.mito.genomes.table import MITO_GENOME_REJECTS, MITO_GENOMES
from genolewm_assets.sources.mito.collection import (
    GENOMES_FILE,
    REJECTS_FILE,
    CollectionFile,
    SampleLevels,
    write_genomes,
)
from genolewm_assets.sources.mito.genomes import CollectionFormat
from genolewm_assets.store.artefacts.build import BuildReport
from genolewm_assets_tests.worlds.mito.genome_world import GENOMES, MISFIT_REASONS, QC, REFERENCE, misfits
from genolewm_assets_tests.worlds.sources.vcf_files import write_text

CHRM = Contig("chrM", len(REFERENCE), circular=True)
SPLIT = SplitPolicy(validation=0.25, test=0.25)
N_FASTA = 5


def write_fasta(path: Path, records: Sequence[GenomeRecord]) -> Path:
    titles = [f"{r.name} {r.description}" + f" [haplogroup={r.haplogroup}]" * bool(r.haplogroup) for r in records]
    text = "".join(f">{title}\n{r.sequence}\n" for title, r in zip(titles, records, strict=True))
    return write_text(path, text, "gzip")


def write_genbank(path: Path, records: Sequence[GenomeRecord]) -> Path:
    found = []
    for record in records:
        source = {"haplogroup": [record.haplogroup]} if record.haplogroup else {}
        feature = SeqFeature(SimpleLocation(0, len(record.sequence)), type="source", qualifiers=source)
        notes = {"molecule_type": "DNA", "topology": "circular"}
        texts = (record.name, record.name, record.description)
        found.append(SeqRecord(Seq(record.sequence), *texts, features=[feature], annotations=notes))
    SeqIO.write(found, path, "genbank")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[CollectionFile]:
    """Five genomes and the misfits in a FASTA; the rest in a GenBank file whose name does not tell."""
    folder = tmp_path_factory.mktemp("collections")
    records = [genome.record(number) for number, genome in enumerate(GENOMES, 1)]
    fasta = write_fasta(folder / "one.fa.gz", [*records[:N_FASTA], *misfits(N_FASTA + 1)])
    genbank = write_genbank(folder / "two.txt", records[N_FASTA:])
    return [CollectionFile(fasta, "one", None), CollectionFile(genbank, "two", CollectionFormat.GENBANK)]


def write(files: Sequence[CollectionFile], folder: Path, threads: int = 1) -> BuildReport:
    folder.mkdir(exist_ok=True)
    return write_genomes(files, folder, reference=REFERENCE, qc=QC, split=SPLIT, threads=threads)


@pytest.fixture(scope="module")
def written(files: list[CollectionFile], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BuildReport]:
    folder = tmp_path_factory.mktemp("tables")
    return folder, write(files, folder)


def test_both_formats_become_one_table(written: tuple[Path, BuildReport]) -> None:
    folder, report = written
    table = pq.read_table(folder / GENOMES_FILE)
    MITO_GENOMES.check(table.schema, where="here")
    assert table["name"].to_pylist() == [genome.name for genome in GENOMES]
    assert table["sequence"].to_pylist() == [genome.spell() for genome in GENOMES]
    assert table["haplogroup"].to_pylist() == [genome.haplogroup for genome in GENOMES]
    assert table["file"].to_pylist() == ["one"] * N_FASTA + ["two"] * 3
    assert table["record"].to_pylist() == [*range(1, N_FASTA + 1), 1, 2, 3]
    assert tuple(check.name for check in report.checks) == GENOME_CHECKS
    assert all(check.passed for check in report.checks)


def test_counts_and_rows_add_up(written: tuple[Path, BuildReport]) -> None:
    folder, report = written
    counts = report.counts
    rejects = pq.read_table(folder / REJECTS_FILE)
    MITO_GENOME_REJECTS.check(rejects.schema, where="here")
    assert rejects["reason"].to_pylist() == list(MISFIT_REASONS)
    assert report.rows == {GENOMES_FILE: len(GENOMES), REJECTS_FILE: len(MISFIT_REASONS)}
    assert counts["records"] == counts["kept"] + sum(counts[f"rejected.{reason}"] for reason in GenomeReject)
    assert (counts["kept"], counts["clusters"]) == (len(GENOMES), len(GENOMES) - 1)
    assert counts["bases"] == sum(len(genome.spell()) for genome in GENOMES)
    assert sum(counts[f"split.{side}"] for side in ("train", "validation", "test")) == len(GENOMES)


def test_threads_change_no_byte(written: tuple[Path, BuildReport], files: list[CollectionFile], tmp_path: Path) -> None:
    folder, report = written
    assert write(files, tmp_path / "again", threads=4) == report
    for name in (GENOMES_FILE, REJECTS_FILE):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_no_collection_at_all(tmp_path: Path) -> None:
    report = write([], tmp_path / "none")
    assert report.rows == {GENOMES_FILE: 0, REJECTS_FILE: 0}
    assert {name: n for name, n in report.counts.items() if n} == {"reference_bp": len(REFERENCE)}
    assert all(check.passed for check in report.checks)
    assert pq.read_schema(tmp_path / "none" / GENOMES_FILE).equals(MITO_GENOMES.arrow)


def test_a_file_that_cannot_be_trusted_stops_everything(files: list[CollectionFile], tmp_path: Path) -> None:
    whole = files[0].path.read_bytes()
    cut = tmp_path / "cut.fa.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="three: truncated or corrupt gzip"):
        write([files[1], CollectionFile(cut, "three", None)], tmp_path / "out")
    with pytest.raises(InputError, match="unknown file name ending"):
        write([files[1]._replace(file_format=None)], tmp_path / "out")


def calls(folder: Path, name: str, samples: Sequence[str], records: Sequence[str]) -> Path:
    """Write a VCF; a record is CHROM POS REF ALT FILTER and a level per sample."""
    lines = ["##fileformat=VCFv4.2", f"##contig=<ID=chrM,length={len(REFERENCE)}>", "##contig=<ID=chr1>"]
    lines += ['##FILTER=<ID=weak,Description="x">', '##FORMAT=<ID=AF,Number=A,Type=Float,Description="level">']
    lines.append("\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *samples]))
    for record in records:
        chrom, pos, ref, alt, failed, *levels = record.split()
        lines.append("\t".join([chrom, pos, ".", ref, alt, ".", failed, ".", "AF", *levels]))
    return write_text(folder / name, "\n".join([*lines, ""]), "bgzip")


def change(pos: int) -> str:
    """Return POS REF ALT of a substitution that no genome has."""
    ref = REFERENCE[pos - 1]
    return f"{pos} {ref} {'ACGT'['ACGT'.index(ref) ^ 1]}"


@pytest.fixture
def vcfs(tmp_path: Path) -> dict[str, Path]:
    one = calls(
        tmp_path,
        "one.vcf.gz",
        ["plain", "stranger"],
        [
            f"chrM {change(900)} PASS 0.25 0.5",
            f"chrM {change(901)} weak 0.5 0.5",
            f"chrM {change(902)} . . 0.5",
            f"chrM {change(903).rsplit(' ', 1)[0]} * PASS 0.5 0",
            f"chrM {change(900)} PASS 0.75 .",
            "chr1 100 A C PASS 0.5 0.5",
        ],
    )
    two = calls(tmp_path, "two.vcf.gz", ["h2", "silent"], [f"chrM {change(2_500)} PASS 0.125 0"])
    return {"one": one, "two": two}


def test_calls_become_levels_of_the_samples_genome(written: tuple[Path, BuildReport], vcfs: dict[str, Path]) -> None:
    table = pq.read_table(written[0] / GENOMES_FILE)
    found = {genome.name: genome for genome in SampleLevels(vcfs, CHRM, REFERENCE).levelled(table)}
    assert list(found) == [genome.name for genome in GENOMES]
    assert {name for name, genome in found.items() if genome.levels is not None} == {"plain", "h2"}
    for name, pos, level in (("plain", 900, 0.5), ("h2", 2_500, 0.125)):
        levels = found[name].levels
        assert levels is not None
        assert levels.dtype == np.float32
        # The genomes lack the placeholder.
        assert levels.shape == (len(REFERENCE) - 1,)
        assert {int(at): float(levels[at]) for at in np.flatnonzero(levels)} == {pos - 1 - (pos > 1_500): level}


def test_every_call_counts_or_has_a_reason(written: tuple[Path, BuildReport], vcfs: dict[str, Path]) -> None:
    levels = SampleLevels(vcfs, CHRM, REFERENCE)
    assert (levels.counts["het.samples"], levels.counts["het.calls"]) == (4, 4 + 3 + 1 + 1)
    assert len(list(levels.levelled(pq.read_table(written[0] / GENOMES_FILE)))) == len(GENOMES)
    counts = levels.counts
    dropped = {"filtered": 1, "not_a_sequence": 1, "conflicting_records": 1, "no_genome": 3, "other_contig": 1}
    expected = {"het.samples": 4, "het.genomes": 2, "het.calls": 9, "het.field.AF": 8, "het.counted": 2}
    expected |= {f"het.dropped.{reason}": n for reason, n in dropped.items()}
    assert {name: n for name, n in counts.items() if n} == expected
    assert counts["het.calls"] == counts["het.counted"] + sum(dropped.values())


def test_samples_of_names_that_no_genome_has_are_at_fault(written: tuple[Path, BuildReport], tmp_path: Path) -> None:
    table = pq.read_table(written[0] / GENOMES_FILE)
    record = [f"chrM {change(900)} PASS 0.25"]
    files = {
        "renamed": calls(tmp_path, "a.vcf.gz", ["plain.final"], record),
        "filtered": calls(tmp_path, "b.vcf.gz", ["h2"], [f"chrM {change(900)} weak 0.25"]),
        "right": calls(tmp_path, "c.vcf.gz", ["u5"], record),
        "rejected": calls(tmp_path, "d.vcf.gz", ["twin"], record),
    }
    levels = SampleLevels(files, CHRM, REFERENCE)
    list(levels.levelled(table))
    check = levels.check({"twin"})
    assert not check.passed
    assert [(row["file"], row.get("sample"), row["problem"], row.get("closest")) for row in check.rows] == [
        ("renamed", "plain.final", "no genome has its name", "plain"),
        ("filtered", None, "none of its calls counts", None),
    ]
    assert (check.figures["samples_of_rejected_genomes"], check.figures["first_genomes"]) == (
        1,
        "'h1', 'h2', 'u5', ...",
    )
    right = SampleLevels({name: files[name] for name in ("right", "rejected")}, CHRM, REFERENCE)
    list(right.levelled(table))
    assert right.check({"twin"}).passed


def test_a_sample_of_two_files_is_refused(vcfs: dict[str, Path], tmp_path: Path) -> None:
    again = calls(tmp_path, "three.vcf.gz", ["other", "plain"], [])
    with pytest.raises(
        InputError, match="three: has a sample of another file: expected each sample in one file, got 'plain'"
    ):
        SampleLevels({**vcfs, "three": again}, CHRM, REFERENCE)
