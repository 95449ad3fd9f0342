"""Power of an audit: the share of planted leaks of each kind that it finds in small parts of a package."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.audit.allele_searches import search_stream, search_training_alleles
from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.alleles.normal_alleles import KEY, alleles_of
from genolewm_assets.audit.duplicates import DuplicateSearch, Evaluated
from genolewm_assets.audit.emitted import draw_batches
from genolewm_assets.audit.held_kmers import HeldSequence, SievedTable
from genolewm_assets.audit.labels import ClinvarFiles, search_labels
from genolewm_assets.audit.places import PlaceSearch
from genolewm_assets.audit.planting.field import Field, window_schema
from genolewm_assets.audit.planting.plant import changed_variants, write_arrays, write_record
from genolewm_assets.audit.planting.planted import EMITTED_PLANTS, PLANTS, Harvest, Planted, plant_all, variant_of
from genolewm_assets.audit.reading.intervals import HeldSpans, Span
from genolewm_assets.audit.reading.package_files import TRAIN, OwnFiles, Row
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import AuditReport, LeakKind, Power, SearchResult
from genolewm_assets.audit.similarity import search_similarity
from genolewm_assets.progress import Progress

#: Plant that shows in what the stream emits.
SAMPLER = "unfiltered_sampler"


class Part(NamedTuple):
    """A part of a package as files, what is planted in it, and why a kind could not be planted, by its name."""

    files: OwnFiles
    harvest: Harvest
    failed: dict[str, str]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the searches of an audit compare with: made once, for the package and for what is planted."""

    reference: Reference
    held: HeldSpans
    sequence: HeldSequence
    held_alleles: HeldAlleles
    altered: SievedTable | None
    evaluated: Evaluated
    clinvar: ClinvarFiles


def measure_power(
    files: OwnFiles,
    field: Field,
    evidence: Evidence,
    before: AuditReport,
    *,
    number: int,
    folder: Path | None,
    progress: Progress,
) -> dict[LeakKind, tuple[Power, ...]]:
    """Plant ``number`` leaks of each kind in parts of a package, search these as the package, and count what is found.

    ``field``: it was given the windows of training. ``before``: audit of the package itself; what it found is not
    counted as a planted leak. ``folder``: where the parts lie meanwhile. What could not be planted has 0 planted.
    """
    power: defaultdict[LeakKind, list[Power]] = defaultdict(list)
    shown = [name for name in PLANTS if name not in EMITTED_PLANTS]
    with tempfile.TemporaryDirectory(prefix="genolewm-audit-", dir=folder) as name:
        part = plant_part(files, field, Path(name), shown, number)
        results = _search_tables(part, evidence, progress)
    for kind, one in count_found(part.harvest.planted, results, before):
        power[kind].append(one)
    for plant in part.failed:
        power[PLANTS[plant].kind].append(Power(plant, 0, 0))
    if before.n_tuples:
        with tempfile.TemporaryDirectory(prefix="genolewm-audit-", dir=folder) as name:
            sampler, n_alleles = plant_sampler(files, field, Path(name))
            found = _draw(sampler, evidence, before, min(number, n_alleles), progress) if n_alleles else 0
        power[LeakKind.RECREATED_ALLELE].append(Power(SAMPLER, min(number, n_alleles), found))
    return {kind: tuple(each) for kind, each in power.items()}


def plant_part(files: OwnFiles, field: Field, folder: Path, kinds: list[str], number: int) -> Part:
    """Plant leaks in a part of a package, written to a folder: planted windows only, and some alleles of training."""
    harvest, failed = plant_all(field, kinds, number)
    part = _write_tables(files, folder, harvest.windows, changed_variants(field.variants, harvest))
    return Part(part, harvest, failed)


def plant_sampler(files: OwnFiles, field: Field, folder: Path) -> tuple[OwnFiles, int]:
    """Write a part whose held-out alleles are among those of training; return it, and how many trainers can draw."""
    spans = HeldSpans(Span(row["contig"], row["start"], row["end"]) for row in field.near)
    start, contigs = np.array([row["pos"] - 1 for row in field.loose], np.int64), [row["chrom"] for row in field.loose]
    is_in = spans.shared_bp(pa.array(contigs, pa.string()), start, start + 1) > 0
    rows = [field.loose[at] for at in np.flatnonzero(is_in).tolist()]
    loose = {tuple(row[name] for name in KEY): variant_of(field, row) for row in rows}
    variants = changed_variants(_alleles_in(spans, files, field.variants.schema), Harvest(variants=[*loose.values()]))
    part = _write_tables(files, folder, field.near, variants)
    # Copies: a link would change the identity of the package's files, by which they are known.
    shutil.copytree(files.directory / "holdouts", folder / "holdouts")
    for path in (folder / "holdouts/alleles.parquet", folder / "holdouts/contexts.parquet"):
        pq.write_table(pq.read_schema(path).empty_table(), path)
    write_record(folder, part.record)
    write_arrays(folder)
    write_record(folder, part.record)
    return part, len(loose)


