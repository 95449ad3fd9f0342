"""What moved since a time: rows and other figures of what was built since, beside those of the version before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import dagster as dg

from genolewm_assets.defs.runtime import PublishingAsset
from genolewm_assets.variants import in_order, is_before

#: Materialisations of an asset that are looked at, and of those the partitions whose version before is looked up.
_LOOK_BACK, _COMPARED = 200, 50
#: Releases before a new one that are looked at for one that was built.
_RELEASES_BACK = 10

#: What the rows of an asset are; ``rows`` for other assets.
_ROWS: Mapping[str, str] = {
    "gnomad/shard": "alleles",
    "clinvar/shard": "alleles",
    "mito/variants": "alleles",
    "mito/genomes": "genomes",
    "forensic/profiles": "profiles",
    "windows/index": "windows",
    "corpus/windows": "windows",
    "embeddings/cache": "windows",
    "embeddings/corpus": "windows",
}
#: Figures of materialisations that are told by name. Those of the second kind are differences themselves.
_FIGURES: Mapping[str, tuple[str, ...]] = {
    "packages/split": ("train_windows", "train_alleles", "validation_alleles", "test_alleles")
}
_DIFFERENCES: Mapping[str, tuple[str, ...]] = {"clinvar/changes": ("added", "removed", "class_changed")}

_ROW_KEYS = ("dagster/partition_row_count", "dagster/row_count")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of an asset; ``before`` is None if there is no version before, or if ``after`` is a difference."""

    name: str
    before: int | None
    after: int
    is_difference: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """Change of one asset."""

    #: Key of the asset.
    asset: str
    #: The newest one that changed, of an asset whose partitions are releases; else None.
    partition: str | None
    #: Number of partitions with other data than before.
    partitions: int
    figures: tuple[Figure, ...]
    #: Whether these are all; an asset with more builds than are looked at has others.
    is_all: bool = True


def find_moved(instance: dg.DagsterInstance, assets: Iterable[PublishingAsset], since: float) -> Iterator[Moved]:
    """Yield the assets with other data than before ``since``, in seconds since 1970, and their figures.

    Those whose figures are told by name come first.
    """
    for asset in sorted(assets, key=lambda each: each.key not in {**_DIFFERENCES, **_FIGURES}):
        latest, is_all = _latest(instance, asset, since)
        changed = list(_changed(instance, asset, latest, since))
        if not changed:
            continue
        releases = in_order(str(new.partition_key) for new, _ in changed)
        newest = releases[-1] if asset.partitions.by == "clinvar_release" and releases else None
        shown = changed if newest is None else [pair for pair in changed if pair[0].partition_key == newest]
        yield Moved(asset.key, newest, len(changed), _figures(asset.key, shown), is_all)


_Pair = tuple[dg.EventLogRecord, dg.EventLogRecord | None]


def _latest(instance: dg.DagsterInstance, asset: PublishingAsset, since: float) -> tuple[list[dg.EventLogRecord], bool]:
    """Return the latest materialisation of each partition since a time, newest first, and whether these are all."""
    wanted = dg.AssetRecordsFilter(dg.AssetKey(asset.path), after_timestamp=since)
    recent = instance.fetch_materializations(wanted, limit=_LOOK_BACK).records
    latest: dict[str | None, dg.EventLogRecord] = {}
    for record in recent:
        latest.setdefault(record.partition_key, record)
    return list(latest.values())[:_COMPARED], len(recent) < _LOOK_BACK and len(latest) <= _COMPARED


def _changed(
    instance: dg.DagsterInstance, asset: PublishingAsset, latest: Iterable[dg.EventLogRecord], since: float
) -> Iterator[_Pair]:
    """Yield the materialisations with other data than before, and the one before."""
    key = dg.AssetKey(asset.path)
    for record in latest:
        partition = record.partition_key
        before = _before(instance, key, partition, since)
        if before is not None and _data_version(before) == _data_version(record):
            continue
        if before is None and partition is not None and asset.partitions.by == "clinvar_release":
            keys = [each for each in asset.partitions.keys(instance) if each is not None and is_before(each, partition)]
            earlier = in_order(keys)[: -_RELEASES_BACK - 1 : -1]
            found = (_before(instance, key, each, record.timestamp) for each in earlier)
            before = next((each for each in found if each is not None), None)
        yield record, before


def _before(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, time: float
) -> dg.EventLogRecord | None:
    partitions = None if partition is None else [partition]
    wanted = dg.AssetRecordsFilter(key, asset_partitions=partitions, before_timestamp=time)
    return next(iter(instance.fetch_materializations(wanted, limit=1).records), None)


def _data_version(record: dg.EventLogRecord) -> str | None:
    event = record.asset_materialization
    return (event.tags or {}).get("dagster/data_version") if event else None


def _figures(asset: str, pairs: Iterable[_Pair]) -> tuple[Figure, ...]:
    before, after = Counter[str](), Counter[str]()
    for new, old in pairs:
        for record, sums in ((new, after), (old, before)):
            sums.update(_numbers(asset, record) if record else {})
    rows = _ROWS.get(asset, "rows")
    differences = _DIFFERENCES.get(asset, ())
    names = differences or _FIGURES.get(asset) or (rows,)
    return tuple(
        Figure(name, before.get(name) if name not in differences else None, after[name], name in differences)
        for name in names
        if name in after
    )


def _numbers(asset: str, record: dg.EventLogRecord) -> dict[str, int]:
    event = record.asset_materialization
    metadata = event.metadata if event else {}
    stated = {
        name: metadata[name].value
        for name in (*_FIGURES.get(asset, ()), *_DIFFERENCES.get(asset, ()))
        if name in metadata
    }
    stated |= {_ROWS.get(asset, "rows"): metadata[name].value for name in _ROW_KEYS if name in metadata}
    return {name: value for name, value in stated.items() if isinstance(value, int)}
