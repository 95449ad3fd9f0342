"""The commands as people call them: what they write, what they say, what they leave behind."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
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
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

CLINVAR = "clinvar/clinvar_20250105.vcf.gz"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    return TinyWorld(tmp_path_factory.mktemp("sources"))


def prepare_clinvar(vcf: Path, output: Path, *more: object) -> list[object]:
    return ["prepare-clinvar", "--input-vcf", vcf, "--release", "2025-01-05", "--output", output, *more]


def test_prepare_gnomad_writes_the_shard(sources: TinyWorld, tmp_path: Path, command: Command) -> None:
    vcf, fasta = sources.folder / "gnomad.chr17.vcf.bgz", sources.folder / "genome.fa.gz"
    words = ["prepare-gnomad", "--input-vcf", vcf, "--output", tmp_path, "--release", "4.1", "--reference", fasta]
    assert command(*words).code == 0
    table = pq.read_table(tmp_path / "gnomad/4.1/variants.parquet")
    assert table.num_rows == 45
    assert set(table["af"].to_pylist()) == {0.25}
    printed = command(*words, "--min-af", "0.0005", "--json")
    stated = json.loads(printed.out)
    assert (printed.code, stated["path"]) == (0, str(tmp_path / "gnomad/4.1/variants.parquet"))
    assert pq.read_table(stated["path"]).num_rows == stated["counts"]["alleles_in"] == 90


def test_prepare_clinvar_says_that_it_did_not_align(sources: TinyWorld, tmp_path: Path, command: Command) -> None:
    for more in ([], ["--json"]):
        printed = command(*prepare_clinvar(sources.folder / CLINVAR, tmp_path, *more))
        table = pq.read_table(tmp_path / "clinvar/2025-01-05/variants.parquet")
        assert (printed.code, table.num_rows) == (0, 65)
        assert set(table["chrom"].to_pylist()) == {"chr17"}
        assert "neither left-aligned" in printed.err
    stated = json.loads(printed.out)
    assert stated["path"] == str(tmp_path / "clinvar/2025-01-05/variants.parquet")
    assert stated["counts"]["alleles_in"] == 65


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
def test_broken_vcf_is_one_line_and_leaves_nothing(
    name: str, sources: TinyWorld, tmp_path: Path, command: Command
) -> None:
    vcf = tmp_path / "input.vcf.gz"
    vcf.write_bytes(BROKEN[name]((sources.folder / CLINVAR).read_bytes()))
    refused = command(*prepare_clinvar(vcf, tmp_path / "out"))
    (line,) = (line for line in refused.err.splitlines() if "--reference" not in line)
    assert refused.code == 2
    assert "input.vcf.gz" in line
    assert line.endswith(".")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["sample", "grch38"])
def test_catalog_check(name: str, command: Command) -> None:
    printed = command("catalog", "check", name, "--offline", "--json")
    assert (printed.code, json.loads(printed.out)["catalogue"]) == (0, name)


def test_bad_catalogue_is_exit_3(tmp_path: Path, command: Command) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\ngenome: {}\n")
    found, refused = command("catalog", "check", bad), command("demo", "--catalog", bad, "--root", tmp_path / "root")
    assert found.code == refused.code == 3
    assert "genome.contigs: key is missing." in found.out
    assert "bad.yaml" in refused.err
    assert not (tmp_path / "root").exists()


def test_ui_refuses_what_is_no_address(tmp_path: Path, command: Command) -> None:
    refused = command("ui", "--root", tmp_path / "root", "--allow-host", "https://hub.example.org/")
    assert refused.code == 3
    assert "expected NAME or NAME:PORT without scheme and path" in refused.err
    assert not (tmp_path / "root").exists()


def commands(group: TyperGroup | None = None, *above: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in (group or typer.main.get_command(cli.app)).commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *above, name)
        else:
            yield " ".join((*above, name)), command


def test_every_command_has_an_example_and_prints_its_result_as_json() -> None:
    help_of = {words: f"{command.help}{command.epilog}" for words, command in commands()}
    assert [words for words, text in help_of.items() if "Example" not in text] == []
    as_text = {words for words, command in commands() if "--json" not in {o for p in command.params for o in p.opts}}
    assert as_text == {"ui"}


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
    assert (last.strip(), more.strip()) == ("allele 1005", "and 1,002 more, which are not listed")
