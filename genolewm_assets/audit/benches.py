"""Search for ClinVar alleles of an evaluation that its bench does not show exactly once, or shows without cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.clinvar_vcf import read_records
from genolewm_assets.audit.alleles.normal_alleles import (
    KEY,
    add_keys,
    alleles_of,
    canonical_names,
    keys_of,
    normalise_alleles,
)
from genolewm_assets.audit.emitted import draw_bench
from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.intervals import HeldSpans, Span, rows_by_contig, spans_by_role
from genolewm_assets.audit.reading.package_files import EVALUATION, TEST, TRAIN, PackageFiles, table_of
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.errors import GenoLeWMError

#: A holdout and one of its splits.
_Bench: TypeAlias = tuple[str, str]
_SHOWN = pa.schema([("key", pa.string()), ("label", pa.string()), ("stars", pa.int64()), ("alone", pa.bool_())])

_SCORED, _DECIDED = "scored", frozenset({"P", "LP", "LB", "B"})
#: Its windows show alleles together, and none alone.
_WITHOUT_BENCH = "holdout-haplotypes"
#: Bases at the ends of a window in which no edit is.
_EDGE_BP = 64
#: Longest allele that is looked for in the package; a shard may leave out longer ones.
_LONGEST = 50
_COLUMNS = ("source", "holdout", *KEY, "label", "stars", "scoring")


def search_benches(
    files: PackageFiles,
    reference: Reference,
    clinvar: Path | None,
    draw: Callable[[Path, str, str], Iterable[Any]] = draw_bench,
) -> SearchResult:
    """Compare the alleles that each bench shows with those stated, and those stated with ClinVar."""
    found, n, gaps = Found(), 0, list[str]()
    least = int(files.record.get("policy", {}).get("min_stars", 0))
    stated = {} if files.without_stream else _stated(files)
    for bench, rows in sorted(stated.items(), key=itemgetter(0)):
        _search_stated(found, bench, rows, least)
        is_scored = pc.fill_null(pc.equal(rows["scoring"], _SCORED), False)
        try:
            shown = _shown(draw(files.directory, *bench) if pc.any(is_scored).as_py() else ())
        except GenoLeWMError as err:
            gaps.append(f"the bench of {' '.join(bench)} cannot be drawn ({err})")
            continue
        n += shown.num_rows
        _search_shown(found, bench, rows, shown)
        _search_unjustified(found, files, bench, rows)
    if clinvar is None:
        gaps.append(f"the VCF of release {files.release} was not given")
    elif not files.without_stream:
        _search_missing(found, files, reference, clinvar, stated=stated, least=least)
    return SearchResult(
        LeakKind.UNSHOWN_ALLELE,
        f"every decided ClinVar allele of an evaluation with {least} stars is shown once, or stated with a reason; "
        "drawn as a trainer does, and compared with the VCF of the release",
        {"alleles shown": n},
        found,
        tuple(gaps),
        absent=files.without_stream or ("" if n or gaps or found.keys else "no bench has an allele"),
    )


def _stated(files: PackageFiles) -> dict[_Bench, pa.Table]:
    """Return the ClinVar alleles of each bench: :data:`KEY`, ``key``, label, stars and scoring."""
    stated = dict[_Bench, pa.Table]()
    for split in EVALUATION:
        rows = table_of(files.variants(split, _COLUMNS), _COLUMNS)
        rows = rows.filter(pc.equal(rows["source"], "clinvar"))
        alleles = alleles_of(rows)
        alleles = alleles.append_column("key", keys_of(alleles))
        for name, kind in (("label", pa.string()), ("stars", pa.int64()), ("scoring", pa.string())):
            alleles = alleles.append_column(name, rows[name].cast(kind))
        for holdout in rows["holdout"].unique().to_pylist():
            stated[holdout, split] = alleles.filter(pc.equal(rows["holdout"], holdout))
    return stated


def _search_stated(found: Found, bench: _Bench, rows: pa.Table, least: int) -> None:
    is_decided = pc.is_in(rows["label"], value_set=pa.array(sorted(_DECIDED)))
    qualifies = pc.and_(is_decided, pc.greater_equal(pc.fill_null(rows["stars"], 0), least))
    qualifies = pc.and_(qualifies, pa.scalar(bench[0] != _WITHOUT_BENCH))
    for row in rows.filter(pc.xor(qualifies, pc.is_valid(rows["scoring"]))).to_pylist():
        label = f"{row['label']} {row['stars']}"
        found.add(f"{bench[0]} {row['key']}", split=bench[1], label=label, stated=row["scoring"])


def _shown(batches: Iterable[Any]) -> pa.Table:
    """Return key, label and stars of the first allele of each tuple, and whether it is alone."""
    parts = [_SHOWN.empty_table()]
    for batch in batches:
        edits = [one.alleles[0] for one in batch.tuples]
        columns = (
            [f"{canonical_name(edit.chrom)}:{edit.pos}:{edit.ref}:{edit.alt}" for edit in edits],
            [one.label for one in batch.tuples],
            [one.stars for one in batch.tuples],
            [len(one.alleles) == 1 for one in batch.tuples],
        )
        parts.append(pa.table([pa.array(*each) for each in zip(columns, _SHOWN.types, strict=True)], schema=_SHOWN))
    return pa.concat_tables(parts)


def _search_shown(found: Found, bench: _Bench, rows: pa.Table, shown: pa.Table) -> None:
    """Note alleles that are shown otherwise than stated, and those that are not shown once, or not to be shown."""
    of_both = shown.join(rows.select(_SHOWN.names[:3]), "key", right_suffix=" stated", use_threads=False)
    known = pc.is_in(of_both["key"], value_set=rows["key"])
    for name, missing in (("label", ""), ("stars", -1)):
        one, other = (pc.fill_null(of_both[column], missing) for column in (name, f"{name} stated"))
        known = pc.and_(known, pc.equal(one, other))
    for row in of_both.filter(pc.invert(pc.and_(known, of_both["alone"]))).to_pylist():
        found.add(f"{bench[0]} {row['key']}", split=bench[1], shown_as=f"{row['label']} {row['stars']}")
    times = rows.join(shown.group_by("key").aggregate([([], "count_all")]), "key", use_threads=False)
    n, is_scored = pc.fill_null(times["count_all"], 0), pc.fill_null(pc.equal(times["scoring"], _SCORED), False)
    for row in times.filter(pc.not_equal(n, is_scored.cast(pa.int64()))).to_pylist():
        found.add(f"{bench[0]} {row['key']}", split=bench[1], shown=row["count_all"] or 0, stated=row["scoring"])


def _search_unjustified(found: Found, files: PackageFiles, bench: _Bench, rows: pa.Table) -> None:
    """Note SNVs stated as not shown that a window of the bench has apart from its ends."""
    is_snv = pc.and_(*(pc.equal(pc.binary_length(rows[name]), 1) for name in ("ref", "alt")))
    left_out = rows.filter(pc.and_(is_snv, pc.fill_null(pc.not_equal(rows["scoring"], _SCORED), False)))
    inner = list[Span]()
    for batch in files.windows(bench[1], ("holdout", "contig", "start", "end")) if left_out.num_rows else ():
        ours = batch.filter(pc.and_(pc.equal(batch["holdout"], bench[0]), pc.is_valid(batch["start"])))
        columns = (canonical_names(ours["contig"]), ours["start"], ours["end"])
        for contig, start, end in zip(*(each.to_pylist() for each in columns), strict=True):
            if end - start > 2 * _EDGE_BP:
                inner.append(Span(contig, start + _EDGE_BP, end - _EDGE_BP))
    start = left_out["pos"].to_numpy() - 1
    shared = HeldSpans(inner).shared_bp(left_out["chrom"].combine_chunks(), start, start + 1)
    for row in left_out.filter(pa.array(shared > 0)).to_pylist():
        found.add(f"{bench[0]} {row['key']}", split=bench[1], stated=row["scoring"], problem="a window has it")


def _search_missing(
    found: Found,
    files: PackageFiles,
    reference: Reference,
    clinvar: Path,
    *,
    stated: dict[_Bench, pa.Table],
    least: int,
) -> None:
    """Note decided alleles of the VCF that are held out for an evaluation, and that the package does not have there."""
    spans = {bench: HeldSpans(of_bench) for bench, of_bench in spans_by_role(files).items()}
    listed = _listed(files)
    for contig, published in _published(files, clinvar, least):
        decided = published.filter(published["decided"]).select(KEY)
        normal = normalise_alleles(decided, reference)
        forms, written = keys_of(normal), keys_of(decided)
        undecided = keys_of(published.filter(pc.invert(published["decided"])))
        is_known = pc.and_(pc.is_valid(forms), pc.invert(pc.is_in(forms, value_set=undecided)))
        rows = np.flatnonzero(is_known.to_numpy(zero_copy_only=False))
        normal, forms, written = (each.take(pa.array(rows)) for each in (normal.combine_chunks(), forms, written))
        start = normal["pos"].to_numpy() - 1
        end = start + pc.binary_length(normal["ref"]).to_numpy()
        contigs = normal["chrom"].combine_chunks()
        ours = {bench: held.shared_bp(contigs, start, end) > 0 for bench, held in spans.items()}
        for bench, by_contig in listed.items():
            ours[bench] = ours.get(bench, False) | _is_in(forms, pa.chunked_array(by_contig[contig], pa.string()))
        # An allele of a test is evaluated there only.
        tested = np.logical_or.reduce(
            [np.zeros(len(rows), np.bool_), *(is_held for (_, split), is_held in ours.items() if split == TEST)]
        )
        for bench, is_held in ours.items():
            if bench[0] == _WITHOUT_BENCH:
                continue
            missing = is_held & (bench[1] == TEST or ~tested)
            if bench in stated:
                of_bench = stated[bench]
                missing &= ~_is_in(forms, of_bench["key"].filter(pc.equal(of_bench["chrom"], contig)))
            for row in np.flatnonzero(missing).tolist():
                problem = {"published": str(written[row]), "problem": "not in the package"}
                found.add(f"{bench[0]} {forms[row]}", split=bench[1], **problem)


def _published(files: PackageFiles, clinvar: Path, least: int) -> Iterator[tuple[str, pa.Table]]:
    """Yield the different alleles of the VCF, contig by contig of the package, and whether all records are decided."""
    windows = (batch["contig"] for split in (TRAIN, *EVALUATION) for batch in files.windows(split, ("contig",)))
    names = {canonical_name(name) for batch in windows for name in batch.unique().drop_null().to_pylist()}
    parts = defaultdict[str, list[pa.Table]](list)
    for table in read_records(clinvar):
        longest = pc.max_element_wise(*(pc.binary_length(table[name]) for name in ("ref", "alt")))
        is_decided = pc.and_(
            pc.is_in(table["label"], value_set=pa.array(sorted(_DECIDED))), pc.greater_equal(table["stars"], least)
        )
        ours = table.select(KEY).append_column("decided", is_decided).filter(pc.less_equal(longest, _LONGEST))
        for contig, rows in rows_by_contig(ours["chrom"].combine_chunks()):
            if contig in names:
                parts[contig].append(ours.take(pa.array(rows)))
    while parts:
        contig, tables = parts.popitem()
        grouped = pa.concat_tables(tables).group_by(list(KEY), use_threads=False).aggregate([("decided", "min")])
        yield contig, grouped.rename_columns([*KEY, "decided"]).combine_chunks()


def _listed(files: PackageFiles) -> dict[_Bench, defaultdict[str, list[pa.Array]]]:
    """Return the keys of the alleles that each holdout and split holds out by themselves, by contig."""
    listed = dict[_Bench, defaultdict[str, list[pa.Array]]]()
    for batch in files.holdout("alleles", ("holdout", "role", *KEY)):
        benches, alleles = pc.binary_join_element_wise(batch["holdout"], batch["role"], "\t"), alleles_of(batch)
        for name in benches.unique().to_pylist():
            holdout, _, role = name.partition("\t")
            add_keys(listed.setdefault((holdout, role), defaultdict(list)), alleles.filter(pc.equal(benches, name)))
    return listed


def _is_in(keys: pa.Array, known: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_in(keys, value_set=known).to_numpy(zero_copy_only=False)
    return found
