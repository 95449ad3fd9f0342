"""Checks of variant shards, column-wise, by code that shares nothing with the code that builds shards.

An allele is left-aligned and trimmed exactly if REF and ALT end in different bases, and begin with different bases
unless one of them is a single base (Tan, Abecasis and Kang 2015, Bioinformatics 31:2202).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import CLASSES, Bases, Contig, parts_around
from genolewm_assets.store.artefacts import SHOWN_ROWS, CheckResult, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema, check_schema, not_run, rows_at_fault
from genolewm_assets.variants.declared_checks import CONTIGS_KNOWN, GNOMAD_CHECKS, OWN_GNOMAD_CHECKS
from genolewm_assets.variants.schema import ALLELE_KEY, ANCESTRY_GROUPS, CLINVAR_VARIANTS, GNOMAD_VARIANTS, REJECTS
from genolewm_assets.variants.spans import Bools, as_bools

#: Begin of the name of a count of such records, before the name of the contig.
OTHER_CONTIG = "other_contig."

#: The filter of alleles that passed the bound of AF; it may remove over half of fewer alleles than these.
_AFTER_AF, _FEW_ALLELES = "low_an", 20

_AMBIGUOUS = np.frombuffer(b"RYSWKMBDHV", dtype=np.uint8)


def check_gnomad_table(
    table: pa.Table, contig: Contig, reference: Bases | None, *, min_af: float, filters: Collection[str]
) -> tuple[CheckResult, ...]:
    """Check the rows of one contig of a gnomAD shard.

    Parameters
    ----------
    reference
        Bases of the contig, upper-case. None: REF is not compared, and alleles need only be trimmed.
    min_af, filters
        Smallest AF, 0 to 1, and the FILTER texts that may be kept. A circular contig keeps every site.
    """
    shared = _check_alleles(table, GNOMAD_VARIANTS, contig, reference)
    if not shared[0].passed:
        return (*shared, *map(not_run, OWN_GNOMAD_CHECKS))
    return (*shared, check_frequencies(table), check_filters(table, contig, min_af=min_af, filters=filters))


def check_clinvar_table(table: pa.Table, contig: Contig, reference: Bases | None) -> tuple[CheckResult, ...]:
    """Check the rows of one contig of a ClinVar shard; ``reference`` as in :func:`check_gnomad_table`."""
    shared = _check_alleles(table, CLINVAR_VARIANTS, contig, reference)
    if not shared[0].passed:
        return (*shared, not_run("labels_follow_clnsig"))
    return (*shared, check_labels(table))


def merge_checks(results: Iterable[tuple[CheckResult, ...]]) -> tuple[CheckResult, ...]:
    """Merge results of the same check: it passed if all did, and its rows at fault are the first ones of all.

    Whole-number figures are summed; of others, the first non-empty one is kept.
    """
    merged: dict[str, CheckResult] = {}
    for result in (each for group in results for each in group):
        before = merged.get(result.name)
        if before is None:
            merged[result.name] = result
            continue
        figures: dict[str, JsonValue] = dict(before.figures)
        for name, value in result.figures.items():
            known = figures.get(name)
            figures[name] = known + value if isinstance(known, int) and isinstance(value, int) else known or value
        rows = (*before.rows, *result.rows)
        merged[result.name] = CheckResult(result.name, before.passed and result.passed, figures, rows)
    return tuple(merged.values())


def check_order(table: pa.Table, contig: str) -> CheckResult:
    """Check that all rows are of one contig, in ascending order of (pos, ref, alt) and unique."""
    other_contig = as_bools(pc.not_equal(table["chrom"], contig))
    before, after = table.slice(0, max(0, table.num_rows - 1)), table.slice(1)
    ascending, equal = np.zeros(after.num_rows, bool), np.ones(after.num_rows, bool)
    for name in ("pos", "ref", "alt"):
        lower, upper = before[name].combine_chunks(), after[name].combine_chunks()
        ascending |= equal & as_bools(pc.less(lower, upper))
        equal &= as_bools(pc.equal(lower, upper))
    first = np.zeros(min(1, table.num_rows), bool)
    faults = {
        "other_contig": other_contig,
        "repeated": np.concatenate([first, equal]),
        "out_of_order": np.concatenate([first, ~ascending & ~equal]),
    }
    return _of_faults("alleles_sorted_and_unique", table, faults)


def check_normal_form(table: pa.Table, *, left_aligned: bool) -> CheckResult:
    """Check that alleles are in normal form, by their first and last bases; see the module's docstring."""
    ref, alt = table["ref"], table["alt"]
    sequences = as_bools(pc.and_(*(pc.match_substring_regex(column, "^[ACGT]+$") for column in (ref, alt))))
    changed = as_bools(pc.not_equal(ref, alt))
    both_long = as_bools(pc.and_(*(pc.greater(pc.binary_length(column), 1) for column in (ref, alt))))
    same_start = _same_slice(ref, alt, 0, 1)
    same_end = _same_slice(ref, alt, -1, None)
    # An indel at the contig's first base has no base before it as anchor (VCF 4.3, §1.6.1).
    shiftable = same_end & ((table["pos"].to_numpy() > 1) | both_long) if left_aligned else same_end & both_long
    faults = {
        "not_acgt": ~sequences,
        "no_change": ~changed,
        "not_trimmed": both_long & (same_start | same_end),
        "not_left_aligned": shiftable & ~both_long & changed,
    }
    return _of_faults("alleles_in_normal_form", table, faults)


