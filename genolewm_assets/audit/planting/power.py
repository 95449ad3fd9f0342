"""Power of an audit: the share of planted leaks of each kind that it finds."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from genolewm_assets.audit.allele_searches import search_stream, search_training_alleles
from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.alleles.normal_alleles import alleles_of
from genolewm_assets.audit.duplicates import DuplicateSearch, Evaluated
from genolewm_assets.audit.emitted import draw_batches
from genolewm_assets.audit.held_kmers import SievedTable
from genolewm_assets.audit.labels import ClinvarFiles, search_labels
from genolewm_assets.audit.places import PlaceSearch
from genolewm_assets.audit.planting.field import Field
from genolewm_assets.audit.planting.part import Part, plant_part, plant_sampler
from genolewm_assets.audit.planting.planted import EMITTED_PLANTS, PLANTS, Planted
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import TRAIN, OwnFiles
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import AuditReport, LeakKind, Power, SearchResult
from genolewm_assets.audit.similarity import HeldSequence, search_similarity
from genolewm_assets.progress import Progress

#: Plant that shows in what the stream emits.
SAMPLER = "unfiltered_sampler"


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


def _search_tables(part: Part, of: Evidence, progress: Progress) -> list[SearchResult]:
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


def _draw(sampler: OwnFiles, of: Evidence, before: AuditReport, planted: int, progress: Progress) -> int:
    """Return how many held-out alleles are found, ``planted`` at most, if its windows are drawn as the package's are.

    A single allele may be drawn in none of so many tuples. What goes wrong is that none is refused.
    """
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
