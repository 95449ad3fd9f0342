"""``genolewm catalog check``: every fault of what a catalogue names, at once."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from genolewm_assets.encoders.tiny_llama import write_tiny_llama
from genolewm_assets.errors import counted
from genolewm_assets.sample.bgzip import write_bgzip
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.places import CATALOGS
from genolewm_assets_tests.servers.web_directory import web_directory
from genolewm_assets_tests.worlds.graph.mito_world import CALLS, FASTA, GENBANK, mito_files
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

Check = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a world's sources, with a catalogue that names every kind of source."""
    folder = TinyWorld(tmp_path_factory.mktemp("world")).folder
    for name in (FASTA, GENBANK, *CALLS):
        write_bgzip(folder / name, mito_files()[1][name])
    (folder / "repeats.bed").write_text("chr17\t100\t200\n")
    write_tiny_llama(folder / "models" / "own")
    columns = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tS1"
    phased = f"##fileformat=VCFv4.2\n{columns}\nchr17\t5\t.\tA\tC\t.\t.\t.\tGT\t0|1\n"
    write_bgzip(folder / "phased.vcf.gz", phased.encode())
    mito = {"genomes": [{"url": FASTA}, {"url": GENBANK}], "heteroplasmy": [{"url": name} for name in CALLS]}
    more = {
        "encoder": {"model": "./models/own", "dtype": "float32"},
        "haplotypes": {"sources": {"chr17": {"url": "phased.vcf.gz", "release": "phase3"}}},
        "mito": mito,
    }
    edit(folder, lambda catalog: catalog | more)
    edit(folder, lambda catalog: catalog["genome"].update(tracks={"repeat": "repeats.bed"}))
    return folder


@pytest.fixture
def folder(sources: Path, tmp_path: Path) -> Path:
    """Return a copy of the sources, to be broken."""
    return Path(shutil.copytree(sources, tmp_path / "sources"))


@pytest.fixture
def check(command: Command) -> Check:
    """Return a function that runs the command and returns its exit code and what it printed."""

    def checked(*arguments: object) -> tuple[int, dict[str, Any]]:
        printed = command("catalog", "check", *arguments, "--json")
        assert printed.err == ""
        return printed.code, json.loads(printed.out)

    return checked


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    file = folder / "catalog.yaml"
    catalog = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(change(catalog) or catalog))
    return file


def faults(printed: dict[str, Any]) -> dict[str, str]:
    return {each["place"]: each["text"] for each in printed["findings"] if each["fault"]}


def test_the_shared_data_have_no_fault(shared_data: Path, check: Check) -> None:
    assert shared_data.is_dir()
    code, printed = check(CATALOGS / "shared_data.yaml")
    assert (code, printed["findings"]) == (0, [])


