"""The peers, each in its own process: ``python -m benchmarks.vcf.peer_jobs JOB KIND VCF OUT``.

Readers read position, alleles and three INFO fields; ``geno-lewm`` writes its own shard. Peers whose number of threads
can be set use two. This module uses only the standard library besides the peer, because the peers' environment has
nothing else.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path

from benchmarks.stopwatch import serve

FIELDS = {"gnomad": ("AC", "AN", "AF"), "clinvar": ("CLNSIG", "CLNREVSTAT", "GENEINFO")}
_THREADS = 2


def _cyvcf2(kind: str) -> Callable[[Path, Path], int]:
    from cyvcf2 import VCF

    def read(vcf: Path, _: Path) -> int:
        records = 0
        for record in VCF(str(vcf), threads=_THREADS):
            get = record.INFO.get
            _row = (record.POS, record.REF, record.ALT, *(get(name) for name in FIELDS[kind]))
            records += 1
        return records

    return read


def _pysam(kind: str) -> Callable[[Path, Path], int]:
    import pysam

    pysam.set_verbosity(0)

    def read(vcf: Path, _: Path) -> int:
        records = 0
        with pysam.VariantFile(str(vcf), threads=_THREADS) as reader:
            for record in reader:
                get = record.info.get
                _row = (record.pos, record.ref, record.alts, *(get(name) for name in FIELDS[kind]))
                records += 1
        return records

    return read


def _bcftools(kind: str) -> Callable[[Path, Path], None]:
    if shutil.which("bcftools") is None:
        raise ModuleNotFoundError("no bcftools on PATH")
    fields = "".join(rf"\t%INFO/{name}" for name in FIELDS[kind])

    def read(vcf: Path, _: Path) -> None:
        query = ["bcftools", "query", "-f", rf"%POS\t%REF\t%ALT{fields}\n", str(vcf)]
        subprocess.run(query, stdout=subprocess.DEVNULL, check=True)

    return read


def _polars_bio(kind: str) -> Callable[[Path, Path], int]:
    import polars_bio

    polars_bio.set_option("datafusion.execution.target_partitions", str(_THREADS))

    def read(vcf: Path, _: Path) -> int:
        names = list(FIELDS[kind])
        frame = polars_bio.scan_vcf(str(vcf), info_fields=names)
        return int(frame.select(["start", "ref", "alt", *names]).collect().height)

    return read


def _oxbow(kind: str) -> Callable[[Path, Path], int]:
    import oxbow

    def read(vcf: Path, _: Path) -> int:
        source = oxbow.from_vcf(
            str(vcf), compression="bgzf", fields=["pos", "ref", "alt"], info_fields=list(FIELDS[kind])
        )
        return sum(batch.num_rows for batch in source.batches())

    return read


def _geno_lewm(kind: str) -> Callable[[Path, Path], int]:
    from geno_lewm.data import prepare_clinvar_shard, prepare_gnomad_shard

    prepare = {
        "gnomad": partial(prepare_gnomad_shard, release="v4.1"),
        "clinvar": partial(prepare_clinvar_shard, release="2026-02-26"),
    }[kind]
    return lambda vcf, out: int(prepare(vcf, out).records_read)


PEERS: dict[str, Callable[[str], Callable[[Path, Path], int | None]]] = {
    "pysam": _pysam,
    "cyvcf2": _cyvcf2,
    "bcftools": _bcftools,
    "polars-bio": _polars_bio,
    "oxbow": _oxbow,
    "geno-lewm": _geno_lewm,
}


def _version(name: str) -> str:
    if name == "bcftools":
        shown = subprocess.run(["bcftools", "--version"], capture_output=True, text=True, check=True).stdout
        return shown.split()[1]
    return metadata.version(name)


def main() -> None:
    name, kind, vcf, out = sys.argv[1:]
    work = PEERS[name](kind)

    serve(lambda: work(Path(vcf), Path(out)), version=_version(name), out=Path(out))


if __name__ == "__main__":
    main()
