"""The commands as people call them: what they write, what they say, what they leave behind."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from genolewm_assets import cli
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.audit_commands import _print_rows
from genolewm_assets.errors import ConfigurationError, MissingResourceError
from genolewm_assets.sources.catalog import load_catalog
from genolewm_assets.store.artefacts import Root
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.places import REPOSITORY
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


def test_prepare_gnomad_reads_the_release_and_takes_an_unfiltered_file(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    vcf = next((shared_data / "gnomad").rglob("*r2.0.1*.vcf.bgz"))
    command = ["prepare-gnomad", "--input-vcf", vcf, "--output", tmp_path / "out"]
    assert run(monkeypatch, *command) == 2
    assert "give --accept-unfiltered" in capsys.readouterr().err
    assert run(monkeypatch, *command, "--accept-unfiltered") == 0
    assert pq.read_metadata(tmp_path / "out/gnomad/2.0.1/variants.parquet").num_rows == 20
    assert "out/gnomad/2.0.1/variants.parquet" in capsys.readouterr().out
    assert run(monkeypatch, *command, "--release", "4.1", "--accept-unfiltered") == 2
    assert "is of another gnomAD release: expected '4.1'" in capsys.readouterr().err


def test_prepare_finds_the_genome_of_a_catalogue(
    sources: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *clinvar_command(sources.folder / CLINVAR, tmp_path, "--catalog", sources.catalog)) == 0
    assert "neither left-aligned" not in capsys.readouterr().err
    assert run(monkeypatch, *clinvar_command(sources.folder / CLINVAR, tmp_path, "--root", tmp_path / "absent")) == 4
    assert "absent: not a root" in capsys.readouterr().err


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
    assert run(monkeypatch, "catalog", "check", name, "--offline", "--json") == 0
    assert json.loads(capsys.readouterr().out)["catalogue"] == name


def test_bad_catalogue_is_exit_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\ngenome: {}\n")
    assert run(monkeypatch, "catalog", "check", bad) == 3
    assert run(monkeypatch, "demo", "--catalog", bad, "--root", tmp_path / "root") == 3
    printed = capsys.readouterr()
    assert "genome.contigs: key is missing." in printed.out
    assert "bad.yaml" in printed.err
    assert not (tmp_path / "root").exists()


def test_catalog_check_prints_whole_values(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "catalog", "check", "grch38", "--offline", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert run(monkeypatch, "catalog", "check", "grch38", "--offline") == 0
    assert "…" not in capsys.readouterr().out
    assert facts["encoder"] == "none named: embeddings and packages are refused"
    assert facts["held_out_contigs"] == "chr20, chr21"
    assert facts["mitochondrial_genomes"] == "none"


def test_catalog_check_shows_the_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "catalog", "check", "sample", "--json") == 0
    shown = json.loads(capsys.readouterr().out)["encoder"]
    assert shown == "tiny-llama-random, layer -1, computed in float32, stored in float32; its own code does not run"
    catalog, commit = tmp_path / "carbon.yaml", "0123456789abcdef" * 2 + "01234567"
    text = (REPOSITORY / "genolewm_assets" / "catalogs" / "grch38.yaml").read_text()
    catalog.write_text(f"{text}\nencoder: {{model: carbon-500m}}\n")
    assert run(monkeypatch, "catalog", "check", catalog) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "encoder.revision: carbon-500m needs the commit of HuggingFaceBio/Carbon-500M" in said
    assert "Copy the commit hash from https://huggingface.co/HuggingFaceBio/Carbon-500M/commits/main" in said
    catalog.write_text(f"{text}\nencoder: {{model: carbon-500m, revision: {commit}}}\n")
    assert run(monkeypatch, "catalog", "check", catalog, "--offline", "--json") == 0
    shown = json.loads(capsys.readouterr().out)["encoder"]
    precision = "computed in float32, stored in float16"
    assert shown == f"HuggingFaceBio/Carbon-500M at {commit}, layer -1, {precision}; its own code does not run"


def test_ui_refuses_an_impossible_port(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "ui", "--catalog", "nowhere", "--port", "65536") == 2
    assert "65535" in capsys.readouterr().err


def test_ui_refuses_what_is_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "ui", "--root", str(tmp_path / "root"), "--allow-host", "https://hub.example.org/") == 3
    assert "expected NAME or NAME:PORT without scheme and path" in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("option", [("--compute", "float16"), ("--batch-windows", "0")])
def test_cache_windows_refuses_what_is_no_such_option(
    option: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "cache-windows", "--root", str(tmp_path / "root"), *option) == 2
    assert option[0] in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    "command",
    [
        *("demo", "ui", "verify", "status", "gc", "cache-windows"),
        *("prepare-gnomad", "prepare-clinvar", "catalog check"),
        *(
            "cache inspect",
            "cache verify",
            "cache export",
            "cache index",
            "cache find",
            "cache sweep",
            "audit",
            "audit run",
            "audit plant",
            "holdouts t0",
            "package verify",
            "package diff",
            "package pin",
            "root check",
        ),
    ],
)
def test_help_has_an_example(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, *command.split(), "--help") == 0
    assert "Example" in capsys.readouterr().out


def commands(group: TyperGroup | None = None, *above: str) -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command with its words."""
    for name, command in (group or typer.main.get_command(cli.app)).commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *above, name)
        else:
            yield " ".join((*above, name)), command


