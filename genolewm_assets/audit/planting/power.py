"""Power of an audit: the share of planted leaks of each kind that it finds."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from genolewm_assets.audit.allele_searches import search_stream, search_training_alleles
from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.alleles.normal_alleles import alleles_of
from genolewm_assets.audit.duplicates import DuplicateSearch, Evaluated
from genolewm_assets.audit.emitted import draw_batches
from genolewm_assets.audit.held_kmers import SievedTable
from genolewm_assets.audit.labels import ClinvarFiles, search_labels
from genolewm_assets.audit.places import PlaceSearch
from genolewm_assets.audit.planting.part import Part, plant_part
from genolewm_assets.audit.planting.planted import EMITTED_PLANTS, PLANTS, Field, Planted
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import OwnFiles
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import AuditReport, LeakKind, Power, SearchResult
from genolewm_assets.audit.similarity import HeldSequence, search_similarity
from genolewm_assets.progress import Progress


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
    files: OwnFiles, evidence: Evidence, before: AuditReport, *, number: int, folder: Path | None, progress: Progress
) -> dict[LeakKind, tuple[Power, ...]]:
    """Plant ``number`` leaks of each kind in parts of a package, search these as the package, and count what is found.

    ``before``: audit of the package itself; what it found is not counted as a planted leak. ``folder``: where the parts
    lie meanwhile. A kind that could not be planted has 0 planted.
    """
    power: defaultdict[LeakKind, list[Power]] = defaultdict(list)
    shown = [name for name in PLANTS if name not in EMITTED_PLANTS]
    field = Field(files, evidence.reference, np.random.default_rng(0))
    tried = [(shown, _search_tables), *([(list(EMITTED_PLANTS), _draw)] if before.n_tuples else [])]
    for kinds, search in tried:
        with tempfile.TemporaryDirectory(prefix="genolewm-audit-", dir=folder) as name:
            part = plant_part(files, field, Path(name), kinds, number, emitted=search is _draw)
            results = search(part, evidence, before, progress)
        for kind, one in count_found(part.harvest.planted, results, before):
            power[kind].append(one)
        for plant in part.failed:
            power[PLANTS[plant].kind].append(Power(plant, 0, 0))
    return {kind: tuple(each) for kind, each in power.items()}


def _search_tables(part: Part, of: Evidence, _: AuditReport, progress: Progress) -> list[SearchResult]:
    """Search for what shows without the stream."""
    held_alleles, added = _with_planted(part, of)
    places, duplicates = PlaceSearch(part.files, of.reference, of.held), DuplicateSearch(of.evaluated)
    along = (places.search, duplicates.search)
    # What could not be searched is known of the package.
    similar = search_similarity(part.files, of.reference, HeldSpans([]), of.sequence, progress=progress, along=along)
    alleles = search_training_alleles(part.files, of.reference, of.held, held_alleles)
    shared = of.evaluated.search(added, held_alleles)
    labels = search_labels(part.files, of.reference, of.clinvar, of_evaluation=False)
    return [*places.results(), similar, alleles, duplicates.result(), shared, *labels]


def _draw(part: Part, of: Evidence, before: AuditReport, progress: Progress) -> list[SearchResult]:
    """Draw the stream until all leaks are found, or as many tuples of each window as the audit draws."""
    held_alleles, _ = _with_planted(part, of)
    n_windows = sum(batch.num_rows for batch in part.files.windows("train", ("window_id",)))
    least_tuples = -(-before.n_tuples * n_windows // max(1, before.n_windows))
    result, *_ = search_stream(
        part.files,
        of.reference,
        of.held,
        held_alleles,
        least_tuples=least_tuples,
        progress=progress,
        altered=of.altered,
        draw=partial(draw_batches, contents="sizes"),
        until=frozenset(one.key for one in part.harvest.planted),
    )
    return [result]


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
