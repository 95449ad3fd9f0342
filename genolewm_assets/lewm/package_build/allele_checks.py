"""Checks of the alleles that a written package offers: those to score, and those to train on.

The checks read the files, and the ClinVar tables that the package was made from, with loops over plain rows; they use
neither the code that divides alleles into splits nor that which chooses their windows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.genome import DECIDED, EVALUATION, HARMFUL, INSET_BP, Holdout, Split
from genolewm_assets.lewm.package_build.rows import HARMFUL_UNDER_STARS
from genolewm_assets.lewm.packages import (
    HOLDOUT_PATHS,
    SCORED,
    Package,
    PackageInfo,
    VariantSource,
    variants_path,
)
from genolewm_assets.lewm.training import SplitBenches, TrainingTuple, Visits
from genolewm_assets.store.artefacts import CheckResult, RowsAtFault
from genolewm_assets.store.files import JsonValue
from genolewm_assets.variants import ALLELE_KEY

_Key: TypeAlias = tuple[str, int, str, str]
_Bench: TypeAlias = tuple[str, str]
_Spans: TypeAlias = Mapping[str, list[tuple[int, int]]]

_READ_ROWS = 8_192
#: Tuples that the check of the bench holds at once.
_TUPLES = 64


def check_bench(directory: Path, info: PackageInfo, clinvar: Mapping[str, pa.Table]) -> CheckResult:
    """Check that a read of the written package shows every bench allele once, except those stated with a reason.

    Parameters
    ----------
    directory
        Folder of the package.
    info
        Content of its ``package.json``.
    clinvar
        ClinVar alleles of the package's release, for the contigs that have windows.

    Notes
    -----
    ``missing`` and ``unexpected`` compare the alleles that qualify with those shown and those stated as not shown;
    ``unjustified`` counts SNVs stated as not shown that a window of their holdout and split has inside its margins.
    """
    qualify = _qualifying(directory, clinvar, int(str(info.policy["min_stars"])))
    names = ("qualify", "emitted", "not_shown", "missing", "unexpected", "emitted_again", "wrong_label", "wrong_count")
    figures = Counter(dict.fromkeys((*names, "under_min_stars", "unjustified"), 0))
    problems: list[str] = []
    wrong, min_stars = RowsAtFault(), int(str(info.policy["min_stars"]))
    for split in EVALUATION:
        windows, outcomes = _window_spans(directory, info, split), _stated(directory, split)
        benches = cache(partial(SplitBenches, Package(directory, info, {}), split))
        for holdout in (str(name) for name in Holdout if name is not Holdout.HAPLOTYPES):
            ours = qualify.get((holdout, split), {})
            stated = outcomes.get(holdout, {})
            emitted: Counter[_Key] = Counter()
            try:
                for one in _emit(benches, holdout) if SCORED in stated.values() else ():
                    emitted[_emitted_key(one)] += 1
                    label, stars = ours.get(_emitted_key(one), (None, None))
                    of_bench = {"holdout": holdout, "split": split}
                    if (one.label, one.stars) != (label, stars) or len(one.rel_edits) != 1:
                        figures["wrong_label"] += 1
                        got = f"{one.label}, {one.stars} stars"
                        wrong.add(
                            **of_bench,
                            **_named(_emitted_key(one)),
                            fault="wrong label",
                            expected=f"{label}, {stars} stars",
                            got=got,
                        )
                    if one.stars is None or one.stars < min_stars:
                        figures["under_min_stars"] += 1
                        wrong.add(
                            **of_bench,
                            **_named(_emitted_key(one)),
                            fault="under min stars",
                            expected=f"at least {min_stars} stars",
                            got=f"{one.stars} stars",
                        )
            except GenoLeWMError as err:
                problems.append(str(err))
            not_shown = {key: why for key, why in stated.items() if why != SCORED}
            figures["qualify"] += len(ours)
            figures["emitted"] += emitted.total()
            figures["not_shown"] += len(not_shown)
            figures["emitted_again"] += sum(n - 1 for n in emitted.values())
            spans = windows.get(holdout, {})
            faults = {
                "missing": [ours.keys() - emitted.keys() - not_shown.keys()],
                "unexpected": [(emitted.keys() | not_shown.keys()) - ours.keys(), emitted.keys() & not_shown.keys()],
                "unjustified": [{k for k in not_shown if len(k[2]) == len(k[3]) == 1 and _is_shown(k, spans)}],
            }
            figures.update({fault: sum(map(len, keys)) for fault, keys in faults.items()})
            faults["emitted_again"] = [{key for key, n in emitted.items() if n > 1}]
            for fault, key in ((fault, key) for fault, sets in faults.items() for keys in sets for key in sorted(keys)):
                why = not_shown.get(key, "")
                wrong.add(holdout=holdout, split=split, **_named(key), fault=fault.replace("_", " "), stated=why)
            head = f"scoring.{holdout}.{split}."
            counted = {name[len(head) :]: n for name, n in info.counts.items() if name.startswith(head) and n}
            if counted != (found := dict(Counter(stated.values()))):
                figures["wrong_count"] += 1
                wrong.add(holdout=holdout, split=split, fault="wrong count", expected=found, got=counted)
    rows = [*({"fault": problem} for problem in problems), *wrong]
    shown: dict[str, JsonValue] = {**figures, "problems": [*problems]}
    return CheckResult("bench_alleles_scored", passed=not rows, figures=shown, rows=rows)


def _named(key: _Key) -> dict[str, object]:
    return dict(zip(("chrom", "pos", "ref", "alt"), key, strict=True))


def check_training_alleles(directory: Path, info: PackageInfo) -> CheckResult:
    """Check that training windows hold a gnomAD allele and a P or LP ClinVar allele, if the inputs have such alleles.

    A source without an allele in the inputs is not required. A catalogue with ``packages.without_alleles: true``
    accepts a package without them. ``cause`` and ``remedy`` say why there are none, and what to write.
    """
    windows = _training_spans(directory, info)
    offered, within = Counter[str](), Counter[str]()
    for row in _rows(directory / variants_path(Split.TRAIN), ("source", *ALLELE_KEY, "label")):
        if row["source"] == VariantSource.GNOMAD or row["label"] in HARMFUL:
            offered[row["source"]] += 1
            within[row["source"]] += _is_shown(_key(row), windows)
    missing = [
        source for source in VariantSource if info.counts.get(f"alleles.{source}.in", 0) and not within[str(source)]
    ]
    figures: dict[str, JsonValue] = {f"{source}_alleles": offered[source] for source in map(str, VariantSource)}
    figures |= {f"{source}_alleles_in_windows": within[source] for source in map(str, VariantSource)}
    figures["declared"] = info.without_alleles
    if missing:
        causes = [_cause(directory, info, source, offered[str(source)]) for source in missing]
        figures["cause"] = "; ".join(cause for cause, _ in causes)
        remedies = dict.fromkeys(remedy for _, remedy in causes)
        figures["remedy"] = f"{'; '.join(remedies)}; or declare it in the catalogue (packages.without_alleles: true)"
    passed = not missing or info.without_alleles
    rows = [
        {
            "source": source,
            "alleles_in_the_source": info.counts.get(f"alleles.{source}.in", 0),
            "alleles_in_train": offered[str(source)],
            "expected": "at least 1 in a training window",
            "got": within[str(source)],
        }
        for source in missing
    ]
    return CheckResult("training_alleles_present", passed=passed, figures=figures, rows=rows)


#: What to write in the catalogue so that a holdout leaves alleles to training.
_RELEASED_BY = {
    Holdout.CHR: "Hold out fewer contigs (holdouts.contigs_validation, holdouts.contigs_test)",
    Holdout.CLINVAR: (
        "Name the genes to hold out in holdouts.clinvar_genes (an empty list holds out none), or lower "
        "holdouts.clinvar_gene_fraction"
    ),
    Holdout.HAPLOTYPES: "Lower holdouts.haplotype_fraction",
    Holdout.TEMPORAL: "Choose another pair of releases for the temporal holdout",
}


def _cause(directory: Path, info: PackageInfo, source: VariantSource, offered: int) -> tuple[str, str]:
    """Return why no training window holds an allele of a source, and what to write in the catalogue."""
    what = "gnomAD allele" if source is VariantSource.GNOMAD else "P or LP ClinVar allele"
    widen = "Choose window tracks and contigs that leave windows around the alleles"
    if offered:
        return f"no {what} of the {offered:,} in train lies in a training window", widen
    if few := info.counts.get(f"alleles.{source}.{HARMFUL_UNDER_STARS}", 0):
        cause = f"no {what} is left for training: {few:,} have fewer than {info.mix.min_training_stars} review stars"
        return cause, "Lower packages.min_training_stars"
    held: Counter[str] = Counter()
    for split in EVALUATION:
        for row in _rows(directory / variants_path(split), ("source", "holdout", "label")):
            held[row["holdout"]] += row["source"] == source and (row["source"] == "gnomad" or row["label"] in HARMFUL)
    if not held.total():
        return f"the source has no {what} on a contig with windows", "Name a source that has some"
    holdout, n = held.most_common(1)[0]
    intervals = _rows(directory / HOLDOUT_PATHS["intervals"], ("holdout", "name"))
    names = list(dict.fromkeys(row["name"] for row in intervals if row["holdout"] == holdout))
    some = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
    units = f" (its only unit is {some})" if len(names) == 1 else f" ({len(names):,} units: {some})" if names else ""
    return f"no {what} is left for training: {n:,} are held out by {holdout}{units}", _RELEASED_BY[Holdout(holdout)]


def _qualifying(
    directory: Path, clinvar: Mapping[str, pa.Table], min_stars: int
) -> dict[_Bench, dict[_Key, tuple[str, int]]]:
    """Return label and stars of every bench allele by (holdout, split) and key; an allele in a test is only there."""
    bench = {name: dict(_labelled(table, min_stars)) for name, table in clinvar.items()}
    listed: dict[_Key, set[_Bench]] = {}
    for row in _rows(directory / HOLDOUT_PATHS["alleles"], ("holdout", "role", *ALLELE_KEY)):
        if _key(row) in bench.get(row["chrom"], {}):
            listed.setdefault(_key(row), set()).add((row["holdout"], row["role"]))
    held: dict[str, dict[_Bench, list[tuple[int, int]]]] = {}
    for row in _rows(directory / HOLDOUT_PATHS["intervals"], ("holdout", "role", "contig", "start", "end")):
        spans = held.setdefault(row["contig"], {}).setdefault((row["holdout"], row["role"]), [])
        spans.append((row["start"], row["end"]))
    found: dict[_Bench, dict[_Key, tuple[str, int]]] = {}
    for contig, labels in bench.items():
        merged = {role: _merge(spans) for role, spans in held.get(contig, {}).items()}
        for key, label in labels.items():
            roles = listed.get(key, set()) | {role for role, spans in merged.items() if _overlaps(key, spans)}
            tested = any(role == Split.TEST for _, role in roles)
            for holdout, role in roles:
                if role == Split.TEST or not tested:
                    found.setdefault((holdout, role), {})[key] = label
    return found


def _labelled(table: pa.Table, min_stars: int) -> Iterator[tuple[_Key, tuple[str, int]]]:
    """Yield key, label and stars of the alleles with a decided class and at least ``min_stars`` review stars."""
    for batch in table.select([*ALLELE_KEY, "label", "stars"]).to_batches(_READ_ROWS):
        for row in batch.to_pylist():
            if row["label"] in DECIDED and row["stars"] >= min_stars:
                yield _key(row), (row["label"], row["stars"])


def _emit(benches: Callable[[], SplitBenches], holdout: str) -> Iterator[TrainingTuple]:
    """Yield the tuples of the bench, read from the written package as a trainer reads them."""
    stream = benches().open(holdout)
    for position, first in enumerate(range(0, len(stream), _TUPLES)):
        visits = Visits.of(range(first, min(len(stream), first + _TUPLES)), np.zeros((1, 1), dtype=np.int8))
        yield from stream.batch(visits, epoch=0, position=position).tuples


def _emitted_key(one: TrainingTuple) -> _Key:
    (allele,) = one.alleles
    return allele.chrom, allele.pos, allele.ref, allele.alt


def _stated(directory: Path, split: Split) -> dict[str, dict[_Key, str]]:
    """Return what the package states of each bench allele of a split, by holdout: scored, or why not."""
    found: dict[str, dict[_Key, str]] = {}
    for row in _rows(directory / variants_path(split), ("holdout", *ALLELE_KEY, "scoring")):
        if row["scoring"] is not None:
            found.setdefault(row["holdout"], {})[_key(row)] = row["scoring"]
    return found


def _window_spans(directory: Path, info: PackageInfo, split: Split) -> dict[str, dict[str, list[tuple[int, int]]]]:
    """Return the windows of a split by holdout and contig, sorted, each with the largest end so far."""
    found: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for entry in info.split_files(split):
        for row in _rows(directory / entry.path, ("holdout", "contig", "start", "end")):
            found.setdefault(row["holdout"], {}).setdefault(row["contig"], []).append((row["start"], row["end"]))
    return {holdout: {name: _reach(spans) for name, spans in by.items()} for holdout, by in found.items()}


def _training_spans(directory: Path, info: PackageInfo) -> dict[str, list[tuple[int, int]]]:
    """Return the placed training windows by contig, sorted, each with the largest end so far."""
    found: dict[str, list[tuple[int, int]]] = {}
    for entry in info.split_files(Split.TRAIN):
        for row in _rows(directory / entry.path, ("contig", "start", "end", "placement_exact")):
            if row["placement_exact"]:
                found.setdefault(row["contig"], []).append((row["start"], row["end"]))
    return {contig: _reach(spans) for contig, spans in found.items()}


def _reach(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans sorted by start, with the end of each replaced by the largest end up to it."""
    reached: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        reached.append((start, max(end, reached[-1][1]) if reached else end))
    return reached


def _is_shown(key: _Key, windows: _Spans) -> bool:
    """Return whether a window has all reference bases of an allele outside its margins; windows as in `_reach`."""
    spans = windows.get(key[0], [])
    at = bisect_right(spans, (key[1] - 1 - INSET_BP, 1 << 62))
    return at > 0 and spans[at - 1][1] - INSET_BP >= key[1] - 1 + len(key[2])


def _merge(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _overlaps(key: _Key, merged: list[tuple[int, int]]) -> bool:
    """Return whether the reference bases of an allele overlap one of some disjoint sorted spans."""
    at = bisect_right(merged, (key[1] - 1 + len(key[2]) - 1, 1 << 62))
    return at > 0 and merged[at - 1][1] > key[1] - 1


def _key(row: Mapping[str, Any]) -> _Key:
    return row["chrom"], row["pos"], row["ref"], row["alt"]


def _rows(path: Path, columns: Iterable[str]) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_READ_ROWS, columns=list(columns)):
            yield from batch.to_pylist()
