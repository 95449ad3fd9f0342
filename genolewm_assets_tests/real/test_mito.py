"""The mitochondrial assets over the real data: forty genomes of the 1000 Genomes Project, gnomAD, ClinVar's chrM."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pysam
import pytest

from genolewm_assets import mito
from genolewm_assets.mito import KmerVocabulary
from genolewm_assets.mito.genomes.differences import lay_out, parse_names
from genolewm_assets.mito.genomes.haplogroups import majors
from genolewm_assets.mito.tokens.rows import StoredTokens
from genolewm_assets.mito.tokens.tokenize import decode_tokens
from genolewm_assets.store import ArrayStoreReader

SIDES = ("train", "validation", "test")
#: The release whose file has chrM.
MITOCHONDRIAL = "2022-05-25"
N_GENOMES, N_WINDOWS, LENGTH = 40, 65, 16_569
PLACEHOLDER = 3_107


def read_fasta(path: Path) -> dict[str, str]:
    with gzip.open(path, "rt") as fasta:
        records = (record.split("\n") for record in fasta.read().split(">")[1:])
        return {header.split()[0]: "".join(lines).upper() for header, *lines in records}


@pytest.fixture(scope="module")
def given(shared_data: Path) -> dict[str, str]:
    return read_fasta(shared_data / "mtdna" / "mt_genomes_1000G_40.fa.gz")


@pytest.fixture(scope="module")
def rcrs(shared_data: Path) -> str:
    (sequence,) = read_fasta(shared_data / "mtdna" / "rCRS_NC_012920.1.fa.gz").values()
    return sequence


@pytest.fixture(scope="module")
def genomes(root: Path) -> pa.Table:
    return pq.read_table(root / "mito/genomes/genomes.parquet")


@pytest.fixture(scope="module")
def variants(root: Path) -> Path:
    return root / "mito/variants" / MITOCHONDRIAL


@pytest.fixture(scope="module")
def vocabulary() -> KmerVocabulary:
    return KmerVocabulary.build(6)


def test_every_genome_is_kept_and_is_the_files(root: Path, genomes: pa.Table, given: dict[str, str]) -> None:
    assert genomes["name"].to_pylist() == list(given)
    assert pq.read_metadata(root / "mito/genomes/rejects.parquet").num_rows == 0
    counts = json.loads((root / "mito/genomes/manifest.json").read_bytes())["counts"]
    assert (counts["records"], counts["kept"], counts["reference_bp"]) == (N_GENOMES, N_GENOMES, LENGTH)
    assert counts["bases"] == sum(map(len, given.values()))
    for row in genomes.to_pylist():
        source = given[row["name"]]
        assert not row["is_reversed"]
        assert row["sequence"] == source[row["first_base"] :] + source[: row["first_base"]]


def test_no_genome_has_a_base_at_the_placeholder(genomes: pa.Table, rcrs: str) -> None:
    assert rcrs[PLACEHOLDER - 1] == "N"
    for names in genomes["differences"].to_pylist():
        assert PLACEHOLDER - 1 not in lay_out(rcrs, parse_names(names, where="genome")).coordinates
        assert not [name for name in names if name.startswith(f"{PLACEHOLDER}")]


def test_near_copies_and_haplogroups_are_on_one_side(genomes: pa.Table) -> None:
    rows = {row["name"]: row for row in genomes.to_pylist()}
    assert rows["HG01119"]["split"] == rows["HG01284"]["split"]
    assert rows["HG01119"]["cluster"] == rows["HG01284"]["cluster"]
    assert set(genomes["haplogroup_from"].to_pylist()) == {"called"}
    sides: dict[str | None, set[str]] = {}
    for branch, side in zip(majors(genomes["haplogroup"].to_pylist()), genomes["split"].to_pylist(), strict=True):
        sides.setdefault(branch, set()).add(side)
    assert None not in sides
    assert all(len(found) == 1 for found in sides.values())
    held = {side: genomes["split"].to_pylist().count(side) for side in SIDES}
    assert 0 < held["validation"] <= 4
    assert 0 < held["test"] <= 4


def test_the_tokens_spell_the_genomes(root: Path, genomes: pa.Table, vocabulary: KmerVocabulary) -> None:
    reader = ArrayStoreReader(root / "mito/tokens", check=True)
    rows = StoredTokens(reader, vocabulary)
    assert reader.index["key"].to_pylist() == genomes["name"].to_pylist()
    for number, sequence in enumerate(genomes["sequence"].to_pylist()):
        row = rows[number]
        assert decode_tokens(row.input_ids, vocabulary) == sequence
        assert not np.any(row.het)
        assert row.position_ids is not None
        assert (np.diff(row.position_ids) >= 0).all()


def test_every_genome_has_65_windows(root: Path, genomes: pa.Table, vocabulary: KmerVocabulary) -> None:
    store = root / "mito/tokens"
    assert len(mito.MtDNADataset.from_store(store, vocabulary)) == N_GENOMES * N_WINDOWS
    for side in SIDES:
        windows = len(mito.MtDNADataset.from_store(store, vocabulary, split=side))
        assert windows == N_WINDOWS * genomes["split"].to_pylist().count(side)


def test_common_alleles_of_gnomad_and_all_of_clinvar_are_there(variants: Path) -> None:
    table = pq.read_table(variants / "variants.parquet")
    passing = table.filter(pc.equal(table["filter"], "PASS"))
    assert pc.sum(pc.greater_equal(passing["af_hom"], 0.01)).as_py() == 426
    assert pc.sum(table["in_clinvar"]).as_py() == pc.count(table["clinvar_id"]).as_py() == 2_749
    counts = json.loads((variants / "manifest.json").read_bytes())["counts"]
    assert (counts["gnomad.rows"], counts["clinvar.rows"]) == (18_164, 2_749)
    assert table.num_rows == counts["alleles"] == 18_164 + 2_749 - counts["in_both"]


def test_releases_without_the_contig_have_gnomads_alleles_only(root: Path) -> None:
    others = [path for path in (root / "mito/variants").iterdir() if path.name not in {MITOCHONDRIAL, ".gen"}]
    assert others
    for path in others:
        assert pc.sum(pq.read_table(path / "variants.parquet")["in_gnomad"]).as_py() == 18_164


def test_the_populations_level_of_a_site_is_the_vcfs_highest(variants: Path, shared_data: Path, rcrs: str) -> None:
    (vcf,) = shared_data.rglob("gnomad.genomes.v3.1.sites.chrM.vcf.bgz")
    highest = np.zeros(LENGTH, dtype=np.float32)
    near_indel = np.zeros(LENGTH, dtype=np.bool_)
    with pysam.VariantFile(str(vcf)) as records:
        for record in records:
            if list(record.filter) != ["PASS"]:
                continue
            ref, (alt,) = str(record.ref), record.alts or (".",)
            if len(ref) == len(alt) == 1:
                level = np.float32(record.info["max_hl"])
                highest[record.pos - 1] = max(highest[record.pos - 1], level)
            else:
                near_indel[max(0, record.pos - 40) : record.pos + len(ref) + 40] = True
    sites = pq.read_table(variants / "sites.parquet")
    assert "".join(sites["ref"].to_pylist()) == rcrs
    levels = sites["pop_hl"].to_numpy()
    assert np.count_nonzero(highest) > 8_000
    assert (levels >= highest).all()
    assert (levels == highest)[~near_indel].all()
    assert np.count_nonzero(~near_indel) > LENGTH // 2
