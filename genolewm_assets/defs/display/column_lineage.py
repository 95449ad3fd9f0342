"""Column lineage: the upstream columns that each column of a table comes from, and their form in Dagster.

It is declared, not traced, and covers values, not the selection of rows. A source is written ``asset.column``; columns
of an asset's further tables are ``<noun>.<column>``, as in its column schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

import dagster as dg

#: Sources of every column of an asset's tables, by column. Empty if the asset computes the value or the value comes
#: from outside the graph.
Sources: TypeAlias = Mapping[str, tuple[str, ...]]


class Keyed(Protocol):
    """An object with the key of an asset."""

    @property
    def key(self) -> str:
        """Key of the asset, ``domain/noun``."""


def of(asset: Keyed, *columns: str) -> tuple[str, ...]:
    """Return columns of an asset as sources, ``asset.column``."""
    return tuple(f"{asset.key}.{name}" for name in columns)


def same(columns: Iterable[str], *assets: Keyed, noun: str = "", suffixes: Iterable[str] = ("",)) -> Sources:
    """Return sources of columns that have the name of their upstream column in each of ``assets``.

    Parameters
    ----------
    noun
        Prefix of the columns' names, such as ``alleles.``.
    suffixes
        Suffixes of the columns' names; each combination of column and suffix has the same sources.
    """
    return {
        f"{noun}{name}{suffix}": tuple(source for asset in assets for source in of(asset, name))
        for name in columns
        for suffix in suffixes
    }


def made_here(*columns: str) -> Sources:
    """Return an entry without sources for each column: the asset itself computes the values."""
    return dict.fromkeys(columns, ())


def column_lineage(sources: Sources) -> dg.TableColumnLineage | None:
    """Return the sources as Dagster's column lineage; None if no column has a source."""
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
    """Split a source at its first dot into asset and column.

    >>> split_source("holdouts/manifest.alleles.role")
    ('holdouts/manifest', 'alleles.role')
    """
    asset, _, column = source.partition(".")
    return asset, column
