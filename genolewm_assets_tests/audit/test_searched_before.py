"""An audit beside an earlier package: the report is that of an audit without it, whatever is new."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.audit import AuditReport, LeakKind, audit_package, open_files, searched_before, similarity
from genolewm_assets.audit import audit as audit_module
from genolewm_assets.audit.held_kmers import KmerTable, keys_of
from genolewm_assets.audit.packed_kernels import find_any, mark_seeds
from genolewm_assets.audit.planting.field import window_schema
from genolewm_assets.audit.reading.reference import encode
from genolewm_assets.audit.searched_before import Searched, find_searched
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.worlds.lewm import package_world as world
from genolewm_assets_tests.worlds.lewm.audited_world import TEXTS, AuditedWorld, make_audited_world
from genolewm_assets_tests.worlds.store.changed_tables import Rows, change_rows

SEEDS_TRIED = range(8)
MASKED_TEXTS = {
    name: "".join(text[at : at + 80] + text[at + 80 : at + 100].lower() for at in range(0, len(text), 100))
    for name, text in TEXTS.items()
}


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> AuditedWorld:
    return make_audited_world(tmp_path_factory.mktemp("in_pieces"), in_pieces=True)


@pytest.fixture
def package(pieces: AuditedWorld, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pieces.package, tmp_path / "package"))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Searched]:
    """Receive the windows that each audit does not search again."""
    kept = list[Searched]()

    def note(*args: object, **options: object) -> Searched | None:
        one = find_searched(*args, **options)  # type: ignore[arg-type]
        kept.extend([] if one is None else [one])
        return one

    monkeypatch.setattr(audit_module, "find_searched", note)
    return kept


def audit(
    pieces: AuditedWorld, package: Path, holdouts: Path | None = None, earlier: Path | None = None
) -> AuditReport:
    return audit_package(package, pieces.fasta, holdouts=holdouts, clinvar=pieces.vcf, least_tuples=0, earlier=earlier)


def both(pieces: AuditedWorld, package: Path, holdouts: Path | None, earlier: Path) -> AuditReport:
    """Audit a package with and without an earlier one; return the report, which is the same."""
    alone, beside = (audit(pieces, package, holdouts, each) for each in (None, earlier))
    assert beside.as_dict() == alone.as_dict()
    return beside


def hold_more(folder: Path, *spans: tuple[str, int, int]) -> None:
    def edit(rows: Rows) -> Rows:
        new = [dict(zip(("contig", "start", "end"), span, strict=True)) | {"unit": f"new.{span}"} for span in spans]
        return rows + [rows[0] | row for row in new]

    change_rows(folder / "intervals.parquet", edit)


def n_known(searched: Searched) -> tuple[int, int]:
    return sum(int(np.count_nonzero(rows)) for rows in searched.rows.values()), sum(
        int(np.count_nonzero(piece.trains)) for piece in searched.files.pieces()
    )


def test_windows_that_are_read_by_number_are_those_of_the_tables(pieces: AuditedWorld) -> None:
    files = open_files(pieces.package)
    columns = window_schema(files).names
    tables = pa.Table.from_batches(files.windows("train", columns))
    numbers = np.arange(1, tables.num_rows, 3)
    found = pa.Table.from_batches(files.train_rows(columns, numbers))
    assert found.to_pylist() == tables.take(pa.array(numbers)).to_pylist()
    assert found.num_rows > 15


def test_without_news_no_window_is_compared_again(
    pieces: AuditedWorld, found: list[Searched], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = audit(pieces, pieces.package)
    monkeypatch.setattr(similarity, "compare_all", lambda *_: pytest.fail("windows are compared"))
    assert audit(pieces, pieces.package, earlier=pieces.package).as_dict() == alone.as_dict()
    ((known, training),) = map(n_known, found)
    assert known == training > 40


@pytest.mark.parametrize("seed", SEEDS_TRIED)
def test_what_is_held_out_since_is_found_as_without_an_earlier_package(
    seed: int, pieces: AuditedWorld, found: list[Searched], tmp_path: Path
) -> None:
    rng, grown = np.random.default_rng(seed), Path(shutil.copytree(pieces.package / "holdouts", tmp_path / "holdouts"))
    starts = rng.integers(0, len(world.SEQUENCES["chr17"]) - 700, 2)
    hold_more(grown, *(("chr17", int(start), int(start + rng.integers(40, 700))) for start in starts))
    # Of every other FASTA a fifth is soft-masked: what is new is told by added bases there.
    audited = replace(pieces, fasta=write_fasta(tmp_path / "masked.fa", MASKED_TEXTS)) if seed % 2 else pieces
    report = both(audited, pieces.package, grown, pieces.package)
    assert report[LeakKind.HELD_INTERVAL].found.keys or report[LeakKind.HELD_SEQUENCE].found.keys
    ((known, training),) = map(n_known, found)
    assert 0 < known < training


def test_after_much_news_all_is_searched(
    pieces: AuditedWorld, found: list[Searched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = Path(shutil.copytree(pieces.package / "holdouts", tmp_path / "holdouts"))
    hold_more(grown, ("chr17", 3_000, 4_000))
    monkeypatch.setattr(searched_before, "MOST_NEW", 960)
    assert both(pieces, pieces.package, grown, pieces.package)[LeakKind.HELD_SEQUENCE].found.keys
    assert found == []
    # A stretch of 1,000 bases has 970 31-mers.
    monkeypatch.setattr(searched_before, "MOST_NEW", 970)
    both(pieces, pieces.package, grown, pieces.package)
    assert len(found) == 1


def test_windows_that_did_not_train_are_searched(pieces: AuditedWorld, package: Path, tmp_path: Path) -> None:
    grown = Path(shutil.copytree(pieces.package / "holdouts", tmp_path / "holdouts"))
    hold_more(grown, ("chr17", 3_000, 4_000))
    # The earlier package held the same out, and so had no window there.
    shutil.rmtree(package / "holdouts")
    shutil.copytree(grown, package / "holdouts")
    leaks = audit(pieces, pieces.package, grown)
    names = leaks[LeakKind.HELD_INTERVAL].found.keys | leaks[LeakKind.HELD_SEQUENCE].found.keys
    assert names
    for piece in open_files(package).pieces():
        table, trains = pq.read_table(piece.folder / "windows.parquet"), piece.trains.copy()
        columns = ("contig", "start") if piece.of_reference else ("record_id", "window_index")
        origin = "reference" if piece.of_reference else piece.name
        rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
        trains &= ~np.isin([f"{origin} {first}:{second}" for first, second in rows], sorted(names))
        (piece.folder / "trains.npy").unlink()
        np.save(piece.folder / "trains.npy", trains)
    assert both(pieces, pieces.package, grown, package)[LeakKind.HELD_SEQUENCE].found.keys


def test_a_new_window_of_evaluation_that_trains_is_found(pieces: AuditedWorld, package: Path) -> None:
    (piece, *_) = (piece for piece in open_files(package).pieces() if piece.of_reference and piece.trains.any())
    trained = [row for batch in piece.windows(("sequence",)) for row in batch["sequence"].to_pylist()]
    (path,) = package.glob("data/test-*.parquet")

    def edit(rows: Rows) -> Rows:
        return [*rows, next(row for row in rows if row["holdout"]) | {"sequence": world.reverse(trained[-1].encode())}]

    change_rows(path, edit)
    assert len(both(pieces, package, None, pieces.package)[LeakKind.DUPLICATE].found.keys) == 1


def test_pieces_that_changed_are_searched_whole(pieces: AuditedWorld, package: Path, found: list[Searched]) -> None:
    record = (package / "package.json").read_text()
    (first, *_) = open_files(package).pieces()
    (package / "package.json").write_text(record.replace(first.digest, "0" * 64))
    both(pieces, pieces.package, None, package)
    rows = found[0].rows
    assert not rows[first.name].any()
    others = [piece for piece in found[0].files.pieces() if piece.name != first.name]
    assert all(rows[piece.name].sum() == piece.trains.sum() for piece in others)


def test_arrays_that_are_too_short_are_told(pieces: AuditedWorld, package: Path) -> None:
    path = next(piece.folder / "bases.npy" for piece in open_files(package).pieces() if piece.trains.any())
    bases = np.load(path)
    path.unlink()
    np.save(path, bases[: len(bases) // 4])
    with pytest.raises(CorruptResourceError, match=r"bases\.npy.*lacks bases of its windows"):
        audit(pieces, package, earlier=pieces.package)


@pytest.mark.parametrize("seed", SEEDS_TRIED)
def test_packed_bases_are_looked_through_as_texts_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = ["".join(rng.choice(list("ACGT"), size)) for size in [0, 15, 30, 31, 32, *rng.integers(31, 300, 60)]]
    # Some 31-mers of some texts, one of either strand.
    wanted = [text[at : at + 31] for text in texts[3::5] for at in rng.integers(0, len(text) - 30, 2).tolist()]
    given = [world.reverse(text.encode()) if at % 2 else text for at, text in enumerate(wanted)]
    table = KmerTable.of(np.concatenate([keys_of(encode(text))[:1] for text in given]))
    bits = np.zeros(1 << 10, np.uint64)
    mark_seeds(table.keys, bits, np.uint32(16))
    sizes = np.array([len(text) for text in texts])
    first = np.concatenate([[0], np.cumsum((sizes + 3) // 4)])
    packed = np.zeros(first[-1], np.uint8)
    for at, text in zip(first.tolist(), texts, strict=False):
        for base, letter in enumerate(text):
            packed[at + base // 4] |= "ACGT".index(letter) << 2 * (base % 4)
    packed.flags.writeable = False
    has = np.zeros(len(texts), np.bool_)
    find_any(packed, first[:-1], sizes, table, bits, np.uint32(16), has)
    either = {*wanted, *(world.reverse(text.encode()) for text in wanted)}
    assert has.tolist() == [any(text[at : at + 31] in either for at in range(len(text) - 30)) for text in texts]
    assert has.any()
    assert not has.all()
