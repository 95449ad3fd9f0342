"""Corpus records that hold bases of BRCA1 and say otherwise: none trains while BRCA1 is held out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import GRCH38, PROFILES, ContigSet, Holdout, IntervalArray, reverse_complement
from genolewm_assets.holdouts.corpus import CorpusRule
from genolewm_assets.holdouts.similar import corpus_queries
from genolewm_assets.sources.corpus import GenomeSlices, MappyAligner, write_corpus_windows
from genolewm_assets.sources.corpus.files import read_records
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity import SequenceSearch
from genolewm_assets.store.artefacts import DerivedFiles
from genolewm_assets.windows.corpus import CorpusParams, CorpusPlacer, CorpusSource
from genolewm_assets_tests.worlds.sources.queries import pack

CONTIGS = ContigSet([GRCH38[name] for name in ("chr17", "chr20", "chr21")])
#: BRCA1 (NCBI Gene 672) on GRCh38, 0-based; all of the gene is in the slices.
BRCA1 = IntervalArray(np.array([43_044_294]), np.array([43_125_364]))
GENE = 43_060_000, 43_076_000
#: Neighbours of BRCA1 in the slices that are not held out.
ELSEWHERE = 42_500_000, 42_516_000


def changed(bases: str, identity: float, seed: int = 0) -> str:
    """Return bases of which a share of ``1 - identity`` is substituted."""
    rng = np.random.default_rng(seed)
    return "".join(
        base if keep else "ACGT".replace(base, "")[pick]
        for base, keep, pick in zip(
            bases, (rng.random(len(bases)) < identity).tolist(), rng.integers(0, 3, len(bases)).tolist(), strict=True
        )
    )


def gene(name: str, bases: str, taxonomy: str | None, place: tuple[str, int, int] | None = None) -> dict[str, object]:
    chrom, start, end = place or (None, None, None)
    return {"record_id": name, "sequence": bases, "taxonomy": taxonomy, "chrom": chrom, "start": start, "end": end}


def text(name: str, bases: str, source: str, note: str) -> dict[str, object]:
    return {"record": name, "text": bases, "metadata": {"source": source, "note": note}}


def planted(bases: Callable[[int, int], str]) -> dict[CorpusSource, list[dict[str, object]]]:
    """Return rows that hold bases of BRCA1, and one row of each source that does not."""
    held, true_place = bases(*GENE), ("chr17", *GENE)
    size = len(held)
    rng = np.random.default_rng(1)
    bacterium = "".join(np.array(list("ACGT"))[rng.integers(0, 4, 16_000)])
    spliced = "".join(bases(start, start + 700) for start in range(43_046_000, 43_120_000, 10_500))
    spellings = ("human", "9606", "H. sapiens", "homo_sapiens", "Hominidae", "unknown", None, "Mus musculus")
    genes = [gene(f"as {name}", held, name, true_place) for name in spellings]
    genes += [
        gene("coordinates on N", held, "Homo sapiens", ("chr17", 1_000_000, 1_000_000 + size)),
        gene("coordinates of another contig", held, "Homo sapiens", ("chr20", 5_000_000, 5_000_000 + size)),
        gene("coordinates of a contig that is not there", held, "Homo sapiens", ("chr13", 5_000_000, 5_000_000 + size)),
        gene("reverse complement", reverse_complement(held), None),
        gene("chimera", bases(*ELSEWHERE)[:6_600] + held[:6_600], "Homo sapiens"),
        *(gene(f"{identity:.1%} copy", changed(held, identity), None) for identity in (0.948, 0.92, 0.90, 0.85)),
        gene("control", bases(*ELSEWHERE), "Homo sapiens", ("chr17", *ELSEWHERE)),
    ]
    return {
        CorpusSource.EUKARYOTE_GENERATOR: genes,
        CorpusSource.MRNA_EVO2: [
            text("names chr13 only", held, "ensembl_mrna", "Ensembl transcript, chr13"),
            text("transcript", spliced, "ensembl_mrna", "Ensembl transcript"),
            text("94.9 % transcript", changed(spliced, 0.949), "ensembl_mrna", "Ensembl transcript, chr13"),
            text("transcript, other strand", reverse_complement(spliced), "ensembl_mrna", "Ensembl transcript"),
            text("control", bases(*ELSEWHERE), "ensembl_mrna", "Ensembl transcript"),
        ],
        CorpusSource.PROKARYOTE_EVO2: [
            text("human", held, "bacteria_NC_008253.1_Ecoli_536", "Escherichia coli 536"),
            text("95 % human", changed(held, 0.95), "bacteria_NC_008253.1_Ecoli_536", "Escherichia coli 536"),
            text("control", bacterium, "bacteria_NC_008253.1_Ecoli_536", "Escherichia coli 536"),
        ],
    }


@pytest.fixture(scope="module")
def windows(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """Return the corpus windows of all planted records."""
    derived = DerivedFiles(tmp_path_factory.mktemp("derived"))
    slices = GenomeSlices(shared_data / "reference" / "GRCh38.slices.fa.gz", CONTIGS, derived)
    rows = planted(lambda start, end: slices("chr17", start, end).decode())
    tables = []
    for source, records in rows.items():
        folder = tmp_path_factory.mktemp(source)
        pq.write_table(pa.Table.from_pylist(records), folder / "part-00000.parquet")
        placer = CorpusPlacer(CONTIGS, slices, MappyAligner(slices, spliced=source.is_transcribed))
        params = CorpusParams(short_windows=True)
        write_corpus_windows(
            read_records([folder / "part-00000.parquet"], source), params=params, placer=placer, out_dir=folder
        )
        tables.append(pq.read_table(folder / "windows.parquet"))
    return pa.concat_tables(tables)


def test_no_planted_record_trains(shared_data: Path, windows: pa.Table) -> None:
    by_place = pa.concat_tables(CorpusRule({Holdout.CLINVAR: {"chr17": BRCA1}}, set(), 256).list_excluded([windows]))
    nowhere = CorpusRule({}, set(), 256)
    with FastaReader(shared_data / "reference" / "GRCh38.slices.fa.gz", CONTIGS) as reader:
        packed, margin_bp = pack(windows), PROFILES["default"].margin_bp
        queries = corpus_queries([("planted", windows)], lambda _: packed, nowhere.excludes, margin_bp=margin_bp)
        found = SequenceSearch(reader)({"chr17": BRCA1}, queries).similar
        similar = set(zip(*(found[name].to_pylist() for name in ("origin", "record_id", "window_index")), strict=True))
    key = ("source", "record_id", "window_index")
    excluded = similar | set(zip(*(by_place[name].to_pylist() for name in key), strict=True))
    all_windows = set(zip(*(windows[name].to_pylist() for name in key), strict=True))
    trains = {(source, record) for source, record, _ in all_windows - excluded}
    assert trains == {
        (str(source), "control")
        for source in (CorpusSource.EUKARYOTE_GENERATOR, CorpusSource.MRNA_EVO2, CorpusSource.PROKARYOTE_EVO2)
    }
    # Every record gave a window: 23 that hold bases of BRCA1, and 3 controls.
    assert len({(source, record) for source, record, _ in all_windows}) == 26
    # By sequence alone the same are found, whatever is said of their places.
    assert all_windows - similar == all_windows - excluded
