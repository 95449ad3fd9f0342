from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import CorruptResourceError, InputError
from genolewm_assets.sources.corpus.division import (
    RECORD_CHECKS,
    check_division,
    divide_source,
    piece_digests,
    read_piece,
)
from genolewm_assets.sources.corpus.files import count_records, read_records
from genolewm_assets.windows.corpus.pieces import (
    RecordsDigest,
    count_pieces,
    parse_piece,
    piece_keys,
    piece_of,
    records_batch,
    records_of,
)
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource, RecordFault, SkipReason
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.worlds.sources.corpus_files import gene_row, text_row, write_rows
from genolewm_assets_tests.worlds.store.plans import flip

GENES = CorpusSource.EUKARYOTE_GENERATOR
PIECES = 4


def rows(first: int, stop: int) -> list[dict[str, object]]:
    return [
        gene_row(record_id=f"g{number}", sequence=f"{number:08b}".replace("0", "ACGTN").replace("1", "GGATC"))
        for number in range(first, stop)
    ]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Two files of different layouts, with an id in both, an id twice, an empty sequence and a row at fault."""
    strange = [gene_row(record_id="g3"), gene_row(record_id="none", sequence=""), gene_row(record_id="up", strand="up")]
    notes = {"note": "chr20:101-140(-)", "taxonomy": "Homo sapiens"}
    texts = [text_row(record=f"t{number}", text="acgu" * 10, metadata=notes) for number in range(30)]
    return {
        "aaaa": write_rows(tmp_path / "a.parquet", *rows(0, 60), *strange),
        "bbbb": write_rows(tmp_path / "b.parquet", *texts, text_row(record="g3", text="ACGT" * 10, metadata=notes)),
    }


def divide(files: dict[str, Path], out: Path, *, former: Path | None = None, most: float = 0.5) -> dict[str, int]:
    out.mkdir()
    return dict(divide_source(files, GENES, PIECES, out, former=former, max_faulty_fraction=most).counts)


def failed(files: dict[str, Path], out: Path, most: float = 0.5) -> set[str]:
    return {
        each.name for each in check_division(out, files, GENES, PIECES, max_faulty_fraction=most) if not each.passed
    }


def test_pieces_hold_each_record_once_in_the_order_of_the_files(files: dict[str, Path], tmp_path: Path) -> None:
    counts = divide(files, tmp_path / "out")
    source = list(read_records([*files.values()], GENES))
    found = [list(read_piece(tmp_path / "out", GENES, number)) for number in range(PIECES)]
    assert min(map(len, found)) > 10
    for number, records in enumerate(found):
        assert records == [record for record in source if piece_of(record.record_id, PIECES) == number]
    assert (counts["records_in"], counts["pieces"], counts["faulty.unknown_strand"]) == (len(source), PIECES, 1)
    assert failed(files, tmp_path / "out") == set()
    assert count_records([str(path) for path in files.values()]) == len(source)


def test_a_changed_file_changes_the_pieces_of_its_changed_records(files: dict[str, Path], tmp_path: Path) -> None:
    divide(files, tmp_path / "one")
    before = [piece_digests(tmp_path / "one", number) for number in range(PIECES)]
    read = pq.read_table(files["bbbb"]).to_pylist()
    read.insert(0, text_row(record="new", text="ACGT" * 9, metadata=read[0]["metadata"]))
    changed = {"aaaa": files["aaaa"], "cccc": write_rows(tmp_path / "c.parquet", *read)}
    divide(changed, tmp_path / "two", former=tmp_path / "one")
    after = [piece_digests(tmp_path / "two", number) for number in range(PIECES)]
    assert [a != b for a, b in zip(before, after, strict=True)] == [n == piece_of("new", PIECES) for n in range(PIECES)]
    copied = (tmp_path / "two/00000-aaaa.arrow").read_bytes()
    assert copied == (tmp_path / "one/00000-aaaa.arrow").read_bytes()
    assert failed(changed, tmp_path / "two") == set()


def test_a_file_that_is_damaged_in_the_version_before_is_divided_again(files: dict[str, Path], tmp_path: Path) -> None:
    divide(files, tmp_path / "one")
    divide(files, tmp_path / "whole")
    damaged = tmp_path / "one/00000-aaaa.arrow"
    reader = pa.ipc.open_file(pa.memory_map(str(damaged)))
    others = pa.ipc.open_file(pa.memory_map(str(tmp_path / "one/00001-bbbb.arrow")))
    # Whole as a file, with the records of another.
    with pa.ipc.new_file(tmp_path / "new", reader.schema) as out:
        for number in range(reader.num_record_batches):
            out.write_batch(others.get_batch(0) if number == 1 else reader.get_batch(number))
    (tmp_path / "new").replace(damaged)
    (tmp_path / "one/00001-bbbb.json").write_text("{")
    divide(files, tmp_path / "two", former=tmp_path / "one")
    read = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("whole", "two")]
    assert read[0] == read[1]
    assert failed(files, tmp_path / "two") == set()


def test_a_division_that_was_interrupted_goes_on(files: dict[str, Path], tmp_path: Path) -> None:
    divide(files, tmp_path / "whole")
    divide({"aaaa": files["aaaa"]}, tmp_path / "out")
    (tmp_path / "out/00001-bbbb.arrow").write_bytes(b"half")
    kept = (tmp_path / "out/00000-aaaa.arrow").stat().st_mtime_ns
    divide_source(files, GENES, PIECES, tmp_path / "out")
    assert (tmp_path / "out/00000-aaaa.arrow").stat().st_mtime_ns == kept
    read = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("whole", "out")]
    assert read[0] == read[1]


def test_killed_at_any_write_it_goes_on_to_the_same_files(
    files: dict[str, Path], tmp_path: Path, kill_points: KillPoints
) -> None:
    divide(files, tmp_path / "whole")
    folders: list[Path] = []

    def prepare() -> Callable[[], object]:
        folders.append(tmp_path / f"out{len(folders)}")
        folders[-1].mkdir()
        return lambda: divide_source(files, GENES, PIECES, folders[-1])

    for _ in kill_points(prepare, lambda: folders[-1], writes=True):
        divide_source(files, GENES, PIECES, folders[-1])
        read = [{path.name: path.read_bytes() for path in each.iterdir()} for each in (tmp_path / "whole", folders[-1])]
        assert read[0] == read[1]
    assert kill_points.last > 8


def test_faults_count_where_a_file_is_taken_over(files: dict[str, Path], tmp_path: Path) -> None:
    divide(files, tmp_path / "one")
    assert failed(files, tmp_path / "one", most=0.001) == {"faulty_records_rare"}
    with pytest.raises(InputError, match="too many rows of this corpus source are at fault, 1 of the first"):
        divide(files, tmp_path / "two", former=tmp_path / "one", most=0.001)


def test_damage_is_found(files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    divide(files, out)
    record = out / "00000-aaaa.json"
    whole = record.read_text()
    record.write_text(json.dumps(json.loads(whole) | {"records": 62}))
    assert failed(files, out) == {"every_record_accounted_for"}
    digest = piece_digests(out, 0)[0]
    record.write_text(whole.replace(digest, "0" * 64))
    assert failed(files, out) == {"records_in_their_pieces"}
    with pytest.raises(CorruptResourceError, match=r"00000-aaaa\.arrow: holds other records than were divided"):
        list(read_piece(out, GENES, 0))
    record.write_text(whole)
    write_rows(files["bbbb"], *pq.read_table(files["bbbb"]).to_pylist()[1:])
    assert failed(files, out) == {"every_record_accounted_for"}
    flip(out / "00000-aaaa.arrow", (out / "00000-aaaa.arrow").stat().st_size - 12)
    for text in ("{}", '{"records": 1, "faults": {}, "pieces": [1]}'):
        with pytest.raises(CorruptResourceError, match=r"00000-aaaa\.(json|arrow)"):
            list(read_piece(out, GENES, 0))
        record.write_text(text)
    assert len(RECORD_CHECKS) == 3


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_the_number_of_pieces_is_the_least_power_of_two(records: int, per_piece: int) -> None:
    pieces = count_pieces(records, per_piece)
    assert pieces.bit_count() == 1
    assert pieces * per_piece >= records
    assert pieces == 1 or pieces // 2 * per_piece < records
    keys = piece_keys(GENES, min(pieces, 8))
    assert [parse_piece(key) for key in keys] == [(GENES, number) for number in range(len(keys))]


@pytest.mark.parametrize("text", ["mrna_evo2-1", "mrna_evo2-000017", "mrna_evo2-0001x", "mrna", "mrna_evo2-"])
def test_a_text_that_names_no_piece(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no piece|is not a valid CorpusSource"):
        parse_piece(text)


RECORDS = st.builds(
    CorpusRecord,
    st.just(GENES),
    st.text(max_size=8),
    st.binary(max_size=40),
    taxonomy=st.none() | st.text(max_size=4),
    contig=st.none() | st.text(max_size=4),
    span=st.none() | st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)),
    strand=st.none() | st.sampled_from("+-"),
    junctions=st.none() | st.lists(st.integers(0, 2**40), max_size=3).map(tuple),
    note=st.none() | st.text(max_size=4),
    fault=st.none() | st.builds(RecordFault, st.sampled_from(SkipReason), st.text(max_size=4)),
)


@given(st.lists(RECORDS, max_size=4), st.lists(RECORDS, max_size=4))
def test_records_pass_unchanged_and_other_records_have_another_digest(
    one: list[CorpusRecord], other: list[CorpusRecord]
) -> None:
    assert list(records_of(records_batch(one), GENES)) == one
    digests = Counter[str]()
    for records in (one, other):
        digest = RecordsDigest()
        for record in records:
            digest.add([record])
        digests[digest.hexdigest()] += 1
    assert (len(digests) == 1) == (one == other)
