"""The catalogue ``sample`` against the files: the platform's own readers must find what SAMPLE_FACTS says."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import Contig
from genolewm_assets.sources.catalog.catalog import Catalog, load_catalog
from genolewm_assets.sources.clinvar.listing import read_listing
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard, read_release_date
from genolewm_assets.sources.corpus.aligner import MappyAligner
from genolewm_assets.sources.corpus.files import list_corpus_files, read_records
from genolewm_assets.sources.corpus.genome_slices import GenomeSlices
from genolewm_assets.sources.corpus.writing import audit_corpus_windows, write_corpus_windows
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.sources.reference.fasta import compare_contigs, prepare_genome
from genolewm_assets.sources.reference.tracks import read_bed_track
from genolewm_assets.store.artefacts import DerivedFiles
from genolewm_assets.windows.corpus.placement import CorpusPlacer
from genolewm_assets.windows.corpus.records import CorpusSource
from genolewm_assets.windows.corpus.windows import CorpusParams
from genolewm_assets_tests.referees.census import CONTIG_MD5, SAMPLE_FACTS


def test_layouts_are_those_of_the_real_files(sample_dir: Path, shared_data: Path) -> None:
    for folder in sorted((shared_data / "corpus").iterdir()):
        ours = pq.read_schema(sample_dir / "corpus" / folder.name / "part-00000.parquet")
        assert ours.equals(pq.read_schema(folder / "part-00000.parquet"))


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
    return GenomeSlices(folder / "genome.fa.gz", catalog.contigs, DerivedFiles(folder / "derived"))


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
    report = write_corpus_windows(read_records(files, source), params=params, placer=placer, out_dir=tmp_path)
    counts = report.counts
    assert (counts["records_in"], counts["bases_in"]) == (facts.records, facts.bases)
    assert (counts["windows"], counts["short_windows"]) == (facts.windows, facts.short_windows)
    assert counts["skipped.duplicate"] == facts.duplicates
    assert counts["skipped.too_short"] + counts["skipped.split_too_short"] == facts.too_short
    assert (counts["record_ids_made_unique"], counts["bases_lost_non_acgt"]) == (
        facts.reused_ids,
        facts.non_acgt_bases,
    )
    checks = audit_corpus_windows(tmp_path, read_records(files, source), params=params, placer=placer, counts=counts)
    assert [check for check in checks if not check.passed] == []
    assert {check.figures.get("rows", check.figures.get("windows")) for check in checks} == {facts.windows}
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
