"""Search for ClinVar alleles of an evaluation that its bench does not show exactly once, or shows without cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.clinvar_vcf import read_records
from genolewm_assets.audit.alleles.normal_alleles import KEY, alleles_of, canonical_names, keys_of, normalise_alleles
from genolewm_assets.audit.emitted import draw_bench
from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.intervals import HeldSpans, Span, spans_by_role
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
_COLUMNS = ("source", "holdout", *KEY, "label", "stars", "scoring")


def search_benches(
    files: PackageFiles,
    reference: Reference,
    clinvar: Path | None,
    draw: Callable[[Path, str, str], Iterable[Any]] = draw_bench,
) -> SearchResult:
    """Compare the alleles that each bench shows with those stated, and those stated with ClinVar."""
    found, n, gaps = Found(), Counter[str](), list[str]()
    least = int(files.record.get("policy", {}).get("min_stars", 0))
    stated: dict[_Bench, dict[str, _Row]] = defaultdict(dict)
    for split in EVALUATION if not files.without_stream else ():
        for batch in files.variants(split, _COLUMNS):
            ours = batch.filter(pc.equal(batch["source"], "clinvar"))
            for key, row in zip(keys_of(alleles_of(ours)).to_pylist(), ours.to_pylist(), strict=True):
                stated[row["holdout"], split][key] = row
    for bench, rows in sorted(stated.items()):
        _search_stated(found, bench, rows, least)
        shown = Counter[str]()
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


def _search_stated(found: Found, bench: _Bench, rows: dict[str, _Row], least: int) -> None:
    for allele, row in rows.items():
        qualifies = row["label"] in _DECIDED and (row["stars"] or 0) >= least and bench[0] != _WITHOUT_BENCH
        if qualifies != (row["scoring"] is not None):
            label = f"{row['label']} {row['stars']}"
            found.add(f"{bench[0]} {allele}", split=bench[1], label=label, stated=row["scoring"])


def _shown(found: Found, bench: _Bench, rows: dict[str, _Row], batches: Iterable[Any]) -> Counter[str]:
    shown: Counter[str] = Counter()
    for one in (one for batch in batches for one in batch.tuples):
        edit = one.alleles[0]
        allele = f"{canonical_name(edit.chrom)}:{edit.pos}:{edit.ref}:{edit.alt}"
        row = rows.get(allele, {})
        shown[allele] += 1
        if not row or (one.label, one.stars) != (row["label"], row["stars"]) or len(one.alleles) != 1:
            found.add(f"{bench[0]} {allele}", split=bench[1], shown_as=f"{one.label} {one.stars}")
    return shown


def _search_unjustified(found: Found, files: PackageFiles, bench: _Bench, rows: dict[str, _Row]) -> None:
    """Note SNVs stated as not shown that a window of the bench has apart from its ends."""
    left_out = [key for key, row in rows.items() if row["scoring"] not in (None, _SCORED) and _is_snv(row)]
    if not left_out:
        return
    inner = list[Span]()
    for batch in files.windows(bench[1], ("holdout", "contig", "start", "end")):
        ours = batch.filter(pc.and_(pc.equal(batch["holdout"], bench[0]), pc.is_valid(batch["start"])))
        places = zip(
            canonical_names(ours["contig"]).to_pylist(), ours["start"].to_pylist(), ours["end"].to_pylist(), strict=True
        )
        inner += [
            Span(contig, start + _EDGE_BP, end - _EDGE_BP)
            for contig, start, end in places
            if end - start > 2 * _EDGE_BP
        ]
    alleles = alleles_of(pa.Table.from_pylist([rows[key] for key in left_out]))
    start = alleles["pos"].to_numpy() - 1
    shared = HeldSpans(inner).shared_bp(alleles["chrom"].combine_chunks(), start, start + 1)
    for row in np.flatnonzero(shared).tolist():
        key = left_out[row]
        found.add(f"{bench[0]} {key}", split=bench[1], stated=rows[key]["scoring"], problem="a window has it")


def _is_snv(row: _Row) -> bool:
    return len(row["ref"]) == len(row["alt"]) == 1


def _search_missing(
    found: Found,
    files: PackageFiles,
    reference: Reference,
    clinvar: Path,
    *,
    stated: dict[_Bench, dict[str, _Row]],
    least: int,
) -> None:
    """Note decided alleles of the VCF that are held out for an evaluation, and that the package does not have there."""
    published = _decided(files, clinvar, least)
    decided = published.filter(published["decided"]).select(KEY)
    normal = normalise_alleles(decided, reference)
    forms, written = keys_of(normal), keys_of(decided)
    undecided = keys_of(published.filter(pc.invert(published["decided"])))
    is_known = pc.and_(pc.is_valid(forms), pc.invert(pc.is_in(forms, value_set=undecided)))
    rows = np.flatnonzero(is_known.to_numpy(zero_copy_only=False))
    normal, forms, written = (
        normal.take(rows).combine_chunks(),
        forms.take(pa.array(rows)),
        written.take(pa.array(rows)),
    )
    ours = _held_by(files, normal, forms)
    # An allele of a test is evaluated there only.
    tested = np.logical_or.reduce(
        [np.zeros(len(rows), np.bool_), *(is_held for (_, split), is_held in ours.items() if split == TEST)]
    )
    for bench, is_held in ours.items():
        if bench[0] == _WITHOUT_BENCH:
            continue
        missing = is_held & (bench[1] == TEST or ~tested)
        missing &= ~pc.is_in(forms, value_set=pa.array(stated.get(bench, {}), pa.string())).to_numpy(
            zero_copy_only=False
        )
        for row in np.flatnonzero(missing).tolist():
            problem = {"published": str(written[row]), "problem": "not in the package"}
            found.add(f"{bench[0]} {forms[row]}", split=bench[1], **problem)


def _decided(files: PackageFiles, clinvar: Path, least: int) -> pa.Table:
    """Return the different alleles of the VCF on contigs of the package, and whether all records of each are decided.

    Of several records of an allele the shard takes one, or none.
    """
    windows = (batch["contig"] for split in (TRAIN, *EVALUATION) for batch in files.windows(split, ("contig",)))
    names = {canonical_name(name) for batch in windows for name in batch.unique().drop_null().to_pylist()}
    known = pa.array(sorted(names), pa.string())
    parts = []
    for table in read_records(clinvar):
        longest = pc.max_element_wise(*(pc.binary_length(table[name]) for name in ("ref", "alt")))
        ours = table.filter(pc.and_(pc.is_in(table["chrom"], value_set=known), pc.less_equal(longest, _LONGEST)))
        is_decided = pc.and_(
            pc.is_in(ours["label"], value_set=pa.array(sorted(_DECIDED))), pc.greater_equal(ours["stars"], least)
        )
        parts.append(ours.select(KEY).append_column("decided", is_decided))
    grouped = pa.concat_tables(parts).group_by(list(KEY), use_threads=False).aggregate([("decided", "min")])
    return grouped.rename_columns([*KEY, "decided"]).combine_chunks()


def _held_by(files: PackageFiles, alleles: pa.Table, keys: pa.Array) -> dict[_Bench, npt.NDArray[np.bool_]]:
    """Tell which alleles each holdout and split holds out, by an interval or by itself."""
    start = alleles["pos"].to_numpy() - 1
    end = start + pc.binary_length(alleles["ref"]).to_numpy()
    contigs = alleles["chrom"].combine_chunks()
    held = {bench: HeldSpans(spans).shared_bp(contigs, start, end) > 0 for bench, spans in spans_by_role(files).items()}
    for batch in files.holdout("alleles", ("holdout", "role", *KEY)):
        benches = pc.binary_join_element_wise(batch["holdout"], batch["role"], "\t")
        listed = keys_of(alleles_of(batch))
        for name in benches.unique().to_pylist():
            holdout, _, role = name.partition("\t")
            is_listed = pc.is_in(keys, value_set=listed.filter(pc.equal(benches, name))).to_numpy(zero_copy_only=False)
            held[holdout, role] = held.get((holdout, role), np.zeros(len(keys), np.bool_)) | is_listed
    return held
