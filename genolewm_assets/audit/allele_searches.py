"""Searches for held-out alleles: in the allele table of training, and in what the training stream emits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from genolewm_assets.audit.emitted import Batch, EmittedCounts, EmittedEdit, draw_batches, read_edits
from genolewm_assets.audit.held_kmers import KmerTable, count_in_reference, keys_of
from genolewm_assets.audit.normal_alleles import BATCH, BCFTOOLS, Allele, allele_of, normalise_alleles
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import EVALUATION, TRAIN, PackageFiles
from genolewm_assets.audit.reading.reference import Reference, encode
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.errors import GenoLeWMError, counted
from genolewm_assets.progress import Progress

#: 31-mers of a held-out allele that an emitted window without a place has at least. An SNV makes 31; where fewer are
#: shared, the allele's neighbourhood is not the window's, as at the end of an exon.
LEAST_ALTERED = 8

#: Largest difference between an emitted and a declared share, beside that of chance; and tuples of one visit.
MIX_TOLERANCE, TUPLES_OF_VISIT = 0.02, 8

#: Tuples between two reports of progress.
_LOOK_TUPLES = 2_000

_KEY = ("chrom", "pos", "ref", "alt")


class HeldAlleles:
    """The held-out alleles of a package, and those that it evaluates with, in bcftools' normal form."""

    def __init__(self, files: PackageFiles, reference: Reference) -> None:
        stated = {allele_of(row) for row in files.holdout_rows("alleles", _KEY)}
        for split in EVALUATION:
            stated |= {allele_of(row) for row in files.variants(split, _KEY)}
        normal = normalise_alleles(stated, reference)
        self._normal_of = normal
        #: Held-out alleles; those without a normal form as they are written.
        self.alleles = frozenset(allele if form is None else form for allele, form in normal.items())
        #: Number of alleles without a normal form.
        self.n_raw = sum(form is None for form in normal.values())
        # Sorted, so that the FASTA is read from one end to the other.
        self._normal = sorted(form for form in normal.values() if form is not None)

    def form(self, row: dict[str, Any]) -> Allele:
        """Return the normal form of a held-out allele; as it is written where there is none."""
        allele = allele_of(row)
        return self._normal_of[allele] or allele

    @property
    def gaps(self) -> tuple[str, ...]:
        """What a search by allele cannot tell."""
        return (f"{self.n_raw:,} held-out alleles do not fit the FASTA and have no normal form",) if self.n_raw else ()

    def altered_kmers(self, reference: Reference) -> KmerTable:
        """Return the 31-mers that held-out alleles make and the reference does not have."""
        keys = [np.empty(0, dtype=np.uint64)]
        for chrom, pos, ref, alt in self._normal:
            start, end = pos - 1, pos - 1 + len(ref)
            before, behind = reference.fetch(chrom, start - 30, start), reference.fetch(chrom, end, end + 30)
            keys.append(keys_of(np.concatenate([before, encode(alt), behind]), skip_simple=True))
        table = KmerTable.of(np.concatenate(keys))
        return table.without(count_in_reference(table, reference) > 0)


def search_training_alleles(
    files: PackageFiles, reference: Reference, held: HeldSpans, held_alleles: HeldAlleles
) -> SearchResult:
    """Compare the alleles of ``variants/train.parquet``, of any source, with held-out alleles and intervals."""
    found, n, raw = Found(), 0, 0
    rows = files.variants(TRAIN, (*_KEY, "source"))
    for part in _parts(((allele_of(row), str(row["source"])) for row in rows), BATCH):
        normal = normalise_alleles((allele for allele, _ in part), reference)
        n += len(part)
        for stated, source in part:
            form = normal[stated] or stated
            raw += normal[stated] is None
            within = held.shared_bp(form.chrom, form.pos - 1, form.pos - 1 + len(form.ref))
            if form in held_alleles.alleles or within:
                found.add(str(form), source=source, stated=str(stated), in_held_interval=bool(within))
    gaps = (f"{counted(raw, 'training allele')} without normal form, not fitting the FASTA",) if raw else ()
    if not (held_alleles.alleles or held.contigs):
        gaps = (*gaps, "no allele and no interval is held out")
    return SearchResult(
        LeakKind.HELD_ALLELE,
        f"alleles of training, whatever their source, by {BCFTOOLS}, against the alleles and intervals of holdouts "
        "and the alleles of evaluation",
        {"alleles": n, "held-out alleles": len(held_alleles.alleles)},
        found,
        (*held_alleles.gaps, *gaps),
    )


