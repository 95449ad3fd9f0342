"""Which upstream columns each column of a table comes from: how declarations say it, and how Dagster is told.

Declared, not traced: tests hold it against the schemas, the graph, and the values of tables that were built. A source
is written ``asset.column``; columns of an artefact's further tables are ``<noun>.<column>``, as in its column schema.
Not here: which rows were chosen (a window leaves training because of an allele, but no column of it comes from one).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

import dagster as dg

#: By column, every one that the tables have: its sources; none where the value is made in the asset, or comes from
#: outside the graph.
Sources: TypeAlias = Mapping[str, tuple[str, ...]]


class Keyed(Protocol):
    """What has the key of an asset, ``domain/noun``."""

    @property
    def key(self) -> str:
        """The key."""


def of(asset: Keyed, *columns: str) -> tuple[str, ...]:
    """Return columns of an asset as sources."""
    return tuple(f"{asset.key}.{name}" for name in columns)


def same(columns: Iterable[str], *assets: Keyed, noun: str = "", suffixes: Iterable[str] = ("",)) -> Sources:
    """Return columns that hold what the column of the same name holds upstream, in one of some assets."""
    return {
        f"{noun}{name}{suffix}": tuple(source for asset in assets for source in of(asset, name))
        for name in columns
        for suffix in suffixes
    }


def made_here(*columns: str) -> Sources:
    """Return columns without a source."""
    return dict.fromkeys(columns, ())


def column_lineage(sources: Sources) -> dg.TableColumnLineage | None:
    """Return the sources as Dagster's; None if there are none."""
    deps_by_column = {
        column: [
            dg.TableColumnDep(asset_key=dg.AssetKey(upstream.split("/")), column_name=name)
            for upstream, name in map(split_source, named)
        ]
        for column, named in sources.items()
        if named
    }
    return dg.TableColumnLineage(deps_by_column) if deps_by_column else None


def split_source(source: str) -> tuple[str, str]:
    """Return asset and column.

    >>> split_source("holdouts/manifest.alleles.role")
    ('holdouts/manifest', 'alleles.role')
    """
    asset, _, column = source.partition(".")
    return asset, column
