"""Instrument files: types of values, plain and scrambled directories, dyes, and files that are named as unusable."""

from __future__ import annotations

import io
from datetime import date, datetime, time
from pathlib import Path

import numpy as np
import pytest
from Bio import SeqIO

from genolewm_assets.errors import AbifError, CorruptResourceError, MissingResourceError
from genolewm_assets.forensic import parse_hid, read_hid
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.abif_files import TagBytes, c_string, numbers, pascal, write_abif
from genolewm_assets_tests.worlds.forensic.runs import GENOTYPE, run_bytes, run_tags, traces

SIGNAL = traces(GENOTYPE)
TAGS = run_tags(SIGNAL)


def with_tags(*tags: TagBytes) -> list[TagBytes]:
    new = {(tag.name, tag.number): tag for tag in tags}
    return [*(tag for tag in TAGS if (tag.name, tag.number) not in new), *new.values()]


@pytest.mark.parametrize("scrambled", [False, True])
def test_values_have_the_types_of_their_tags(*, scrambled: bool) -> None:
    tags = parse_hid(run_bytes(SIGNAL, scrambled=scrambled), "run").tags
    wanted = {"LANE": 7, "InVt": 1_200, "Scal": 2.0, "MCHN": "Simulator", "InjN": "Injection 1", "APrX": b"<xml/>"}
    wanted |= {"Rate": bytes(12), "RUND": date(2025, 2, 28), "RUNT": time(23, 5, 9, 500_000)}
    assert {name: tags[name, 1] for name in wanted} == wanted
    assert tags["Anld", 1] is True
    assert tags["SzFt", 1].tolist() == [0.5, 1e-3]
    assert len(tags) == len(TAGS)
    assert set(tags) == {(tag.name, tag.number) for tag in TAGS}
    with pytest.raises(KeyError):
        tags["LANE", 2]


@each_row(
    ("kind", "values"),
    [(1, [0, 255]), (3, [0, 65_535]), (4, [-32_768, 32_767]), (5, [-(2**31), 2**31 - 1]), (7, [1.5]), (8, [-0.1])],
)
def test_numbers_keep_sign_and_width(kind: int, values: list[float]) -> None:
    for wanted in (values, values[:1], []):
        tags = parse_hid(write_abif(with_tags(numbers("Test", 9, kind, wanted))), "run").tags
        got = tags["Test", 9]
        assert np.atleast_1d(np.asarray(got)).tolist() == wanted
        assert isinstance(got, np.ndarray) == (len(wanted) != 1)
        if isinstance(got, np.ndarray):
            assert not got.flags.writeable
            assert got.dtype.isnative


def test_strings_end_where_they_say() -> None:
    added = [pascal("Str1", 1, ""), pascal("Str1", 2, "a" * 255), c_string("Str2", 1, ""), c_string("Str2", 2, "é\n")]
    tags = parse_hid(write_abif(with_tags(*added, TagBytes("Str3", 1, 18, b""))), "run").tags
    assert [tags["Str1", 1], tags["Str1", 2]] == ["", "a" * 255]
    assert [tags["Str2", 1], tags["Str2", 2], tags["Str3", 1]] == ["", "é\n", ""]


@pytest.mark.parametrize("scrambled", [False, True])
def test_traces_are_those_that_were_written(*, scrambled: bool) -> None:
    run = parse_hid(run_bytes(SIGNAL, scrambled=scrambled), "run")
    assert [dye.name for dye in run.dyes] == ["6-FAM", "VIC", "NED", "PET", "LIZ"]
    assert [dye.wavelength_nm for dye in run.dyes] == [520, 540, 560, 580, 600]
    assert run.n_scans == SIGNAL.shape[1]
    for dye, trace in zip(run.dyes, SIGNAL, strict=True):
        assert dye.raw.dtype == np.int16
        assert dye.raw.tolist() == np.round(trace).tolist()
        assert dye.analysed is None
    assert run.run.started == datetime(2025, 2, 28, 23, 5, 9, 500_000)  # noqa: DTZ001 - the instrument's own clock
    assert (run.run.injection_s, run.run.lane, run.run.well) == (12, 7, "A01")


def test_biopython_reads_the_same_of_a_plain_file() -> None:
    data = run_bytes(SIGNAL)
    other = SeqIO.read(io.BytesIO(data), "abi").annotations["abif_raw"]
    run = parse_hid(data, "run")
    for number in (1, 2, 3, 4, 105):
        assert run.tags["DATA", number].tolist() == list(other[f"DATA{number}"])
    for name in ("LANE", "InSc", "Scal", "Dye#", "DyeW"):
        assert run.tags[name, 1] == other[f"{name}1"]
    assert run.tags["MCHN", 1].encode() == other["MCHN1"]


def test_analysed_traces_belong_to_their_dyes() -> None:
    analysed = [numbers("DATA", n, 4, SIGNAL[k] / 2) for k, n in enumerate((9, 10, 11, 12, 205))]
    run = parse_hid(write_abif(with_tags(*analysed), scrambled=True), "run")
    for dye, trace in zip(run.dyes, SIGNAL, strict=True):
        assert dye.analysed.tolist() == (trace / 2).astype(np.int16).tolist()


def test_analysed_traces_of_a_part_of_the_run_are_left_out() -> None:
    run = parse_hid(write_abif(with_tags(numbers("DATA", 9, 4, SIGNAL[0][:500]))), "run")
    assert run.dyes[0].analysed is None
    assert len(run.tags["DATA", 9]) == 500


