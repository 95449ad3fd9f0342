"""Packages whose labels follow from the edit in a known way: true, shuffled, and with a leak planted into training."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq

from genolewm_assets.audit.planting import plant
from genolewm_assets.audit.planting.planted import Harvest
from genolewm_assets.encoders.identity import StateEncoder
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.packages import Package, open_package
from genolewm_assets.packages.schema import CacheRef
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.variants.schema import CLINVAR_VARIANTS
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_states, window_texts

#: Bases that make an allele harmful, whatever they replace.
HARMFUL_ALTS = ("G", "T")
#: Bases between two alleles, and of a gene; every second gene is held out for the test.
_APART, _GENE_BP = 60, 600


def planted_sources(seed: int, labels: Literal["true", "shuffled"] = "true", noise: float = 0.0) -> PackageSources:
    """Return sources with an SNV every 60 bases of chr17, of which those of every second gene are the test.

    ``noise``: share of the labels that say the contrary of what the edit means.
    """
    rng = np.random.default_rng(seed)
    starts = range(360, world.LENGTHS["chr17"] - 700, _APART)
    steps = rng.integers(1, 4, len(starts)).tolist()
    rows = [world.alleles("chr17", [start], step=step)[0] for start, step in zip(starts, steps, strict=True)]
    harmful = np.array([row["alt"] in HARMFUL_ALTS for row in rows]) ^ (rng.random(len(rows)) < noise)
    if labels == "shuffled":
        rng.shuffle(harmful)
    for number, (row, is_harmful) in enumerate(zip(rows, harmful.tolist(), strict=True)):
        row |= {"clinvar_id": number + 1, "label": "P" if is_harmful else "B", "stars": 2}
        row |= {"gene_symbols": ["SIM"], "gene_ids": [1 + starts[number] // _GENE_BP]}
    test = [("holdout-temporal", "test", row) for row in rows if row["gene_ids"][0] % 2]  # type: ignore[index]
    return world.make_sources(
        clinvar={"chr17": world.table(rows, CLINVAR_VARIANTS.arrow)}, alleles=world.held_alleles(*test)
    )


def publish_caches(root: Root, encoder: StateEncoder) -> tuple[CacheRef, ...]:
    """Build the states of the windows, which are those of every seed."""
    root.claim("tiny", world.GENOME_DIGEST)
    texts = window_texts(planted_sources(0))
    return tuple(publish_states(root, source, each, encoder) for source, each in texts.items())


def publish_planted(
    root: Root,
    caches: tuple[CacheRef, ...],
    seed: int,
    labels: Literal["true", "shuffled"] = "true",
    noise: float = 0.0,
) -> Package:
    """Build and open the package of a seed; the one before it is replaced."""
    shutil.rmtree(root.path / "packages", ignore_errors=True)
    published = world.publish(root, replace(planted_sources(seed, labels, noise), caches=caches))
    return open_package(published.directory)


def with_leak(package: Package, folder: Path) -> Package:
    """Copy a package, and list the alleles of its test among those of training, labels included."""
    copy = folder / "leaking"
    shutil.copytree(package.directory, copy)
    train, test = (pq.read_table(copy / f"variants/{split}.parquet") for split in ("train", "test"))
    marks = {"holdout": None, "role": "train", "scoring": None}
    leaked = [row | marks for row in test.to_pylist() if row["scoring"] == "scored"]
    planted = plant.changed_variants(train, Harvest(variants=leaked))
    pq.write_table(planted, copy / "variants/train.parquet", row_group_size=1_024)
    shutil.rmtree(copy / plant.ARRAYS)
    plant.write_arrays(copy)
    plant._restate(copy, Harvest(variants=leaked))
    return open_package(copy, cache_root=package.directory.parents[3], allow_unaudited=True)