def break_everything(folder: Path) -> dict[str, str]:
    """Break every place that the catalogue names; return what must be said of each."""
    text = (folder / "catalog.yaml").read_text().replace("name: chr20", "name: chr2O").replace("chr20:", "chr2O:")
    (folder / "catalog.yaml").write_text(text)
    (folder / "repeats.bed").write_text("chr17\t100\t50\n")
    gnomad = folder / "gnomad.chr17.vcf.bgz"
    gnomad.with_name(f"{gnomad.name}.md5").unlink()
    gnomad.write_bytes(gnomad.read_bytes()[:-28])
    (folder / "gnomad.chr20.vcf.bgz.md5").write_text("0" * 32)
    (folder / "phased.vcf.gz").unlink()
    (folder / "models/own/model.safetensors").unlink()
    (folder / "corpus/eukaryote_generator/part-00000.parquet").unlink()
    (folder / "corpus/mrna_evo2/part-00000.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"sequence": ["ACGT"]}), folder / "corpus/mrna_splice_evo2/part-00000.parquet")
    genes = pa.table({"record_id": ["a"], "sequence": ["ACGT"], "Start": [1.0], "strand": [[2]]})
    pq.write_table(genes, folder / "corpus/prokaryote_evo2/part-00000.parquet")
    (folder / "clinvar/clinvar_20240107.vcf.gz").write_bytes(b"not a VCF")
    (folder / GENBANK).unlink()
    (folder / FASTA).write_text("x")
    edit(folder, lambda catalog: catalog["clinvar"].update(packaged=["2025-01-12"]))
    edit(folder, lambda catalog: catalog["genome"]["contigs"][0].update(length=24_001))
    edit(folder, lambda catalog: catalog["holdouts"].update(contigs_test=["chrTwo"]))
    return {
        "genome.fasta": "genome.fa.gz (chr17): wrong length: expected 24,001 bp, as in the catalogue, got 24,000 bp.",
        "genome.fasta ": "genome.fa.gz (chr2O): no such contig: expected 'chr2O', got chr17, chr20, chr21, chrM.",
        "genome.tracks.repeat": "repeats.bed:1: interval is not inside chr17",
        "gnomad.sources.chr17.url": "gnomad.chr17.vcf.bgz: truncated bgzip (no end block). Fetch the file again.",
        "gnomad.sources.chr17.md5": "gnomad.chr17.vcf.bgz.md5: does not exist: expected the published MD5.",
        "gnomad.sources.chr2O.url": "the header does not name chr2O: expected 'chr2O', got chr20.",
        "gnomad.sources.chr2O.md5": f"gnomad.chr20.vcf.bgz: MD5 differs: expected {'0' * 32}",
        "clinvar.listing": "clinvar: no such ClinVar release: expected one of the 2 offered",
        "clinvar.listing ": "clinvar_20240107.vcf.gz",
        "haplotypes.sources.chr17.url": "phased.vcf.gz: does not exist",
        "corpus.sources.eukaryote_generator.url": "corpus/eukaryote_generator: no corpus file at this path",
        "corpus.sources.mrna_evo2.url": "part-00000.parquet: not a readable Parquet file",
        "corpus.sources.mrna_splice_evo2.url": "part-00000.parquet: not a layout of the pretraining corpus",
        "corpus.sources.prokaryote_evo2.url": "column 'Start' (double) has nearly the name of another",
        "corpus.sources.prokaryote_evo2.url ": "part-00000.parquet: column 'strand' has another type",
        "encoder.model": "own: no safetensors weights",
        "mito.genomes[0].url": "genomes.fa.gz: not FASTA",
        "mito.genomes[1].url": "genomes.gb.gz: does not exist",
        "mito.heteroplasmy[0].url": "heteroplasmy_af.vcf.gz: the header gives contig 'chrM' the length of another",
        "mito.heteroplasmy[1].url": "heteroplasmy_hl.vcf.gz: the header gives contig 'chrM' the length of another",
        "holdouts": "held-out contig: not a contig of this genome",
    }


def test_every_fault_is_found_at_once(folder: Path, check: Check) -> None:
    expected = break_everything(folder)
    code, printed = check(folder / "catalog.yaml")
    found = [(each["place"], each["text"]) for each in printed["findings"]]
    for place, text in expected.items():
        assert any(where == place.strip() and text in said for where, said in found), (place, text, found)
    assert {place.strip() for place in expected} == {place for place, _ in found}
    assert code == 3
    assert check(folder / "catalog.yaml", "--offline")[0] == 3
    edit(folder, lambda catalog: catalog["holdouts"].update(contigs_test=[]))
    assert check(folder / "catalog.yaml")[0] == 2
    assert check(folder / "catalog.yaml", "--offline") == (0, {**printed_facts(folder, check), "findings": []})


def test_samples_without_a_genome_of_their_name_are_a_fault(folder: Path, check: Check) -> None:
    text = mito_files()[1][CALLS[0]].replace(b",length=16569", b"")
    write_bgzip(folder / CALLS[0], text.replace(b"SIMMT001", b"SIMMT001.final"))
    findings = check(folder / "catalog.yaml")[1]["findings"]
    (found,) = (each for each in findings if each["place"] == "mito.heteroplasmy")
    assert (
        "heteroplasmy_af.vcf.gz: 1 of 4 samples have no genome of their name: expected names of genomes, such as "
        "'SIMMT001', 'SIMMT002', 'SIMMT003', ..., got 'SIMMT001.final'; closest to the first is 'SIMMT001'."
    ) in found["text"]


def printed_facts(folder: Path, check: Check) -> dict[str, Any]:
    return {name: value for name, value in check(folder / "catalog.yaml")[1].items() if name != "findings"}


def test_windows_longer_than_the_encoder_s_context_are_a_fault(folder: Path, check: Check) -> None:
    edit(folder, lambda catalog: catalog.pop("mito") and None)
    config = json.loads((folder / "models/own/config.json").read_text())
    (folder / "models/own/config.json").write_text(json.dumps(config | {"max_position_embeddings": 202}))
    assert check(folder / "catalog.yaml")[1]["findings"] == []
    edit(folder, lambda catalog: catalog["windows"].update(window_bp=1_206))
    code, printed = check(folder / "catalog.yaml")
    text = faults(printed)["encoder.model"]
    assert (code, printed["windows"]) == (3, "1,206 bp, every 800 bp; 96 bp around each")
    assert "encoder own: windows are longer than the model's context: expected at most 1,200 bp" in text
    assert "'windows: {profile: bp1152, window_bp: 1152, stride_bp: 768}'" in text


def test_faults_are_printed_one_a_line(folder: Path, command: Command) -> None:
    n = len(break_everything(folder))
    printed = command("catalog", "check", folder / "catalog.yaml")
    *lines, last = printed.out.splitlines()
    assert (printed.code, last) == (3, f"{counted(n, 'fault')}, 0 other findings")
    assert lines[-n].startswith("holdouts: held-out contig: ")
    assert f"gnomad.sources.chr17.md5: {folder}/gnomad.chr17.vcf.bgz.md5: does not exist: " in lines[-n + 5]


def test_a_large_genome_without_an_index_is_not_read(folder: Path, check: Check) -> None:
    edit(folder, lambda catalog: catalog.pop("mito") and None)
    (folder / "genome.fa.gz").unlink()
    (folder / "genome.fa").write_bytes(b">chr17\n" + b"A" * (9 << 20))
    edit(folder, lambda catalog: catalog["genome"].update(fasta="genome.fa"))
    code, printed = check(folder / "catalog.yaml")
    (finding,) = printed["findings"]
    assert (code, finding["place"], finding["fault"]) == (0, "genome.fasta", False)
    assert "were not compared: the file has no index" in finding["text"]
    (folder / "genome.fa.fai").write_text("chr17\t24000\t7\t60\t61\n")
    code, printed = check(folder / "catalog.yaml")
    assert (code, len(printed["findings"])) == (2, 3)


def test_of_a_streamed_file_the_beginning_is_looked_at(folder: Path, check: Check) -> None:
    with web_directory(folder) as site:
        sources = {"url": f"{site.url}gnomad.chr20.vcf.bgz", "read": "stream"}
        edit(folder, lambda catalog: catalog["gnomad"]["sources"]["chr20"].update(sources))
        assert "gnomad.sources.chr20.read" not in faults(check(folder / "catalog.yaml")[1])
        (folder / "gnomad.chr20.vcf.bgz").write_bytes(gzip.compress(b"##fileformat=VCFv4.2\n"))
        code, printed = check(folder / "catalog.yaml")
    assert code == 2
    found = faults(printed)
    assert "is not BGZF" in found["gnomad.sources.chr20.read"]


def test_of_remote_files_the_server_is_asked(folder: Path, check: Check) -> None:
    edit(folder, lambda catalog: catalog.pop("mito") and None)
    with web_directory(folder) as site:
        edit(folder, lambda catalog: catalog.update(base=site.url.rstrip("/")))
        edit(folder, lambda catalog: catalog.update(encoder={}, haplotypes={}))
        edit(folder, lambda catalog: catalog["gnomad"]["sources"]["chr20"].update(read="ranges", md5=None))
        edit(folder, lambda catalog: catalog["corpus"].update(sources={}))
        for name in ("gnomad.chr20.vcf.bgz", "gnomad.chr17.vcf.bgz.md5", "repeats.bed"):
            (folder / name).unlink()
        code, printed = check(folder / "catalog.yaml")
    assert code == 4
    found = faults(printed)
    assert sorted(found) == ["genome.tracks.repeat", "gnomad.sources.chr17.md5", "gnomad.sources.chr20.url"]
    assert all("does not exist" in text for text in found.values())
    (note,) = [each for each in printed["findings"] if not each["fault"]]
    assert "has no index (.tbi or .csi)" in note["text"]
    assert {method for method, path in site.requests if path.endswith((".bgz", ".fa.gz", ".bed"))} == {"HEAD"}


def test_every_invalid_key_is_printed(tmp_path: Path, check: Check) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: bad\ngenom: {}\ngnomad: {min_af: 2}\n")
    code, printed = check(file, "--offline")
    assert code == 3
    found = faults(printed)
    assert found["genom"] == "unknown key: expected 'genome', got 'genom'."
    file.write_text("name: bad\ngenome: {name: x}\nclinvar: {listing: '{x}'}\ngnomad: {min_af: 2}\n")
    found = faults(check(file)[1])
    assert sorted(found) == ["clinvar.listing", "genome.contigs", "genome.fasta", "gnomad.min_af"]
    assert found["gnomad.min_af"] == "wrong value: expected less than or equal to 1, got 2."
    code, printed = check(tmp_path / "absent.yaml")
    assert (code, len(printed["findings"])) == (3, 1)


@pytest.mark.parametrize(
    ("sections", "place", "says"),
    [
        (
            {"corpus": {}, "packages": {}},
            "packages.mix",
            "got eukaryote_generator 0.05, mrna_evo2 0.25, mrna_splice_evo2 0.1, prokaryote_evo2 0.15. Name their "
            "files in corpus.sources, or write packages: {mix: {reference: 1}}.",
        ),
        (
            {"corpus": {"sources": {"mrna_evo2": {"url": "corpus/mrna_evo2"}}}, "packages": {}},
            "packages.mix",
            "or write packages: {mix: {reference: 0.666667, mrna_evo2: 0.333333}}.",
        ),
        (
            {"corpus": {}, "packages": {"mix_declared": {"windows": {"reference": 0.5, "mrna_evo2": 0.5}}}},
            "packages.mix_declared",
            "or write packages: {mix_declared: {windows: {reference: 1}}}.",
        ),
        ({"gnomad": {}, "packages": {}}, "packages.edits", "got gnomad 0.375. Name VCFs in gnomad.sources"),
        ({"corpus": {}}, None, ""),
        ({"corpus": {}, "packages": {"mix": {"reference": 1.0}}}, None, ""),
        ({"corpus": {}, "packages": {}, "encoder": {}}, None, ""),
        ({"corpus": {}, "packages": {}, "encoder": "off"}, "packages.mix", "Name their files in corpus.sources"),
    ],
)
def test_shares_of_sources_that_are_not_there(
    sections: dict[str, Any], place: str | None, says: str, folder: Path, check: Check
) -> None:
    edit(folder, lambda catalog: catalog | sections)
    found = faults(check(folder / "catalog.yaml", "--offline")[1])
    assert list(found) == ([] if place is None else [place])
    assert place is None or says in found[place]


def test_the_demo_refuses_such_shares_before_it_builds(folder: Path, command: Command) -> None:
    file = edit(folder, lambda catalog: catalog | {"corpus": {}, "packages": {}})
    refused = command("demo", "--catalog", file, "--root", folder / "fresh")
    assert refused.code == 3
    assert "(packages.mix): gives shares to sources that the catalogue does not have" in refused.err
    assert not (folder / "fresh").exists()
