"""What a shard is made of: the names of its files, what its build reports, what its files say of their origin."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from genolewm_assets.store.artefacts import InputRef
from genolewm_assets.store.files import JsonValue

#: The table of a shard that is one file, and the table of what it does not hold.
VARIANTS_FILE = "variants.parquet"
REJECTS_FILE = "rejects.parquet"


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What a build wrote.

    Attributes
    ----------
    counts
        Alleles by fate, as the builder counted them.
    rows
        Per file name.
    alleles_in_source
        ALT alleles in the source, as :class:`~genolewm_assets.sources.vcf.count.AlleleCount` counts them;
        none in a source of sequences.
    """

    counts: Mapping[str, int]
    rows: Mapping[str, int]
    alleles_in_source: int = 0


def state_origin(code_version: str, recipe: Mapping[str, JsonValue], inputs: Iterable[InputRef] = ()) -> dict[str, str]:
    """Return what a shard's files say of how they were made: code version, parameters, digests of the inputs."""
    digests = {"/".join(filter(None, (each.asset, each.partition))): each.manifest_sha256 for each in inputs}
    texts = {"parameters": json.dumps(dict(recipe), sort_keys=True), "inputs": json.dumps(digests, sort_keys=True)}
    return {"code_version": code_version, **texts}
