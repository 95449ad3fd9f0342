"""The audit of written shards: intact ones pass every check, each planted fault is found by the check that names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.store.tables.parquet import write_table
from genolewm_assets.variants import audit as shard_audit
from genolewm_assets.variants.audit import audit_shard
from genolewm_assets.variants.checks import check_clinvar_table
from genolewm_assets.variants.declared_checks import CLINVAR_CHECKS
from genolewm_assets.variants.schema import CLINVAR_VARIANTS, REJECTS
from genolewm_assets.variants.shard import ShardReport
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

BASES = b"ACGTTTACGGACCATGAACG" * 5
CONTIGS = ContigSet([Contig("chr17", len(BASES)), Contig("chr20", len(BASES))])


def row(chrom: str, pos: int, alt: str, **changes: object) -> dict[str, object]:
    stated = {"chrom": chrom, "pos": pos, "ref": chr(BASES[pos - 1]), "alt": alt, "clinvar_id": pos, "stars": 2}
    return {**stated, "label": "P", "clnsig": "Pathogenic", "gene_symbols": ["SIM1"], "gene_ids": [1], **changes}


Rows = list[dict[str, object]]


def audit(folder: Path, rows: Rows, **more: Any) -> dict[str, CheckResult]:
    """Write one file per contig and audit them."""
    files = {f"{name}.parquet": [row for row in rows if row["chrom"] == name] for name in CONTIGS.names}
    return audit_files(folder, files, **more)


def audit_files(
    folder: Path,
    files: dict[str, Rows],
    *,
    alleles_in_source: int | None = None,
    no_source: str | None = None,
    reference: bool = True,
    **counts: int,
) -> dict[str, CheckResult]:
    """Audit files; ``counts`` replace those of an honest builder."""
    for name, part in files.items():
        table = pa.Table.from_pylist(part, schema=CLINVAR_VARIANTS.arrow)
        write_table([table], folder / name, CLINVAR_VARIANTS)
    rows = [row for part in files.values() for row in part]
    write_table([REJECTS.empty()], folder / "rejects.parquet", REJECTS)
    honest = {"alleles_in": len(rows), "kept": len(rows), "rejected": 0, "filtered": 0}
    results = audit_shard(
        folder,
        ShardReport({**honest, **counts}, {}, len(rows) if alleles_in_source is None else alleles_in_source),
        check_clinvar_table,
        contigs=CONTIGS,
        reference=(lambda _: BASES) if reference else None,
        max_ref_mismatch_fraction=0.001,
        no_source=no_source,
    )
    # Without a reference nothing is said of REF.
    named = [name for name in CLINVAR_CHECKS if reference or name != "ref_agrees_with_genome"]
    assert [result.name for result in results] == named
    return {result.name: result for result in results}


GOOD = [row("chr17", 3, "T"), row("chr17", 10, "A"), row("chr20", 5, "G", label="B", clnsig="Benign")]


def test_an_honest_shard_passes_and_its_figures_add_up(tmp_path: Path) -> None:
    results = audit(tmp_path, GOOD)
    assert all(result.passed for result in results.values())
    assert results["ref_agrees_with_genome"].figures["compared_bases"] == 3


def test_a_shard_without_rows_compared_nothing_and_passes_only_if_that_is_declared(tmp_path: Path) -> None:
    by_name = audit(tmp_path, [])
    assert {name for name, result in by_name.items() if not result.passed} == set(CLINVAR_CHECKS[1:])
    assert by_name["every_record_accounted_for"].figures["not_compared"] == "the source has no allele"
    # The account of a source whose alleles were all filtered shows that a shard without rows is right.
    filtered = audit(tmp_path, [], alleles_in_source=4, alleles_in=4, filtered=4, **{"filtered.rare": 4})
    assert all(result.passed for result in filtered.values())
    assert filtered["every_record_accounted_for"].figures["compared"] == 4
    said = filtered["ref_agrees_with_genome"].figures
    assert (said["compared"], said["not_compared"]) == (0, "every allele of the source was filtered or rejected")
    declared = audit(tmp_path, [], no_source="no_source: none is named")
    assert all(result.passed for result in declared.values())
    assert {result.figures.get("not_compared") for result in list(declared.values())[1:]} == {
        "no_source: none is named"
    }


Fault = Callable[[Rows], Rows]
FAULTS: dict[str, Fault] = {
    "ref_agrees_with_genome": lambda rows: [*rows[:2], {**rows[2], "ref": "A" if rows[2]["ref"] != "A" else "C"}],
    "alleles_sorted_and_unique": lambda rows: [rows[1], rows[0], rows[2]],
    "alleles_in_normal_form": lambda rows: [{**rows[0], "ref": "GT", "alt": "GA"}, *rows[1:]],
    "labels_follow_clnsig": lambda rows: [{**rows[0], "clnsig": "Benign"}, *rows[1:]],
}


@pytest.mark.parametrize("check", FAULTS)
def test_a_planted_fault_is_found(check: str, tmp_path: Path) -> None:
    assert not audit(tmp_path, FAULTS[check]([dict(each) for each in GOOD]))[check].passed


MISPLACED: dict[str, dict[str, Rows]] = {
    "rows of another contig": {"chr17.parquet": GOOD, "chr20.parquet": []},
    "files swapped": {"chr17.parquet": GOOD[2:], "chr20.parquet": GOOD[:2]},
    "contigs interleaved": {"variants.parquet": [GOOD[0], GOOD[2], GOOD[1]]},
    "contigs out of order": {"variants.parquet": [GOOD[2], *GOOD[:2]]},
    "a contig that the genome lacks": {"variants.parquet": [*GOOD, row("chrX", 3, "T")]},
    "a file of such a contig": {"chr17.parquet": GOOD[:2], "chrX.parquet": [row("chrX", 3, "T")]},
}


@pytest.mark.parametrize("case", MISPLACED)
def test_rows_where_they_do_not_belong_are_found(case: str, tmp_path: Path) -> None:
    assert not audit_files(tmp_path, MISPLACED[case])["alleles_sorted_and_unique"].passed


def test_without_a_reference_nothing_is_said_of_ref(tmp_path: Path) -> None:
    assert all(result.passed for result in audit(tmp_path, GOOD, reference=False).values())


TWICE = {"variants.parquet": [GOOD[0], GOOD[1], GOOD[1], GOOD[2]]}
REVERSED = {"variants.parquet": [GOOD[1], GOOD[0], GOOD[2]]}


@pytest.mark.parametrize("rows_at_once", [1, 2])
@pytest.mark.parametrize("files", [{"variants.parquet": GOOD}, *MISPLACED.values(), TWICE, REVERSED])
def test_the_outcome_does_not_depend_on_how_many_rows_are_checked_at_once(
    files: dict[str, Rows], rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = audit_files(tmp_path, files)
    monkeypatch.setattr(shard_audit, "_ROWS_AT_ONCE", rows_at_once)
    assert audit_files(tmp_path, files) == whole


def test_a_contig_is_never_in_memory_whole(tmp_path: Path) -> None:
    contig, step = Contig("chr20", 60_000_000), 10_000
    longest = 0

    class Watched(bytes):
        """Six bases that stand for sixty million."""

        def __len__(self) -> int:
            return contig.length

        def __getitem__(self, at: Any) -> Any:
            nonlocal longest
            if not isinstance(at, slice):
                return b"CATGCA"[at % 6]
            start, end, _ = at.indices(contig.length)
            longest = max(longest, end - start)
            return (b"CATGCA" * ((end - start) // 6 + 2))[start % 6 :][: end - start]

    bases = Watched()
    records = [
        (contig.name, pos, ".", chr(bases[pos - 1]), "C" if chr(bases[pos - 1]) != "C" else "G", "PASS", "AF=0.5")
        for pos in range(step, contig.length, step)
    ]
    vcf = write_text(tmp_path / "in.vcf.gz", vcf_text(records, info=["AF:A:Float"]), "bgzip")
    report = build_gnomad_shard(
        vcf,
        contig=contig,
        contigs=ContigSet([contig]),
        reference=lambda _: bases,
        params=GnomadParams(),
        out_dir=tmp_path / "shard",
    )
    checks = audit_shard(
        tmp_path / "shard",
        replace(report, alleles_in_source=len(records)),
        GnomadParams().check_table,
        contigs=ContigSet([contig]),
        reference=lambda _: bases,
        max_ref_mismatch_fraction=0.0,
    )
    assert report.counts["kept"] == len(records) == 5_999
    assert all(check.passed for check in checks)
    assert next(c.figures["compared_bases"] for c in checks if c.name == "ref_agrees_with_genome") == len(records)
    assert longest < 5_000_000
