"""Shards and windows of the real data: the known figures come out.

Figures are those of the data's own description and are counted again here from the published tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest

RELEASES = ("2020-11-07", "2022-05-25", "2026-02-26")


def counts(root: Path, location: str) -> dict[str, int]:
    manifest = json.loads((root / location / "manifest.json").read_text())
    assert all(check["passed"] for check in manifest["checks"])
    return dict(manifest["counts"])


def assert_all_accounted_for(found: dict[str, int]) -> None:
    assert found["alleles_in"] == found["kept"] + found["rejected"] + found["filtered"]


@pytest.mark.parametrize(("contig", "windows"), [("chr17", 142), ("chr20", 1_212), ("chr21", 549)])
def test_windows(root: Path, contig: str, windows: int) -> None:
    assert pq.read_metadata(root / f"windows/default/{contig}/windows.parquet").num_rows == windows


def test_clinvar_classes_before_rejects_and_rejects_by_reason(root: Path) -> None:
    found = counts(root, "clinvar/2026-02-26")
    classes = {label: found[f"label_before_rejects.{label}"] for label in ("P", "LP", "LB", "B", "VUS", "OTHER")}
    assert classes == {"P": 3_566, "LP": 484, "LB": 2_888, "B": 702, "VUS": 2_362, "OTHER": 4_996}
    reasons = pq.read_table(root / "clinvar/2026-02-26/rejects.parquet")["reason"].to_pylist()
    assert sorted(reasons) == ["iupac"] * 14 + ["missing_alt"] * 3
    assert found["rejected"] == 17


@pytest.mark.parametrize(("release", "records"), list(zip(RELEASES, (11_033, 2_750, 14_998), strict=True)))
def test_clinvar_accounts_for_every_allele(root: Path, release: str, records: int) -> None:
    found = counts(root, f"clinvar/{release}")
    assert found["alleles_in"] == records
    assert_all_accounted_for(found)
    rows = sum(pq.read_metadata(path).num_rows for path in (root / f"clinvar/{release}").glob("chr*.parquet"))
    assert rows == found["kept"]


def test_gnomad_brca1_common_alleles(root: Path) -> None:
    found = counts(root, "gnomad/4.1/chr17")
    assert found["alleles_in"] == 5_795
    assert_all_accounted_for(found)
    assert found["filtered.low_an"] == 6
    table = pq.read_table(root / "gnomad/4.1/chr17/variants.parquet")
    assert table.num_rows == found["kept"] == 27 - 6
    assert min(table["af"].to_pylist()) >= 0.01


def test_gnomad_without_allele_numbers(root: Path) -> None:
    found = counts(root, "gnomad/2.0.1/chr21")
    assert found["alleles_in"] == 1_722
    assert_all_accounted_for(found)
    table = pq.read_table(root / "gnomad/2.0.1/chr21/variants.parquet")
    assert found["an_unknown"] == found["kept"] == table.num_rows > 0
    assert table["an"].null_count == table.num_rows
    assert set(table["filter"].to_pylist()) == {"."}


def test_gnomad_mitochondrial_sites(root: Path) -> None:
    found = counts(root, "gnomad/3.1/chrM")
    assert found["alleles_in"] == 18_164
    assert_all_accounted_for(found)
    assert found["filtered"] == 0
    table = pq.read_table(root / "gnomad/3.1/chrM/variants.parquet")
    common = sum(
        af >= 0.01 and state == "PASS"
        for af, state in zip(table["af"].to_pylist(), table["filter"].to_pylist(), strict=True)
    )
    assert common == 426


def test_contig_without_source_is_declared_empty(root: Path) -> None:
    assert counts(root, "gnomad/no_source/chr20")["alleles_in"] == 0


def test_every_kept_ref_equals_the_reference(root: Path) -> None:
    (genome,) = (root / "reference").glob("*/genome.fa.gz")
    tables = [
        *root.glob("gnomad/*/chr*/variants.parquet"),
        *(path for release in RELEASES for path in (root / f"clinvar/{release}").glob("chr*.parquet")),
    ]
    checked = 0
    with pysam.FastaFile(str(genome)) as fasta:
        for path in tables:
            table: pa.Table = pq.read_table(path, columns=["chrom", "pos", "ref"])
            for row in table.to_pylist():
                assert fasta.fetch(row["chrom"], row["pos"] - 1, row["pos"] - 1 + len(row["ref"])).upper() == row["ref"]
            checked += table.num_rows
    assert checked > 40_000


def test_verify_finds_a_flipped_byte(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "genolewm_assets", "verify", "--root", str(root)]
    assert subprocess.run(command, timeout=600, check=False, capture_output=True).returncode == 0
    shard = (root / "gnomad/4.1/chr17/variants.parquet").resolve()
    intact = shard.read_bytes()
    shard.write_bytes(intact[:40] + bytes([intact[40] ^ 1]) + intact[41:])
    try:
        done = subprocess.run(command, timeout=600, check=False, capture_output=True, text=True)
        assert done.returncode == 4
        assert "variants.parquet" in done.stdout
    finally:
        shard.write_bytes(intact)
