"""Mistakes in a catalogue: each is refused in one line that names the file and the key."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.errors import CatalogError
from genolewm_assets.sources.catalog.catalog import load_catalog
from genolewm_assets_tests.worlds.sources.minimal_catalog import MD5, MINIMAL, changed, write

#: path of the key, value, what the message must say after the file name
REFUSED: dict[str, tuple[str, object, str]] = {
    "typo": ("genom", {}, "(genom): unknown key: expected 'genome', got 'genom'."),
    "unknown in a section": (
        "gnomad.minimum_af",
        0.1,
        "(gnomad.minimum_af): unknown key: expected 'min_af', got 'minimum_af'.",
    ),
    "unknown corpus source": (
        "corpus.sources.mrna_evo",
        {"url": "x"},
        "(corpus.sources.mrna_evo): unknown corpus source: expected 'mrna_evo2', got 'mrna_evo'.",
    ),
    "a corpus source far from any": (
        "corpus.sources.fungi",
        {"url": "x"},
        "(corpus.sources.fungi): unknown corpus source: expected one of eukaryote_generator, mrna_evo2,",
    ),
    "an empty slice": ("corpus.slice_fraction", 0.0, "(corpus.slice_fraction): wrong value: expected greater than 0"),
    "more than all": ("corpus.slice_fraction", 1.5, "(corpus.slice_fraction): wrong value: expected less than or"),
    "negative seed": ("corpus.seed", -1, "(corpus.seed): wrong value: expected greater than or equal to 0"),
    "a mix of an unknown origin": (
        "packages.mix",
        {"fungi": 1.0},
        "(packages.mix): unknown name: expected one of reference, eukaryote_generator,",
    ),
    "a mix of half": ("packages.mix", {"reference": 0.5}, "(packages.mix): shares do not add up: expected a sum of 1"),
    "a mix with two shares of the reference": (
        "packages",
        {"mix": {"reference": 1.0}, "reference_share": 0.9},
        "(packages.reference_share): is given, but the mix names 'reference' itself",
    ),
    "edits that add up to more": ("packages.edits", {"gnomad": 0.5}, "(packages.edits): shares do not add up"),
    "declared edits that do not add up": (
        "packages.mix_declared",
        {"edits": {"clinvar": 0.5}},
        "(packages.mix_declared): shares do not add up",
    ),
    "no visits": ("packages.max_visits", 0, "(packages.max_visits): wrong value: expected greater than 0"),
    "five stars": (
        "packages.min_training_stars",
        5,
        "(packages.min_training_stars): wrong value: expected less than or",
    ),
    "fewer than no frozen epochs": (
        "packages.frozen_epochs",
        -1,
        "(packages.frozen_epochs): wrong value: expected greater than or equal to 0",
    ),
    "unknown in a source": ("gnomad.sources.chr1.checksum", MD5, "(gnomad.sources.chr1.checksum): unknown key"),
    "phased genotypes of a circle": (
        "haplotypes.sources.chrM",
        {"url": "x.vcf.gz", "release": "phase3"},
        "(haplotypes.sources.chrM): phased genotypes of a circular contig: expected a linear contig, got 'chrM'.",
    ),
    "phased genotypes of no contig": (
        "haplotypes.sources.chr2",
        {"url": "x.vcf.gz", "release": "phase3"},
        "(haplotypes.sources.chr2): source of a contig that the genome does not have: expected one of chr1, chrM, got",
    ),
    "unknown in a contig": ("genome.contigs.1.size", 3, "(genome.contigs[1].size): unknown key: expected one of name,"),
    "unknown track": ("genome.tracks.segdup", "x.bed", "(genome.tracks.segdup): unknown key"),
    "not a mapping": ("clinvar", "listing", "(clinvar): not a mapping: expected keys listing,"),
    "empty section": ("genome", None, "(genome): not a mapping"),
    "no contigs": ("genome.contigs", [], "(genome.contigs): wrong value"),
    "contigs as a mapping": ("genome.contigs", {"chr1": 3}, "(genome.contigs): wrong value"),
    "length as text": (
        "genome.contigs.0.length",
        "100",
        "(genome.contigs[0].length): wrong value: expected a valid int",
    ),
    "length zero": ("genome.contigs.0.length", 0, "(genome.contigs[0].length): wrong value: expected greater than 0"),
    "bad MD5": ("genome.contigs.0.md5", MD5[:-1], "(genome.contigs[0].md5): not an MD5: expected 32 lower-case"),
    "upper-case MD5": ("genome.contigs.1.md5", MD5.upper(), "(genome.contigs[1].md5): not an MD5"),
    "bad MD5 of a file": ("gnomad.sources.chr1.md5", "Published", "(gnomad.sources.chr1.md5): not an MD5"),
    "duplicate contig": (
        "genome.contigs.1.name",
        "chr1",
        "(genome.contigs[1].name): duplicate contig: got 'chr1', also genome.contigs[0].",
    ),
    "duplicate alias": (
        "genome.contigs.1.aliases",
        ["chr1"],
        "(genome.contigs): contig 'chrM': name or alias 'chr1' already belongs to 'chr1'.",
    ),
    "alias with a blank": ("genome.contigs.0.aliases", ["chr 1"], "(genome.contigs): contig 'chr1': not a contig name"),
    "alias as a number": (
        "genome.contigs.0.aliases",
        [1],
        "(genome.contigs[0].aliases[0]): wrong value: expected a valid string, got 1. Put it in quotes.",
    ),
    "contig name with a slash": ("genome.contigs.0.name", "../chr1", "(genome.contigs[0].name): cannot name a folder"),
    "release as a number": (
        "gnomad.sources.chr1.release",
        4.1,
        "(gnomad.sources.chr1.release): wrong value: expected a valid string, got 4.1. Put it in quotes.",
    ),
    "release that climbs": ("gnomad.sources.chr1.release", "..", "(gnomad.sources.chr1.release): cannot name a folder"),
    "source of an unknown contig": (
        "gnomad.sources.chr2",
        {"url": "x", "release": "1"},
        "(gnomad.sources.chr2): source of a contig that the genome does not have: expected one of chr1, chrM, got",
    ),
    "source under an alias": (
        "gnomad.sources.MT",
        {"url": "x", "release": "1"},
        "(gnomad.sources.MT): source of a contig that the genome does not have: expected 'chrM', got 'MT'.",
    ),
    "share above 1": (
        "gnomad.min_af",
        1.01,
        "(gnomad.min_af): wrong value: expected less than or equal to 1, got 1.01.",
    ),
    "share below 0": ("clinvar.max_ref_mismatch_fraction", -1, "(clinvar.max_ref_mismatch_fraction): wrong value"),
    "share not a number": ("gnomad.min_an_fraction", float("nan"), "(gnomad.min_an_fraction): wrong value"),
    "flag as text": (
        "gnomad.sources.chr1.joint_rescue",
        "yes please",
        "(gnomad.sources.chr1.joint_rescue): wrong value",
    ),
    "unknown generator": ("generator", "demo", "(generator): wrong value: expected 'sample', got 'demo'."),
    "unknown scheme": ("genome.fasta", "ftp://x/y", "(genome.fasta): unknown URL scheme: expected file or http"),
    "credentials": ("genome.fasta", "https://me:secret@host/x", "(genome.fasta): URL holds credentials"),
    "unknown placeholder": (
        "clinvar.listing",
        "{home}/x",
        "(clinvar.listing): unknown placeholder: expected '{root}',",
    ),
    "empty URL": ("clinvar.listing", "", "(clinvar.listing): not a URL or a path"),
    "release key": ("clinvar.releases", ["20260226"], "(clinvar.releases[0]): not a release key: expected an ISO date"),
    "release of no day": ("clinvar.releases", ["2026-02-30"], "(clinvar.releases[0]): not a release key"),
    "packaged but not listed": (
        "clinvar",
        {"listing": "x", "releases": ["2026-02-26"], "packaged": ["2026-02-25"]},
        "(clinvar.packaged): release is not in 'releases': expected one of 2026-02-26, got '2026-02-25'.",
    ),
    "predecessor later": (
        "clinvar.predecessors",
        {"2026-02-26": "2026-03-01"},
        "(clinvar.predecessors.2026-02-26): predecessor is not earlier: expected before 2026-02-26, got 2026-03-01.",
    ),
    "predecessor is a later file of the day": (
        "clinvar.predecessors",
        {"2026-02-26.9": "2026-02-26.10"},
        "(clinvar.predecessors.2026-02-26.9): predecessor is not earlier: expected before 2026-02-26.9, got",
    ),
    "contig in both roles": (
        "holdouts",
        {"contigs_validation": ["chr21"]},
        "(holdouts.contigs): contig 'chr21' has both roles. Give it to validation or to test.",
    ),
    "T0 of no day": (
        "holdouts.temporal",
        "2026-02-30",
        "(holdouts.temporal): not a temporal holdout: expected off, a release such as 2024-01-07, or {months: 12}, got",
    ),
    "T0 on": ("holdouts.temporal", True, "(holdouts.temporal): not a temporal holdout: expected off, a release"),
    "T0 as a number": ("holdouts.temporal", 12, "(holdouts.temporal): not a temporal holdout"),
    "T0 left out": ("holdouts.temporal", None, "(holdouts.temporal): not a temporal holdout"),
    "T0 in weeks": ("holdouts.temporal", {"weeks": 52}, "(holdouts.temporal): not a temporal holdout"),
    "T0 by age and name": (
        "holdouts.temporal",
        {"months": 12, "release": "2024-01-07"},
        "(holdouts.temporal): not a temporal holdout",
    ),
    **{
        f"T0 {months!r} months ago": (
            "holdouts.temporal",
            {"months": months},
            f"(holdouts.temporal.months): not an age: expected 1 to 1,200 months, got {months!r}.",
        )
        for months in (0, -1, 1_201, 1.5, "12", True, None)
    },
    "knowledge of something else": (
        "packages.knowledge",
        "t0",
        "(packages.knowledge): wrong value: expected 'newest' or 'T0', got 't0'.",
    ),
    "blocks shorter than a link": (
        "holdouts",
        {"link_bp": 2_000, "max_block_bp": 1_999},
        "(holdouts.max_block_bp): value out of range: expected at least 2000, got 1999.",
    ),
    "warned too late": (
        "clinvar.freshness",
        {"warn_days": 45},
        "(clinvar.freshness.warn_days): warning is not before failure: expected less than fail_days (45), got 45.",
    ),
    "neither on nor off": (
        "clinvar.freshness",
        None,
        "(clinvar.freshness): nothing is given: expected off, or keys warn_days and fail_days, got null.",
    ),
    "an md5 of what is not downloaded": (
        "gnomad.sources",
        {"chr1": {"url": "https://host/x.vcf.bgz", "release": "4.1", "read": "ranges", "md5": MD5}},
        "(gnomad.sources.chr1): md5 is given for a file that is read in ranges: expected read: download, or no md5,",
    ),
    "read in another way": (
        "gnomad.sources",
        {"chr1": {"url": "https://host/x.vcf.bgz", "release": "4.1", "read": "pieces"}},
        "(gnomad.sources.chr1.read)",
    ),
    "listing read all the time": ("clinvar.listing_interval_s", 0, "(clinvar.listing_interval_s)"),
    "unknown profile": (
        "windows",
        {"profile": "dens"},
        "(windows): no built-in profile has this name: expected one of",
    ),
    "other numbers under a built-in name": (
        "windows",
        {"profile": "default", "stride_bp": 4_096},
        "(windows): numbers differ from those of the built-in profile",
    ),
    "half a profile": ("windows", {"profile": "mine", "window_bp": 1_200}, "(windows): no built-in profile"),
    "window of no tokens": ("windows", {"profile": "mine", "window_bp": 0, "stride_bp": 0}, "(windows): "),
    "stride above window": ("windows", {"profile": "mine", "window_bp": 600, "stride_bp": 601}, "(windows): "),
    "stride zero": ("windows", {"profile": "mine", "window_bp": 600, "stride_bp": 0}, "(windows): "),
    "negative margin": (
        "windows",
        {"profile": "mine", "window_bp": 600, "stride_bp": 600, "margin_bp": -1},
        "(windows): ",
    ),
    "window larger than every contig": (
        "windows",
        {"profile": "mine", "window_bp": 99_492, "stride_bp": 6},
        "(windows.window_bp): no linear contig holds a window and its margins: expected at most 99,488 bp, got 99,492",
    ),
}


@pytest.fixture
def message(tmp_path: Path) -> Callable[[object], str]:
    def read(data: object) -> str:
        file = write(tmp_path, data)
        with pytest.raises(CatalogError) as raised:
            load_catalog(file)
        text = str(raised.value)
        assert "\n" not in text
        assert "pydantic" not in text
        assert text.startswith(str(file))
        return text.removeprefix(str(file)).removeprefix(" ")

    return read


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_one_line_with_the_key(message: Callable[[object], str], case: str) -> None:
    path, value, expected = REFUSED[case]
    assert message(changed(path, value)).startswith(expected)


def test_t0_is_one_of_the_releases(message: Callable[[object], str]) -> None:
    data = changed("clinvar.releases", ["2026-02-26"])
    data["holdouts"] = {"temporal": "2024-01-07"}
    assert message(data) == (
        "(holdouts.temporal): release is not in 'clinvar.releases': expected one of 2026-02-26, got '2024-01-07'."
    )


def test_knowledge_at_t0_needs_one(message: Callable[[object], str]) -> None:
    data = changed("packages.knowledge", "T0")
    data["holdouts"] = {"temporal": False}
    assert message(data).startswith(
        "(packages.knowledge): there is no T0, because holdouts.temporal is off: expected 'newest', got 'T0'."
    )


@pytest.mark.parametrize(
    "key", ["name", "genome", "clinvar", "genome.fasta", "genome.contigs.0.md5", "clinvar.listing"]
)
def test_missing_keys_are_named(message: Callable[[object], str], key: str) -> None:
    data = copy.deepcopy(MINIMAL)
    *parents, last = key.split(".")
    section: Any = data
    for part in parents:
        section = section[int(part)] if part.isdigit() else section[part]
    del section[last]
    assert message(data) == f"({key.replace('.0.', '[0].')}): key is missing."


def test_several_mistakes_are_counted(message: Callable[[object], str]) -> None:
    data = changed("genome.contigs.0.md5", "x")
    data["clinvar"]["listing"] = ""
    assert message(data).endswith("1 more to correct after this one.")


def test_a_window_that_just_fits_is_possible(tmp_path: Path) -> None:
    data = changed("windows", {"profile": "mine", "window_bp": 99_486, "stride_bp": 6, "margin_bp": 257})
    assert load_catalog(write(tmp_path, data)).window_profile.window_bp == 99_486


def chained(length: int, width: int) -> str:
    """Return lists, each of which holds the one before it ``width`` times, as an alias."""
    lines = [f"- &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, length)]
    return "\n".join(["- &a0 [x]", *lines])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: [a\nb: c\n", ":2:2: not valid YAML"),
        ("name: a\nname: b\n", ":2:1: not valid YAML (key 'name' is given twice)"),
        ("gnomad:\n  sources:\n    chr1: {}\n    chr1: {}\n", ":4:5: not valid YAML (key 'chr1' is given twice)"),
        ("a: !!python/object/apply:os.system [ls]\n", ":1:4: not valid YAML (could not determine a constructor"),
        ("a: 1\n---\nb: 2\n", ":2:1: not valid YAML (but found another document)"),
        ("[" * 30_000, ":1:50: not valid YAML (nested deeper than 50 levels)"),
        ("{a: " * 30_000, ":1:197: not valid YAML (nested deeper than 50 levels)"),
        ("- " * 30_000, ":1:99: not valid YAML (nested deeper than 50 levels)"),
        ("\n".join(" " * n + "a:" for n in range(999)), ":50:50: not valid YAML (nested deeper than 50 levels)"),
        (chained(99, 1), ":50:13: not valid YAML (nested deeper than 50 levels)"),
        (chained(9, 10), ":6:28: not valid YAML (its aliases stand for more than 100,000 values)"),
        ("a: &a [*a]\n", ":1:8: not valid YAML (alias 'a' is inside of what it names)"),
        ("a: " + "x" * (4 << 20), ": is too large for a catalogue: expected at most 4,194,304 bytes"),
        ("", ": not a mapping: expected keys name, base, generator, genome, windows, gnomad, clinvar, "),
        ("- a\n", ": not a mapping"),
    ],
)
def test_what_is_not_a_catalogue(message: Callable[[object], str], text: str, expected: str) -> None:
    assert message(text).startswith(expected)


def test_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(CatalogError, match="not UTF-8: got byte 0xe9"):
        load_catalog(file)


@pytest.mark.parametrize("name", ["grch39", "no/such/file.yaml"])
def test_no_such_catalogue(name: str) -> None:
    with pytest.raises(CatalogError, match=rf"{name}: no such catalogue: expected a built-in name \(.*grch38"):
        load_catalog(name)


def test_a_folder_is_not_a_catalogue(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="got a folder"):
        load_catalog(tmp_path)
