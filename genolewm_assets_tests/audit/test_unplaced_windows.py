"""Held-out alleles in windows without an exact place: the audit finds them, unless training's filter refuses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit import LeakKind, audit_package
from genolewm_assets.audit.allele_searches import search_stream
from genolewm_assets.audit.alleles.held_alleles import HeldAlleles
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import OwnFiles
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.report import Verdict
from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.held_sequences import HeldSequences
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import Redraw, SamplingRules
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.genome import RelEdit, Variant, normalise, reverse_complement
from genolewm_assets.genome import reverse_complement_edit as on_other_strand
from genolewm_assets.memory_mapped.split import MappedSplit
from genolewm_assets.package_build.rows import context_tables
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets_tests.audit.emitted_batches import emitted_batch
from genolewm_assets_tests.referees.sampling.rules_by_bases import RulesByBases
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import AuditedWorld, make_audited_world
from genolewm_assets_tests.worlds.lewm.stream_world import no_alleles

# The stream is drawn with the trainer's dataset.
pytestmark = pytest.mark.model

CHR17 = world.SEQUENCES["chr17"].decode()
SITE, BEFORE = 5_000, 300
#: A base that stands at least four times in a row, and the first of them.
RUN = next(at for at in range(4_000, 9_000) if len(set(CHR17[at : at + 4])) == 1 and CHR17[at - 1] != CHR17[at])


@dataclass(frozen=True)
class Case:
    """A held-out allele of chr17, a window that reads along +, and edits of it that make the allele."""

    allele: Variant
    window: str
    edits: tuple[RelEdit, ...]

    def on(self, strand: str) -> tuple[str, tuple[RelEdit, ...]]:
        if strand == "+":
            return self.window, self.edits
        turned = (on_other_strand(edit, len(self.window)) for edit in self.edits)
        return reverse_complement(self.window), tuple(sorted(turned))


def cut(start: int, behind: int) -> str:
    """Return 600 bases from ``start`` on: those of chr17 before ``behind``, then those of another exon."""
    return (CHR17[start:behind] + CHR17[15_000:16_000])[:600]


def snv(behind: int = SITE + 600) -> Case:
    alt = world.other_base(CHR17[SITE])
    edit = RelEdit(BEFORE, CHR17[SITE], alt)
    return Case(Variant("chr17", SITE + 1, CHR17[SITE], alt), cut(SITE - BEFORE, behind), (edit,))


def mnv() -> Case:
    ref = CHR17[SITE : SITE + 12]
    alt = world.other_base(ref[0]) + ref[1:-1] + world.other_base(ref[-1])
    edits = tuple(RelEdit(BEFORE + at, ref[at], alt[at]) for at in (0, 11))
    return Case(Variant("chr17", SITE + 1, ref, alt), cut(SITE - BEFORE, SITE + 600), edits)


def deletion() -> Case:
    """Return a deletion in a run of one base, which the window spells at the end of the run."""
    allele = normalise(Variant("chr17", RUN + 3, CHR17[RUN + 2 : RUN + 4], CHR17[RUN + 2]), CHR17.encode())
    assert allele.pos == RUN
    edit = RelEdit(BEFORE + 2, CHR17[RUN + 2 : RUN + 4], CHR17[RUN + 2])
    return Case(allele, CHR17[RUN - BEFORE : RUN - BEFORE + 600], (edit,))


def insertion() -> Case:
    allele = Variant("chr17", SITE + 1, CHR17[SITE], CHR17[SITE] + "ACCATG")
    edit = RelEdit(BEFORE, CHR17[SITE], CHR17[SITE] + "ACCATG")
    return Case(normalise(allele, CHR17.encode()), cut(SITE - BEFORE, SITE + 600), (edit,))


CASES = {
    "snv": snv(),
    # Ten bases before the end of an exon, and ten behind its beginning on the other strand.
    "exon": snv(SITE + 11),
    "mnv": mnv(),
    "deletion": deletion(),
    "insertion": insertion(),
}


def apply(case: Case, strand: str, *, filtered: bool) -> tuple[str, str] | Redraw:
    """Return the window before and after its edits, or why they are refused."""
    bases, edits = case.on(strand)
    place = EditPlace(WindowRecord("0" * 32, "mrna_evo2", bases, "A" * 96, "C" * 96))
    allele = case.allele
    row = {"chrom": ["chr17"], "pos": [allele.pos], "ref": [allele.ref], "alt": [allele.alt]}
    tables = context_tables(pa.table(row), lambda _: CHR17.encode())
    held = HeldSequences(batch for table in tables for batch in table.to_batches()) if filtered else None
    rules = RulesByBases(SamplingRules(), AlleleIndex.of(no_alleles()), held)
    made = rules.apply(place, tuple(sorted(map(place.normal_form, edits))))
    return made if isinstance(made, Redraw) else (bases, made.edited.sequence)


def search(case: Case, shown: tuple[str, str], audited: AuditedWorld, folder: Path) -> set[str]:
    """Return what the audit finds in a stream that shows one window, with the allele of the case held out."""
    row = {name: [getattr(case.allele, name)] for name in ("pos", "ref", "alt")} | {"chrom": ["chr17"]}
    pq.write_table(pa.table(row), folder / "alleles.parquet")
    files = OwnFiles(audited.package, folder, {})
    before, after = shown
    batch = emitted_batch(before, after, None, origin="mrna_evo2", locus_token=BEFORE // 6, blocks=(0, 9))
    with Reference(audited.fasta) as reference:
        given = files, reference, HeldSpans([]), HeldAlleles.of_package(files, reference)
        result, *_ = search_stream(*given, least_tuples=1, progress=NO_PROGRESS, draw=lambda *_: [batch])
    return result.found.keys


@pytest.mark.parametrize("strand", ["+", "-"])
@pytest.mark.parametrize("name", CASES)
def test_what_the_audit_would_find_is_refused(name: str, strand: str, audited: AuditedWorld, tmp_path: Path) -> None:
    """The audit finds an edit that makes the held-out allele, and one that takes it back."""
    shown = apply(CASES[name], strand, filtered=False)
    assert not isinstance(shown, Redraw)
    for before_and_after in (shown, (shown[1], shown[0])):
        assert search(CASES[name], before_and_after, audited, tmp_path) == {"mrna_evo2 w"}
    assert apply(CASES[name], strand, filtered=True) is Redraw.HELD_OUT


def test_the_filter_is_stricter_than_the_audit_at_the_end_of_an_exon(audited: AuditedWorld, tmp_path: Path) -> None:
    last_base = snv(SITE + 1)
    shown = apply(last_base, "+", filtered=False)
    assert not isinstance(shown, Redraw)
    assert search(last_base, shown, audited, tmp_path) == set()
    assert apply(last_base, "+", filtered=True) is Redraw.HELD_OUT


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> AuditedWorld:
    """Return a package whose corpus windows are unplaced stretches of chr17, with an allele held out in each."""
    held = [row for row in world.clinvar("chr17").to_pylist() if not 5_000 < row["pos"] < 7_500]
    starts = [row["pos"] - 300 for row in held if 400 < row["pos"] < 29_000]
    texts = [world.SEQUENCES["chr17"][start : start + 600].decode() for start in starts]
    corpora = {
        source: world.corpus(source, [world.reverse(text.encode()) if n % 2 else text for text in texts[n::4]])
        for n, source in enumerate(world.corpora())
    }
    alleles = world.held_alleles(*(("holdout-temporal", "test", row) for row in held))
    return make_audited_world(tmp_path_factory.mktemp("transcripts"), corpus=corpora, alleles=alleles)


def draw(package: Path, _: int) -> Iterator[object]:
    from genolewm_assets.lewm import GenoLeWMDataset

    dataset = GenoLeWMDataset(package, with_states=False, allow_unaudited=True)
    while True:
        dataset.set_epoch(dataset.epoch + 1)
        yield from dataset


@pytest.mark.parametrize("filtered", [True, False])
def test_a_stream_makes_no_held_out_allele_in_transcripts(
    filtered: bool, transcripts: AuditedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not filtered:
        monkeypatch.setattr(MappedSplit, "held_sequences", lambda self: None)
    report = audit_package(transcripts.package, transcripts.fasta, least_tuples=15_000, draw=draw)  # type: ignore[arg-type]
    stream = report[LeakKind.RECREATED_ALLELE]
    assert stream.searched["tuples without a place"] > 3_000
    assert bool(stream.found.keys) is not filtered
    assert stream.verdict is (Verdict.CLEAN if filtered else Verdict.LEAK)
