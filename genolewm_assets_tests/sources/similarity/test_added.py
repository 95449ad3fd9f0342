"""A release that takes over what an earlier one found writes what it would write alone, and looks up few windows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import GRCH38, IntervalArray, reverse_complement
from genolewm_assets.holdouts import Compared, Held, Kept, WindowKey, merge_intervals
from genolewm_assets.holdouts.build import HoldoutTables, build_holdouts
from genolewm_assets.holdouts.schema import REFERENCE, TABLES
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity import SequenceSearch, search
from genolewm_assets.sources.similarity.added import AddedKmers, list_added
from genolewm_assets.sources.similarity.held_part import HeldSpan
from genolewm_assets.sources.similarity.repeats import soft_mask
from genolewm_assets.store.tables import write_table
from genolewm_assets_tests.sources.similarity.genomes import changed, query, random_bases, write_fasta
from genolewm_assets_tests.sources.similarity.test_kmers import K, plain_kmers
from genolewm_assets_tests.worlds.lewm import filtered_world
from genolewm_assets_tests.worlds.sources.queries import Query, as_pieces


class Seen:
    """What is reported of progress: how many windows were looked up."""

    def __init__(self) -> None:
        self.windows = 0

    def advance(self, done: int, total: int | None, unit: str) -> None:
        self.windows = done if unit.startswith("windows") else self.windows


@pytest.fixture(autouse=True)
def _few_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count one window of 16 for repeats: those are looked up in every release."""
    monkeypatch.setattr(search, "_COUNTED", 1)
    monkeypatch.setattr(search, "_OF", 16)


def compare(fasta: Path, queries: list[Query], held: Held, kept: Kept | None = None) -> tuple[Compared, int]:
    seen = Seen()
    with FastaReader(fasta, GRCH38) as reader:
        found = SequenceSearch(reader, progress=seen, part_bp=5_000, overlap_bp=1_500)(held, as_pieces(queries), kept)
    return found, seen.windows


def grown(rng: np.random.Generator, before: IntervalArray, end: int) -> IntervalArray:
    """Return intervals that hold those of before: some grow, some join, one is new."""
    more = rng.choice([0, 0, 0, 1, 15, 120, 900], (2, len(before)))
    start, new = int(rng.integers(0, end - 700)), int(rng.integers(20, 700))
    starts = [*np.maximum(0, before.start - more[0]), start]
    return IntervalArray.from_unsorted(starts, [*np.minimum(end, before.end + more[1]), start + new]).merge()


@given(st.integers(0, 2**32 - 1))
def test_what_is_kept_changes_nothing(seed: int) -> None:
    """Genes grow, join, appear and stay; one piece is new; one window is no longer asked for; repeats by lot."""
    rng = np.random.default_rng(seed)
    gene, text = bytearray(random_bases(rng, 12_000)), bytearray(random_bases(rng, 16_000))
    element = random_bases(rng, 400)
    for at in range(0, 11_000, 1_200):
        copy = changed(rng, element, 0.97)
        gene[at : at + 400] = copy.lower() if seed % 2 else copy
    for at in range(0, 15_000, 650):
        start, size = int(rng.integers(0, 11_000)), int(rng.integers(25, 600))
        copy = changed(rng, bytes(gene[start : start + size]).upper(), float(rng.choice([0.85, 0.92, 1.0])))
        text[at : at + size] = copy if rng.random() < 0.5 else reverse_complement(copy)
    bounds = np.sort(rng.choice(np.arange(0, 12_000, 100), 10, replace=False))
    before = IntervalArray(bounds[::2], bounds[1::2])
    held: Held = {"chr17": grown(rng, before, 12_000)}
    queries = [
        Query(WindowKey(REFERENCE, "chr20", at), bytes(text[at : at + 1_300]), piece=piece)
        for piece, first in (("old", 0), ("new", 300), ("older", 650))
        for at in range(first, 14_000, 1_300)
    ]
    left = [each for each in queries if each.key.start != 5_200]
    with TemporaryDirectory() as name:
        fasta = write_fasta(Path(name) / "genome.fa", {"chr17": bytes(gene), "chr20": bytes(text)})
        first, _ = compare(fasta, [each for each in queries if each.piece != "new"], {"chr17": before})
        alone, n_all = compare(fasta, left, held)
        kept = Kept(first.compared, {"chr17": before}, frozenset({"old", "older"}))
        after, n = compare(fasta, left, held, kept)
    assert after.compared.equals(alone.compared)
    assert after.similar.equals(alone.similar)
    assert after.by_repeats == alone.by_repeats
    assert n_all == len(left)
    assert n <= n_all


