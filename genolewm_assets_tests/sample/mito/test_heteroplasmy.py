from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pysam
import pytest

from genolewm_assets.mito.genomes.rotation import canonical_rotation
from genolewm_assets_tests.referees.mito_census import fasta_records

LAYOUTS = {"AF": "A", "HL": 1}
CODES = {"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"}


@pytest.fixture(params=LAYOUTS)
def calls(request: pytest.FixtureRequest, sample_dir: Path) -> tuple[str, list[pysam.VariantRecord]]:
    path = sample_dir / "mtdna" / f"heteroplasmy_{request.param.lower()}.vcf.gz"
    with pysam.VariantFile(str(path)) as file:
        assert file.header.formats[request.param].number == LAYOUTS[request.param]
        assert (file.header.contigs["chrM"].length, file.header.formats[request.param].type) == (16_569, "Float")
        return request.param, list(file)


def levels(record: pysam.VariantRecord, name: str, field: str) -> list[float | None]:
    value = record.samples[name][field]
    return list(value) if isinstance(value, tuple) else [value]


def test_ref_is_chrm_and_records_are_sorted(
    calls: tuple[str, list[pysam.VariantRecord]], sequences: dict[str, str]
) -> None:
    _, records = calls
    assert all(sequences["chrM"][r.start : r.stop] == r.ref for r in records)
    assert [r.pos for r in records] == sorted(r.pos for r in records)
    assert [r.pos for r in records if "PASS" not in r.filter] == [r.pos for r in records if "strand_bias" in r.filter]


def test_genotype_agrees_with_the_level(calls: tuple[str, list[pysam.VariantRecord]]) -> None:
    field, records = calls
    seen = set()
    for record in records:
        for name in record.samples:
            found, genotype = levels(record, name, field), record.samples[name]["GT"]
            if found == [None]:
                assert genotype == (None, None)
                continue
            carried = {number for number, level in enumerate(found, start=1) if level}
            assert sum(found) <= 1
            assert set(genotype) == (carried if max(found) > 0.9499 else {0, *carried})
            assert record.samples[name]["DP"] >= 400
            seen.add(genotype)
    assert {(0, 0), (0, 1), (1, 1)} <= seen


def test_the_calls_rebuild_the_genomes(
    calls: tuple[str, list[pysam.VariantRecord]], sequences: dict[str, str], sample_dir: Path
) -> None:
    """Applied to chrM, from the last to the first, the calls of a genome that passed spell the genome."""
    field, records = calls
    genomes = {record.name: record.sequence for record in fasta_records(sample_dir / "mtdna" / "genomes.fa.gz")}
    code = {frozenset(pair): letter for letter, pair in CODES.items()}
    for name in records[0].samples:
        bases = list(sequences["chrM"])
        for record in reversed(records):
            top = max(level or 0.0 for level in levels(record, name, field))
            if top >= 0.7:
                bases[record.start : record.stop] = [record.alts[0]] + [""] * (len(record.ref) - 1)
            elif top >= 0.3:
                bases[record.start] = code[frozenset(record.ref + record.alts[0])]
        spelt = "".join(bases).replace("N", "")
        assert canonical_rotation(spelt) == canonical_rotation(genomes[name])


@pytest.mark.skipif(shutil.which("bcftools") is None, reason="bcftools is not installed")
@pytest.mark.parametrize("level", LAYOUTS)
def test_bcftools_reads_it(level: str, sample_dir: Path) -> None:
    path = sample_dir / "mtdna" / f"heteroplasmy_{level.lower()}.vcf.gz"
    done = subprocess.run(["bcftools", "view", "-H", str(path)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") > 80
