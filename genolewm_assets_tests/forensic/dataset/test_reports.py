"""Annotation files: allele reports, label tables, mapping tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from genolewm_assets.errors import InputError
from genolewm_assets.forensic.dataset.annotations import (
    AlleleAnnotation,
    Span,
    SpanAnnotation,
    parse_allele_report,
    parse_annotation_map,
    parse_ladder_map,
    parse_spans,
    same_path,
    stem_of,
)
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.folders import allele_report
from genolewm_assets_tests.worlds.forensic.runs import GENOTYPE

WANTED = AlleleAnnotation(GENOTYPE)


@each_row("delimiter", ["\t", ",", ";"])
def test_heights_beside_alleles_are_not_read(delimiter: str) -> None:
    text = allele_report({"s": GENOTYPE, "t": {"M1": ("9",)}}, delimiter=delimiter)
    assert parse_allele_report(text.encode(), "r") == {"s": WANTED, "t": AlleleAnnotation({"M1": ("9",)})}


def test_reports_in_utf_16_are_read_and_others_are_refused_without_alleles() -> None:
    text = allele_report({"s": GENOTYPE})
    assert parse_allele_report(text.encode("utf-16"), "r") == {"s": WANTED}
    with pytest.raises(InputError, match=r"^r: is not text in UTF-8 .* byte 0xe9 at offset") as caught:
        parse_allele_report((text + "s\tM\xe9\t14.3\n").encode("latin-1"), "r")
    assert "14.3" not in str(caught.value)


def test_heights_behind_alleles_are_not_read() -> None:
    text = "Sample Name,Marker,Allele 1,Allele 2,Height 1,Height 2\ns,M1,14,15,900,800\ns,M2,9,,700,\ns,M3,,,,\n"
    assert parse_allele_report(text.encode("utf-8-sig"), "r") == {
        "s": AlleleAnnotation({"M1": ("14", "15"), "M2": ("9",), "M3": ()})
    }


def test_off_bin_marks_are_dropped_and_alleles_are_listed_once() -> None:
    text = "Sample\tMarker\tAllele#1\tAllele#2\tAllele#3\ns\tM1\tOB_14.1\t 15\t15\nb\tM1\tOL\n"
    found = parse_allele_report(text.encode(), "r")
    assert (found["s"].loci, found["b"].loci) == ({"M1": ("14.1", "15")}, {"M1": ("OL",)})


@each_row(
    ("text", "problem"),
    [
        ("", "has no header"),
        ("Sample", "has no header"),
        ("Sample\tMarker\tHeight", "is no allele report"),
        ("Sample\tMarker\tAllele 1\ns\tM1\t" + "9" * 200_000, "is no table"),
        ("Sample\tMarker\tAllele 1\tallele 2\ns\tM1\t9\t14.3\n", "column 4 is misspelt: expected to begin with 'All"),
        ("Sample\tMarker\tAlele#1\tHeight#1\ns\tM1\t14.3\t9\n", "column 3 is misspelt: expected to begin with 'All"),
        ("Sample\tMarker\tAllele 1\n\tM1\t14.3\n", "line 2: the row has no sample or no locus"),
        ("Sample\tMarker\tAllele 1\ns\t\t14.3\n", "line 2: the row has no sample or no locus"),
        ("Sample\tMarker\tAllele 1\ns\tM1\t9\t14.3\n", "line 2: has too many cells: expected at most 3, got 4"),
        ("Sample\tMarker\tAllele 1\ns\tM1\t9\ns\tM1\t14.3\n", "line 3: the sample has the locus twice"),
    ],
)
def test_what_is_no_report_is_named_without_alleles(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        parse_allele_report(text.encode(), "r.txt")
    assert str(caught.value).startswith("r.txt")
    assert "14.3" not in str(caught.value)


HEADER = "user,date,profile,dye,x0,x1,peak_idx,category,version\n"


def test_whole_numbers_may_be_written_as_doubles() -> None:
    found = parse_allele_report(b"Sample,Marker,Allele 1,Allele 2\ns,M1,12.0,9.3\n", "r")
    assert found == {"s": AlleleAnnotation({"M1": ("12", "9.3")})}
    spans = parse_spans(b"user,profile,dye,x0,x1,category\na,p,Blue,1.0,20.00,Allele\n", "r")
    assert spans["p"].spans == (Span(1, 1, 20, 1),)


def test_spans_by_profile() -> None:
    text = HEADER + "u,d,s,Blue,3,9,5,Allele,1.0\nu,d,t,purple,0,0,-1,,1.0\nu,d,s,red,10,12,11,OverloadingArtefact,1\n"
    assert parse_spans(text.encode(), "l") == {
        "s": SpanAnnotation((Span(1, 3, 9, 1), Span(4, 10, 12, 11))),
        "t": SpanAnnotation((Span(6, 0, 0, 0),)),
    }


def test_the_annotator_is_chosen() -> None:
    text = HEADER + "u,d,s,blue,3,9,5,Allele,1.0\nv,d,s,blue,4,8,5,Stutter,1.0\n"
    assert parse_spans(text.encode(), "l", annotator="v") == {"s": SpanAnnotation((Span(1, 4, 8, 2),))}
    assert parse_spans(text.encode(), "l", annotator="w") == {}
    with pytest.raises(InputError, match=r"l line 3: the profile was annotated by several users"):
        parse_spans(text.encode(), "l")


@each_row(
    ("row", "problem"),
    [
        ("u,d,s,pink,3,9,5,Allele,1", "l line 2: the dye is unknown: expected one of blue, "),
        ("u,d,s,blue,3,9,5,allele,1", "l line 2: the category is unknown: expected one of '', 'Allele'"),
        ("u,d,s,blue,3.5,9,5,Allele,1", "the span has no points"),
        ("u,d,s,blue,9,3,5,Allele,1", "ends before it begins: expected x0 up to x1"),
    ],
)
def test_a_malformed_span_is_named(row: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_spans((HEADER + row).encode(), "l")
    with pytest.raises(InputError, match="is no table of spans"):
        parse_spans(b"a,b\n1,2\n", "l")


@each_row("parse", [parse_allele_report, parse_spans, parse_ladder_map])
def test_a_header_that_is_lost_prints_no_alleles(parse: Callable[[bytes, str], object]) -> None:
    with pytest.raises(InputError) as caught:
        parse(b"s1\tM1\t14.3\t15.3\n", "r")
    assert "4 columns" in str(caught.value)
    assert "14.3" not in str(caught.value)


def test_files_are_mapped_to_annotations_by_threshold() -> None:
    text = b"Ruwe data naam,2024 naam DTH,2024 naam DTL\n1A2_A01_01.hid,1_H,1_L\n\n1A2_A06_03.HID,,2_L\n"
    assert parse_annotation_map(text, "m", "DTH") == {"1A2_A01_01": "1_H"}
    assert parse_annotation_map(text, "m", "DTL") == {"1A2_A01_01": "1_L", "1A2_A06_03": "2_L"}
    with pytest.raises(InputError, match="expected one that contains 'DTX', got 0"):
        parse_annotation_map(text, "m", "DTX")
    with pytest.raises(InputError, match="m line 3: the file is mapped twice: got 'a'"):
        parse_annotation_map(b"x,DTH\na.hid,1\nA/a.hid,2\n", "m", "DTH")


def test_files_are_mapped_to_ladders() -> None:
    text = b"image_path,ladder_path\n1A2_A01_01,resources\\data\\run 2\\Ladder_A.hid\n"
    assert parse_ladder_map(text, "m") == {"1A2_A01_01": "resources\\data\\run 2\\Ladder_A.hid"}
    with pytest.raises(InputError, match="is no ladder table"):
        parse_ladder_map(b"image,ladder\na,b\n", "m")


def test_a_path_is_found_by_its_end() -> None:
    names = dict.fromkeys(("run 1/l.hid", "run 2/l.hid", "run 2/k.hid"))
    assert same_path("/elsewhere/run 2/l.hid", names) == "run 2/l.hid"
    assert same_path("C:\\data\\run 2\\k.hid", names) == "run 2/k.hid"
    assert same_path("m.hid", names) is None


def test_stems() -> None:
    assert list(map(stem_of, ("a/b.hid", "b.c.HID", "b.fsa", "b.c", "x\\b.hid", "b"))) == [
        "b", "b.c", "b", "b.c", "b", "b"
    ]  # fmt: skip
