"""Searches by stated place: training windows on held-out intervals, with bases from elsewhere, of held-out records."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from genolewm_assets.audit.normal_alleles import Allele, allele_of
from genolewm_assets.audit.reading.contig_names import canonical_name, is_known
from genolewm_assets.audit.reading.intervals import HeldSpans, emitted_span, left_flank_span
from genolewm_assets.audit.reading.package_files import EVALUATION, TRAIN, PackageFiles, read_rows, window_key
from genolewm_assets.audit.reading.reference import Reference, encode, reverse_complement, unmasked
from genolewm_assets.audit.report import Found, LeakKind, SearchResult

#: Bases that a context has on either side of its allele.
_CONTEXT_BP = 30
_COLUMNS = (
    "origin",
    "contig",
    "start",
    "end",
    "strand",
    "placement_exact",
    "record_id",
    "window_index",
    "sequence",
    "left_flank",
    "right_flank",
)


def search_places(
    files: PackageFiles, reference: Reference, held: HeldSpans
) -> tuple[tuple[SearchResult, ...], dict[str, int]]:
    """Compare the stated place of every training window with held-out intervals, and its bases with the FASTA there."""
    excluded = {
        (row["source"], row["record_id"], row["window_index"])
        for row in files.holdout_rows("corpus", ("source", "record_id", "window_index"))
    }
    on_held, elsewhere, records, n = Found(), Found(), Found(), Counter[str]()
    unknown, nameless = set[str](), set[str]()
    for row in files.windows(TRAIN, _COLUMNS):
        key = window_key(row)
        n["windows"] += 1
        if row["contig"] is not None and _is_nameless(canonical_name(row["contig"]), reference, held):
            nameless.add(row["contig"])
        if (row["origin"], row["record_id"], row["window_index"]) in excluded:
            records.add(key)
        if row["contig"] is None or row["start"] is None:
            # It may be anywhere on its contig.
            if (contig := row["contig"]) is not None and canonical_name(contig) in held.contigs:
                on_held.add(key, contig=contig, start=None)
            continue
        n["placed"] += 1
        span, flank = emitted_span(row), left_flank_span(row)
        if shared := held.shared_bp(*span):
            on_held.add(key, contig=span.contig, start=span.start, end=span.end, held_out_bp=shared)
        if flank_bp := held.shared_bp(*flank):
            n["left_flanks"] += 1
            n["left_flank_bp"] = max(n["left_flank_bp"], flank_bp)
        _compare_bases(row, reference, elsewhere, unknown, n)
    for split in EVALUATION:
        for row in files.windows(split, _COLUMNS):
            _compare_bases(row, reference, elsewhere, unknown, n)
    gaps = (f"the FASTA lacks {', '.join(sorted(unknown))}",) if unknown else ()
    not_named = (f"{_first(nameless)} is no contig of the FASTA or the holdouts",) if nameless else ()
    intervals = "stated places of windows with the flank behind them, contig names resolved, against intervals"
    return (
        SearchResult(
            LeakKind.HELD_INTERVAL,
            intervals,
            {"placed windows": n["placed"]},
            on_held,
            (*not_named, *(() if held.contigs else ("no interval is held out",))),
        ),
        SearchResult(
            LeakKind.FALSE_PLACE, "bases of windows against the FASTA", {"windows": n["exact"]}, elsewhere, gaps
        ),
        SearchResult(
            LeakKind.HELD_RECORD,
            "keys against holdouts/corpus.parquet",
            {"windows": n["windows"]},
            records,
            absent="" if excluded else "no corpus record is held out",
        ),
    ), {
        "training windows whose left flank has held-out bases": n["left_flanks"],
        "most held-out bases of a left flank": n["left_flank_bp"],
    }


def search_contexts(files: PackageFiles, reference: Reference) -> SearchResult:
    """Compare the bases around held-out alleles, by which a trainer knows them, with the FASTA."""
    path, found, n, unknown = files.directory / "holdouts" / "contexts.parquet", Found(), 0, set[str]()
    if path.is_file():
        columns = ("chrom", "pos", "ref", "alt")
        missing = set(map(allele_of, read_rows(path.with_name("alleles.parquet"), columns)))
        for row in read_rows(path, (*columns, "left_context", "right_context")):
            n += 1
            allele, problems = allele_of(row), list[str]()
            problems += [] if allele in missing else ["not held out, or twice"]
            missing.discard(allele)
            if allele.chrom not in reference:
                unknown.add(allele.chrom)
            elif not _is_context(row, allele, reference):
                problems.append("not the FASTA's bases")
            if problems:
                found.add(str(allele), problem="; ".join(problems))
        for allele in missing:
            found.add(str(allele), problem="held out, without a context")
    return SearchResult(
        LeakKind.WRONG_CONTEXT,
        f"{_CONTEXT_BP} bases on either side of every held-out allele of the package, against the FASTA",
        {"held-out alleles": n},
        found,
        (f"the FASTA lacks {', '.join(sorted(unknown))}",) if unknown else (),
        absent="" if n else "the package states no bases around held-out alleles",
    )


def _is_context(row: dict[str, Any], allele: Allele, reference: Reference) -> bool:
    start, end = allele.pos - 1, allele.pos - 1 + len(allele.ref)
    left, right = max(0, start - _CONTEXT_BP), min(end + _CONTEXT_BP, reference.length(allele.chrom))
    stated = unmasked(encode(f"{row['left_context']}{row['ref']}{row['right_context']}"))
    fits = np.array_equal(stated, unmasked(reference.fetch(allele.chrom, left, right)))
    return fits and len(row["left_context"]) == start - left


def _compare_bases(
    row: dict[str, Any], reference: Reference, elsewhere: Found, unknown: set[str], n: Counter[str]
) -> None:
    """Note a window with an exact place whose bases differ from the FASTA's there."""
    if not row["placement_exact"]:
        return
    n["exact"] += 1
    if (contig := canonical_name(row["contig"])) not in reference:
        unknown.add(contig)
    elif differing := _differing_bp(row, reference):
        elsewhere.add(window_key(row), contig=contig, start=row["start"], differing_bp=differing)


def _is_nameless(contig: str, reference: Reference, held: HeldSpans) -> bool:
    return not (contig in reference or is_known(contig) or contig in held.contigs)


def _first(names: set[str]) -> str:
    """Return three names, and how many there are besides."""
    shown = sorted(names)[:3]
    return ", ".join(shown) + (f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else "")


def _differing_bp(row: dict[str, Any], reference: Reference) -> int:
    """Return how many bases of a window differ from the FASTA at its place; of reference windows, with their flanks."""
    stated = unmasked(encode(row["sequence"]))
    left, right = (len(row["left_flank"]), len(row["right_flank"])) if row["origin"] == "reference" else (0, 0)
    if row["strand"] == "-":
        left, right = right, left
    found = unmasked(reference.fetch(canonical_name(row["contig"]), row["start"] - left, row["end"] + right))
    if row["origin"] == "reference":
        stated = unmasked(encode(f"{row['left_flank']}{row['sequence']}{row['right_flank']}"))
    if row["strand"] == "-":
        found = reverse_complement(found)
    if stated.size != found.size:
        return max(stated.size, found.size)
    return int(np.count_nonzero(stated != found))
