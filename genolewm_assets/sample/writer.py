"""Write the simulated sources of a root under ``<root>/sample``, as links through ``files`` to a published generation.

The ClinVar listing, ``<root>/sample/clinvar``, is a plain folder, because releases may be added to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from genolewm_assets.errors import MissingResourceError
from genolewm_assets.genome import Variant
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sample.alleles import (
    FIRST_RELEASE,
    GENOMES_V3,
    GENOMES_V4,
    GENOMES_V31,
    GENOMES_V41,
    JOINT_V4,
    JOINT_V41,
    SECOND_RELEASE,
    Callset,
    Layout,
    Plants,
    choose_heads,
    clinvar_text,
    data_type_fields,
    genome_fields,
    gnomad_text,
    mito_vcf,
    phased_vcf,
    region_flags,
    simulate_clinical_alleles,
    simulate_counts,
    simulate_mito_sites,
    simulate_sites,
    spell_records,
)
from genolewm_assets.sample.bgzip import write_bgzip
from genolewm_assets.sample.corpus import simulate_corpus, table_lines, write_corpus_file
from genolewm_assets.sample.forensic import RUN_FOLDER, simulate_run
from genolewm_assets.sample.genome import ELEMENT, ELEMENT_CONTIG, SimulatedContig, simulate_reference, spans_of
from genolewm_assets.sample.mito import (
    AF_LAYOUT,
    HL_LAYOUT,
    fasta_text,
    genbank_text,
    heteroplasmy_vcf,
    simulate_mito_genomes,
)
from genolewm_assets.store.artefacts import ArtefactId, BuildPlan, BuildReport, CheckResult, Published, Root, build
from genolewm_assets.store.files import make_directories, write_atomic

#: MD5 of the decompressed bytes of each file; for a Parquet file, of its rows as JSON lines. The MD5 of the files
#: themselves would depend on the build of zlib and the release of the Parquet library.
CONTENT_MD5: Mapping[str, str] = {
    "releases/clinvar_20240107.vcf.gz": "47006733fb48cf909ef1df3c6d37161a",
    "releases/clinvar_20250105.vcf.gz": "8bac75ffc72a5cf5592cde01e820016e",
    "corpus/eukaryote_generator/part-00000.parquet": "d4a9d7ea380aa61d10c37c43fe40ad9d",
    "corpus/mrna_evo2/part-00000.parquet": "71e2059d72e90cecfcbfc08eb9a87033",
    "corpus/mrna_splice_evo2/part-00000.parquet": "aacb15fad614ce6032e2fcc6ff413119",
    "corpus/prokaryote_evo2/part-00000.parquet": "c34dea73612f4fb552a3af4dda37ffab",
    "forensic/kit/SimPlex_12_panel.txt": "94692e61931a9b64495f40b3f4e60273",
    "forensic/kit/SimPlex_12_bins.txt": "9cb1a91071a32414a0921e788b7a612a",
    "forensic/runs/2024-01-07_SimPlex12/A01_ladder.hid": "5af5213a5b3ffb304e933f74e07b4227",
    "forensic/runs/2024-01-07_SimPlex12/A02_positive.hid": "936fe2f3b59cd3051bdb6d1b89aca5fc",
    "forensic/runs/2024-01-07_SimPlex12/A03_NTC.hid": "3a222c3c417c4d62a26a55ee727f4359",
    "forensic/runs/2024-01-07_SimPlex12/A04_S1_1.hid": "4a169f8c9a67b893f0b4732182456a21",
    "forensic/runs/2024-01-07_SimPlex12/A05_S1_2.hid": "77e2418f5613d6d4f7157e2a8de23cb0",
    "forensic/runs/2024-01-07_SimPlex12/A06_S2.hid": "40ba03ac0e6489496c7402f0c44b8c02",
    "forensic/runs/2024-01-07_SimPlex12/A07_S3.hid": "fa966367e0ff97b1e297710be45c3b2c",
    "forensic/runs/2024-01-07_SimPlex12/A08_S4.hid": "beb66301c104130f5c7ffca6b54c7794",
    "forensic/runs/2024-01-07_SimPlex12/A09_S5.hid": "2f2ca744855b6c7a575fc896189d6106",
    "forensic/runs/2024-01-07_SimPlex12/_COMPLETE": "d41d8cd98f00b204e9800998ecf8427e",
    "forensic/runs/2024-01-07_SimPlex12/annotations.csv": "3b633040b6f8481c229cc9f69f016a7e",
    "forensic/runs/2024-01-07_SimPlex12/plate.txt": "9fdf19b41de69e6015a98cf53e076835",
    "gnomad/gnomad.genomes.v3.1.2.sites.chr20.vcf.bgz": "35fe957db4a0c46644c5602d8fb47551",
    "gnomad/gnomad.genomes.v3.1.sites.chrM.vcf.bgz": "c6de47516de887ea90d0b34bcce0901c",
    "gnomad/gnomad.genomes.v4.1.sites.chr21.vcf.bgz": "22f34ea4b44185479e63bf6484ba4559",
    "gnomad/gnomad.joint.v4.1.sites.chr17.vcf.bgz": "890267086f07bc1b0defe47d597a2391",
    "haplotypes/phased.chr17.vcf.gz": "fed86bcf9dc823dfb43f4d38a7f4a79d",
    "haplotypes/phased.chr20.vcf.gz": "0905cc2b79080f4087048b3bef1e66dd",
    "mtdna/genomes.fa.gz": "96efa6a08cd0f42d5ed414d84cbdff95",
    "mtdna/genomes.gb.gz": "c303009b1df1af4296e5143f79481592",
    "mtdna/heteroplasmy_af.vcf.gz": "6933a2beaf36531a224921fd6f859da0",
    "mtdna/heteroplasmy_hl.vcf.gz": "a4b7c7e406df83237799fa40ddc4e461",
    "reference.fa.gz": "291c8a398b1d3a16ef6d255cefb00d83",
    "tracks/excluded_region.bed.gz": "e18a15ae1328d153e0d3abe92bf81e30",
    "tracks/repeat.bed.gz": "f2e7ecc31550b1c0d267479a92a8c45a",
    "tracks/segmental_duplication.bed.gz": "1a3058f5c8388df6d483f1e2c999e7bd",
}


#: Raised when the simulation changes, so that a root with older files writes them again. Releases that are in its
#: ClinVar listing already stay as they are.
CODE_VERSION = "6"
FOLDER = "sample"
LOCATION = f"{FOLDER}/files"
#: The ClinVar listing, relative to the root.
LISTING = f"{FOLDER}/clinvar"
#: Folder of the published files that are put into the listing.
_RELEASES = "releases"
#: Folder of the files that are written as they are: an instrument compresses nothing.
_FORENSIC = "forensic"
_COMMON_AF = 0.05
_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class _Population:
    """One gnomAD-style file of a contig, and the part, 0-based half-open, that its phased genotypes cover."""

    file_name: str
    clusters: int
    rare: int
    callset: Callset
    layout: Layout
    phased: tuple[int, int] | None = None


_POPULATIONS: Mapping[str, _Population] = {
    "chr17": _Population(
        "gnomad.joint.v4.1.sites.chr17.vcf.bgz", 450, 6_000, JOINT_V4, JOINT_V41, (850_000, 1_000_000)
    ),
    "chr20": _Population(
        "gnomad.genomes.v3.1.2.sites.chr20.vcf.bgz", 500, 6_500, GENOMES_V3, GENOMES_V31, (860_000, 1_260_000)
    ),
    "chr21": _Population("gnomad.genomes.v4.1.sites.chr21.vcf.bgz", 800, 10_000, GENOMES_V4, GENOMES_V41),
}
_MITO_FILE = "gnomad.genomes.v3.1.sites.chrM.vcf.bgz"


def write_sample(root_dir: Path, *, progress: Progress = NO_PROGRESS) -> Published:
    """Write the sample under a root, which is created if missing, unless an intact copy is published there.

    Raises
    ------
    BuildRejectedError
        If the simulated contents differ from the pinned MD5s.
    BusyError
        If another process holds the lock of the sample for more than two minutes.

    Notes
    -----
    The store publishes the sample like an asset: a killed writer publishes nothing, of two concurrent writers one
    writes, and if a file is damaged all files are written again. The ClinVar listing is a plain folder: releases of the
    sample that it lacks are put back, and every other file in it is left alone.
    """
    root = Root(root_dir)
    plan = BuildPlan(
        artefact=ArtefactId("sample/sources", None),
        location=LOCATION,
        code_version=CODE_VERSION,
        recipe={"contents": dict(CONTENT_MD5)},
        inputs=(),
        write=lambda work: write_sources(work, progress=progress),
        surface=True,
    )
    published = build(root, plan, lock_wait_s=_WAIT_S)
    releases, listing = published.directory / _RELEASES, root_dir / LISTING
    with root.storage_errors(LISTING):
        make_directories(listing)
        for file in sorted(releases.glob("*.vcf.gz")):
            if not (listing / file.name).exists():
                # The checksum before its file: a file is complete when it appears.
                for name in (f"{file.name}.md5", file.name):
                    write_atomic(listing / name, (releases / name).read_bytes())
    return published


def check_sample(root_dir: Path) -> None:
    """Raise :class:`MissingResourceError` if a root has no sample."""
    if not (root_dir / LOCATION).exists():
        where, remedy = str(root_dir / FOLDER), "Run genolewm demo, which writes them"
        raise MissingResourceError(where, "the simulated sources are not there", remedy=remedy)


def write_sources(folder: Path, *, progress: Progress = NO_PROGRESS) -> BuildReport:
    """Write every file of the sample into an empty folder, and compare the contents with the pinned MD5s."""
    found: dict[str, str] = {}
    for done, (name, content) in enumerate(_sources(), start=1):
        data = content if isinstance(content, bytes) else table_lines(content)
        found[name] = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if not isinstance(content, bytes):
            write_corpus_file(folder / name, content)
        elif name.startswith(f"{_FORENSIC}/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        else:
            write_bgzip(folder / name, content)
        progress.advance(done, len(CONTENT_MD5), "files")
    differing = sorted(name for name in {*found, *CONTENT_MD5} if found.get(name) != CONTENT_MD5.get(name))
    pinned = CheckResult(
        "contents_match_pins",
        passed=not differing,
        figures={name: found[name] for name in differing if name in found},
        rows=[{"file": name, "expected": CONTENT_MD5.get(name), "got": found.get(name)} for name in differing],
    )
    return BuildReport(counts={"files": len(found)}, checks=(pinned,))


def _sources() -> Iterator[tuple[str, bytes | pa.Table]]:
    """Yield path and content of each file: decompressed bytes, or the rows of a Parquet file."""
    contigs = simulate_reference()
    yield "reference.fa.gz", b"".join(contig.fasta() for contig in contigs.values())
    yield from _tracks(contigs)
    common: dict[str, list[Variant]] = {}
    for name, population in _POPULATIONS.items():
        files, common[name] = _population_files(contigs[name], population)
        yield from files.items()
    mito = contigs["chrM"]
    yield f"gnomad/{_MITO_FILE}", mito_vcf(mito, simulate_mito_sites(mito))
    element = (ELEMENT_CONTIG, ELEMENT.start, ELEMENT.end, f"{ELEMENT.symbol}:{ELEMENT.gene_id}")
    entries = simulate_clinical_alleles(contigs, common, element)
    texts = {name: contig.sequence.decode("ascii") for name, contig in contigs.items()}
    for release in (FIRST_RELEASE, SECOND_RELEASE):
        yield f"{_RELEASES}/{release.file_name}", clinvar_text(release, entries, texts)
    yield from simulate_corpus(contigs)
    yield from _mito_files(mito)
    run = simulate_run()
    yield from ((f"{_FORENSIC}/kit/{name}", content) for name, content in run.kit_files.items())
    yield from ((f"{_FORENSIC}/runs/{RUN_FOLDER}/{name}", content) for name, content in run.files.items())


def _mito_files(contig: SimulatedContig) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the collections of mitochondrial genomes and of the heteroplasmy VCFs."""
    genomes, reference = simulate_mito_genomes(contig), contig.sequence.decode("ascii")
    yield "mtdna/genomes.fa.gz", fasta_text(genomes, reference)
    yield "mtdna/genomes.gb.gz", genbank_text(genomes, reference)
    for layout in (AF_LAYOUT, HL_LAYOUT):
        yield f"mtdna/heteroplasmy_{layout.level.lower()}.vcf.gz", heteroplasmy_vcf(contig, genomes, layout)


