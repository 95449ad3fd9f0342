from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import InputError, VcfError
from genolewm_assets.sources.gnomad.layouts import FrequencyFields, detect_layout
from genolewm_assets.sources.gnomad.release import check_gnomad_release, read_gnomad_release
from genolewm_assets.sources.vcf.header import VcfHeader, parse_header
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets_tests.worlds.sources.gnomad_headers import HEADERS
from genolewm_assets_tests.worlds.sources.gnomad_world import PLAIN, snv
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text


def test_frequencies_alone_are_a_layout() -> None:
    header = parse_header(["##INFO=<ID=AF,Number=A,Type=Float>", "##INFO=<ID=AF_remaining,Number=A,Type=Float>"], ())
    fields = detect_layout(header, where="").main
    assert fields == FrequencyFields("AF", None, None, None, None, None, None, {"remaining": "AF_remaining"})


@pytest.mark.parametrize("meta", [[], ["##INFO=<ID=CLNSIG,Number=.,Type=String>"]])
def test_unknown_layout_names_the_fields_looked_for(meta: list[str]) -> None:
    with pytest.raises(VcfError, match=r"a\.vcf: .*expected INFO fields AF .*AF_joint .*AF_hom"):
        detect_layout(parse_header(meta, ()), where="a.vcf")


def test_filters_per_allele_are_refused() -> None:
    meta = ["##INFO=<ID=AF,Number=A,Type=Float>", "##INFO=<ID=AS_FilterStatus,Number=A,Type=String>"]
    with pytest.raises(VcfError, match="AS_FilterStatus"):
        detect_layout(parse_header(meta, ()), where="a.vcf")


def test_real_headers(shared_data: Path) -> None:
    found, releases = {}, {}
    for path in sorted((shared_data / "gnomad").rglob("*.vcf*")):
        if path.suffix not in {".tbi", ".md5"}:
            with VcfScanner(path) as scanner:
                found[path.name] = detect_layout(scanner.header, where=str(path))
            releases[path.name] = read_gnomad_release(path)
    assert {name: (layout.name, releases[name]) for name, layout in found.items()} == {
        "gnomad.exomes.r2.0.1.sites.chr21.vcf.bgz": ("AF only", "2.0.1"),
        "gnomad.genomes.r3.0.sites.chr17.vcf.bgz": ("v3.0", "3.0"),
        "gnomad.genomes.v3.1.chrM.genuine_header_excerpt.vcf": ("chrM", "3.1"),
        "gnomad.genomes.v3.1.sites.chrM.vcf.bgz": ("chrM", "3.1"),
        "gnomad.joint.v4.1.sites.chr17.vcf.bgz": ("v4", "4.1"),
    }
    excerpt = found["gnomad.genomes.v3.1.chrM.genuine_header_excerpt.vcf"]
    assert excerpt.packed_groups == ("afr", "ami", "amr", "asj", "eas", "fin", "nfe", "remaining", "sas", "mid")
    assert excerpt.mitochondrial


CHR_M = ["AC_hom:1:Integer", "AF_hom:1:Float", "AN:1:Integer", "max_hl:1:Float"]
#: Layout of each release, and what it is read as; None if its files have the fields of other releases too.
READ = {
    **{"v2.1.1 exomes": ("v2.1", None), "v2.1.1 genomes": ("v2.1", None), "v3.0 genomes": ("v3.0", "3.0")},
    **{"v3.1 genomes": ("v3.1", "3.1"), "v3.1.2 genomes": ("v3.1", None), "v4.0 exomes": ("v4.0", "4.0")},
    **{"v4.0 genomes": ("v4.0", "4.0"), "v4.1 exomes": ("v4", "4.1"), "v4.1 genomes": ("v4", "4.1")},
    "v4.1 joint": ("v4.1 joint", "4.1"),
}


def header(info: list[str], *meta: str) -> VcfHeader:
    return parse_header([*(f"##INFO=<ID={item.split(':')[0]}>" for item in info), *meta], ())


