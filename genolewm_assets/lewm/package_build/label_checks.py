"""Check that labels are those of the declared releases, and that training labels have enough review stars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.genome import Split
from genolewm_assets.lewm.package_build.plan import PackageSources
from genolewm_assets.lewm.packages import PackageInfo, VariantSource, variants_path
from genolewm_assets.store.artefacts import SHOWN_ROWS, CheckResult, RowsAtFault
from genolewm_assets.store.files import JsonValue

#: Key of an allele, class and stars, as a shard and a package have them.
_COLUMNS = ["chrom", "pos", "ref", "alt", "label", "stars"]


def check_labels(directory: Path, info: PackageInfo, sources: PackageSources) -> CheckResult:
    """Check class and stars of every ClinVar allele: in train as ``knowledge`` declares, else as the package's release.

    Fails also if ``knowledge`` is T0 without a shard of T0, or the policy has no T0.
    """
    newest, known = sources.clinvar, sources.clinvar if info.knowledge == "newest" else sources.clinvar_t0
    figures: Counter[str] = Counter(dict.fromkeys(("alleles", "wrong_in_train", "wrong_in_evaluation"), 0))
    wrong = RowsAtFault()
    for split in Split:
        tables = known if split is Split.TRAIN else newest
        fault = "wrong_in_train" if split is Split.TRAIN else "wrong_in_evaluation"
        # One contig at a time, since the file is sorted by holdout and contig.
        for chrom, rows in groupby(_clinvar_rows(directory / variants_path(split)), key=itemgetter(0)):
            stated = _stated(tables or {}, chrom)
            for row in rows:
                figures["alleles"] += 1
                if row not in stated:
                    figures[fault] += 1
                    expected = _labels_of(row, stated) if len(wrong) < SHOWN_ROWS else None
                    wrong.add(split=split, **dict(zip(_COLUMNS, row, strict=True)), expected=expected)
    at_t0 = info.knowledge == "newest" or (known is not None and info.policy.get("temporal") is not None)
    shown: dict[str, JsonValue] = {**figures, "knowledge": str(info.knowledge)}
    passed = at_t0 and not figures["wrong_in_train"] and not figures["wrong_in_evaluation"]
    unknown = [] if at_t0 else [{"knowledge": str(info.knowledge), "fault": "no T0 in the policy, or no shard of T0"}]
    return CheckResult("labels_as_declared", passed=passed, figures=shown, rows=[*unknown, *wrong])


def check_training_stars(directory: Path, info: PackageInfo) -> CheckResult:
    """Check that no ClinVar allele of train has fewer review stars than ``packages.min_training_stars``."""
    least, alleles, wrong = info.mix.min_training_stars, 0, RowsAtFault()
    for row in _clinvar_rows(directory / variants_path(Split.TRAIN)):
        alleles += 1
        if (row[-1] if isinstance(row[-1], int) else 0) < least:
            wrong.add(**dict(zip(_COLUMNS, row, strict=True)), expected=f"at least {least} stars")
    figures: dict[str, JsonValue] = {"alleles": alleles, "min_training_stars": least, "under_min_stars": len(wrong)}
    return CheckResult("training_stars_sufficient", passed=not wrong, figures=figures, rows=tuple(wrong))


def _labels_of(row: tuple[object, ...], stated: frozenset[tuple[object, ...]]) -> str:
    """Return class and stars that a release states for an allele."""
    found = sorted(f"{one[4]}, {one[5]} stars" for one in stated if one[:4] == row[:4])
    return "; ".join(found) or "not in the release"


def _stated(tables: Mapping[str, pa.Table], chrom: str) -> frozenset[tuple[object, ...]]:
    if chrom not in tables:
        return frozenset()
    return frozenset(zip(*(tables[chrom][name].to_pylist() for name in _COLUMNS), strict=True))


def _clinvar_rows(path: Path) -> Iterator[tuple[object, ...]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["source", *_COLUMNS]):
            for row in batch.to_pylist():
                if row["source"] == VariantSource.CLINVAR:
                    yield tuple(row[name] for name in _COLUMNS)