def _population_files(contig: SimulatedContig, population: _Population) -> tuple[dict[str, bytes], list[Variant]]:
    """Return the gnomAD-style VCF of a contig and its phased genotypes by path, and its alleles with AF >= 5 %."""
    key = int(contig.name.removeprefix("chr"))
    plants = Plants()
    sites = simulate_sites(contig, clusters=population.clusters, rare=population.rare, key=key)
    head = choose_heads(sites, plants, key=key)
    counts = simulate_counts(sites, head, population.callset, key=key)
    text = contig.sequence.decode("ascii")
    records = spell_records(sites, head, counts.well_called(), text, plants, key=key)
    fields = genome_fields(counts, population.layout)
    fields += data_type_fields(counts, key=key) if population.layout is JOINT_V41 else region_flags(contig, sites.pos)
    common = [sites.alleles[i] for i in np.flatnonzero(counts.af >= _COMMON_AF).tolist()]
    files = {f"gnomad/{population.file_name}": gnomad_text(contig, population.layout, records, counts.filters, fields)}
    if population.phased is not None:
        panel = phased_vcf(contig, sites, counts, population.phased, key=key)
        files[f"haplotypes/phased.{contig.name}.vcf.gz"] = panel
    return files, common


def _tracks(contigs: Mapping[str, SimulatedContig]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the BED files of segmental duplications, excluded regions and repeats."""
    tracks = {"segmental_duplication": "duplicated", "excluded_region": "excluded", "repeat": "repeat"}
    for track, mask in tracks.items():
        spans = ((name, *span) for name, contig in contigs.items() for span in spans_of(getattr(contig, mask)))
        rows = [f"{name}\t{start}\t{end}\n" for name, start, end in spans]
        yield f"tracks/{track}.bed.gz", "".join(rows).encode("ascii")
