"""The files of a shard do not depend on how many threads made them, nor on how the text was cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.sources.clinvar.shard import build_clinvar_shard
from genolewm_assets.sources.gnomad import scan as gnomad_scan
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.sources.vcf import bgzf
from genolewm_assets_tests.worlds.sources import clinvar_records
from genolewm_assets_tests.worlds.sources.gnomad_world import PLAIN, SEQUENCE, TOY
from genolewm_assets_tests.worlds.sources.index_files import bgzip
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text


def alleles(seed: int) -> list[tuple[int, str, str]]:
    """Return sorted alleles: SNVs, insertions and deletions, some of them ambiguous, some wrong."""
    draw = random.Random(seed)
    found = []
    for _ in range(400):
        at = draw.randrange(len(SEQUENCE) - 4)
        ref = SEQUENCE[at : at + draw.choice([1, 1, 1, 3])].decode()
        found.append((at + 1, draw.choice([ref] * 9 + ["A"]), draw.choice(["A", "CT", ref + "T", "N", "*", "G,T"])))
    return sorted(found)


def build_gnomad(path: Path, **more: Any) -> None:
    build_gnomad_shard(path, contig=None, contigs=TOY, params=GnomadParams(), **more)


def build_clinvar(path: Path, **more: Any) -> None:
    build_clinvar_shard(path, release="2026-02-26", contigs=clinvar_records.TOY, **more)


def gnomad_text() -> str:
    info = {True: "AF=0.5,0.5", False: "AF=0.5"}
    return vcf_text(
        [("chr17", pos, ".", ref, alt, "PASS", info["," in alt]) for pos, ref, alt in alleles(1)], info=PLAIN
    )


def clinvar_text() -> str:
    rows = [clinvar_records.record(pos=pos, ref=ref, alt=alt, name=n) for n, (pos, ref, alt) in enumerate(alleles(2))]
    return vcf_text(rows, info=clinvar_records.INFO)


@pytest.mark.parametrize(("text", "build"), [(gnomad_text, build_gnomad), (clinvar_text, build_clinvar)])
def test_threads_and_cuts_never_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: Callable[[], str], build: Callable[..., None]
) -> None:
    path = write_text(tmp_path / "in.vcf", bgzip(text().encode(), block_bytes=700))
    found = []
    for threads, batch in ((1, 1 << 22), (2, 1), (2, 2_000), (4, 1), (5, 1 << 22)):
        monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", batch)
        monkeypatch.setattr(gnomad_scan, "ENOUGH_BYTES", batch)
        out = tmp_path / f"{threads} {batch}"
        build(path, reference=lambda _: SEQUENCE, out_dir=out, threads=threads)
        found.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert all(each == found[0] for each in found)
    assert len(found[0]["rejects.parquet"]) > 3_000