def search_stream(
    files: PackageFiles,
    reference: Reference,
    held: HeldSpans,
    held_alleles: HeldAlleles,
    *,
    least_tuples: int,
    progress: Progress,
    draw: Callable[[Path], Iterable[Batch]] = draw_batches,
    until: frozenset[str] = frozenset(),
) -> tuple[SearchResult, SearchResult, SearchResult]:
    """Draw the training stream; look for held-out alleles and edits that were not made, and count its mix.

    Parameters
    ----------
    least_tuples
        Tuples to draw at least; 0: none, and the result is inconclusive.
    draw
        What gives the batches of a package.
    until
        Findings after all of which no more is drawn; none: as many tuples as are wanted are drawn.

    Returns
    -------
    tuple
        Results for ``recreated_allele``, ``false_edit`` and ``wrong_mix``.
    """
    found, counts, gaps = Found(), EmittedCounts(), list(held_alleles.gaps)
    if files.without_stream or not least_tuples:
        return _stream_result(files, found, counts, 0, [files.without_stream or "the stream was not drawn"])
    altered = held_alleles.altered_kmers(reference)
    windows = {row["window_id"] for row in files.windows(TRAIN, ("window_id",))}
    waiting: dict[Allele, str] = {}
    n_alleles = 0

    def settle() -> None:
        normal = normalise_alleles(waiting, reference)
        for stated, window in waiting.items():
            _note(found, normal[stated] or stated, window, held, held_alleles)
        waiting.clear()

    try:
        batches = draw(files.directory)
        for edit in read_edits(batches, reference, counts, least_tuples=least_tuples, windows=windows):
            _search_bases(found, edit, altered)
            for allele in edit.alleles:
                n_alleles += 1
                if len(allele.ref) == len(allele.alt) == 1:
                    _note(found, allele, edit.window, held, held_alleles)
                else:
                    waiting.setdefault(allele, edit.window)
            if len(waiting) >= BATCH:
                settle()
            if counts.tuples % _LOOK_TUPLES == 0:
                progress.advance(counts.tuples, least_tuples, "tuples drawn")
                if until:
                    settle()
            if until and until <= found.keys:
                break
        settle()
    except GenoLeWMError as err:
        gaps.append(f"the stream cannot be drawn ({err})")
    gaps += _stream_gaps(counts, windows, n_alleles)
    return _stream_result(files, found, counts, n_alleles, gaps)


def _stream_gaps(counts: EmittedCounts, windows: set[str], n_alleles: int) -> Iterator[str]:
    if missing := len(windows - counts.windows):
        yield f"{counted(missing, 'training window')} not drawn in {counted(counts.tuples, 'tuple')}"
    if strangers := len(counts.windows - windows):
        yield f"{counted(strangers, 'drawn window')} in no file of training windows"
    if counts.tuples > counts.unplaced and not n_alleles:
        yield "no tuple with a place changes a base"
    if counts.elsewhere:
        yield f"{counted(len(counts.elsewhere), 'drawn window')} unlike the FASTA's bases at the place"


def _stream_result(
    files: PackageFiles, found: Found, counts: EmittedCounts, n_alleles: int, gaps: list[str]
) -> tuple[SearchResult, SearchResult, SearchResult]:
    edits = SearchResult(
        LeakKind.FALSE_EDIT,
        "first token in which the edited window differs from the unedited one, against the stated token and blocks",
        {"tuples": counts.tuples},
        counts.false_edits,
        tuple(gaps) if not counts.tuples else (),
    )
    return (
        SearchResult(
            LeakKind.RECREATED_ALLELE,
            "emitted tokens decoded and compared with the FASTA, each difference and neighbouring ones joined, by "
            f"{BCFTOOLS}; in windows without a place by the 31-mers that held-out alleles make, before and after the "
            "edit",
            {"tuples": counts.tuples, "alleles": n_alleles, "tuples without a place": counts.unplaced},
            found,
            tuple(gaps),
        ),
        edits,
        _search_mix(files, counts, gaps),
    )


def _search_mix(files: PackageFiles, counts: EmittedCounts, gaps: list[str]) -> SearchResult:
    """Compare the shares of origins and sources in the tuples drawn with the declared ones."""
    mix, found, n = files.record.get("mix", {}), Found(), counts.origins.total()
    declared = mix["declared"] if isinstance(mix.get("declared"), dict) else mix.get("wanted", {})
    for group, drawn in (("windows", counts.origins), ("edits", counts.sources)) if n else ():
        expected = declared.get(group, {})
        for name in sorted({*expected, *drawn}):
            share, got = expected.get(name, 0.0), drawn[name] / n
            # The tuples of a visit are of one window, so that as many are drawn by chance as there are visits.
            by_chance = 4 * (share * (1 - share) * TUPLES_OF_VISIT / n) ** 0.5
            if abs(got - share) > MIX_TOLERANCE + by_chance:
                found.add(f"{group} {name}", expected=round(share, 4), got=round(got, 4))
    return SearchResult(
        LeakKind.WRONG_MIX,
        f"shares of origins and of edit sources in the tuples drawn with default options, to {MIX_TOLERANCE:.0%} and "
        "four standard errors",
        {"tuples": n},
        found,
        tuple(gaps) if not n else (),
        absent=files.without_stream,
    )


def _note(found: Found, allele: Allele, window: str, held: HeldSpans, held_alleles: HeldAlleles) -> None:
    within = held.shared_bp(allele.chrom, allele.pos - 1, allele.pos - 1 + len(allele.ref))
    if within or allele in held_alleles.alleles:
        found.add(str(allele), window=window, in_held_interval=bool(within))


def _search_bases(found: Found, edit: EmittedEdit, altered: KmerTable) -> None:
    """Look for 31-mers of held-out alleles, before and after an edit, where it cannot be told by its place."""
    if edit.alleles:
        return
    shared = max(int(altered.held(bases).sum()) for bases in (edit.changed, edit.unchanged))
    if shared >= LEAST_ALTERED:
        found.add(edit.window, window=edit.window, shared_31mers=shared)


def _parts(items: Iterable[tuple[Allele, str]], size: int) -> Iterator[list[tuple[Allele, str]]]:
    part: list[tuple[Allele, str]] = []
    for item in items:
        part.append(item)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part