def _write_tables(files: OwnFiles, folder: Path, windows: list[Row], variants: pa.Table) -> OwnFiles:
    for name, table in (
        (f"data/{TRAIN}-00000-of-00001", pa.Table.from_pylist(windows, schema=window_schema(files))),
        (f"variants/{TRAIN}", variants),
    ):
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path)
    return OwnFiles(folder, files.holdouts, files.record | {"pieces": []})


def _alleles_in(spans: HeldSpans, files: OwnFiles, schema: pa.Schema) -> pa.Table:
    """Return the alleles of training in some places."""
    parts = list[pa.RecordBatch]()
    for batch in files.variants(TRAIN, schema.names):
        start = batch["pos"].to_numpy() - 1
        shared = spans.shared_bp(batch["chrom"], start, start + pc.binary_length(batch["ref"]).to_numpy())
        parts.append(batch.filter(pa.array(shared > 0)))
    return pa.Table.from_batches(parts, parts[0].schema if parts else schema)


def _search_tables(part: Part, of: Evidence, progress: Progress) -> list[SearchResult]:
    """Search for what shows without the stream."""
    held_alleles, added = _with_planted(part, of)
    places, duplicates = PlaceSearch(part.files, of.reference, of.held), DuplicateSearch(of.evaluated)
    along = (places.search, duplicates.search)
    # What could not be searched is known of the package.
    similar = search_similarity(
        part.files, of.reference, HeldSpans([]), of.sequence, progress=progress, along=along, few=True
    )
    alleles = search_training_alleles(part.files, of.reference, of.held, held_alleles)
    shared = of.evaluated.search(added, held_alleles)
    labels = search_labels(part.files, of.reference, of.clinvar, of_evaluation=False)
    return [*places.results(), similar, alleles, duplicates.result(), shared, *labels]


def _draw(sampler: OwnFiles, of: Evidence, before: AuditReport, planted: int, progress: Progress) -> int:
    """Return how many held-out alleles are found, ``planted`` at most, if windows are drawn as the package's are."""
    n_windows = sum(batch.num_rows for batch in sampler.windows(TRAIN, ("window_id",)))
    result, *_ = search_stream(
        sampler,
        of.reference,
        of.held,
        of.held_alleles,
        least_tuples=-(-before.n_tuples * n_windows // max(1, before.n_windows)),
        progress=progress,
        altered=of.altered,
        draw=partial(draw_batches, contents="sizes"),
        enough=planted,
    )
    return min(planted, len(result.found.keys - before[LeakKind.RECREATED_ALLELE].found.keys))


def _with_planted(part: Part, of: Evidence) -> tuple[HeldAlleles, pa.Table | None]:
    """Return the held-out alleles with those that are planted, and these."""
    if not part.harvest.held_alleles:
        return of.held_alleles, None
    added = pa.Table.from_pylist(part.harvest.held_alleles)
    return of.held_alleles.with_added(alleles_of(added), of.reference), added


def count_found(
    planted: Iterable[Planted], results: AuditReport | Iterable[SearchResult], before: AuditReport | None = None
) -> Iterator[tuple[LeakKind, Power]]:
    """Yield, by kind of leak and of plant, how many of the planted leaks are found that were not there ``before``."""
    known = {(result.kind, key) for result in before or () for key in result.found.keys}
    keys = {result.kind: result.found.keys for result in results}
    tried: defaultdict[tuple[LeakKind, str], list[bool]] = defaultdict(list)
    for one in planted:
        if (one.kind, one.key) in known:
            continue
        tried[one.kind, one.plant].append(one.key in keys.get(one.kind, ()))
    for (kind, plant), found in tried.items():
        yield kind, Power(plant, len(found), sum(found), PLANTS[plant].least_share)
