from __future__ import annotations

from pathlib import Path

import pysam
import pysam.bcftools
import pytest

from genolewm_assets_tests.referees.census import GNOMAD_FILES, normal_form, read_rows, reject_reason
from genolewm_assets_tests.rows import each_row


@pytest.mark.parametrize("contig", ["chr17", "chr21", "chrM"])
def test_bcftools_gives_the_same_normal_forms(
    contig: str, sample_dir: Path, sequences: dict[str, str], tmp_path: Path
) -> None:
    fasta = tmp_path / "reference.fa"
    fasta.write_text(f">{contig}\n{sequences[contig]}\n")
    path = sample_dir / "gnomad" / GNOMAD_FILES[contig]
    out = str(pysam.bcftools.norm("-m", "-any", "-c", "x", "-f", str(fasta), str(path), catch_stdout=True))
    rows = [line.split("\t")[:5] for line in out.splitlines() if not line.startswith("#")]
    theirs = sorted((int(pos), ref, alt) for _, pos, _, ref, alt in rows if alt != "*" and "N" not in ref)
    ours = sorted(
        normal_form(int(c[1]), c[3], alt, sequences[contig])
        for c, _ in read_rows(path)
        for alt in c[4].split(",")
        if reject_reason(int(c[1]), c[3], alt, sequences[contig]) is None
    )
    assert theirs == ours


@each_row("contig", ["chr17", "chr20", "chr21"])
def test_border_survives_in_the_text(contig: str, sample_dir: Path) -> None:
    path = sample_dir / "gnomad" / GNOMAD_FILES[contig]
    suffix = "_joint" if "joint" in path.name else ""
    rows = [info for _, info in read_rows(path) if info[f"AF{suffix}"] == "1.00000e-02"]
    assert any(100 * int(info[f"AC{suffix}"]) == int(info[f"AN{suffix}"]) for info in rows)
