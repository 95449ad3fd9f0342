"""Run every search over a package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from genolewm_assets.audit.allele_searches import search_stream, search_training_alleles
from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.benches import search_benches
from genolewm_assets.audit.duplicates import DuplicateSearch, Evaluated
from genolewm_assets.audit.emitted import Batch, Contents, draw_batches, draw_bench, draw_state_batches
from genolewm_assets.audit.held_kmers import HeldSequence
from genolewm_assets.audit.labels import ClinvarFiles, search_labels
from genolewm_assets.audit.places import PlaceSearch, search_contexts
from genolewm_assets.audit.planting.field import Field
from genolewm_assets.audit.planting.power import Evidence, measure_power
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.layouts import Layout, open_layout
from genolewm_assets.audit.reading.package_files import OwnFiles, open_files
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import AuditReport
from genolewm_assets.audit.searched_before import find_searched
from genolewm_assets.audit.similarity import search_similarity
from genolewm_assets.audit.states import Encode, search_states
from genolewm_assets.progress import NO_PROGRESS, Progress

#: Tuples of the training stream that an audit draws.
LEAST_TUPLES = 1_000_000


def audit_package(
    package: Path,
    fasta: Path,
    *,
    holdouts: Path | None = None,
    layout: Layout | None = None,
    clinvar: Path | None = None,
    clinvar_t0: Path | None = None,
    least_tuples: int = LEAST_TUPLES,
    progress: Progress = NO_PROGRESS,
    draw: Callable[[Path, int], Iterable[Batch]] | None = None,
    contents: Contents = "once",
    encoder: Encode | None = None,
    encoder_is_causal: bool = True,
    planted: int = 0,
    folder: Path | None = None,
    earlier: Path | None = None,
) -> AuditReport:
    """Look for every kind of leak in a package.

    Parameters
    ----------
    fasta
        The indexed reference FASTA.
    holdouts, layout
        Folder of the holdout tables that count, and layout of the folder; None: those of the package.
    clinvar, clinvar_t0
        ClinVar VCF of the package's release, and of T0; without them labels are not compared.
    least_tuples
        Tuples of the training stream to draw at least; 0: the stream is not drawn.
    draw
        Gives batches of a package, by its folder and the number of tuples to draw at least; None: trainers' dataset.
    contents
        How trainers' datasets verify the package on opening: ``once``, or ``sizes`` if its bytes are known to be right.
    encoder, encoder_is_causal
        Gives the block states of windows, to compare those of edited and unedited ones; None: they are not compared.
        Unless a state depends only on what is before it in the window, states before an edit are not compared.
    planted, folder
        Leaks of each kind that are planted in parts of a package of this platform and searched for too; 0: the power
        is not measured. Folder in which the parts lie meanwhile; None: the system's for temporary files.
    earlier
        Folder of a package of this platform in which an audit by :data:`~genolewm_assets.audit.AUDIT_VERSION`, against
        the same FASTA, found nothing and lacked nothing. Windows of pieces that both have are compared with what is
        new only; the report is the same without it.

    Raises
    ------
    FastaError, VcfError
        If the FASTA, its index or a ClinVar VCF cannot be read.
    MissingResourceError, CorruptResourceError
        If a file of the package is missing or unreadable.
    """
    files = open_layout(package, fasta, holdouts, layout)
    vcfs = ClinvarFiles(clinvar, clinvar_t0)
    with Reference(fasta) as reference:
        held = HeldSpans.of_package(files)
        places, held_alleles = PlaceSearch(files, reference, held), HeldAlleles.of_package(files, reference)
        evaluated, sequence = Evaluated(files, held_alleles, places.compare_bases), HeldSequence(reference, held)
        duplicates = DuplicateSearch(evaluated)
        along = places.search, duplicates.search
        searched = None
        if earlier is not None and isinstance(files, OwnFiles):
            searched = find_searched(files, open_files(earlier), reference, held, sequence, evaluated=evaluated)
        similar = search_similarity(
            files, reference, held, sequence, progress=progress, along=along, searched=searched, few=bool(searched)
        )
        of_windows = (*places.results(), similar)
        measured = {**places.measured, **duplicates.measured, **files.left_out}
        # The next searches need the memory of the held-out records.
        del places, along
        pa.default_memory_pool().release_unused()
        alleles = search_training_alleles(files, reference, held, held_alleles)
        altered = None if files.without_stream or not least_tuples else held_alleles.altered_kmers(reference)
        stream = search_stream(
            files,
            reference,
            held,
            held_alleles,
            least_tuples=least_tuples,
            progress=progress,
            altered=altered,
            draw=draw or partial(draw_batches, contents=contents),
        )
        labels = tuple(search_labels(files, reference, vcfs))
        bench = search_benches(files, reference, clinvar, draw=partial(draw_bench, contents=contents))
        states = search_states(
            files,
            encoder,
            progress=progress,
            draw=partial(draw_state_batches, contents=contents),
            is_causal=encoder_is_causal,
        )
        # The next searches need the memory that is free by now.
        pa.default_memory_pool().release_unused()
        shared = (duplicates.result(), evaluated.search())
        pa.default_memory_pool().release_unused()
        results = (
            *of_windows,
            alleles,
            *stream,
            *shared,
            *labels,
            search_contexts(files, reference),
            bench,
            states,
        )
        report = AuditReport(str(package), files.release, results, measured)
        pa.default_memory_pool().release_unused()
        if not planted or not isinstance(files, OwnFiles):
            return report
        field = Field(files, reference, np.random.default_rng(0))
        evidence = Evidence(reference, held, sequence, held_alleles, altered, evaluated, vcfs)
        power = measure_power(files, field, evidence, report, number=planted, folder=folder, progress=progress)
    return report.with_power(power)
