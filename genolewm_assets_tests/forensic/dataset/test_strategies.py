"""Which files of a folder are samples, ladders and annotations, and what belongs together."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import ConfigurationError, InputError
from genolewm_assets.forensic import NFIRnDStrategy, RunFolderStrategy
from genolewm_assets.forensic.dataset.annotations import AlleleAnnotation, SpanAnnotation
from genolewm_assets.forensic.dataset.strategies import DatasetEntry
from genolewm_assets_tests.rows import each_row


def write(root: Path, **files: str) -> dict[str, Path]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {name: root / name for name in files}


def collect(strategy: RunFolderStrategy, root: Path) -> dict[str, DatasetEntry]:
    return {each.name: each for each in strategy.collect_dataset_files(root, strategy.source_files(root))}


REPORT = "Sample\tMarker\tAllele#1\ns1\tM1\t9\n1_x_1A2\tM1\t11\n"


@each_row(
    ("name", "category"),
    [
        *(("x_LADDER_1.hid", "ladder"), ("x_Neg.hid", "control"), ("PosCONTROL.fsa", "control"), ("x.hid", "sample")),
        *(("x.HID", "sample"), ("x.txt", "unknown")),
    ],
)
def test_files_are_told_apart_by_words(name: str, category: str) -> None:
    assert RunFolderStrategy().categorize_file(name) == category


@each_row(
    ("name", "category"),
    [
        *(("1A2_A01_01.hid", "sample"), ("6F5_H12_24.hid", "sample"), ("1G2_A01_01.hid", "unknown")),
        *(("A123_B01_04.hid", "control"), ("Ladder_A01.hid", "ladder"), ("pocon_A01.hid", "control")),
        *(("BLANCO_A01.hid", "control"), ("Test.hid", "unknown")),
    ],
)
def test_mixtures_are_told_apart_by_their_names(name: str, category: str) -> None:
    assert NFIRnDStrategy().categorize_file(name) == category


def test_a_mixture_s_name_tells_replicas_and_contributors() -> None:
    strategy = NFIRnDStrategy()
    assert strategy.get_sample_id("1A2_A01_01.hid") == strategy.get_sample_id("1A2_A06_03.hid") == "1A2"
    assert strategy.get_number_of_contributors("3B5_A06_03.hid") == 5
    assert RunFolderStrategy().get_number_of_contributors("3B5_A06_03.hid") is None
    with pytest.raises(InputError, match=r"'x\.hid': is no name of a sample"):
        strategy.get_sample_id("x.hid")


def test_what_a_split_keeps_together() -> None:
    assert {NFIRnDStrategy().get_split_group(name) for name in ("1A2_A01_01.hid", "1F5_A01_01.hid")} == {"1"}
    runs = RunFolderStrategy(replica_pattern=r"NTD\d+")
    assert list(map(runs.get_split_group, ("x_NTD01_a.hid", "y_NTD01_b.hid", "z.hid"))) == ["NTD01", "NTD01", "z"]
    assert RunFolderStrategy().get_split_group("x_NTD01_a.hid") == "x_NTD01_a"


def test_sources_are_samples_ladders_and_tables(tmp_path: Path) -> None:
    wanted = ["a/ladder.hid", "a/s1.hid", "b AlleleReport.txt", "best_ladder_paths_DTH.csv", "x_hid_to_annotation.csv"]
    write(tmp_path, **dict.fromkeys(wanted, ""), **{"a/neg.hid": "", "notes.txt": "", "l_spans.csv": ""})
    assert sorted(RunFolderStrategy().source_files(tmp_path)) == wanted
    spans = RunFolderStrategy(spans=("*_spans.csv",))
    assert sorted(spans.source_files(tmp_path)) == [*wanted[:2], wanted[3], "l_spans.csv", wanted[4]]
    assert spans.get_annotation_classes()[:2] == ["", "Allele"]
    with pytest.raises(ConfigurationError, match="is no folder"):
        spans.source_files(tmp_path / "none")


def test_annotation_and_ladder_of_the_same_folder(tmp_path: Path) -> None:
    write(tmp_path, **{"r_AlleleReport.txt": REPORT, "ladder_top.hid": "", "a/s1.hid": "", "a/s2.hid": ""})
    write(tmp_path, **{"b/ladder_b.hid": "", "b/ladder_a.hid": "", "b/c/s3.hid": ""})
    found = collect(RunFolderStrategy(), tmp_path)
    assert list(found) == ["a/s1.hid", "a/s2.hid", "b/c/s3.hid"]
    assert found["a/s1.hid"].annotation == AlleleAnnotation({"M1": ("9",)})
    assert found["a/s2.hid"].annotation is None
    assert found["a/s1.hid"].ladders == ("ladder_top.hid",)
    assert found["b/c/s3.hid"].ladders == ("b/ladder_a.hid", "b/ladder_b.hid")
    assert list(found["a/s2.hid"].stamps) == ["r_AlleleReport.txt"]


def test_tables_of_dnanet_map_files_to_annotations_and_ladders(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            **dict.fromkeys(("1A2_A01_01.hid", "1A2_A02_01.hid", "inj/ladder_1.hid", "ladder_0.hid"), ""),
            "Dataset_1_DTH_AlleleReport.txt": REPORT,
            "2p_5p_hid_to_annotation.csv": "Ruwe data naam,naam DTH,naam DTL\n1A2_A01_01.hid,1_x_1A2,1L_x\n",
            "best_ladder_paths.csv": "image_path,ladder_path\n1A2_A01_01,old/place/inj/ladder_1.hid\n",
        },
    )
    found = collect(NFIRnDStrategy(), tmp_path)
    assert found["1A2_A01_01.hid"].annotation == AlleleAnnotation({"M1": ("11",)})
    assert found["1A2_A01_01.hid"].ladders == ("inj/ladder_1.hid",)
    assert found["1A2_A02_01.hid"].annotation is None
    assert found["1A2_A02_01.hid"].ladders == ("ladder_0.hid",)
    assert len(found["1A2_A01_01.hid"].stamps) == 3
    low = collect(NFIRnDStrategy("DTL"), tmp_path)
    assert low["1A2_A01_01.hid"].annotation is None


def test_spans_take_the_place_of_reports(tmp_path: Path) -> None:
    text = "user,profile,dye,x0,x1,category\nu,s1,blue,1,2,Allele\n"
    write(tmp_path, **{"s1.hid": "", "l.spans.csv": text, "r_AlleleReport.txt": REPORT})
    found = collect(RunFolderStrategy(spans=("*.spans.csv",)), tmp_path)
    assert isinstance(found["s1.hid"].annotation, SpanAnnotation)
    assert list(found["s1.hid"].stamps) == ["l.spans.csv"]


def test_reports_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    write(tmp_path, **{"s1.hid": "", "1_AlleleReport.txt": REPORT, "2_AlleleReport.txt": REPORT})
    assert collect(RunFolderStrategy(), tmp_path)["s1.hid"].annotation is not None
    write(tmp_path, **{"2_AlleleReport.txt": REPORT.replace("\t9", "\t10")})
    with pytest.raises(InputError, match=r"2_AlleleReport\.txt: contradicts another table of its kind: got 's1'"):
        collect(RunFolderStrategy(), tmp_path)


def test_every_parameter_is_in_the_signature() -> None:
    signatures = [
        RunFolderStrategy(), RunFolderStrategy(spans=("x",)), RunFolderStrategy(annotator="u"), NFIRnDStrategy(),
        RunFolderStrategy(analysis_threshold_type="DTL"), RunFolderStrategy(control_words=()),
    ]  # fmt: skip
    assert len({str(each.cache_signature()) for each in signatures}) == len(signatures)