def test_every_command_that_prints_a_result_prints_it_as_json() -> None:
    as_text = {words for words, command in commands() if "--json" not in {o for p in command.params for o in p.opts}}
    assert as_text == {"ui"}


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"genolewm {metadata.version('genolewm-assets')}\n"


@pytest.mark.parametrize("name", ["prepare-gnomad", "prepare-clinvar"])
def test_usage_can_be_typed_as_it_is_printed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/geno-lewm-{name}", "--bogus"])
    with pytest.raises(SystemExit) as stop:
        getattr(cli, f"main_{name.replace('-', '_')}")()
    usage, tried, *_ = capsys.readouterr().err.splitlines()
    assert (stop.value.code, usage) == (2, f"Usage: geno-lewm-{name} [OPTIONS]")
    assert tried == f"Try 'geno-lewm-{name} --help' for help."


def test_results_of_prepare_as_json(
    sources: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *clinvar_command(sources.folder / CLINVAR, tmp_path, "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["path"] == str(tmp_path / "clinvar/2025-01-05/variants.parquet")
    assert printed["counts"]["alleles_in"] == 65
    gnomad = ["prepare-gnomad", "--input-vcf", sources.folder / "gnomad.chr17.vcf.bgz", "--output", tmp_path]
    assert run(monkeypatch, *gnomad, "--release", "4.1", "--reference", sources.folder / "genome.fa.gz", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["path"], printed["counts"]["alleles_in"]) == (str(tmp_path / "gnomad/4.1/variants.parquet"), 90)


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


runner = CliRunner()


def test_a_release_is_published_and_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where people set the variable, `demo` has a root that was not given before `release`.
    monkeypatch.setenv("GENOLEWM_ROOT", str(tmp_path))
    sample = load_catalog("sample")
    Root(tmp_path).claim(sample.name, sample.genome_digest)
    answer = runner.invoke(cli.app, ["demo", "release", "--root", str(tmp_path), "--json"], catch_exceptions=False)
    found = json.loads(answer.stdout)
    assert (found["day"], found["wrong_ref"]) == ("2025-01-12", 0)
    assert Path(found["file"]) == tmp_path / "sample/clinvar/clinvar_20250112.vcf.gz"
    assert Path(found["file"]).is_file()
    answer = runner.invoke(cli.app, ["demo", "release", "--bad", "--root", str(tmp_path)], catch_exceptions=False)
    assert "clinvar_20250119.vcf.gz: 2025-01-12 with " in answer.stdout
    assert "wrong reference bases: it must be refused" in answer.stdout


def test_a_folder_that_is_no_root_and_another_catalogue_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match="not a root"):
        runner.invoke(cli.app, ["demo", "release", "--root", str(tmp_path / "none")], catch_exceptions=False)
    assert not (tmp_path / "none").exists()
    with pytest.raises(ConfigurationError, match="expected the catalogue sample, got 'grch38'"):
        runner.invoke(cli.app, ["demo", "release", "--catalog", "grch38"], catch_exceptions=False)


def test_an_option_before_the_subcommand_is_refused(tmp_path: Path) -> None:
    answer = runner.invoke(cli.app, ["demo", "--root", str(tmp_path), "release"])
    assert answer.exit_code == 2
    assert "Write --root after 'release'" in answer.output


def test_findings_that_are_not_listed_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    found = Found()
    for number in range(1_012):
        found.add(f"allele {number}")
    _print_rows(SearchResult(LeakKind.HELD_ALLELE, "by key", {"alleles": 2_000}, found))
    *_, last, more = capsys.readouterr().out.splitlines()
    assert (last.strip(), more.strip()) == ("allele 9", "and 1,002 more, which are not listed")
