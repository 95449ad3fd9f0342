"""A small genome, corpus and alleles in which every filter of held-out data is needed, and its package.

Windows have 1,200 bases, start 96 bases behind each multiple of 800, and have flanks of 96. Held out are chr20 and
chr21, gene A on chr17, genes B and C on chr18, and newly labelled alleles of chr17. Every corpus record gives one
window, without its first and last 96 bases. Build checks are not run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from genolewm_assets.genome import Contig, ContigSet, WindowProfile, genome_digest, reverse_complement
from genolewm_assets.holdouts import HoldoutPolicy, SequenceInputs, build_holdouts
from genolewm_assets.holdouts.build import HoldoutInputs
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.packages.mix import POSSIBLE, PackageMix
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity import SequenceSearch
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.variants import AlleleNormaliser, NormalAllele
from genolewm_assets.variants.schema import CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets.windows.corpus.placement import CorpusPlacer
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource
from genolewm_assets.windows.corpus.windows import CorpusParams
from genolewm_assets.windows.reference.table import build_window_table, with_bases
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.worlds.lewm.holdout_world import genome
from genolewm_assets_tests.worlds.lewm.package_world import RELEASE, other_base, publish, simulate, table
from genolewm_assets_tests.worlds.sources.corpus import build_tables
from genolewm_assets_tests.worlds.sources.queries import pack

PROFILE = WindowProfile("filtered", window_bp=1_200, stride_bp=800, margin_bp=96)
SHORT = WindowProfile("short", window_bp=600, stride_bp=600, margin_bp=96)
#: Held out with gene A: its alleles and a window on both sides. The window at 10,496 has its last base as the first of
#: its own, that at 3,296 its first base as the last of the right flank.
GENE_A = (4_591, 10_497)
_A_ALLELES = (4_591 + 1_200, 10_497 - 1_201)
#: Outermost alleles of genes B and C, so near that windows overlap both intervals.
_B_ALLELES, _C_ALLELES = (21_200, 21_400), (24_100, 24_300)
#: Newly labelled SNVs, of which the second half was in T0 without a label; deletions; first of SNVs that pairs join.
NEW_SNVS, RELABELLED, DELETED, JOINED = (14_100, 14_160), (14_160, 14_180), (14_200, 14_900), 15_000
#: Alleles of gene A whose neighbourhood transcripts have: of ClinVar, and of gnomAD.
CLINVAR_IN_A, GNOMAD_IN_A = 7_983, 8_383
FRAGMENT_BP = 40

Row = dict[str, object]
Spelling = tuple[str, int, str, str]


def _changed(bases: bytes, identity: float, seed: int) -> bytes:
    """Substitute every base with the same probability."""
    rng, out = np.random.default_rng(seed), list(bases.decode())
    for at in np.flatnonzero(rng.random(len(out)) >= identity).tolist():
        out[at] = other_base(out[at], int(rng.integers(1, 4)))
    return "".join(out).encode()


def _make_sequences() -> dict[str, bytes]:
    made = {name: simulate(70 + n, size) for n, (name, size) in enumerate(_LENGTHS.items())}
    gene, text = made["chr17"], bytearray(made["chr18"])
    copies = {
        2_500: gene[6_000:6_800],
        6_000: reverse_complement(gene[7_000:7_800]),
        9_000: _changed(gene[8_000:9_200], 0.95, 1),
        # On the grid of windows: equal to the window at 5,696.
        16_096: gene[5_696:6_896],
    }
    for start, bases in copies.items():
        text[start : start + len(bases)] = bases
    return made | {"chr18": bytes(text)}


_LENGTHS = {"chr17": 19_000, "chr18": 27_000, "chr20": 6_000, "chr21": 6_000}
SEQUENCES = _make_sequences()
CHR17, CHR20, CHR21 = (SEQUENCES[name] for name in ("chr17", "chr20", "chr21"))
CONTIGS = ContigSet(
    [
        Contig(name, len(bases), md5=hashlib.md5(bases).hexdigest(), aliases=(name[3:],))
        for name, bases in SEQUENCES.items()
    ]
)


def _snvs(contig: str, starts: Iterable[int], steps: Iterable[int] = (1, 2, 3)) -> list[Spelling]:
    bases = SEQUENCES[contig].decode()
    return [(contig, at + 1, bases[at], other_base(bases[at], step)) for at in starts for step in steps]


def _spanning(start: int, size: int) -> Spelling:
    """Return the replacement of bases of chr17 by another one."""
    ref = CHR17[start : start + size].decode()
    return ("chr17", start + 1, ref, next(base for base in "ACGT" if base not in (ref[0], ref[-1])))


def _joined(start: int) -> Spelling:
    """Return the allele that two SNVs make which are seven bases apart."""
    ref = CHR17[start : start + 8].decode()
    return ("chr17", start + 1, ref, other_base(ref[0]) + ref[1:-1] + other_base(ref[-1]))


def deletion(start: int) -> Spelling:
    return ("chr17", start + 1, CHR17[start : start + 2].decode(), chr(CHR17[start]))


def _padded(start: int) -> Spelling:
    _, pos, ref, alt = _snvs("chr17", [start], [1])[0]
    before, behind = CHR17[start - 2 : start].decode(), CHR17[start + 1 : start + 3].decode()
    return ("chr17", pos - 2, before + ref + behind, before + alt + behind)


#: The middle one of three equal bases, among deletions: gnomAD deletes the base behind it, ClinVar another one.
RUN_END = next(at for at in range(DELETED[0] + 5, DELETED[1]) if len(set(CHR17[at - 1 : at + 2])) == 1)


def _common_alleles() -> Iterator[Spelling]:
    for contig, bases in SEQUENCES.items():
        yield from _snvs(contig, range(150, len(bases), 400), [1])
    yield from _snvs("chr17", range(JOINED, JOINED + 70, 7), [1])
    yield from _snvs("chr17", range(GNOMAD_IN_A + 7, GNOMAD_IN_A + 33))
    yield from _snvs("chr17", [14_110], [1])
    yield _padded(14_120)
    yield deletion(RUN_END)
    yield _spanning(GENE_A[0] - 5, 6)


def _clinical_alleles() -> Iterator[tuple[Spelling, str, str | None]]:
    """Yield alleles with their gene, and their label in T0 or None."""
    for contig, gene, starts in (
        ("chr17", "A", (*_A_ALLELES, *range(CLINVAR_IN_A + 7, CLINVAR_IN_A + 33))),
        ("chr18", "B", _B_ALLELES),
        ("chr18", "C", _C_ALLELES),
        ("chr17", "N", range(17_000, 18_000, 50)),
        ("chr20", "D", range(700, 5_000, 500)),
        ("chr21", "E", range(700, 5_000, 500)),
    ):
        yield from ((spelling, gene, "P") for spelling in _snvs(contig, starts))
    yield from ((spelling, "T", None) for spelling in _snvs("chr17", range(*NEW_SNVS)))
    yield from ((spelling, "T", "VUS") for spelling in _snvs("chr17", range(*RELABELLED)))
    yield from ((deletion(at), "T", None) for at in range(*DELETED) if at != RUN_END)
    yield from ((_joined(at), "T", None) for at in range(JOINED, JOINED + 56, 7))


def _normal(spellings: Iterable[Spelling]) -> list[Row]:
    """Normalise alleles as the shards do."""
    normaliser, rows = AlleleNormaliser(lambda contig: SEQUENCES[contig.name]), list[Row]()
    for contig, pos, ref, alt in spellings:
        allele = normaliser.normalise(CONTIGS.resolve(contig), pos, ref, alt)
        assert isinstance(allele, NormalAllele)
        rows.append({"chrom": contig, **allele._asdict()})
    return rows


def normal_text(spelling: Spelling) -> str:
    """Return an allele in normal form as an audit names it."""
    return ":".join(map(str, _normal([spelling])[0].values()))


def _shards(rows: Iterable[Row], schema: pa.Schema) -> dict[str, pa.Table]:
    distinct = {(row["chrom"], row["pos"], row["ref"], row["alt"]): row for row in rows}
    ordered = [distinct[key] for key in sorted(distinct)]
    return {name: table([row for row in ordered if row["chrom"] == name], schema) for name in SEQUENCES}


def _clinvar(*, at_t0: bool) -> dict[str, pa.Table]:
    listed = list(_clinical_alleles())
    rows = [
        row
        | {"label": before if at_t0 else "P", "stars": 1, "gene_symbols": [gene], "gene_ids": [ord(gene)]}
        | {"clinvar_id": number}
        for number, (row, (_, gene, before)) in enumerate(
            zip(_normal(one for one, _, _ in listed), listed, strict=True)
        )
        if not at_t0 or before is not None
    ]
    return _shards(rows, CLINVAR_VARIANTS.arrow)


def _gnomad() -> dict[str, pa.Table]:
    rows = [row | {"filter": "PASS", "af": 0.25} for row in _normal(_common_alleles())]
    return _shards(rows, GNOMAD_VARIANTS.arrow)


def _record(source: str, name: str, bases: bytes, **stated: object) -> CorpusRecord:
    return CorpusRecord(CorpusSource(source), name, bases, **stated)  # type: ignore[arg-type]


def _stated(
    source: str, name: str, contig: str, start: int, strand: str = "+", *, identity: float = 1.0, **more: object
) -> CorpusRecord:
    """Return a record that states where its 1,392 bases are."""
    end = start + PROFILE.window_bp + 2 * PROFILE.margin_bp
    bases = _changed(SEQUENCES[CONTIGS.resolve(contig).name][start:end], identity, 4)
    place = {"contig": contig, "span": (start, end), "strand": strand, "junctions": ()}
    return _record(source, name, reverse_complement(bases) if strand == "-" else bases, **(place | more))


def _inside(bases: bytes, size: int, seed: int) -> bytes:
    """Return bases in the middle of random ones."""
    around = simulate(seed, size - len(bases))
    half = len(around) // 2
    return around[:half] + bases + around[half:]


def _records() -> Iterator[CorpusRecord]:
    eukaryote, prokaryote = "eukaryote_generator", "prokaryote_evo2"
    # Windows whose flanks, five bases of them, are held out; the right flank of "-" lies left of the window.
    yield _stated(eukaryote, "flank+", "17", GENE_A[0] + 5 - 1_392)
    yield _stated(eukaryote, "flank-", "chr17", GENE_A[1] - 5, "-")
    yield _stated(eukaryote, "alias", "20", 1_000)
    yield _stated(prokaryote, "no_taxon", "chr20", 2_410)
    yield _stated(eukaryote, "transgenic", "chr20", 3_800, taxonomy="Bacteria; Homo sapiens")
    elsewhere = {"contig": "chr17", "span": (12_000, 13_392), "strand": "+", "junctions": ()}
    yield _record(eukaryote, "false_place", CHR21[4_500:5_892], **elsewhere)
    yield _record(eukaryote, "contig_only", simulate(500, 1_392), contig="chr21")
    bacterium = {"taxonomy": "Bacteria"}
    yield _record(prokaryote, "equal", CHR21[800:2_192], **bacterium)
    yield _record(prokaryote, "equal_reverse", reverse_complement(CHR21[1_600:2_992]), **bacterium)
    yield _record(prokaryote, "copy_95", _changed(CHR21[3_100:4_492], 0.95, 2), **bacterium)
    yield _record(prokaryote, "copy_90", _changed(CHR20[300:1_692], 0.90, 3), **bacterium)
    yield _record(prokaryote, "chimera", _inside(CHR20[5_000:5_100], 1_392, 501), **bacterium)
    yield _record(prokaryote, "flank_only", simulate(502, 1_296) + CHR20[4_500:4_596], **bacterium)
    exons = b"".join(CHR17[start : start + 264] for start in (5_000, 6_900, 8_800))
    yield _record("mrna_evo2", "transcript", exons)
    yield _record("mrna_splice_evo2", "transcript_reverse", reverse_complement(exons))
    # Newly labelled alleles, along both strands, without and with a place.
    for number in range(4):
        bases = CHR17[13_900 + 40 * number :][:792]
        yield _record("mrna_evo2", f"new{number}", reverse_complement(bases) if number % 2 else bases)
    # A newly labelled allele stands in these.
    for number in range(2):
        text, at = CHR17[13_930 + number : 14_722 + number].decode(), 200
        carrier = text[:at] + other_base(text[at]) + text[at + 1 :]
        yield _record("mrna_evo2", f"carrier{number}", carrier.encode())
    yield _stated(eukaryote, "nearly", "chr17", 11_200, identity=0.98)
    for number in range(4):
        yield _stated(eukaryote, f"placed_reverse{number}", "chr17", 13_754 + 20 * number, "-")
    for number in range(4):
        for name, start in (("clinvar", CLINVAR_IN_A), ("gnomad", GNOMAD_IN_A)):
            bases = _inside(CHR17[start : start + FRAGMENT_BP], 792, 510 + number)
            bases = reverse_complement(bases) if number % 2 else bases
            yield _record("mrna_splice_evo2", f"{name}{number}", bases)
    for number, source in enumerate(CorpusSource):
        yield _record(source, "random", simulate(530 + number, 1_392))


def make_corpus() -> dict[str, pa.Table]:
    placer, found = CorpusPlacer(CONTIGS, lambda name, start, end: SEQUENCES[name][start:end]), dict[str, pa.Table]()
    for source in CorpusSource:
        parts = []
        for profile in (PROFILE, SHORT):
            size = profile.window_bp + 2 * profile.margin_bp
            records = [one for one in _records() if one.source is source and len(one.sequence) == size]
            parts.append(build_tables(records, CorpusParams(profile), placer)[0])
        found[str(source)] = pa.concat_tables(parts).sort_by([("record_id", "ascending")]).combine_chunks()
    return found


@dataclass(frozen=True)
class Inputs:
    """What no filter decides: the reference as a FASTA, and its windows."""

    fasta: Path
    windows: dict[str, pa.Table]
    genome: pa.Table


def make_inputs(folder: Path) -> Inputs:
    fasta = write_fasta(folder / "genome.fa", {name: bases.decode() for name, bases in SEQUENCES.items()})
    windows = {one.name: build_window_table(one, SEQUENCES[one.name], PROFILE, {}) for one in CONTIGS}
    return Inputs(fasta, windows, genome(contigs=CONTIGS))


def _pack(windows: dict[str, pa.Table], corpus: dict[str, pa.Table], name: str) -> NDArray[np.uint8]:
    if name in corpus:
        return pack(corpus[name])
    return pack(pa.concat_tables(with_bases(windows[name], SEQUENCES[name], margin_bp=PROFILE.margin_bp)))


# Without the buffer, which removes the windows beside held-out intervals too, and so hides a mistake of one base there.
POLICY = HoldoutPolicy(
    buffer="none",
    contigs_validation=("20",),
    contigs_test=("21",),
    clinvar_genes=("A", "B", "C"),
    haplotype_fraction=0.0,
    temporal=("2024-01-07", RELEASE),
    validation_windows=100,
)


def holdout_inputs(inputs: Inputs, corpus: dict[str, pa.Table], search: SequenceSearch | None) -> HoldoutInputs:
    """Return the inputs of the holdouts; without a ``search`` windows are not compared with held-out sequence."""
    return HoldoutInputs(
        contigs=CONTIGS,
        genome=inputs.genome,
        windows=inputs.windows,
        gnomad=_gnomad(),
        clinvar=_clinvar(at_t0=False),
        clinvar_earlier=_clinvar(at_t0=True),
        corpus=corpus.values(),
        profile=PROFILE,
        sequences=search and SequenceInputs(search, partial(_pack, inputs.windows, corpus), corpus.items),
    )


def build_package(inputs: Inputs, folder: Path, patch: pytest.MonkeyPatch, *, similarity: bool) -> Path:
    """Build holdouts and package; ``similarity``: whether windows are compared with held-out sequence."""
    patch.setattr("genolewm_assets.package_build.writer.check_package", lambda *_, **__: ())
    # Figures for the card; no filter depends on them.
    corpus = make_corpus()
    with FastaReader(inputs.fasta, CONTIGS) as reader:
        # In parts, of which gene A is more than one.
        search = SequenceSearch(reader, part_bp=5_000, overlap_bp=2_000)
        given = holdout_inputs(inputs, corpus, search if similarity else None)
        held = build_holdouts(given, POLICY)
    sources = PackageSources(
        release=RELEASE,
        genome_digest=genome_digest(CONTIGS),
        windows=inputs.windows,
        corpus=corpus,
        gnomad=given.gnomad,
        clinvar=given.clinvar,
        intervals=held.intervals,
        alleles=held.alleles,
        corpus_rows=held.corpus,
        similar=held.similar,
        haplotypes=held.haplotypes,
        policy=POLICY,
        reference=SEQUENCES.__getitem__,
        contigs=CONTIGS,
        margin_bp=PROFILE.margin_bp,
        mix=PackageMix(declared=POSSIBLE, max_visits=40),
    )
    root = Root(folder / "root")
    root.claim("tiny", sources.genome_digest)
    return publish(root, sources).directory
