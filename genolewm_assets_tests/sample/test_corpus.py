"""The catalogue ``sample`` against the files: the platform's own readers must find what SAMPLE_FACTS says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import Contig, reverse_complement
from genolewm_assets.lewm.corpus.placement import CorpusPlacer
from genolewm_assets.lewm.corpus.records import CorpusSource
from genolewm_assets.lewm.corpus.windows import CorpusParams
from genolewm_assets.sample.corpus import GENE_LAYOUT, TEXT_LAYOUT
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets.sources.catalog.catalog import Catalog, load_catalog
from genolewm_assets.sources.clinvar.listing import read_listing
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard, read_release_date
from genolewm_assets.sources.corpus.aligner import GenomeSlices, MappyAligner
from genolewm_assets.sources.corpus.files import audit_corpus_windows, list_corpus_files, write_corpus_windows
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.sources.reference.fasta import compare_contigs, prepare_genome
from genolewm_assets.sources.reference.tracks import read_bed_track
from genolewm_assets_tests.referees.census import CONTIG_MD5, SAMPLE_FACTS, corpus_rows

Row = dict[str, object]


@pytest.fixture(scope="module")
def genes(sample_dir: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(sample_dir / "corpus" / "eukaryote_generator").to_pylist()
    return rows


def test_layouts_are_those_of_the_published_corpus(sample_dir: Path) -> None:
    for source, layout in (
        ("eukaryote_generator", GENE_LAYOUT),
        ("mrna_evo2", TEXT_LAYOUT),
        ("mrna_splice_evo2", TEXT_LAYOUT),
        ("prokaryote_evo2", TEXT_LAYOUT),
    ):
        assert pq.read_schema(sample_dir / "corpus" / source / "part-00000.parquet").equals(layout)


def test_layouts_are_those_of_the_real_files(sample_dir: Path, shared_data: Path) -> None:
    for folder in sorted((shared_data / "corpus").iterdir()):
        ours = pq.read_schema(sample_dir / "corpus" / folder.name / "part-00000.parquet")
        assert ours.equals(pq.read_schema(folder / "part-00000.parquet"))


def test_genes_are_the_reference_where_they_say(genes: list[Row], sequences: dict[str, str]) -> None:
    placed = [row for row in genes if row["start"] is not None]
    differing = set()
    for row in placed:
        genomic = sequences[str(row["chrom"])][row["start"] : row["end"]]  # type: ignore[misc]
        sense = genomic if row["strand"] == "+" else reverse_complement(genomic)
        if sense != row["sequence"]:
            differing.add(row["record_id"])
    assert differing == {"SIMGENE1", "SIMGENE2"}
    assert {row["chrom"] for row in placed} == {"chr17", "chr20", "chr21"}
    assert {row["strand"] for row in placed} == {"+", "-"}


def test_what_is_planted_among_the_genes_is_there(genes: list[Row]) -> None:
    by_id: dict[object, list[Row]] = {}
    for row in genes:
        by_id.setdefault(row["record_id"], []).append(row)
    assert [len(by_id["SIMGENE1"]), len(by_id["SIM1"])] == [2, 2]
    assert by_id["SIMGENE1"][0] == by_id["SIMGENE1"][1]
    assert by_id["SIM1"][0]["sequence"] != by_id["SIM1"][1]["sequence"]
    assert re.search("[acgt]N+[ACGT]", str(by_id["SIMGENE2"][0]["sequence"]))
    assert len(str(by_id["SIMGENE3"][0]["sequence"])) == 1_500
    assert by_id["SIMGENE4"][0]["taxonomy"] is None
    assert sum("|NC_0000" in str(name) for name in by_id) == 3
    assert sum(row["taxonomy"] not in (None, "Homo sapiens (simulated)") for row in genes) == 8


def test_spliced_transcripts_have_their_exon_borders(sample_dir: Path, sequences: dict[str, str]) -> None:
    rows = pq.read_table(sample_dir / "corpus" / "mrna_splice_evo2").to_pylist()
    singles = 0
    for row in rows:
        match = re.fullmatch(r"(chr\d+):(\d+)-(\d+)\(([+-])\) exons=(\d+) junctions=(\S+)", row["metadata"]["note"])
        assert match is not None
        contig, first, last, strand, exons, junctions = match.groups()
        gene = sequences[contig][int(first) - 1 : int(last)]
        gene = gene if strand == "+" else reverse_complement(gene)
        borders = [0, *([] if junctions == "." else map(int, junctions.split(","))), len(row["text"])]
        assert len(borders) == int(exons) + 1
        singles += len(borders) == 2
        assert gene.startswith(row["text"][: borders[1]])
        assert gene.endswith(row["text"][borders[-2] :])
        at = 0
        for start, end in pairwise(borders):
            at = gene.index(row["text"][start:end], at)
    assert singles == 24


def test_some_transcripts_name_no_contig_and_some_are_long(sample_dir: Path) -> None:
    rows = pq.read_table(sample_dir / "corpus" / "mrna_evo2").to_pylist()
    named = {row["metadata"]["note"].rpartition(", ")[2] for row in rows}
    assert named == {"chr17", "chr20", "chr21", "simulated transcript"}
    assert sum(row["metadata"]["note"] == "simulated transcript" for row in rows) >= 10
    assert sum(len(row["text"]) >= 12_800 for row in rows) == 6


def test_bacteria_come_in_pieces_and_code_densely(sample_dir: Path) -> None:
    rows = corpus_rows(sample_dir / "corpus" / "prokaryote_evo2" / "part-00000.parquet")
    assert [len(sequence) for _, sequence in rows] == [*[100_000] * 4, 5_000, *[100_000] * 4, 6_000]
    frames = re.findall("ATG(?:(?!TAA|TAG|TGA)...){140,500}TAA", rows[0][1])
    assert len(frames) > 20
    for (_, sequence), gc in zip((rows[0], rows[5]), (0.51, 0.57), strict=True):
        assert (sequence.count("G") + sequence.count("C")) / len(sequence) == pytest.approx(gc, abs=0.03)


def test_genes_of_every_contig_are_there(genes: list[Row], genome: Mapping[str, SimulatedContig]) -> None:
    symbols = {gene.plan.symbol for name in ("chr17", "chr20", "chr21") for gene in genome[name].genes}
    assert symbols <= {row["record_id"] for row in genes}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog("sample")


def test_contigs_are_those_of_the_facts(catalog: Catalog) -> None:
    assert {c.name: c.md5 for c in catalog.contigs} == dict(CONTIG_MD5)
    assert {c.name: c.length for c in catalog.contigs} == {n: f.length for n, f in SAMPLE_FACTS.genome.items()}
    assert [c.name for c in catalog.contigs if c.circular] == ["chrM"]
    assert catalog.generator == "sample"


def test_every_url_is_a_file_of_the_sample(catalog: Catalog, sample_root: Path) -> None:
    urls = [catalog.genome.fasta, *catalog.genome.tracks.urls.values()]
    urls += [source.url for source in catalog.gnomad.sources.values()]
    for url in urls:
        path = Path(catalog.resolve_url(url, root=sample_root))
        assert path.is_file()
        assert path.with_name(f"{path.name}.md5").is_file()
    assert set(catalog.gnomad.sources) == set(catalog.contigs.names)


def test_corpus_urls_are_folders_of_the_sample(catalog: Catalog, sample_root: Path) -> None:
    assert list(catalog.corpus.sources) == list(SAMPLE_FACTS.corpus) == [str(source) for source in CorpusSource]
    for name, source in catalog.corpus.sources.items():
        files = list_corpus_files(catalog.resolve_url(source.url, root=sample_root))
        assert [Path(file).relative_to(sample_root / "sample") for file in files] == [
            Path("corpus", name, "part-00000.parquet")
        ]


@pytest.fixture(scope="module")
def slices(catalog: Catalog, sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> GenomeSlices:
    folder = tmp_path_factory.mktemp("genome")
    prepare_genome(Path(catalog.resolve_url(catalog.genome.fasta, root=sample_root)), folder, catalog.contigs)
    return GenomeSlices(folder / "genome.fa.gz", catalog.contigs)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, marks=pytest.mark.slow) if source is CorpusSource.MRNA_EVO2 else source
        for source in CorpusSource
    ],
)
def test_corpus_windows_have_the_counts_of_the_facts(
    source: CorpusSource, catalog: Catalog, sample_root: Path, slices: GenomeSlices, tmp_path: Path
) -> None:
    facts = SAMPLE_FACTS.corpus[source]
    place = catalog.resolve_url(catalog.corpus.sources[source].url, root=sample_root)
    files = [Path(file) for file in list_corpus_files(place)]
    params = CorpusParams(catalog.window_profile, short_windows=catalog.corpus.short_windows)
    placer = CorpusPlacer(catalog.contigs, slices, MappyAligner(slices, spliced=source.is_transcribed))
    report = write_corpus_windows(files, source=source, params=params, placer=placer, out_dir=tmp_path)
    counts = report.counts
    assert (counts["records_in"], counts["bases_in"]) == (facts.records, facts.bases)
    assert (counts["windows"], counts["short_windows"]) == (facts.windows, facts.short_windows)
    assert counts["skipped.duplicate"] == facts.duplicates
    assert counts["skipped.too_short"] + counts["skipped.split_too_short"] == facts.too_short
    assert (counts["record_ids_made_unique"], counts["bases_lost_non_acgt"]) == (
        facts.reused_ids,
        facts.non_acgt_bases,
    )
    checks = audit_corpus_windows(tmp_path, files, source=source, params=params, placer=placer, counts=counts)
    assert [check for check in checks if not check.passed] == []
    assert all(check.figures["rows"] == facts.windows for check in checks)
    found = {name.removeprefix("placed."): n for name, n in counts.items() if name.startswith("placed.") and n}
    assert found == PLACED[source]


#: The transcripts that state no coordinates, those whose outer exons are less than half of them, and the gene whose
#: coordinates are wrong, are all found by alignment; what is left unplaced is of other organisms.
PLACED = {
    CorpusSource.EUKARYOTE_GENERATOR: {"coordinates": 119, "mappy": 4, "none": 8},
    CorpusSource.MRNA_EVO2: {"mappy": 102},
    CorpusSource.MRNA_SPLICE_EVO2: {"coordinates": 35, "mappy": 85},
    CorpusSource.PROKARYOTE_EVO2: {"none": 86},
}


def test_genome_and_tracks_are_read(catalog: Catalog, sample_root: Path, tmp_path: Path) -> None:
    fasta = Path(catalog.resolve_url(catalog.genome.fasta, root=sample_root))
    assert compare_contigs(prepare_genome(fasta, tmp_path, catalog.contigs), catalog.contigs) == []
    for url in catalog.genome.tracks.urls.values():
        track = read_bed_track(Path(catalog.resolve_url(url, root=sample_root)), catalog.contigs)
        assert {"chr17", "chr20", "chr21"} <= set(track)


def test_listing_shows_both_releases(catalog: Catalog, sample_root: Path) -> None:
    listing = read_listing(catalog.resolve_url(catalog.clinvar.listing, root=sample_root))
    assert [file.day for file in listing.files if file.md5] == list(SAMPLE_FACTS.clinvar)


@pytest.mark.parametrize("name", SAMPLE_FACTS.gnomad)
def test_gnomad_shard_has_the_counts_of_the_facts(
    name: str, catalog: Catalog, sample_root: Path, sequences: dict[str, str], tmp_path: Path
) -> None:
    facts = SAMPLE_FACTS.gnomad[name]

    def reference(contig: Contig) -> bytes:
        return sequences[contig.name].encode()

    report = build_gnomad_shard(
        Path(catalog.resolve_url(catalog.gnomad.sources[name].url, root=sample_root)),
        contig=catalog.contigs[name],
        contigs=catalog.contigs,
        reference=reference,
        params=GnomadParams(min_af=catalog.gnomad.min_af, min_an_fraction=catalog.gnomad.min_an_fraction),
        out_dir=tmp_path,
    )
    assert report.counts["alleles_in"] == facts.alleles
    assert report.counts["kept"] == facts.kept
    rejected = {k.removeprefix("rejected."): v for k, v in report.counts.items() if k.startswith("rejected.")}
    assert rejected == dict(facts.rejects)
    filtered = [report.counts.get(f"filtered.{reason}", 0) for reason in ("filter", "low_af", "low_an")]
    assert filtered == [facts.failed, facts.low_af, facts.low_an]


@pytest.mark.parametrize("key", SAMPLE_FACTS.clinvar)
def test_clinvar_shard_has_the_counts_of_the_facts(
    key: str, catalog: Catalog, sample_root: Path, sequences: dict[str, str], tmp_path: Path
) -> None:
    facts = SAMPLE_FACTS.clinvar[key]
    vcf = sample_root / "sample" / "clinvar" / f"clinvar_{key.replace('-', '')}.vcf.gz"
    assert read_release_date(vcf) == date.fromisoformat(key)

    def reference(contig: Contig) -> bytes:
        return sequences[contig.name].encode()

    report = build_clinvar_shard(vcf, release=key, contigs=catalog.contigs, reference=reference, out_dir=tmp_path)
    rejected = {k.removeprefix("rejected."): v for k, v in report.counts.items() if k.startswith("rejected.")}
    assert rejected == dict(facts.rejects)
    assert (report.counts["kept"], report.counts["filtered.other_contig"]) == (facts.kept, facts.other_contig)
    assert sum(pq.read_metadata(tmp_path / f"{c.name}.parquet").num_rows for c in catalog.contigs) == facts.kept
