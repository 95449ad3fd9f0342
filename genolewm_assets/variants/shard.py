"""Shards: file names, the report of a build, and the metadata in which files state their origin."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from genolewm_assets.store.artefacts import InputRef
from genolewm_assets.store.files import JsonValue

#: Smallest gnomAD allele frequency that is kept, 0 to 1.
MIN_AF = 0.01
#: Smallest AN that is kept, as a share (0 to 1) of the contig's largest AN.
MIN_AN_FRACTION = 0.5
#: Largest share (0 to 1) of alleles whose REF differs from the genome or exceeds the contig; a shard above it fails.
MAX_REF_MISMATCH_FRACTION = 0.001


#: File of all alleles if a shard is one file, and file of the rejected alleles.
VARIANTS_FILE = "variants.parquet"
REJECTS_FILE = "rejects.parquet"


@dataclass(frozen=True, slots=True)
class ShardReport:
    """Counts of one shard build.

    Attributes
    ----------
    counts, rows
        Counts by name, of a shard of alleles those of its ``AlleleLedger``; rows written, by file name.
    alleles_in_source
        ALT alleles in the source, as :class:`~genolewm_assets.sources.vcf.count.AlleleCount` counts them; 0 for a
        source of sequences.
    source_md5
        MD5 of a source that was streamed, in lower-case hex; else None.
    """

    counts: Mapping[str, int]
    rows: Mapping[str, int]
    alleles_in_source: int = 0
    source_md5: str | None = None


def state_origin(code_version: str, recipe: Mapping[str, JsonValue], inputs: Iterable[InputRef] = ()) -> dict[str, str]:
    """Return the file metadata that states a shard's origin: code version, parameters, digests of the inputs."""
    digests = {"/".join(filter(None, (each.asset, each.partition))): each.manifest_sha256 for each in inputs}
    texts = {"parameters": json.dumps(dict(recipe), sort_keys=True), "inputs": json.dumps(digests, sort_keys=True)}
    return {"code_version": code_version, **texts}
