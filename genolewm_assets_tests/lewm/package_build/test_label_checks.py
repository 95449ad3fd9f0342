"""The check of labels: a package whose training has labels of another release than it declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import Split
from genolewm_assets.lewm.holdouts.policy import HoldoutPolicy
from genolewm_assets.lewm.package_build.label_checks import check_labels
from genolewm_assets.lewm.package_build.plan import PackageSources
from genolewm_assets.lewm.package_build.writer import write_package
from genolewm_assets.lewm.packages.files import write_package_table
from genolewm_assets.lewm.packages.info import read_package_info
from genolewm_assets.lewm.packages.schema import PACKAGE_VARIANTS, variants_path
from genolewm_assets_tests.worlds.lewm.package_world import LENGTHS, RELEASE, clinvar, failed, make_sources

T0 = "2024-01-07"
AT_T0 = {name: clinvar(name, "VUS B LP") for name in LENGTHS}
POLICY = HoldoutPolicy(validation_windows=10, temporal=(T0, RELEASE))


def wrong(directory: Path, sources: PackageSources) -> dict[str, int]:
    check = check_labels(directory, read_package_info(directory), sources)
    found = {name: n for name, n in check.figures.items() if name.startswith("wrong") and isinstance(n, int) and n}
    assert check.passed == (not found)
    return found


@pytest.mark.parametrize("at_t0", [None, AT_T0], ids=["newest", "T0"])
@pytest.mark.parametrize("split", list(Split))
@pytest.mark.parametrize(("column", "value"), [("label", "OTHER"), ("stars", 4)])
def test_one_label_of_nowhere_is_found(tmp_path: Path, at_t0: object, split: Split, column: str, value: object) -> None:
    sources = make_sources(policy=POLICY, clinvar_t0=at_t0)
    assert failed(write_package(tmp_path, sources).checks) == set()
    assert wrong(tmp_path, sources) == {}

    def alter(rows: list[dict[str, object]]) -> None:
        row = next(row for row in rows if row["source"] == "clinvar" and row[column] != value)
        row[column] = value

    rewrite(tmp_path / variants_path(split), alter)
    assert wrong(tmp_path, sources) == {"wrong_in_train" if split is Split.TRAIN else "wrong_in_evaluation": 1}


def rewrite(path: Path, alter: Callable[[list[dict[str, object]]], None]) -> None:
    rows = pq.read_table(path).to_pylist()
    alter(rows)
    path.unlink()
    write_package_table(path, [pa.Table.from_pylist(rows, schema=PACKAGE_VARIANTS.arrow)], PACKAGE_VARIANTS)


@pytest.mark.parametrize(("has", "declares"), [(AT_T0, "newest"), (None, "T0")])
def test_training_on_another_release_than_declared_is_found(tmp_path: Path, has: object, declares: str) -> None:
    sources = make_sources(policy=POLICY, clinvar_t0=has)
    write_package(tmp_path, sources)
    info = replace(read_package_info(tmp_path), knowledge=declares)
    checked = check_labels(tmp_path, info, replace(sources, clinvar_t0=AT_T0))
    assert not checked.passed
    assert int(str(checked.figures["wrong_in_train"])) > 10


def test_knowledge_at_t0_without_t0_is_refused(tmp_path: Path) -> None:
    report = write_package(tmp_path, make_sources(clinvar_t0=AT_T0))
    assert failed(report.checks) == {"labels_as_declared"}


def test_the_card_says_what_training_knows_and_why(tmp_path: Path) -> None:
    write_package(tmp_path / "newest", make_sources(policy=POLICY))
    assert "Knowledge `newest`: training has the labels of 2025-01-05" in (tmp_path / "newest/README.md").read_text()
    write_package(tmp_path / "T0", make_sources(policy=POLICY, clinvar_t0=AT_T0))
    assert "Knowledge `T0`: training has the alleles and labels of T0" in (tmp_path / "T0/README.md").read_text()
    none = HoldoutPolicy(validation_windows=10, temporal_setting="12 months", temporal_rule="none_old_enough")
    write_package(tmp_path / "none", make_sources(policy=none))
    text = (tmp_path / "none/README.md").read_text()
    assert "Time: no temporal holdout for 2025-01-05: no release is 12 months older." in text
