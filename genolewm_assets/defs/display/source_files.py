"""Metadata of observations: what is stated of files outside the root, one entry per fact or one row per file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import dagster as dg

from genolewm_assets.sources.files import SCHEME

#: Greatest number of files listed with an observation. The data version is made of all.
_FILES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class StatedFile:
    """What is stated of one file, without reading it.

    Attributes
    ----------
    place
        Path or URL of the file; empty for what is part of this package.
    facts
        Facts by name, as :data:`FACTS` lists them. The data version is a digest of them.
    """

    place: str
    facts: Mapping[str, str | int]


#: Facts that may be known of a file, with their meaning.
FACTS = dg.TableSchema(
    columns=[
        dg.TableColumn("file", "string", description="name of the file"),
        dg.TableColumn("md5", "string", description="MD5 published with the file, or pinned by the catalogue"),
        dg.TableColumn(
            "size_bytes", "int", description="size of a local file or of a remote one without published MD5"
        ),
        dg.TableColumn(
            "version",
            "string",
            description="ETag, else modification time, of a remote file without MD5; which files of a commit are used",
        ),
        dg.TableColumn("modified", "string", description="modification time of a local file, UTC"),
        dg.TableColumn("expected_md5", "string", description="MD5 that a local file must have when it is read"),
        dg.TableColumn("revision", "string", description="commit or tag that the catalogue pins for the file"),
    ]
)


def describe_file(file: StatedFile) -> dict[str, dg.MetadataValue]:
    """Return one entry per fact: a link or path, sizes as numbers, times as times, the rest as text."""
    facts = {name: value for name, value in file.facts.items() if name != "modified_ns"}
    shown = {
        name: dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.text(_without_secrets(value))
        for name, value in facts.items()
    }
    return {**shown, **_modified([file]), **_place(file)}


def describe_files(files: Mapping[str, StatedFile]) -> dict[str, dg.MetadataValue]:
    """Return number, total size and latest change of the files, and a table of them; of one file its facts."""
    if len(files) == 1:
        return describe_file(*files.values())
    sizes = [size for file in files.values() if isinstance(size := file.facts.get("size_bytes"), int)]
    return {
        "number_of_files": dg.MetadataValue.int(len(files)),
        **({"size_bytes": dg.MetadataValue.int(sum(sizes))} if sizes else {}),
        **_modified(list(files.values())),
        **({"files": _as_table(files)} if files else {}),
    }


def _modified(files: list[StatedFile]) -> dict[str, dg.MetadataValue]:
    times = [time for file in files if isinstance(time := file.facts.get("modified_ns"), int)]
    return {"modified": dg.MetadataValue.timestamp(max(times) / 1e9)} if times else {}


def _place(file: StatedFile) -> dict[str, dg.MetadataValue]:
    if not file.place:
        return {}
    if SCHEME.match(file.place) is None:
        return {"folder": dg.MetadataValue.path(str(Path(file.place).parent))}
    url = _without_secrets(file.place)
    if not url.startswith(("https://", "http://")):
        return {"url": dg.MetadataValue.text(url)}
    # A long address would leave its box.
    return {"url": dg.MetadataValue.md(f"[{urlsplit(url).netloc}](<{url.replace('>', '%3E')}>)")}


def _shown(facts: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return the facts as a row of :data:`FACTS`; of the modification time the data version has nanoseconds."""
    shown = {name: _without_secrets(value) if isinstance(value, str) else value for name, value in facts.items()}
    if isinstance(modified_ns := shown.pop("modified_ns", None), int):
        shown["modified"] = datetime.fromtimestamp(modified_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return shown


def _without_secrets(place: str) -> str:
    """Return a path or URL without user, password and query: the query of a signed URL is a password."""
    if SCHEME.match(place) is None:
        return place
    parts = urlsplit(place)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def _as_table(files: Mapping[str, StatedFile]) -> dg.MetadataValue:
    """Return the first files, and how many more there are; a fact that no file has is no column."""
    stated = {name: _shown(file.facts) for name, file in files.items()}
    known = [column for column in FACTS.columns if any(column.name in facts for facts in stated.values())]
    columns = [dg.TableColumn("name", "string"), *known]
    rows: list[dict[str, str | int]] = [{"name": name, **facts} for name, facts in list(stated.items())[:_FILES_SHOWN]]
    if more := len(files) - len(rows):
        rows.append({"name": f"and {more:,} more"})
    records = [dg.TableRecord({column.name: row.get(column.name) for column in columns}) for row in rows]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns=columns))
