"""Facts of observed files as entries of the UI."""

from __future__ import annotations

import dagster as dg
import pytest

from genolewm_assets.defs.display.source_files import FACTS, StatedFile, describe_files

MD5 = "0" * 32


@pytest.mark.parametrize(
    ("place", "entry"),
    [
        ("/data/genome.fa.gz", {"path": dg.MetadataValue.path("/data/genome.fa.gz")}),
        ("https://server/a.vcf.bgz", {"url": dg.MetadataValue.url("https://server/a.vcf.bgz")}),
        ("s3://bucket/a.vcf.bgz", {"url": dg.MetadataValue.text("s3://bucket/a.vcf.bgz")}),
        ("https://server/a?X-Signature=secret#top", {"url": dg.MetadataValue.url("https://server/a")}),
        ("https://bob:secret@server/a", {"url": dg.MetadataValue.url("https://server/a")}),
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
    facts = {"file": "a", "size_bytes": 12, "modified_ns": 1_700_000_000_500_000_000}
    assert describe_files({"a": StatedFile("", facts)}) == {
        "file": dg.MetadataValue.text("a"),
        "size_bytes": dg.MetadataValue.int(12),
        "modified": dg.MetadataValue.timestamp(1_700_000_000.5),
    }


def test_files_beyond_a_screenful_are_counted() -> None:
    shown = describe_files({f"{n}": StatedFile("", {"file": f"{n}", "size_bytes": 2}) for n in range(70)})
    assert (shown["number_of_files"].value, shown["size_bytes"].value) == (70, 140)
    table = shown["files"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [column.name for column in table.schema.columns] == ["name", "file", "size_bytes"]
    assert len(table.records) == 51
    assert table.records[-1].data == {"name": "and 20 more", "file": None, "size_bytes": None}


def test_times_of_files_are_read_without_arithmetic() -> None:
    facts = {"file": "a", "modified_ns": 1_700_000_000_500_000_000}
    table = describe_files({"a": StatedFile("", facts), "b": StatedFile("", {"file": "b"})})["files"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data.get("modified") for record in table.records] == ["2023-11-14 22:13:20", None]


def test_no_file_is_said_too() -> None:
    assert describe_files({}) == {"number_of_files": dg.MetadataValue.int(0)}


def test_every_fact_has_a_meaning() -> None:
    assert all(column.description for column in FACTS.columns)
