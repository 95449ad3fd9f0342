from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.gnomad.layouts import FrequencyFields, GnomadLayout, detect_layout
from genolewm_assets.sources.vcf.header import parse_header
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.variants.schema import ANCESTRY_GROUPS
from genolewm_assets_tests.worlds.sources.gnomad_headers import HEADERS, PUBLISHED


def layout_of(release: str) -> GnomadLayout:
    meta = [f'##INFO=<ID={n},Number={k},Type={t},Description="x">' for n, k, t in map(_split, HEADERS[release])]
    return detect_layout(parse_header(meta, ()), where=release)


def _split(item: str) -> tuple[str, str, str]:
    name, number, kind = item.split(":")
    return name, number, kind


@pytest.mark.parametrize(
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
def test_each_release_is_recognised(
    release: str, name: str, grpmax: str | None, ac_xy: str, missing_groups: set[str]
) -> None:
    layout = layout_of(release)
    assert layout.name == name
    assert layout.main.grpmax == grpmax
    assert layout.main.ac_xy == ac_xy
    assert set(layout.main.groups) == set(ANCESTRY_GROUPS) - missing_groups
    assert None not in {layout.main.ac, layout.main.an, layout.main.nhomalt}
    assert not layout.mitochondrial


@pytest.mark.parametrize("release", PUBLISHED)
def test_every_name_read_is_one_that_readers_of_the_released_files_state(release: str) -> None:
    published = PUBLISHED[release].split()
    names = {item.split(":")[0] for item in published}
    typed = {item for item in published if ":" in item}
    assert names <= {item.split(":")[0] for item in HEADERS[release]}
    assert typed <= set(HEADERS[release])
    main = layout_of(release).main
    read = {main.af, main.ac, main.an, main.nhomalt, main.ac_xy, main.af_grpmax, *main.groups.values()}
    assert read <= names


def test_old_group_names() -> None:
    assert layout_of("v2.1.1 exomes").main.groups["remaining"] == "AF_oth"
    assert layout_of("v3.1 genomes").main.groups["remaining"] == "AF-oth"
    assert layout_of("v4.1 exomes").main.groups["remaining"] == "AF_remaining"


def test_region_flags() -> None:
    # v3.0 and v4 spell it with an underscore; v3.1 to v3.1.2, in between, like v2.1.1.
    for release in ("v2.1.1 exomes", "v3.1 genomes", "v3.1.2 genomes"):
        assert layout_of(release).flags.non_par == "nonpar"
    for release in ("v3.0 genomes", "v4.0 genomes", "v4.1 exomes"):
        assert layout_of(release).flags.non_par == "non_par"
    flags = layout_of("v4.1 joint").flags
    assert (flags.lcr, flags.segdup, flags.non_par) == (None, None, None)


def test_joint_files_name_the_data_type_that_passes() -> None:
    layout = layout_of("v4.1 joint")
    assert layout.main.af_grpmax == "AF_grpmax_joint"
    assert set(layout.passing) == {"EXOMES_FILTERED", "GENOMES_FILTERED"}
    genomes = layout.passing["EXOMES_FILTERED"]
    assert (genomes.af, genomes.an, genomes.grpmax) == ("AF_genomes", "AN_genomes", "grpmax_genomes")
    assert genomes.groups["afr"] == "AF_genomes_afr"


@pytest.mark.parametrize("release", ["v4.0 exomes", "v4.0 genomes"])
def test_file_with_joint_fields_beside_is_about_its_own_samples(release: str) -> None:
    assert "AF_joint:A:Float" in HEADERS[release]
    layout = layout_of(release)
    assert (layout.main.af, layout.main.af_grpmax) == ("AF", "AF_grpmax")
    assert not layout.passing


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
