"""Pictures: small, as wide as their dialog, in colours that can be told apart, and true to their figures.

Facts of observed files as entries of the UI.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import dagster as dg
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from genolewm_assets.defs.display import contig_pictures, forensic_pictures, mito_pictures, pictures
from genolewm_assets.defs.display.source_files import FACTS, StatedFile, describe_files
from genolewm_assets.genome import IntervalArray
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.pictures import SVG, fitting, parse, size_px, texts_in
from genolewm_assets_tests.rows import each_row

colors = Late("matplotlib.colors")
#: Okabe and Ito, Color Universal Design (2008).
OKABE_ITO = {"#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"}
HOLDOUTS = ("holdout-chr", "holdout-clinvar", "holdout-haplotypes", "holdout-temporal")
SIZES = {"P": 150_000, "LP": 90_000, "VUS": 1_900_000, "OTHER": 160_000, "LB": 1_000_000, "B": 210_000}
PARTS = {part: pictures.PART_COLOURS[part] for part in ("validation", "test")}
ROWS = {name: {"validation": 500, "test": 10_000 * n} for n, name in enumerate(HOLDOUTS)}
MIX = {"eukaryote_generator": 0.5, "mrna_evo2": 0.25, "mrna_splice_evo2": 0.1, "prokaryote_evo2": 0.15}
POSITIONS = np.random.default_rng(0).integers(0, 248_000_000, 400_000)
FREQUENCIES = np.random.default_rng(1).beta(0.3, 2, 400_000)
CONTIGS = [f"chr{n}" for n in (*range(1, 23), "X", "Y", "M")]
FREQUENCIES_OF = {name: None if name == "chr9" else FREQUENCIES for name in CONTIGS}
SPANS = IntervalArray(np.array([0, 300_000]), np.array([200_000, 400_000]))
#: Every picture at the size of a genome, with words that must stand in it and in its alternative text.
DRAWN: dict[str, tuple[Callable[[], dg.MetadataValue], tuple[str, ...], str]] = {
    "density": (
        lambda: pictures.draw_density(POSITIONS, unit="alleles", contig="chr1"),
        ("400,000 alleles along chr1", "position (Mbp)"),
        "400,000 alleles along chr1; 0 % of the bins are empty",
    ),
    "coverage": (
        lambda: pictures.draw_coverage(
            IntervalArray.from_unsorted(POSITIONS[:9_000], POSITIONS[:9_000] + 12_288), contig="chr1"
        ),
        ("share in windows",),
        "9,000 windows: ",
    ),
    "af": (
        lambda: pictures.draw_af_spectrum(FREQUENCIES, contig="chr1"),
        ("allele frequency", "alleles (log)"),
        "400,000 alleles of chr1",
    ),
    "frequencies by contig": (
        lambda: contig_pictures.draw_by_contig(FREQUENCIES_OF, title="Allele frequencies", log=True),
        (
            "chr1 0.043",
            "chr9 not built",
            "Allele frequencies by contig (0 to 1, log of counts; the line is the median)",
        ),
        "chr1 0.043, chr2 0.043",
    ),
    "coverage by contig": (
        lambda: contig_pictures.draw_coverages(dict.fromkeys(CONTIGS, SPANS), title="In windows"),
        ("chr1 75 %", "In windows along each contig, and in all"),
        "chr9 75 %",
    ),
    "norms": (
        lambda: pictures.draw_norms(np.linspace(2.0, 4.0, 50_001), source="chr1"),
        ("median", "norm of a block's state"),
        "median norm 3 over 50,001 blocks",
    ),
    "stars": (
        lambda: pictures.draw_classes_by_stars(
            {label: np.array([n // 5, n // 2, n // 4, n // 50, n // 5_000]) for label, n in SIZES.items()}
        ),
        ("2 stars", "877,500", "1 star", "VUS"),
        "2 stars 877,500",
    ),
    "balance": (
        lambda: pictures.draw_class_balance(SIZES),
        ("3,510,000 alleles by class", "1,900,000 (54.1 %)"),
        "VUS 1,900,000",
    ),
    "placements": (
        lambda: pictures.draw_placements({"coordinates": 3, "none": 1}, source="corpus[mrna]"),
        ("3 (75.0 %)", "1 (25.0 %)"),
        # Brackets would end the text.
        "4 windows of corpus(mrna) by placement: coordinates 3, none 1",
    ),
    "mix": (
        lambda: pictures.draw_shares(MIX, MIX | {"mrna_evo2": 0.21}, what="Origins"),
        (
            "21.0 % (declared 25 %)",
            "declared",
            "served",
            "Origins of the training tuples; at most 4.0 percentage points off",
        ),
        "mrna_evo2 21.0 % of 25 %",
    ),
    "composition": (
        lambda: pictures.draw_composition({"windows": ROWS, "alleles": ROWS}, title="Held out", parts=PARTS),
        ("500 + 30,000", "holdout-temporal", "validation", "test"),
        "holdout-temporal 500 validation + 30,000 test",
    ),
}


PEAKS = {"saturated_scans": 0, "max_residual_bp": 0.1, "peaks_called": 30, "peaks_listed": 40, "peaks_off_scale": 40}
#: Pictures with a legend, each with bars as long as they can be where a legend might stand.
LEGENDS: dict[str, Callable[[], dg.MetadataValue]] = {
    **{name: DRAWN[name][0] for name in ("stars", "mix", "composition")},
    "one source": lambda: pictures.draw_shares({"reference": 1.0}, {"reference": 1.0}, what="Origins"),
    "last is largest": lambda: pictures.draw_shares(
        {"synthetic": 0.1, "gnomad": 0.5, "clinvar": 0.4}, {"gnomad": 0.1, "clinvar": 0.9}, what="Sources of edits"
    ),
    "haplogroups": lambda: mito_pictures.draw_haplogroups([*"HULKTJIWX"] * 6, ["train"] * 20 + ["test"] * 34),
    "quality": lambda: forensic_pictures.draw_run_quality([PEAKS] * 24, limit_bp=0.5, run="a_run_of_2025"),
}


@pytest.mark.parametrize("name", LEGENDS)
def test_no_legend_covers_text_or_bars_and_every_text_fits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figure_type, patches = Late("matplotlib.figure").Figure, Late("matplotlib.patches")
    text_type, legend_type = Late("matplotlib.text").Text, Late("matplotlib.legend").Legend
    drawn: list[Any] = []
    save = figure_type.savefig
    monkeypatch.setattr(figure_type, "savefig", lambda own, *a, **k: (drawn.append(own), save(own, *a, **k)))
    LEGENDS[name]()
    (figure,) = drawn
    Late("matplotlib.backends.backend_agg").FigureCanvasAgg(figure).draw()
    boxes = [legend.get_window_extent() for legend in figure.findobj(legend_type)]
    assert len(boxes) == 1
    own = {id(part) for legend in figure.findobj(legend_type) for part in legend.findobj()}
    # Labels of ticks beyond the view are not drawn.
    ticks = {id(label) for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())}
    words = [each for each in figure.findobj(text_type) if each.get_text().strip() and id(each) not in {*own, *ticks}]
    bars = [each for each in figure.findobj(patches.Rectangle) if each not in [axes.patch for axes in figure.axes]]
    for each in [*words, *(bar for bar in bars if id(bar) not in own and bar is not figure.patch)]:
        assert not each.get_window_extent().overlaps(boxes[0]), each
    for each in words:
        assert figure.bbox.padded(1).containsx(each.get_window_extent().x1), each
        assert figure.bbox.padded(1).containsx(each.get_window_extent().x0), each


def colours(svg: ElementTree.Element) -> set[str]:
    """Return the colours that shapes are filled or drawn in, greys left out."""
    found = re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", ElementTree.tostring(svg, encoding="unicode"))
    return {colour.upper() for colour in found if len(set(colors.to_rgb(colour))) > 1}


@each_row("name", DRAWN)
def test_pictures_are_small_wide_enough_always_the_same_and_say_their_figures(name: str) -> None:
    draw, shown, told = DRAWN[name]
    alt, svg = fitting(drawn := draw())
    assert draw() == drawn
    assert told in alt
    assert set(shown) <= texts_in(svg)
    assert 100 < size_px(svg)[1] < 400
    assert colours(svg) <= OKABE_ITO
    # 8.5 pt are 11 CSS pixels.
    sizes = re.findall(r"font(?:-size)?: ([\d.]+)px", ElementTree.tostring(svg, encoding="unicode"))
    assert min(float(size) for size in sizes if float(size) > 6) >= 8.5


NOTHING = np.zeros(0, dtype=np.int64)
EMPTY: dict[str, Callable[[], dg.MetadataValue]] = {
    "density": lambda: pictures.draw_density(NOTHING, unit="alleles", contig="chrM"),
    "coverage": lambda: pictures.draw_coverage(IntervalArray(NOTHING, NOTHING), contig="chr21"),
    "af": lambda: pictures.draw_af_spectrum(np.zeros(0), contig="chrM"),
    "frequencies by contig": lambda: contig_pictures.draw_by_contig({"chr21": np.zeros(0)}, title="AF", log=True),
    "coverage by contig": lambda: contig_pictures.draw_coverages({}, title="In windows"),
    "norms": lambda: pictures.draw_norms(np.zeros(0), source="chr21"),
    "stars": lambda: pictures.draw_classes_by_stars({label: np.zeros(5, np.int64) for label in SIZES}),
    "balance": lambda: pictures.draw_class_balance(dict.fromkeys(SIZES, 0)),
    "placements": lambda: pictures.draw_placements({"none": 0}, source="mrna_evo2"),
    "mix": lambda: pictures.draw_shares(MIX, {}, what="Origins"),
    "composition": lambda: pictures.draw_composition({"windows": {"train": {}}}, title="Splits", parts=PARTS),
}


@each_row("name", DRAWN)
def test_nothing_to_draw_is_a_picture_too(name: str) -> None:
    alt, _, svg = parse(EMPTY[name]())
    assert alt
    assert texts_in(svg)
    assert not any("nan" in (path.get("d") or "").lower() for path in svg.iter(f"{SVG}path"))


@each_row("colour", [*pictures.LABEL_COLOURS.values(), *pictures.PART_COLOURS.values()])
def test_text_on_a_colour_has_the_contrast_that_wcag_asks_for(colour: str) -> None:
    def luminance(name: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colors.to_rgb(name)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(colour), luminance(pictures.ink_on(colour))), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 400)), min_size=1, max_size=12))
def test_coverage_is_that_of_a_mask_of_bases(spans: list[tuple[int, int]]) -> None:
    starts, ends = np.array([start for start, _ in spans]), np.array([start + size for start, size in spans])
    mask = np.zeros(ends.max(), dtype=bool)
    for start, end in zip(starts, ends, strict=True):
        mask[start:end] = True
    shares, edges = pictures.coverage(IntervalArray.from_unsorted(starts, ends))
    assert edges[0] == 0
    assert edges[-1] == len(mask)
    assert len(shares) == min(200, len(mask))
    np.testing.assert_allclose(shares, [mask[a:b].mean() for a, b in pairwise(edges)], atol=1e-12)


MD5 = "0" * 32


@each_row(
    ("place", "entry"),
    [
        ("/data/genome.fa.gz", {"folder": dg.MetadataValue.path("/data")}),
        ("https://server/a.vcf.bgz", {"url": dg.MetadataValue.md("[server](<https://server/a.vcf.bgz>)")}),
        ("s3://bucket/a.vcf.bgz", {"url": dg.MetadataValue.text("s3://bucket/a.vcf.bgz")}),
        ("https://server/a?X-Signature=secret#top", {"url": dg.MetadataValue.md("[server](<https://server/a>)")}),
        ("https://bob:secret@server/a", {"url": dg.MetadataValue.md("[server](<https://server/a>)")}),
        ("", {}),
    ],
)
def test_a_file_leads_to_where_it_is(place: str, entry: dict[str, dg.MetadataValue]) -> None:
    assert describe_files({"a": StatedFile(place, {"md5": MD5})}) == {"md5": dg.MetadataValue.text(MD5), **entry}


def test_no_table_or_fact_shows_a_password() -> None:
    url = "https://bob:secret@server/corpus?X-Signature=secret"
    absent = StatedFile(url, {"file": url, "version": "absent"})
    for files in ({"a": absent}, {"a": absent, "b": absent}):
        assert "secret" not in repr(describe_files(files))


def test_numbers_are_numbers_and_times_are_times() -> None:
    assert describe_files({}) == {"number_of_files": dg.MetadataValue.int(0)}
    assert all(column.description for column in FACTS.columns)
    facts = {"file": "a", "size_bytes": 12, "modified_ns": 1_700_000_000_500_000_000}
    assert describe_files({"a": StatedFile("", facts)}) == {
        "file": dg.MetadataValue.text("a"),
        "size_bytes": dg.MetadataValue.int(12),
        "modified": dg.MetadataValue.timestamp(1_700_000_000.5),
    }
    # In a table they are read without arithmetic.
    table = describe_files({"a": StatedFile("", facts), "b": StatedFile("", {"file": "b"})})["files"]
    assert [record.data.get("modified") for record in table.records] == ["2023-11-14 22:13:20", None]


def test_files_beyond_a_screenful_are_counted() -> None:
    shown = describe_files({f"{n}": StatedFile("", {"file": f"{n}", "size_bytes": 2}) for n in range(70)})
    assert (shown["number_of_files"].value, shown["size_bytes"].value) == (70, 140)
    table = shown["files"]
    assert [column.name for column in table.schema.columns] == ["name", "file", "size_bytes"]
    assert len(table.records) == 51
    assert table.records[-1].data == {"name": "and 20 more", "file": None, "size_bytes": None}