def test_few_windows_are_looked_up_unless_much_is_added(
    fasta: Path, contigs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    queries = [query(f"{n}", random_bases(rng, 3_000)) for n in range(64)]
    # With ten added 21-mers, on the other strand; with what was held out before; and with what is not held out.
    for n, start in ((17, 40_070), (20, 39_000), (21, 40_080)):
        copy = contigs["chr17"][start : start + 400]
        copy = reverse_complement(copy) if n == 17 else copy
        queries[n] = query(f"{n}", random_bases(rng, 1_001) + copy + random_bases(rng, 900))
    before, held = ({"chr17": IntervalArray(np.array([38_000]), np.array([end]))} for end in (40_000, 40_100))
    first, _ = compare(fasta, queries, before)
    assert set(first.compared["record_id"].to_pylist()) == {"20"}
    kept = Kept(first.compared, before, frozenset({"piece"}))
    after, n = compare(fasta, queries, held, kept)
    # Four are counted for repeats.
    assert n == 4 + 2
    assert set(after.compared["record_id"].to_pylist()) == {"20"}
    _, same = compare(fasta, queries, before, kept)
    assert same == 4
    monkeypatch.setattr(search, "MOST_ADDED_BP", 120)
    again, n = compare(fasta, queries, held, kept)
    assert n == len(queries)
    assert again.compared.equals(after.compared)
    monkeypatch.setattr(search, "MOST_ADDED_BP", 121)
    assert compare(fasta, queries, held, kept)[1] == 6


def test_a_window_without_a_new_21mer_may_become_similar(fasta: Path, contigs: dict[str, bytes]) -> None:
    """Two intervals become one, which is longer than both."""
    rng, gene = np.random.default_rng(4), contigs["chr17"]
    bounds = np.array([20_000, 21_300]), np.array([21_000, 22_500])
    before, held = {"chr17": IntervalArray(*bounds)}, {"chr17": IntervalArray(bounds[0][:1], bounds[1][1:] + 300)}

    def window(copy: bytes) -> bytes:
        return random_bases(rng, 900) + copy + random_bases(rng, 700)

    # 24 bases one after another are equal, and 12 of the added ones, but the alignment goes on through these.
    along = bytearray(gene[21_700:22_800])
    for at in (*range(5, 795, 25), *range(800, 1_100, 13)):
        along[at] = b"CGTA"[b"ACGT".index(along[at])]
    queries = [
        query("along", window(bytes(along))),
        query("between", window(gene[21_050:21_250])),
    ]
    # Few bases of each interval, too few to be compared with one of them.
    for n in range(40):
        first, second = rng.integers(20_000, 20_950), rng.integers(21_300, 22_450)
        parts = gene[first : first + 27], random_bases(rng, 100), gene[second : second + 27]
        queries.append(query(f"joined{n}", window(b"".join(parts))))
    then, _ = compare(fasta, queries, before)
    alone, _ = compare(fasta, queries, held)
    after, _ = compare(fasta, queries, held, Kept(then.compared, before, frozenset({"piece"})))
    assert after.compared.equals(alone.compared)
    known, found = (set(each.compared["record_id"].to_pylist()) for each in (then, alone))
    assert "along" in known
    assert {"along", "between"} <= set(alone.similar["record_id"].to_pylist()) - set(
        then.similar["record_id"].to_pylist()
    )
    assert len(found - known - {"between"}) > 5


@given(st.integers(0, 2**32 - 1))
def test_windows_with_a_new_21mer_are_those_of_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters = np.frombuffer(b"ACGTacgtN", np.uint8)
    held = letters[rng.choice(9, 600, p=[0.2475] * 4 + [0.002] * 5)].tobytes().decode()
    then, now = sorted(rng.choice(600, 2, replace=False).tolist()), (0, 600)
    new = {
        kmer
        for at, kmer in enumerate(plain_kmers(held))
        if kmer and held[at : at + K].isupper() and not then[0] <= at <= at + K <= then[1]
    }
    windows = []
    for n in range(12):
        # Half of them begin near where it was held out.
        start = int(rng.integers(0, 560) if n % 4 < 2 else max(0, rng.choice(then) - rng.integers(0, 40)))
        size = int(rng.integers(19, 40))
        copy = held[start : start + size].upper().replace("N", "A")
        copy = reverse_complement(copy) if n % 2 else copy
        windows.append(random_bases(rng, n).decode() + copy + random_bases(rng, int(rng.integers(0, 9))).decode())
    (piece,) = as_pieces([query(f"{n}", window.encode()) for n, window in enumerate(windows)])
    with TemporaryDirectory() as name:
        fasta = write_fasta(Path(name) / "genome.fa", {"chr17": held.encode()})
        spans = list_added([HeldSpan("chr17", *now)], {HeldSpan("chr17", *then), HeldSpan("chr20", *now)})
        with FastaReader(fasta, GRCH38) as reader:
            kmers = AddedKmers.read(reader, spans, soft_mask)
    assert kmers.find(piece).tolist() == [not new.isdisjoint(plain_kmers(window)) for window in windows]


def table_bytes(held: HoldoutTables, folder: Path) -> list[bytes]:
    tables = held.intervals, held.alleles, held.corpus, held.similar, held.compared, held.haplotypes
    for table, schema in zip(tables, TABLES, strict=True):
        write_table([table], folder / schema.name, schema)
    return [(folder / schema.name).read_bytes() for schema in TABLES]


def test_releases_write_the_same_bytes_with_and_without_an_earlier_one(tmp_path: Path) -> None:
    """Genes and contigs that are held out come, go and grow by lot, and so do pieces."""
    inputs, corpus, rng = filtered_world.make_inputs(tmp_path), filtered_world.make_corpus(), np.random.default_rng(8)
    genes, looked_up = [*"ABCN"], list[tuple[int, int]]()

    def some(share: float) -> frozenset[str]:
        return frozenset(gene for gene in genes if rng.random() < share) or frozenset(genes[:1])

    with FastaReader(inputs.fasta, filtered_world.CONTIGS) as reader:
        seen = Seen()
        search = SequenceSearch(reader, progress=seen, part_bp=5_000, overlap_bp=2_000)
        given = filtered_world.holdout_inputs(inputs, corpus, search)
        assert given.sequences is not None
        for number in range(8):
            then = replace(filtered_world.POLICY, clinvar_genes=some(0.5))
            # Every other release holds out all that the one before did.
            now = replace(then, clinvar_genes=(then.clinvar_genes or frozenset()) | some(0.5))
            now = replace(now, clinvar_genes=some(0.7), contigs_test=()) if number % 2 else now
            some_alleles = {
                contig: alleles.filter(pa.array(rng.random(alleles.num_rows) < 0.8))
                for contig, alleles in given.clinvar.items()
            }
            first = build_holdouts(replace(given, clinvar=some_alleles), then)
            pieces = frozenset(name for name in {**inputs.windows, **corpus} if rng.random() < 0.8)
            kept = Kept(first.compared, merge_intervals(first.intervals), pieces)
            alone, n_all = build_holdouts(given, now), seen.windows
            after = build_holdouts(replace(given, sequences=replace(given.sequences, kept=kept)), now)
            assert table_bytes(after, tmp_path) == table_bytes(alone, tmp_path)
            assert after.counts == alone.counts
            looked_up.append((seen.windows, n_all))
    assert {n < n_all for n, n_all in looked_up} == {True, False}
