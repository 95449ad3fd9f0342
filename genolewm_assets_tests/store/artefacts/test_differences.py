"""Differences between what a build would read and what was read: each is named, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.store.artefacts.build import BuildReport, build, build_again
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.store.artefacts.differences import find_differences
from genolewm_assets.store.artefacts.manifest import InputRef, Manifest
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.store.plans import LOCATION, flip, make_plan

A, B = "a" * 64, "b" * 64


def manifest(
    recipe: object = None,
    inputs: tuple[InputRef, ...] = (),
    *,
    code_version: str = "1",
    partition: str | None = "chr17",
    checks: tuple[CheckResult, ...] = (),
) -> Manifest:
    return Manifest("gnomad/shard", partition, code_version, recipe or {}, inputs, (), {}, checks)  # type: ignore[arg-type]


GENOME, WINDOWS = InputRef("reference/genome", None, A), InputRef("windows/index", "chr1", A)
CHANGED = f"input reference/genome: built from manifest {B[:12]}, now {A[:12]}"


@each_row(
    ("wanted", "found", "said"),
    [
        (manifest(code_version="2"), manifest(), "code version: built by 1, now 2"),
        (manifest({"n": 1}), manifest({"n": 2}), "recipe n: built from 2, now 1"),
        (manifest({"n": 1}), manifest({"n": 1.0}), "recipe n: built from 1.0, now 1"),
        (manifest({"n": True}), manifest({"n": 1}), "recipe n: built from 1, now true"),
        (manifest({"a": {"b": "x"}}), manifest({"a": {"b": "y"}}), 'recipe a b: built from "y", now "x"'),
        (manifest({"a": {}}), manifest({"a": {"b": None}}), "recipe a b: built from null, now nothing"),
        (manifest({"a": "x"}), manifest({}), 'recipe a: built from nothing, now "x"'),
        (manifest({"a": [1, 2]}), manifest({"a": [1, 3]}), "recipe a 1: built from 3, now 2"),
        (manifest({"a": [1, 2]}), manifest({"a": [1]}), "recipe a: built from [1], now [1, 2]"),
        (manifest(inputs=(GENOME,)), manifest(inputs=(replace(GENOME, manifest_sha256=B),)), CHANGED),
        (manifest(inputs=(GENOME,)), manifest(), "input reference/genome: was not read, would be read now"),
        (manifest(), manifest(inputs=(WINDOWS,)), "input windows/index[chr1]: was read, would not be read now"),
        (manifest(), manifest(partition="chr20"), "artefact: gnomad/shard[chr20] is published, not gnomad/shard[chr17"),
        (manifest(), manifest(checks=(CheckResult("sorted", passed=False),)), "checks: published with failed checks "),
    ],
)
def test_a_difference_is_said_with_both_values(wanted: Manifest, found: Manifest, said: str) -> None:
    (line,) = find_differences(wanted, found)
    assert line.startswith(said)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "a", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
RECIPES = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(RECIPES, RECIPES)
def test_recipes_differ_exactly_if_their_bytes_do(one: dict[str, object], other: dict[str, object]) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (not list(find_differences(manifest(one), manifest(other)))) is same


@pytest.mark.parametrize("resumable", [False, True])
def test_a_second_build_is_compared_byte_for_byte_and_changes_nothing(root: Root, resumable: bool) -> None:
    plan = replace(make_plan(), resumable=resumable)
    published = build(root, plan)
    assert build_again(root, plan, published) == ()

    def write_otherwise(work: Path) -> BuildReport:
        report = plan.write(work)
        flip(work / "rejects.bin", 0)
        (work / "new.bin").write_bytes(b"x")
        return report

    (new, changed) = build_again(root, replace(plan, write=write_otherwise), published)
    assert (changed.file, new.file) == ("rejects.bin", "new.bin")
    assert new.expected == "no such file"
    assert changed.expected != changed.got
    other_figures = replace(plan, write=lambda work: replace(plan.write(work), counts={"files": 4}))
    (figures,) = build_again(root, other_figures, published)
    assert figures.file == "manifest.json"
    assert build(root, plan).reused
    assert root.leftovers(LOCATION) == []
    assert not root.is_rejected(LOCATION)
