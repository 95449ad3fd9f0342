"""The project's jobs, each in its own process: scan, shard from VCF, the ``prepare`` commands, decompression alone.

``python -m benchmarks.vcf.own_jobs JOB VCF BASES OUT``; for the ``prepare`` commands, ``BASES`` is a FASTA.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from benchmarks.stopwatch import serve
from genolewm_assets.genome import ContigSet
from genolewm_assets.store.artefacts.published import Published

_READ_BYTES = 1 << 20


def _inflate(vcf: Path, _: Path) -> None:
    """Decompress a file on one thread and drop the text."""
    from isal import igzip

    with igzip.open(vcf, "rb") as text:
        while text.read(_READ_BYTES):
            continue


def _scan(_: Path) -> Callable[[Path, Path], int]:
    from genolewm_assets.genome import GRCH38
    from genolewm_assets.sources.vcf import ContigNames, VcfScanner

    def scan(vcf: Path, _: Path) -> int:
        names = ContigNames(GRCH38)
        with VcfScanner(vcf) as scanner:
            return sum(len(records) for block in scanner for _, records in names.divide(block))

    return scan


def _gnomad(bases: Path) -> Callable[[Path, Path], int]:
    from benchmarks.vcf.gnomad_vcf import CONTIG
    from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard

    reference, contigs = bases.read_bytes(), ContigSet([CONTIG])

    def build(vcf: Path, out: Path) -> int:
        report = build_gnomad_shard(
            vcf, contig=CONTIG, contigs=contigs, reference=lambda _: reference, params=GnomadParams(), out_dir=out
        )
        return report.counts["records"]

    return build


def _clinvar(bases: Path) -> Callable[[Path, Path], int]:
    from benchmarks.vcf.clinvar_vcf import CONTIGS, RELEASE
    from genolewm_assets.sources.clinvar.shard import build_clinvar_shard

    text = bases.read_bytes()
    starts = dict(zip((each.name for each in CONTIGS), range(0, len(text), len(text) // len(CONTIGS)), strict=True))
    reference = {each.name: text[starts[each.name] :][: each.length] for each in CONTIGS}

    def build(vcf: Path, out: Path) -> int:
        report = build_clinvar_shard(
            vcf, release=RELEASE, contigs=CONTIGS, reference=lambda each: reference[each.name], out_dir=out
        )
        return report.counts["records"]

    return build


def _prepare_gnomad(fasta: Path) -> Callable[[Path, Path], int]:
    from genolewm_assets.sources.prepare import prepare_gnomad

    return lambda vcf, out: _records(prepare_gnomad(vcf, out, release="4.1", reference=fasta))


def _prepare_clinvar(fasta: Path) -> Callable[[Path, Path], int]:
    from benchmarks.vcf.clinvar_vcf import RELEASE
    from genolewm_assets.sources.prepare import prepare_clinvar

    return lambda vcf, out: _records(prepare_clinvar(vcf, out, release=RELEASE, reference=fasta))


def _records(published: Published) -> int:
    return published.manifest.counts["records"]


_JOBS = {
    "scan": _scan,
    "gnomad": _gnomad,
    "clinvar": _clinvar,
    "prepare-gnomad": _prepare_gnomad,
    "prepare-clinvar": _prepare_clinvar,
}


def main() -> None:
    name, vcf, bases, out = sys.argv[1:]
    package = "isal" if name == "inflate" else "genolewm-assets"
    work = _inflate if name == "inflate" else _JOBS[name](Path(bases))

    serve(lambda: work(Path(vcf), Path(out)), version=metadata.version(package), out=Path(out))


if __name__ == "__main__":
    main()
