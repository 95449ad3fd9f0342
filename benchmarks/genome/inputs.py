"""The catalogue of a generated genome with all its files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks.genome.bases import open_genome, write_genome
from benchmarks.genome.corpus import SOURCES, write_corpus
from benchmarks.genome.shapes import Shape
from benchmarks.genome.variants import RELEASES, fixed_bases, read_real, write_clinvar, write_gnomad

#: Training tuples that the audit draws: the product's default at 1/10 and above, fewer in proportion below.
_TUPLES = 1_000_000
#: Visits of a window in an epoch at most, where a corpus has few for the genome's size.
_VISITS = {"scale": 2_000, "contig": 40, "chr21": 40}
#: Raised when the generated files change.
_VERSION = 3


def write_inputs(folder: Path, shape: Shape, shared: Path, say: Callable[[str], object]) -> Path:
    """Write the catalogue and its files into a folder, unless they are there, and return its path.

    The listing of ClinVar has the first release; the second lies in ``next``, see :func:`offer_second`.
    """
    catalog, done = folder / "catalog.yaml", folder / f"complete.{_VERSION}"
    if done.is_file():
        return catalog
    started = time.process_time()
    real = read_real(shared, shape)
    md5 = write_genome(folder, shape, {} if real is None else {"chr21": fixed_bases(real)})
    say(f"genome of {shape.total_bp / 1e6:,.0f} Mbp ({time.process_time() - started:.0f} CPU s)")
    genome = open_genome(folder, shape)
    for contig in shape.contigs:
        write_gnomad(folder / "gnomad" / f"{contig}.vcf.bgz", shape, genome, contig, real)
    for place, release in zip(("clinvar", "next"), RELEASES, strict=True):
        write_clinvar(folder / place / _file_name(release), shape, genome, release)
    say(f"variants, {0 if real is None else real.pos.size:,} of them real ({time.process_time() - started:.0f} CPU s)")
    write_corpus(folder / "corpus", shape, genome)
    say(f"corpus of {shape.corpus_windows:,} windows ({time.process_time() - started:.0f} CPU s)")
    catalog.write_text(yaml.safe_dump(_catalog(shape, md5)))
    done.touch()
    return catalog


def offer_second(folder: Path) -> None:
    """Put the second release of ClinVar into the listing."""
    name = _file_name(RELEASES[1])
    for each in (f"{name}.md5", name):
        shutil.copy2(folder / "next" / each, folder / "clinvar" / each)


def _file_name(release: str) -> str:
    return f"clinvar_{release.replace('-', '')}.vcf.gz"


def _catalog(shape: Shape, md5: dict[str, str]) -> dict[str, object]:
    contigs = [{"name": name, "length": length, "md5": md5[name]} for name, length in shape.contigs.items()]
    sources = {name: {"url": f"gnomad/{name}.vcf.bgz", "release": "4.1", "md5": "published"} for name in shape.contigs}
    return {
        "name": f"genome-{shape.name}",
        "genome": {"name": "simulated", "fasta": "genome.fa.gz", "contigs": contigs},
        "gnomad": {"sources": sources},
        "clinvar": {"listing": "clinvar", "predecessors": {RELEASES[1]: RELEASES[0]}, "freshness": "off"},
        "corpus": {"short_windows": True, "sources": {name: {"url": f"corpus/{name}"} for name in SOURCES}},
        "encoder": {"model": "tiny-llama-random", "pretrained_on": "nothing, its states are written and not computed"},
        "holdouts": {"contigs_validation": [], "contigs_test": [], "temporal": RELEASES[0]},
        "packages": {
            "mix_declared": True,
            "audit_tuples": round(_TUPLES * min(1, shape.scale / 0.1)),
            # Two or three tuples a window show too few of the alleles that several edits recreate together.
            "audit_may_lack": ["recreated_allele"],
            # In a corpus of few windows, some hundred transcripts take a quarter of an epoch.
            **({} if shape.corpus_windows * 1_000 > shape.total_bp else {"max_visits": _VISITS[shape.kind]}),
        },
    }