def six_dyes(*more: TagBytes) -> list[TagBytes]:
    changed = {(tag.name, tag.number): tag for tag in (*run_tags(np.vstack([SIGNAL, SIGNAL[:1]])), *more)}
    return list(changed.values())


def test_of_six_dyes_the_fifth_channel_has_the_last_name() -> None:
    run = parse_hid(write_abif(six_dyes()), "run")
    assert [dye.name for dye in run.dyes] == ["6-FAM", "VIC", "NED", "PET", "SID", "LIZ"]
    assert run.run.size_standard_channel == 5


def test_the_assay_states_the_order_of_the_dyes() -> None:
    listed = b'<parameter name="Dyes">[6-FAM;522;1, VIC;554;2, NED;575;3, PET;595;4, SID;620;5, LIZ;655;6]</parameter>'
    run = parse_hid(write_abif(six_dyes(TagBytes("AsyC", 1, 2, listed))), "run")
    assert [dye.name for dye in run.dyes][4:] == ["LIZ", "SID"]


def test_scans_off_scale_come_from_tags_and_full_scale() -> None:
    signal = SIGNAL.copy()
    signal[2, 3_000:3_003] = 40_000
    run = parse_hid(write_abif([*run_tags(signal), numbers("Satd", 1, 5, [-1, 5, 9, 70_000])]), "run")
    assert run.off_scale.tolist() == [5, 9, 3_000, 3_001, 3_002]


def test_one_scan_off_scale_is_read() -> None:
    run = parse_hid(write_abif([*TAGS, numbers("OfSc", 1, 5, 77), numbers("Satd", 1, 4, [5, 6])]), "run")
    assert run.off_scale.tolist() == [77]


@each_row("count", [0, -1, 6, 300])
def test_another_number_of_dyes_than_there_are_traces_is_refused(count: int) -> None:
    with pytest.raises(AbifError, match="traces are missing"):
        parse_hid(write_abif(with_tags(numbers("Dye#", 1, 4, count))), "run")


def test_the_latest_directory_of_the_length_of_the_traces_is_taken() -> None:
    older = write_abif(with_tags(numbers("DATA", 1, 4, SIGNAL[0][:50])))[128:]
    for data in (write_abif(TAGS, scrambled=True, before=older), write_abif(TAGS, scrambled=True, between=older)):
        assert parse_hid(data, "run").dyes[0].raw.tolist() == np.round(SIGNAL[0]).tolist()


def test_a_name_without_plain_copy_is_unknown() -> None:
    data = bytearray(write_abif(TAGS, scrambled=True))
    at = data.index(b"DyeN\0\0\0\2")
    data[at : at + 4] = b"DyeX"
    run = parse_hid(bytes(data), "run")
    assert [dye.name for dye in run.dyes] == ["6-FAM", "", "NED", "PET", "LIZ"]
    with pytest.raises(AbifError, match="tag DyeN 2: is scrambled, and the plaintext directory lacks it"):
        run.tags["DyeN", 2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not an ABIF file: expected b'ABIF' at the start, got an empty file"),
        (b"PK\3\4" + bytes(99), "is not an ABIF file"),
        (b"ABIF", "is truncated"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "is a Git LFS pointer"),
        (run_bytes(SIGNAL)[:-1], "is truncated, or its header is damaged"),
        (run_bytes(SIGNAL, scrambled=True)[:90_000], "is truncated, or its header is damaged"),
        (write_abif(TAGS, version=7), "unknown version of ABIF"),
        (write_abif(t for t in TAGS if t.name != "DATA"), "traces are missing: expected 5, got 0"),
        (write_abif(t for t in TAGS if t.number != 105), "traces are missing: expected 5, got 4"),
        (write_abif(with_tags(numbers("DATA", 2, 4, [1, 2, 3]))), "traces differ in length"),
        (write_abif(with_tags(numbers("DATA", 2, 5, SIGNAL[1]))), "tag DATA 2: is no trace"),
    ],
)
def test_unusable_files_are_named(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.hid"
    path.write_bytes(data)
    with pytest.raises(AbifError) as caught:
        read_hid(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_a_scrambled_file_without_its_plain_directory_is_named() -> None:
    data = write_abif(TAGS, scrambled=True)
    first = data.index(b"DATA\0\0\0\1")
    data = data[:first] + b"XXXX" + data[first + 4 :]
    with pytest.raises(AbifError, match="scrambled and it has no plaintext directory"):
        parse_hid(data, "run")


def test_a_path_that_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError):
        read_hid(tmp_path / "missing.hid")
    with pytest.raises(CorruptResourceError, match="not a regular file"):
        read_hid(tmp_path)


def test_a_value_of_a_wrong_length_is_an_error_of_its_tag() -> None:
    data = bytearray(write_abif(TAGS))
    at = data.rindex(b"LANE")
    data[at + 12 : at + 20] = (3).to_bytes(4, "big") + (2).to_bytes(4, "big")
    with pytest.raises(AbifError, match="tag LANE 1: its length is none of its type"):
        parse_hid(bytes(data), "run")


def test_what_is_printed_names_neither_values_nor_the_sample() -> None:
    run = parse_hid(write_abif(with_tags(pascal("SpNm", 1, "Jane Roe"), c_string("Geno", 1, "14,15"))), "run")
    assert run.run.sample == "Jane Roe"
    for text in (repr(run), str(run), repr(run.tags), repr(run.run), repr(run.dyes)):
        assert "Jane" not in text
        assert "14,15" not in text
