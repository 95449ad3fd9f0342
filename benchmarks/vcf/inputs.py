"""Generated input files, kept in a folder and generated again only if their generator changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pysam
from isal import igzip

from benchmarks.vcf.clinvar_vcf import CONTIGS, write_clinvar_vcf
from benchmarks.vcf.gnomad_vcf import CONTIG, GnomadShape, write_gnomad_vcf
from benchmarks.vcf.simulated_genome import simulate_contig

#: Number of records by kind of input; 100,000 wide records are 0.4 GB of text.
RECORDS: Mapping[str, int] = {"wide": 100_000, "slim": 500_000, "clinvar": 500_000}
#: Number of records of the smallest of the three sizes in the scaling table.
SCALED_FROM: Mapping[str, int] = {"wide": 100_000, "slim": 125_000, "clinvar": 125_000}
_GENERATORS = ("simulated_genome.py", "gnomad_info.py", "gnomad_vcf.py", "clinvar_vcf.py", "vcf_output.py")


@dataclass(frozen=True, slots=True)
class BenchmarkInput:
    """One generated VCF.

    Attributes
    ----------
    kind
        ``wide``, ``slim`` or ``clinvar``.
    records
        Number of records.
    text_bytes, packed_bytes
        Size of the decompressed text, and of the file.
    vcf
        The bgzipped VCF.
    bases
        File with the concatenated upper-case bases of its contigs.
    """

    kind: str
    records: int
    text_bytes: int
    packed_bytes: int
    vcf: Path
    bases: Path

    @property
    def source(self) -> str:
        """``gnomad`` or ``clinvar``."""
        return "clinvar" if self.kind == "clinvar" else "gnomad"

    @property
    def title(self) -> str:
        """Title of the file's table: kind, records, sizes."""
        each, ratio = self.text_bytes / self.records, self.text_bytes / self.packed_bytes
        return (
            f"{self.kind}: {self.records:,} records of {each:,.0f} B, {self.text_bytes / 1e6:,.0f} MB of text, "
            f"compressed {ratio:.1f} to 1"
        )

    def with_index(self) -> BenchmarkInput:
        """Return the same file in a folder with its ``.tbi`` index, which is made if it is missing."""
        folder = self.vcf.parent / "indexed"
        folder.mkdir(exist_ok=True)
        vcf = folder / self.vcf.name
        if not vcf.exists():
            os.link(self.vcf, vcf)
            pysam.tabix_index(str(vcf), preset="vcf", force=True)
        return BenchmarkInput(**{**_fields(self), "vcf": vcf})

    def remove(self) -> None:
        """Remove the file, its index and its note, but not the bases."""
        for path in (self.vcf, *self.vcf.parent.glob(f"indexed/{self.vcf.name}*"), _note(self.vcf)):
            path.unlink(missing_ok=True)


def make_input(folder: Path, kind: str, records: int) -> BenchmarkInput:
    """Return an input file; generate it unless the folder has it from the same version of the generator."""
    folder.mkdir(parents=True, exist_ok=True)
    vcf = folder / f"{kind}_{records}.vcf.gz"
    generator, note = _generator(), _note(vcf)
    known = json.loads(note.read_text()) if note.exists() else {}
    if known.pop("generator", None) == generator:
        made = BenchmarkInput(**{**known, "vcf": vcf, "bases": folder / known["bases"]})
        if made.bases.exists() and vcf.exists():
            return made
    note.unlink(missing_ok=True)
    bases = folder / f"{'clinvar' if kind == 'clinvar' else 'gnomad'}.bases"
    _generate(vcf, bases, kind, records)
    made = BenchmarkInput(kind, records, _inflated_bytes(vcf), vcf.stat().st_size, vcf, bases)
    for stale in folder.glob(f"indexed/{vcf.name}*"):
        stale.unlink()
    note.write_text(json.dumps({**_fields(made), "vcf": vcf.name, "bases": bases.name, "generator": generator}))
    return made


def _fields(made: BenchmarkInput) -> dict[str, object]:
    return asdict(made)


def _generate(vcf: Path, bases: Path, kind: str, records: int) -> None:
    if kind == "clinvar":
        by_contig = {each.name: simulate_contig(each) for each in CONTIGS}
        write_clinvar_vcf(vcf, by_contig, CONTIGS, records=records)
        bases.write_bytes(b"".join(by_contig.values()))
        return
    contig = simulate_contig(CONTIG)
    write_gnomad_vcf(vcf, contig, GnomadShape(records, wide=kind == "wide"))
    bases.write_bytes(contig)


def _inflated_bytes(vcf: Path) -> int:
    with igzip.open(vcf, "rb") as text:
        return sum(map(len, iter(lambda: text.read(1 << 20), b"")))


def _generator() -> str:
    digest = hashlib.sha256()
    for name in _GENERATORS:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()


def _note(vcf: Path) -> Path:
    return vcf.with_name(f"{vcf.name}.json")
