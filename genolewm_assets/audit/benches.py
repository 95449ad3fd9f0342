"""Search for ClinVar alleles of an evaluation that its bench does not show exactly once, or shows without cause."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from genolewm_assets.audit.emitted import draw_bench
from genolewm_assets.audit.labels import read_records
from genolewm_assets.audit.normal_alleles import Allele, allele_of, normalise_alleles
from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.intervals import HeldSpans, Span
from genolewm_assets.audit.reading.package_files import EVALUATION, TEST, TRAIN, PackageFiles
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.errors import GenoLeWMError

#: A holdout and one of its splits.
_Bench: TypeAlias = tuple[str, str]
_Row: TypeAlias = dict[str, Any]

_SCORED, _DECIDED = "scored", frozenset({"P", "LP", "LB", "B"})
#: Its windows show alleles together, and none alone.
_WITHOUT_BENCH = "holdout-haplotypes"
#: Bases at the ends of a window in which no edit is.
_EDGE_BP = 64
#: Longest allele that is looked for in the package; a shard may leave out longer ones.
_LONGEST = 50
#: Alleles that are normalised at once.
_AT_ONCE = 200_000
_PLACE = ("contig", "start", "end")
_COLUMNS = ("source", "holdout", "chrom", "pos", "ref", "alt", "label", "stars", "scoring")


def search_benches(
    files: PackageFiles,
    reference: Reference,
    clinvar: Path | None,
    draw: Callable[[Path, str, str], Iterable[Any]] = draw_bench,
) -> SearchResult:
    """Compare the alleles that each bench shows with those stated, and those stated with ClinVar."""
    found, n, gaps = Found(), Counter[str](), list[str]()
    least = int(files.record.get("policy", {}).get("min_stars", 0))
    stated: dict[_Bench, dict[Allele, _Row]] = defaultdict(dict)
    for split in EVALUATION if not files.without_stream else ():
        for row in files.variants(split, _COLUMNS):
            if row["source"] == "clinvar":
                stated[row["holdout"], split][allele_of(row)] = row
    for bench, rows in sorted(stated.items()):
        _search_stated(found, bench, rows, least)
        shown = Counter[Allele]()
        try:
            if any(row["scoring"] == _SCORED for row in rows.values()):
                shown = _shown(found, bench, rows, draw(files.directory, *bench))
        except GenoLeWMError as err:
            gaps.append(f"the bench of {' '.join(bench)} cannot be drawn ({err})")
            continue
        n["alleles shown"] += shown.total()
        for allele, row in rows.items():
            if shown[allele] != (row["scoring"] == _SCORED):
                found.add(f"{bench[0]} {allele}", split=bench[1], shown=shown[allele], stated=row["scoring"])
        _search_unjustified(found, files, bench, rows)
    if clinvar is None:
        gaps.append(f"the VCF of release {files.release} was not given")
    elif not files.without_stream:
        _search_missing(found, files, reference, clinvar, stated=stated, least=least)
    return SearchResult(
        LeakKind.UNSHOWN_ALLELE,
        f"every decided ClinVar allele of an evaluation with {least} stars is shown once, or stated with a reason; "
        "drawn as a trainer does, and compared with the VCF of the release",
        {"alleles shown": n["alleles shown"]},
        found,
        tuple(gaps),
        absent=files.without_stream or ("" if n["alleles shown"] or gaps or found.keys else "no bench has an allele"),
    )


def _search_stated(found: Found, bench: _Bench, rows: dict[Allele, _Row], least: int) -> None:
    for allele, row in rows.items():
        qualifies = row["label"] in _DECIDED and (row["stars"] or 0) >= least and bench[0] != _WITHOUT_BENCH
        if qualifies != (row["scoring"] is not None):
            label = f"{row['label']} {row['stars']}"
            found.add(f"{bench[0]} {allele}", split=bench[1], label=label, stated=row["scoring"])


def _shown(found: Found, bench: _Bench, rows: dict[Allele, _Row], batches: Iterable[Any]) -> Counter[Allele]:
    shown: Counter[Allele] = Counter()
    for one in (one for batch in batches for one in batch.tuples):
        allele = Allele(canonical_name(one.alleles[0].chrom), *_bases(one.alleles[0]))
        row = rows.get(allele, {})
        shown[allele] += 1
        if not row or (one.label, one.stars) != (row["label"], row["stars"]) or len(one.alleles) != 1:
            found.add(f"{bench[0]} {allele}", split=bench[1], shown_as=f"{one.label} {one.stars}")
    return shown


def _bases(edit: Any) -> tuple[int, str, str]:
    return edit.pos, edit.ref, edit.alt


def _search_unjustified(found: Found, files: PackageFiles, bench: _Bench, rows: dict[Allele, _Row]) -> None:
    """Note SNVs stated as not shown that a window of the bench has apart from its ends."""
    left_out = [a for a, row in rows.items() if row["scoring"] not in (None, _SCORED) and len(a.ref) == len(a.alt) == 1]
    if not left_out:
        return
    starts: defaultdict[str, list[int]] = defaultdict(list)
    ends: defaultdict[str, list[int]] = defaultdict(list)
    windows = (
        row for row in files.windows(bench[1], ("holdout", "contig", "start", "end")) if row["start"] is not None
    )
    for contig, start, end in sorted((w["contig"], w["start"], w["end"]) for w in windows if w["holdout"] == bench[0]):
        starts[contig].append(start + _EDGE_BP)
        ends[contig].append(max(end - _EDGE_BP, ends[contig][-1] if ends[contig] else 0))
    for allele in left_out:
        at = bisect_right(starts[allele.chrom], allele.pos - 1) - 1
        if at >= 0 and ends[allele.chrom][at] >= allele.pos:
            found.add(f"{bench[0]} {allele}", split=bench[1], stated=rows[allele]["scoring"], problem="a window has it")


def _search_missing(
    found: Found,
    files: PackageFiles,
    reference: Reference,
    clinvar: Path,
    *,
    stated: dict[_Bench, dict[Allele, _Row]],
    least: int,
) -> None:
    """Note decided alleles of the VCF that are held out for an evaluation, and that the package does not have there."""
    spans, listed = defaultdict[_Bench, list[Span]](list), defaultdict[_Bench, set[Allele]](set)
    for row in files.holdout_rows("intervals", ("holdout", "role", "contig", "start", "end")):
        spans[row["holdout"], row["role"]].append(Span(canonical_name(row["contig"]), row["start"], row["end"]))
    for row in files.holdout_rows("alleles", ("holdout", "role", "chrom", "pos", "ref", "alt")):
        listed[row["holdout"], row["role"]].add(allele_of(row))
    held = {bench: HeldSpans(of_bench) for bench, of_bench in spans.items()}
    windows = (row for split in (TRAIN, *EVALUATION) for row in files.windows(split, ("contig",)))
    known = {canonical_name(row["contig"]) for row in windows if row["contig"] is not None}

    def benches(allele: Allele) -> Iterator[_Bench]:
        end = allele.pos - 1 + len(allele.ref)
        ours = {bench for bench, of in held.items() if of.shared_bp(allele.chrom, allele.pos - 1, end)}
        ours |= {bench for bench, of in listed.items() if allele in of}
        # An allele of a test is evaluated there only.
        tested = any(split == TEST for _, split in ours)
        yield from (bench for bench in ours if bench[0] != _WITHOUT_BENCH and (bench[1] == TEST or not tested))

    records = read_records(clinvar, lambda _, one: one.chrom in known and max(len(one.ref), len(one.alt)) <= _LONGEST)
    of_allele: dict[Allele, bool] = {}
    for one in records:
        # Of several records of an allele the shard takes one, or none: all have to qualify.
        is_decided = one.label in _DECIDED and one.stars >= least
        of_allele[one.allele] = is_decided and of_allele.get(one.allele, True)
    decided = [allele for allele, decided in of_allele.items() if decided]
    for at in range(0, len(decided), _AT_ONCE):
        for allele, form in normalise_alleles(decided[at : at + _AT_ONCE], reference).items():
            for bench in benches(form) if form is not None and of_allele.get(form, True) else ():
                if form not in stated.get(bench, {}):
                    found.add(f"{bench[0]} {form}", split=bench[1], published=str(allele), problem="not in the package")