def check_reference(table: pa.Table, reference: Bases) -> CheckResult:
    """Compare every base of every REF with the contig; an ambiguity code, as on GRCh38's chr3, agrees with any base."""
    lengths = pc.binary_length(table["ref"]).to_numpy().astype(np.int64)
    starts = table["pos"].to_numpy() - 1
    inside = (starts >= 0) & (starts + lengths <= len(reference))
    rows = np.flatnonzero(inside)
    lengths, starts = lengths[inside], starts[inside]
    stated = np.frombuffer("".join(table["ref"].filter(pa.array(inside)).to_pylist()).encode(), dtype=np.uint8)
    actual = np.concatenate([stated[:0], *_bases_of(reference, starts, lengths)])
    wrong = (stated != actual) & ~np.isin(actual, _AMBIGUOUS)
    figures = {
        "compared_bases": len(stated),
        "differing_bases": int(np.count_nonzero(wrong)),
        "outside_contig": int(np.count_nonzero(~inside)),
    }
    differing = np.zeros(table.num_rows, bool)
    differing[np.repeat(rows, lengths)[wrong]] = True
    faults, at_fault = {"differs": differing, "outside_of_the_contig": ~inside}, list[dict[str, object]]()
    for row in rows_at_fault(table, faults, _shown_columns(table)):
        start, length = int(str(row["pos"])) - 1, len(str(row["ref"]))
        expected = f"the contig has {len(reference):,} bp"
        if start >= 0 and start + length <= len(reference):
            expected = reference[start : start + length].decode("ascii", "replace")
        at_fault.append({**row, "expected": expected})
    passed = not figures["differing_bases"] and not figures["outside_contig"]
    return CheckResult("ref_agrees_with_genome", passed=passed, figures=figures, rows=at_fault)


