from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import InputError, VcfError
from genolewm_assets.sources.gnomad.release import check_gnomad_release, read_gnomad_release
from genolewm_assets.sources.vcf.header import VcfHeader, parse_header
from genolewm_assets_tests.worlds.sources.gnomad_headers import HEADERS
from genolewm_assets_tests.worlds.sources.gnomad_world import PLAIN, build, snv
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

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


def test_every_layout_is_read() -> None:
    assert set(READ) == set(HEADERS)


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


@pytest.mark.parametrize(
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
