"""Searches by stated place: training windows on held-out intervals, with bases from elsewhere, of held-out records."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from genolewm_assets.audit.reading.contig_names import canonical_name, is_known
from genolewm_assets.audit.reading.intervals import HeldSpans, emitted_span, left_flank_span
from genolewm_assets.audit.reading.package_files import TRAIN, PackageFiles, window_key
from genolewm_assets.audit.reading.reference import Codes, Reference, encode, reverse_complement, unmasked
from genolewm_assets.audit.report import Found, LeakKind, SearchResult

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
    """Compare the stated place of every training window with held-out intervals, and its bases with the FASTA there.

    Returns
    -------
    tuple
        Results for ``held_interval``, ``false_place`` and ``held_record``.
    dict
        Windows whose left flank has held-out bases, and the most such bases of one; trainers see a left flank only with
        ``length_policy="left_flank"``.
    """
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
            if (contig := row["contig"]) is not None and _is_held_whole(canonical_name(contig), reference, held):
                on_held.add(key, contig=contig, start=None)
            continue
        n["placed"] += 1
        span, flank = emitted_span(row), left_flank_span(row)
        if shared := held.shared_bp(*span):
            on_held.add(key, contig=span.contig, start=span.start, end=span.end, held_out_bp=shared)
        if flank_bp := held.shared_bp(*flank):
            n["left_flanks"] += 1
            n["left_flank_bp"] = max(n["left_flank_bp"], flank_bp)
        if row["placement_exact"]:
            n["exact"] += 1
            if span.contig not in reference:
                unknown.add(span.contig)
            elif differing := _differing_bp(row, reference):
                elsewhere.add(key, contig=span.contig, start=row["start"], differing_bp=differing)
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


def _is_nameless(contig: str, reference: Reference, held: HeldSpans) -> bool:
    return not (contig in reference or is_known(contig) or contig in held.contigs)


def _first(names: set[str]) -> str:
    """Return three names, and how many there are besides."""
    shown = sorted(names)[:3]
    return ", ".join(shown) + (f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else "")


def _is_held_whole(contig: str, reference: Reference, held: HeldSpans) -> bool:
    """Tell whether a window of a contig is held out wherever on it it stands."""
    if contig not in reference:
        return contig in held.contigs
    return held.shared_bp(contig, 0, reference.length(contig)) == reference.length(contig)


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
    return _count_differences(stated, found)


def _count_differences(stated: Codes, found: Codes) -> int:
    if stated.size != found.size:
        return max(stated.size, found.size)
    return int(np.count_nonzero(stated != found))
