"""A catalogue of 24 contigs of 20 kbp, 200 empty releases, and a corpus of 704 pieces of about 16 records."""

from __future__ import annotations

import gzip
import hashlib
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import yaml

from genolewm_assets.genome import GRCH38

#: Pieces of each corpus source.
PIECES = {"eukaryote_generator": 256, "mrna_evo2": 64, "mrna_splice_evo2": 256, "prokaryote_evo2": 128}
#: The source of which a piece is built.
BUILT = "prokaryote_evo2"
RELEASES = tuple(f"{date(2022, 1, 2) + timedelta(weeks=week)}" for week in range(200))
_CONTIG_BP = 20_000
_RECORD_BP, _PER_PIECE = 2_000, 32


def write_inputs(folder: Path) -> Path:
    """Write the catalogue and the files that it names, and return its path."""
    rng = np.random.default_rng(1)
    contigs = {contig.name: _bases(rng, _CONTIG_BP) for contig in GRCH38.linear}
    folder.mkdir(parents=True, exist_ok=True)
    fasta = folder / "genome.fa"
    fasta.write_text("".join(f">{name}\n{bases}\n" for name, bases in contigs.items()))
    pysam.tabix_compress(str(fasta), f"{fasta}.gz", force=True)
    for source, pieces in PIECES.items():
        _write_source(folder / "corpus" / source, source, [_bases(rng, _RECORD_BP) for _ in range(pieces * _PER_PIECE)])
    (folder / "clinvar").mkdir()
    for release in RELEASES:
        path = folder / "clinvar" / f"clinvar_{release.replace('-', '')}.vcf.gz"
        path.write_bytes(gzip.compress(f"##fileDate={release}\n".encode(), mtime=0))
        path.with_name(f"{path.name}.md5").write_text(f"{_md5(path.read_bytes())}  {path.name}\n")
    catalog = folder / "catalog.yaml"
    catalog.write_text(yaml.safe_dump(_catalog(contigs)))
    return catalog


def _catalog(contigs: dict[str, str]) -> dict[str, object]:
    listed = [{"name": name, "length": len(bases), "md5": _md5(bases.encode())} for name, bases in contigs.items()]
    sources = {source: {"url": f"corpus/{source}"} for source in PIECES}
    return {
        "name": "orchestration",
        "genome": {"name": "simulated", "fasta": "genome.fa.gz", "contigs": listed},
        "windows": {"profile": "tiny", "window_bp": 1_200, "stride_bp": 800, "margin_bp": 96},
        "gnomad": {"sources": {}},
        "clinvar": {"listing": "clinvar", "freshness": "off"},
        "corpus": {"short_windows": True, "records_per_piece": _PER_PIECE, "sources": sources},
        "encoder": {"model": "tiny-llama-random", "dtype": "float32"},
        "holdouts": {"clinvar_genes": []},
        "packages": {"mix_declared": True},
    }


def _write_source(folder: Path, source: str, texts: list[str]) -> None:
    folder.mkdir(parents=True)
    if source == "eukaryote_generator":
        fixed = {"taxonomy": "simulated", "species_type": "fungi", "gene_type": "protein_coding"}
        placed = {"chrom": "none", "start": 0, "end": _RECORD_BP, "strand": "+"}
        rows = [{"record_id": f"{n}", "sequence": text, **fixed, **placed} for n, text in enumerate(texts)]
    else:
        metadata = {"source": "bacteria_simulated", "note": "simulated, complete genome"}
        rows = [{"record": f"{n}", "text": text, "metadata": metadata} for n, text in enumerate(texts)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "part-00000.parquet")


def _bases(rng: np.random.Generator, length: int) -> str:
    return np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, length)].tobytes().decode()


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