def _bases_of(
    reference: Bases, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the bases of intervals of a contig, concatenated in the order given, in several uint8 arrays."""
    for rows, first, part in parts_around(reference, starts, starts + lengths):
        start, length = starts[rows] - first, lengths[rows]
        # Index of every base: start of its interval plus its offset in the interval.
        within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        yield np.frombuffer(part, np.uint8)[np.repeat(start, length) + within]


def check_frequencies(table: pa.Table) -> CheckResult:
    """Check that frequencies are in 0 to 1, AC in 0 to AN, and AF near AC / AN (1e-3 relative, 1e-6 absolute)."""
    shares = ["af", "af_grpmax", "af_het", "max_hl", *(f"af_{group}" for group in ANCESTRY_GROUPS)]
    # A missing share is not outside; one that is not a number is.
    inside = (pc.and_(pc.greater_equal(table[name], 0), pc.less_equal(table[name], 1)) for name in shares)
    outside = [~as_bools(pc.fill_null(each, True)) for each in inside]
    counted = as_bools(pc.and_(pc.is_valid(table["ac"]), pc.greater(pc.fill_null(table["an"], 0), 0)))
    ac, an, af = (table[name].filter(pa.array(counted)).to_numpy() for name in ("ac", "an", "af"))
    over, differs = np.zeros((2, table.num_rows), bool)
    over[counted] = (ac > an) | (ac < 0)
    differs[counted] = ~np.isclose(af, ac / an, rtol=1e-3, atol=1e-6)
    figures = {
        "outside_0_to_1": int(np.count_nonzero(outside)),
        "ac_over_an": int(np.count_nonzero(over)),
        "af_differs_from_ac_over_an": int(np.count_nonzero(differs)),
    }
    faults = {f"{name}_outside_0_to_1": mask for name, mask in zip(shares, outside, strict=True)}
    faults |= {"ac_not_in_0_to_an": over, "af_differs_from_ac_over_an": differs}
    rows = rows_at_fault(table, faults, (*ALLELE_KEY, "af", "ac", "an"))
    passed = not any(figures.values())
    figures = {"with_counts": len(ac), **figures}
    return CheckResult("frequencies_consistent", passed=passed, figures=figures, rows=rows)


def check_filters(table: pa.Table, contig: Contig, *, min_af: float, filters: Collection[str]) -> CheckResult:
    """Check that every row has an AF and a FILTER that may be kept; rows of a circular contig are exempt."""
    name = "kept_alleles_pass_filters"
    if contig.circular:
        exempt = CheckResult(name, passed=True, figures={"exempt_rows": table.num_rows})
        return stating_compared(exempt, 0, "every site of a circular contig is kept", declared=True)
    accepted = as_bools(pc.is_in(table["filter"], pa.array(sorted(filters), pa.string())))
    faults = {"below_min_af": table["af"].to_numpy() < min_af, "other_filter": ~accepted}
    return _of_faults(name, table, faults, "filter", "af")


def check_labels(table: pa.Table) -> CheckResult:
    """Check labels by the words in CLNSIG, stars by their range, and that gene symbols and gene IDs are parallel."""
    label, clnsig = table["label"], pc.fill_null(table["clnsig"], "")

    def says(pattern: str) -> Bools:
        return as_bools(pc.match_substring_regex(clnsig, pattern, ignore_case=True))

    labelled = {name: as_bools(pc.equal(label, name)) for name in CLASSES}
    harmful, harmless, conflict = says(r"pathogenic\b|pathogenic_"), says("benign"), says("conflicting")
    as_harmful, as_harmless = labelled["P"] | labelled["LP"], labelled["B"] | labelled["LB"]
    contradicted = (
        (as_harmful & (~harmful | harmless))
        | (as_harmless & (~harmless | harmful))
        | (labelled["VUS"] & (~says("uncertain_significance") | harmful | harmless))
        | (conflict & ~labelled["OTHER"])
        | (labelled["P"] & says("likely_pathogenic"))
        | (labelled["B"] & says("likely_benign"))
    )
    stars = table["stars"].to_numpy()
    genes = pc.equal(pc.list_value_length(table["gene_symbols"]), pc.list_value_length(table["gene_ids"]))
    faults = {
        "unknown_labels": ~np.logical_or.reduce(list(labelled.values())),
        "labels_contradicted": contradicted,
        "stars_out_of_range": (stars < 0) | (stars > 4),
        "genes_not_parallel": ~as_bools(genes),
    }
    return _of_faults("labels_follow_clnsig", table, faults, "label", "clnsig", "stars")


def check_ref_mismatches(counts: Mapping[str, int], rejects: pa.Table, *, max_fraction: float) -> CheckResult:
    """Check that of kept + rejected alleles few do not fit the genome: REF differs from it or exceeds the contig."""
    mismatches, outside = (counts.get(f"rejected.{reason}", 0) for reason in ("ref_mismatch", "out_of_range"))
    examined = counts["kept"] + counts["rejected"]
    fraction = (mismatches + outside) / examined if examined else 0.0
    figures: dict[str, JsonValue] = {
        "fraction": fraction,
        "max_fraction": max_fraction,
        "ref_mismatches": mismatches,
        "out_of_range": outside,
        "examined": examined,
    }
    unfit = pc.is_in(rejects["reason"], pa.array(["ref_mismatch", "out_of_range"], pa.string()))
    rows = [_unfit(row) for row in rejects.filter(unfit).slice(0, SHOWN_ROWS).to_pylist()]
    return CheckResult("ref_mismatches_rare", passed=fraction <= max_fraction, figures=figures, rows=rows)


def _unfit(reject: Mapping[str, str | int | None]) -> dict[str, object]:
    """Return a reject with the bases of the reference, which its detail states, in the column ``expected``."""
    expected = str(reject.get("detail") or "").removeprefix("the reference has ")
    shown = {name: reject.get(name) for name in ("chrom", "pos", "ref")}
    return {**shown, "expected": expected, **{name: reject.get(name) for name in ("alt", "line", "record_id", "file")}}


def check_filters_spare(counts: Mapping[str, int]) -> CheckResult:
    """Check that the filter by AN does not remove over half of the alleles that passed the bound of AF, if 20 did."""
    taken = counts.get(f"filtered.{_AFTER_AF}", 0)
    examined = counts["kept"] + counts["rejected"] + taken
    at_fault = {
        "filter": _AFTER_AF,
        "removed": taken,
        "of": examined,
        "expected": "at most half of the alleles that passed AF",
        "remedy": "Look at AN in the file; min_an_fraction lowers the bound",
    }
    figures: dict[str, JsonValue] = {"passed_af": examined, _AFTER_AF: taken}
    passed = examined < _FEW_ALLELES or taken <= examined / 2
    result = CheckResult("filters_spare_most", passed=passed, figures=figures, rows=[at_fault])
    return stating_compared(result, examined, "no allele passed the bound of AF", declared=True)


def check_contigs_known(counts: Mapping[str, int]) -> CheckResult:
    """Check that no file has over 1 % of its records on contigs that are neither the genome's nor chromosomes.

    ``counts`` names the commonest such contigs of a file that has, as ``<file>.other_contig.<name>`` or without a file.
    """
    named = ((*name.partition(OTHER_CONTIG), n) for name, n in counts.items())
    rows = [
        {
            **({"of": file.removesuffix(".")} if file else {}),
            "contig": contig,
            "records": n,
            "expected": "contigs of the catalogue in 99 % of the records",
        }
        for file, found, contig, n in named
        if found and contig
    ]
    return CheckResult(CONTIGS_KNOWN, passed=not rows, figures={"contigs_named": len(rows)}, rows=rows)


def check_account(counts: Mapping[str, int], rows: int, rejects: pa.Table, *, alleles_in_source: int) -> CheckResult:
    """Check that no allele is lost or counted twice: compare the counts with the source and the rows of both tables."""
    reasons = {row["values"]: row["counts"] for row in pc.value_counts(rejects["reason"]).to_pylist()}
    stated = {name.removeprefix("rejected."): n for name, n in counts.items() if name.startswith("rejected.")}
    filtered = sum(n for name, n in counts.items() if name.startswith("filtered."))
    kept_by_label = [n for name, n in counts.items() if name.startswith("label.")]
    declared = check_schema(rejects, REJECTS).passed
    outcomes = counts["kept"] + counts["rejected"] + counts["filtered"]
    compared: list[tuple[str, object, object]] = [
        ("alleles_in is not the number of ALT alleles in the source", alleles_in_source, counts["alleles_in"]),
        ("alleles_in is not kept + rejected + filtered", counts["alleles_in"], outcomes),
        ("kept is not the number of rows", rows, counts["kept"]),
        ("rejected is not the number of rejects", rejects.num_rows, counts["rejected"]),
        ("rejects by reason differ", reasons, stated),
        ("filtered by reason differ", counts["filtered"], filtered),
        ("labels do not add up to kept", counts["kept"], sum(kept_by_label) if kept_by_label else counts["kept"]),
        ("rejects do not have their schema", "the declared columns", "the declared columns" if declared else "others"),
    ]
    wrong = [{"problem": text, "expected": one, "got": two} for text, one, two in compared if one != two]
    problems: list[JsonValue] = [str(row["problem"]) for row in wrong]
    figures: dict[str, JsonValue] = {
        "problems": problems,
        "alleles_in_source": alleles_in_source,
        "alleles_in": counts["alleles_in"],
        "rows": rows,
        "rejects": rejects.num_rows,
    }
    return CheckResult("every_record_accounted_for", passed=not problems, figures=figures, rows=wrong)


def _check_alleles(
    table: pa.Table, schema: TableSchema, contig: Contig, reference: Bases | None
) -> tuple[CheckResult, ...]:
    first = check_schema(table, schema)
    if not first.passed:
        return (first, *map(not_run, GNOMAD_CHECKS[1 : 3 if reference is None else 4]))
    normal = check_normal_form(table, left_aligned=reference is not None)
    compared = () if reference is None else (check_reference(table, reference),)
    return first, check_order(table, contig.name), normal, *compared


def _same_slice(left: pa.ChunkedArray, right: pa.ChunkedArray, start: int, stop: int | None) -> Bools:
    return as_bools(pc.equal(*(pc.utf8_slice_codeunits(column, start, stop) for column in (left, right))))


def _of_faults(name: str, table: pa.Table, faults: Mapping[str, Bools], *further: str) -> CheckResult:
    """Return the result of a check that looks for faults: the number of rows by fault, and the first rows."""
    figures = {fault: int(np.count_nonzero(mask)) for fault, mask in faults.items()}
    rows = rows_at_fault(table, faults, (*_shown_columns(table), *further))
    return CheckResult(name, passed=not any(figures.values()), figures=figures, rows=rows)


def _shown_columns(table: pa.Table) -> tuple[str, ...]:
    """Return the columns of the key of an allele, and the ClinVar id if the table has it."""
    return (*ALLELE_KEY, *(name for name in ("clinvar_id", "rsid") if name in table.column_names))
