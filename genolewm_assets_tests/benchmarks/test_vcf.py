"""The benchmarks' files are what they claim to be, and a job that fails is said to have failed."""

import sys
from pathlib import Path

import pysam
import pytest

from benchmarks.vcf.clinvar_vcf import CONTIGS, write_clinvar_vcf
from benchmarks.vcf.gnomad_info import SAMPLES
from benchmarks.vcf.gnomad_vcf import CONTIG, GnomadShape, write_gnomad_vcf
from benchmarks.vcf.inputs import make_input
from benchmarks.vcf.simulated_genome import simulate_contig
from benchmarks.workers import Job, measure, measure_fresh
from genolewm_assets.genome import ContigSet, Label
from genolewm_assets.sources.clinvar.terms import label_of, stars_of

RECORDS = 2_000


@pytest.fixture(scope="module")
def bases() -> bytes:
    return simulate_contig(CONTIG)


@pytest.mark.parametrize(("wide", "record_bytes"), [pytest.param(True, 4_100, marks=pytest.mark.slow), (False, 500)])
def test_gnomad_records_agree_with_themselves_and_the_contig(
    tmp_path: Path, bases: bytes, wide: bool, record_bytes: int
) -> None:
    vcf = tmp_path / "sites.vcf.bgz"
    write_gnomad_vcf(vcf, bases, GnomadShape(RECORDS, wide))
    text = pysam.BGZFile(str(vcf)).read()
    assert len(text) / RECORDS == pytest.approx(record_bytes, rel=0.15)
    common, two, last = 0, 0, 0
    with pysam.VariantFile(str(vcf)) as reader:
        for record in reader:
            assert record.pos >= last
            last = record.pos
            assert bases[record.start : record.stop].decode() == record.ref
            assert len({record.ref, *record.alts}) == 1 + len(record.alts)
            info = record.info
            for ac, af in zip(info["AC"], info["AF"], strict=True):
                assert af == pytest.approx(ac / info["AN"], rel=1e-4)
            assert info["AC"] == tuple(map(sum, zip(*(info[f"AC_{group}"] for group in SAMPLES), strict=True)))
            common += info["AF"][0] >= 0.01
            two += len(record.alts) == 2
    assert 0.035 < common / RECORDS < 0.07
    assert 0.01 < two / RECORDS < 0.03


def test_clinvar_records_have_known_terms_and_fit_their_contigs(tmp_path: Path) -> None:
    contigs = ContigSet(list(CONTIGS)[-2:])
    bases = {each.name: simulate_contig(each) for each in contigs}
    vcf = tmp_path / "clinvar.vcf.gz"
    write_clinvar_vcf(vcf, bases, contigs, records=RECORDS)
    rows = [line.split("\t") for line in pysam.BGZFile(str(vcf)).read().decode().splitlines() if line[0] != "#"]
    alleles = [(chrom, int(pos), ref, alt) for chrom, pos, _, ref, alt, *_ in rows]
    assert len(set(alleles)) == len({row[2] for row in rows}) == RECORDS
    assert [each[0] for each in alleles] == ["X"] * (RECORDS // 2) + ["Y"] * (RECORDS // 2)
    assert alleles == sorted(alleles)
    labels = set()
    for (chrom, pos, ref, _), row in zip(alleles, rows, strict=True):
        assert bases[f"chr{chrom}"][pos - 1 : pos - 1 + len(ref)].decode() == ref
        info = dict(item.split("=") for item in row[7].split(";"))
        labels.add(label_of(info.get("CLNSIG"), where=""))
        stars_of(info.get("CLNREVSTAT"), where="")
    assert labels == set(Label)


def test_an_input_is_made_once_and_again_when_it_is_gone(tmp_path: Path) -> None:
    made = make_input(tmp_path, "slim", 100)
    packed, stamp = made.vcf.read_bytes(), made.vcf.stat().st_mtime_ns
    assert make_input(tmp_path, "slim", 100) == made
    assert made.vcf.stat().st_mtime_ns == stamp
    assert [path.suffix for path in (made.with_index().vcf.parent).glob("*.tbi")] == [".tbi"]
    made.remove()
    assert make_input(tmp_path, "slim", 100) == made
    assert made.vcf.read_bytes() == packed


def test_a_job_that_fails_leaves_the_others_measured(tmp_path: Path) -> None:
    good = _job("good", tmp_path, "return 7")
    bad = _job("bad", tmp_path, "raise ValueError('no')")
    absent = Job("absent", (), "it is not installed")
    figures = {each.name: each for each in measure([good, bad, absent], runs=3)}
    assert (len(figures["good"].wall), figures["good"].records) == (3, 7)
    assert 1 << 20 < figures["good"].peak_bytes < 1 << 28
    assert {name: each.failure for name, each in figures.items()} == {
        "good": "",
        "bad": "ValueError: no",
        "absent": "it is not installed",
    }


def test_child_processes_count_in_the_cpu_seconds(tmp_path: Path) -> None:
    spin = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'sum(range(10**7))'], check=True)"
    (figures,) = measure([_job("child", tmp_path, spin)], runs=1)
    assert figures.cpu_s > 0.02


def test_tasks_of_one_command_take_turns_in_one_process(tmp_path: Path) -> None:
    command, log = _logging_job(tmp_path)
    figures = measure([Job("a", command, task="a"), Job("b", command, task="b")], runs=2)
    assert [(each.records, len(each.wall), each.failure) for each in figures] == [(1, 2, ""), (2, 2, "")]
    tasks, processes = zip(*(line.split() for line in log.read_text().splitlines()), strict=True)
    assert [sorted(tasks[turn : turn + 2]) for turn in (0, 2, 4)] == [["a", "b"]] * 3
    assert len(set(processes)) == 1


def test_a_fresh_run_is_the_first_of_its_process(tmp_path: Path) -> None:
    command, log = _logging_job(tmp_path)
    (figures,) = measure_fresh([Job("a", command, task="a")], runs=2)
    assert (figures.records, len(figures.wall), figures.failure) == (1, 2, "")
    assert 1 << 20 < figures.loaded_bytes <= figures.peak_bytes
    assert len(set(log.read_text().splitlines())) == 3


def _job(name: str, folder: Path, body: str) -> Job:
    lines = [
        "from pathlib import Path",
        "from benchmarks.stopwatch import serve",
        f"def work():\n    {body}",
        f"serve(work, version='1', out=Path({str(folder / 'out')!r}))",
    ]
    return Job(name, [sys.executable, "-c", "\n".join(lines)])


def _logging_job(folder: Path) -> tuple[list[str], Path]:
    lines = [
        "import os",
        "from benchmarks.stopwatch import serve_tasks",
        f"log = lambda task: print(task, os.getpid(), file=open({str(folder / 'log')!r}, 'a', buffering=1))",
        "serve_tasks({'a': lambda: log('a') or 1, 'b': lambda: log('b') or 2}, version='1')",
    ]
    return [sys.executable, "-W", "ignore", "-c", "\n".join(lines)], folder / "log"
