from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import InputError, VcfError
from genolewm_assets.sources.gnomad.layouts import FrequencyFields, GnomadLayout, detect_layout
from genolewm_assets.sources.gnomad.release import check_gnomad_release, read_gnomad_release
from genolewm_assets.sources.vcf.header import VcfHeader, parse_header
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.variants.schema import ANCESTRY_GROUPS
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.gnomad_headers import HEADERS
from genolewm_assets_tests.worlds.sources.gnomad_world import PLAIN, build, snv
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text


def layout_of(release: str) -> GnomadLayout:
    meta = [f'##INFO=<ID={n},Number={k},Type={t},Description="x">' for n, k, t in map(_split, HEADERS[release])]
    return detect_layout(parse_header(meta, ()), where=release)


def _split(item: str) -> tuple[str, str, str]:
    name, number, kind = item.split(":")
    return name, number, kind


@each_row(
    ("release", "name", "grpmax", "ac_xy", "missing_groups"),
    [
        ("v2.1.1 exomes", "v2.1", "popmax", "AC_male", {"ami", "mid"}),
        ("v2.1.1 genomes", "v2.1", "popmax", "AC_male", {"ami", "mid", "sas"}),
        ("v3.0 genomes", "v3.0", None, "AC_male", {"mid"}),
        ("v3.1 genomes", "v3.1", "popmax", "AC-XY", set()),
        ("v3.1.2 genomes", "v3.1", "popmax", "AC_XY", set()),
        ("v4.0 exomes", "v4.0", "grpmax", "AC_XY", {"ami"}),
        ("v4.0 genomes", "v4.0", "grpmax", "AC_XY", set()),
        ("v4.1 exomes", "v4", "grpmax", "AC_XY", {"ami"}),
        ("v4.1 genomes", "v4", "grpmax", "AC_XY", set()),
        ("v4.1 joint", "v4.1 joint", "grpmax_joint", "AC_joint_XY", set()),
    ],
)
def test_releases_are_told(release: str, name: str, grpmax: str | None, ac_xy: str, missing_groups: set[str]) -> None:
    layout = layout_of(release)
    assert layout.name == name
    assert layout.main.grpmax == grpmax
    assert layout.main.ac_xy == ac_xy
    assert set(layout.main.groups) == set(ANCESTRY_GROUPS) - missing_groups
    assert None not in {layout.main.ac, layout.main.an, layout.main.nhomalt}
    assert not layout.mitochondrial


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
    found = {}
    for path in sorted((shared_data / "gnomad").rglob("*.vcf*")):
        if path.suffix not in {".tbi", ".md5"}:
            with VcfScanner(path) as scanner:
                found[path.name] = detect_layout(scanner.header, where=str(path))
    names = {name: layout.name for name, layout in found.items()}
    assert names == {
        "gnomad.exomes.r2.0.1.sites.chr21.vcf.bgz": "AF only",
        "gnomad.genomes.r3.0.sites.chr17.vcf.bgz": "v3.0",
        "gnomad.genomes.v3.1.chrM.genuine_header_excerpt.vcf": "chrM",
        "gnomad.genomes.v3.1.sites.chrM.vcf.bgz": "chrM",
        "gnomad.joint.v4.1.sites.chr17.vcf.bgz": "v4",
    }
    excerpt = found["gnomad.genomes.v3.1.chrM.genuine_header_excerpt.vcf"]
    assert excerpt.packed_groups == ("afr", "ami", "amr", "asj", "eas", "fin", "nfe", "remaining", "sas", "mid")
    assert excerpt.mitochondrial


CHR_M = ["AC_hom:1:Integer", "AF_hom:1:Float", "AN:1:Integer", "max_hl:1:Float"]
#: What each release is read as; None if its files have the fields of other releases too.
READ = {
    "v2.1.1 exomes": None,
    "v2.1.1 genomes": None,
    "v3.0 genomes": "3.0",
    "v3.1 genomes": "3.1",
    "v3.1.2 genomes": None,
    "v4.0 exomes": "4.0",
    "v4.0 genomes": "4.0",
    "v4.1 exomes": "4.1",
    "v4.1 genomes": "4.1",
    "v4.1 joint": "4.1",
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
    path = vcf(tmp_path, HEADERS[name])
    if READ[name] is not None:
        assert read_gnomad_release(path) == READ[name]
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


def test_a_shard_of_another_release_is_refused(tmp_path: Path) -> None:
    build(tmp_path, [snv("AF=0.5")], info=PLAIN, meta=("##gnomAD_version=4.1",), release="4.1")
    with pytest.raises(
        VcfError, match=r"in\.vcf: the file is of another gnomAD release: expected '4\.1', as declared, got 3"
    ):
        build(tmp_path, [snv("AF=0.5")], info=CHR_M, release="4.1")


@each_row(
    ("pattern", "release"),
    [
        ("*joint.v4.1*", "4.1"),
        ("*r3.0*", "3.0"),
        ("*v3.1.sites.chrM*", "3.1"),
        ("*genuine_header_excerpt*", "3.1"),
        ("*r2.0.1*", "2.0.1"),
    ],
)
def test_genuine_files_state_their_release(pattern: str, release: str, shared_data: Path) -> None:
    paths = [path for path in (shared_data / "gnomad").rglob(pattern) if path.suffix in {".bgz", ".vcf"}]
    assert [read_gnomad_release(path) for path in paths] == [release]