def vcf(folder: Path, info: list[str], *meta: str) -> Path:
    return write_text(folder / "in.vcf", vcf_text([snv("AF=0.5")], info=info, meta=meta))


@pytest.mark.parametrize("name", HEADERS)
def test_a_layout_states_its_release_and_contradicts_the_others(name: str, tmp_path: Path) -> None:
    own = name.split(maxsplit=1)[0].removeprefix("v")
    for release in (own, f"v{own}", own.split(".")[0], ".".join(own.split(".")[:2]), f"{own}-cut", "mine"):
        check_gnomad_release(header(HEADERS[name]), release, where="a.vcf")
    for other in {"2.1.1", "3.0", "3.1", "4.0", "4.1"} - {own, own[:3]}:
        # v4.0 without its joint fields looks like v4.1.
        if (own, other) == ("4.1", "4.0") and name != "v4.1 joint":
            continue
        with pytest.raises(VcfError, match=rf"^a\.vcf: the file is of another gnomAD release: expected '{other}', as"):
            check_gnomad_release(header(HEADERS[name]), other, where="a.vcf")
    path, (layout, read) = vcf(tmp_path, HEADERS[name]), READ[name]
    with VcfScanner(path) as scanner:
        assert detect_layout(scanner.header, where=name).name == layout
    if read is not None:
        assert read_gnomad_release(path) == read
    else:
        with pytest.raises(InputError, match=rf"--release: is required: .*got only that it is of {own[:3]}"):
            read_gnomad_release(path)


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("##gnomAD_version=3.1.2", "3.1.2"),
        ("##gnomAD=v4.1", "4.1"),
        ("##gnomAD release=gnomAD r2.1.1", "2.1.1"),
        ("##source=gnomAD v4.1.0 gene-page CSV export (dataset gnomad_r4), reformatted", "4.1"),
        ("##source=gnomad.exomes.r2.1.1.sites.liftover_grch38.vcf.bgz", "2.1.1"),
        ("##note=source_gnomADe 170228 (gnomAD exomes r2.0.1 remapped to GRCh38)", "2.0.1"),
    ],
)
def test_a_line_of_the_header_states_the_release(line: str, release: str, tmp_path: Path) -> None:
    assert read_gnomad_release(vcf(tmp_path, PLAIN, line)) == release
    check_gnomad_release(header(PLAIN, line), release, where="a.vcf")
    with pytest.raises(VcfError, match=rf"expected '3\.0', as declared, got {release}.*, stated in ##"):
        check_gnomad_release(header(PLAIN, line), "3.0", where="a.vcf")


@pytest.mark.parametrize(
    "line",
    [
        "##VEP=v110 gnomADe=r2.1.1 gnomADg=v3.1.2",
        "##gnomAD_file_used_for_annotation=gnomad.exomes.r2.1.1.sites.vcf.bgz",
        "##source=1000GenomesPhase3Pipeline",
        "##hailversion=0.2.61-3c86d3ba497a",
    ],
)
def test_a_line_about_something_else_states_nothing(line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--release: is required: .*got neither a version nor fields of one release"):
        read_gnomad_release(vcf(tmp_path, PLAIN, line))
    check_gnomad_release(header(PLAIN, line), "4.1", where="a.vcf")


def test_a_file_that_contradicts_itself_has_no_release(tmp_path: Path) -> None:
    lines = ("##gnomAD_version=3.1.2", "##source=gnomAD v4.1")
    with pytest.raises(InputError, match=r"got only that it is of 3\.1\.2 or 4\.1"):
        read_gnomad_release(vcf(tmp_path, PLAIN, *lines))
    for release in ("3.1.2", "4.1"):
        with pytest.raises(VcfError, match="is of another gnomAD release"):
            check_gnomad_release(header(CHR_M, lines[1]), release, where="a.vcf")
