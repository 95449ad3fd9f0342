"""The commands as people call them: what they write, what they say, what they leave behind."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

CLINVAR = "clinvar/clinvar_20250105.vcf.gz"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    return TinyWorld(tmp_path_factory.mktemp("sources"))


def clinvar_command(vcf: Path, output: Path, *more: object) -> list[object]:
    return ["prepare-clinvar", "--input-vcf", vcf, "--release", "2025-01-05", "--output", output, *more]


def test_prepare_gnomad_writes_the_shard(sources: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vcf, fasta = sources.folder / "gnomad.chr17.vcf.bgz", sources.folder / "genome.fa.gz"
    command = ["prepare-gnomad", "--input-vcf", vcf, "--output", tmp_path, "--release", "4.1"]
    assert run(monkeypatch, *command, "--reference", fasta) == 0
    table = pq.read_table(tmp_path / "gnomad/4.1/variants.parquet")
    assert table.num_rows == 45
    assert set(table["af"].to_pylist()) == {0.25}
    assert run(monkeypatch, *command, "--min-af", "0.0005", "--reference", fasta) == 0
    assert pq.read_table(tmp_path / "gnomad/4.1/variants.parquet").num_rows == 90


def test_prepare_clinvar_writes_the_shard_and_says_that_it_did_not_align(
    sources: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *clinvar_command(sources.folder / CLINVAR, tmp_path)) == 0
    table = pq.read_table(tmp_path / "clinvar/2025-01-05/variants.parquet")
    assert table.num_rows == 65
    assert set(table["chrom"].to_pylist()) == {"chr17"}
    assert "neither left-aligned" in capsys.readouterr().err


def plain_text(good: bytes, path: Path) -> Path:
    path.write_bytes(gzip.decompress(good))
    return path


def plain_gzip(good: bytes, path: Path) -> Path:
    path.write_bytes(gzip.compress(gzip.decompress(good)))
    return path


@pytest.mark.parametrize("repack", [plain_text, plain_gzip])
def test_unblocked_vcf_is_read_like_a_blocked_one(
    repack: Callable[[bytes, Path], Path], sources: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vcf = repack((sources.folder / CLINVAR).read_bytes(), tmp_path / "input.vcf")
    assert run(monkeypatch, *clinvar_command(vcf, tmp_path / "out")) == 0
    assert pq.read_metadata(tmp_path / "out/clinvar/2025-01-05/variants.parquet").num_rows == 65


def edited(old: str, new: str) -> Callable[[bytes], bytes]:
    def edit(good: bytes) -> bytes:
        text = gzip.decompress(good).decode()
        assert old in text
        return text.replace(old, new, 1).encode("latin-1")

    return edit


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty file": lambda good: b"",
    "truncated bgzip": lambda good: good[: len(good) // 2],
    "bgzip without its end": lambda good: good[:-28],
    "truncated gzip": lambda good: gzip.compress(gzip.decompress(good))[:-200],
    "gzip of something else": lambda good: gzip.compress(b"not a VCF\n" * 100),
    "text of something else": lambda good: b"chrom,pos\n17,5\n",
    "wrong columns": edited("\t.\t.\tALLELEID", "\tALLELEID"),
    "unknown contig": edited("\n17\t", "\nchr99\t"),
    "unknown CLNSIG term": edited("CLNSIG=Pathogenic", "CLNSIG=Probably_fine"),
    "not UTF-8": edited("GENEINFO=SIM1", "GENEINFO=S\xcfM1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_vcf_is_one_line_exit_2_and_leaves_nothing(
    name: str, sources: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    vcf = tmp_path / "input.vcf.gz"
    vcf.write_bytes(BROKEN[name]((sources.folder / CLINVAR).read_bytes()))
    assert run(monkeypatch, *clinvar_command(vcf, tmp_path / "out")) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if "--reference" not in line]
    assert len(lines) == 1
    assert "input.vcf.gz" in lines[0]
    assert lines[0].endswith(".")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["missing", "directory"])
def test_input_that_is_no_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    vcf = tmp_path / "input.vcf.gz"
    if kind == "directory":
        vcf.mkdir()
    for command in ("prepare-gnomad", "prepare-clinvar"):
        arguments = [command, "--input-vcf", vcf, "--output", tmp_path / "out", "--release", "2025-01-05"]
        assert run(monkeypatch, *arguments) == 2
    assert not (tmp_path / "out").exists()
    assert capfd.readouterr().err.count("input.vcf.gz: ") == 2


def test_failed_rebuild_keeps_what_was_there(
    sources: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run(monkeypatch, *clinvar_command(sources.folder / CLINVAR, out)) == 0
    shard = out / "clinvar/2025-01-05/variants.parquet"
    before = shard.read_bytes()
    broken = tmp_path / "broken.vcf"
    broken.write_bytes(BROKEN["unknown CLNSIG term"]((sources.folder / CLINVAR).read_bytes()))
    assert run(monkeypatch, *clinvar_command(broken, out)) == 2
    assert shard.read_bytes() == before
    assert not list(out.glob("rejected/**/failure.json"))


def test_release_must_be_the_files_own(
    sources: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    vcf = sources.folder / "clinvar/clinvar_20240107.vcf.gz"
    assert run(monkeypatch, *clinvar_command(vcf, tmp_path / "out")) == 2
    assert "2024-01-07" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sample", "grch38"])
def test_catalog_check(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "catalog", "check", name, "--json") == 0
    assert json.loads(capsys.readouterr().out)["catalogue"] == name


def test_bad_catalogue_is_exit_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\ngenome: {}\n")
    assert run(monkeypatch, "catalog", "check", bad) == 3
    assert run(monkeypatch, "demo", "--catalog", bad, "--root", tmp_path / "root") == 3
    assert "bad.yaml" in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


def test_catalog_check_prints_whole_values(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "catalog", "check", "grch38", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert run(monkeypatch, "catalog", "check", "grch38") == 0
    assert "…" not in capsys.readouterr().out
    assert facts["encoder"] == "tiny-llama-random"
    assert facts["held-out contigs"] == "chr20, chr21"
    assert facts["mitochondrial genomes"] == "none"


def test_ui_refuses_an_impossible_port(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "ui", "--catalog", "nowhere", "--port", "65536") == 2
    assert "65535" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        *("demo", "ui", "verify", "gc", "cache-windows", "prepare-gnomad", "prepare-clinvar", "catalog check"),
        *(
            "cache inspect",
            "cache verify",
            "cache export",
            "cache index",
            "cache find",
            "cache sweep",
            "package verify",
            "package diff",
            "package pin",
        ),
    ],
)
def test_help_has_an_example(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, *command.split(), "--help") == 0
    assert "Example" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    [
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("geno-lewm-prepare-gnomad", "geno-lewm-prepare-clinvar", "geno-lewm")
        ),
        "genolewm",
    ],
)
def test_installed_names(name: str) -> None:
    script = Path(sys.executable).with_name(name)
    done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "Usage" in done.stdout
