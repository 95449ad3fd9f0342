"""Mutated instrument files: an error of the package or a run, in bounded time and memory."""

from __future__ import annotations

import random
import re
import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from genolewm_assets.errors import AbifError, SizingError
from genolewm_assets.forensic import parse_hid, size_run
from genolewm_assets_tests.fuzz.hid_check import check_hid, hid_seeds
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.abif_files import TagBytes, numbers, write_abif
from genolewm_assets_tests.worlds.forensic.runs import GENOTYPE, run_bytes, run_tags, traces

MAX_CPU_S, MAX_GROWTH = 1.0, 4
_EDGES = (0, 1, 4, 5, 28, 34, 127, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def mutants(seeds: list[bytes], n_files: int, seed: int) -> Iterator[bytes]:
    """Make files: fields of directories set to edges, entries copied, bytes flipped, pieces cut, repeated or moved."""
    draw = random.Random(seed)
    for _ in range(n_files):
        data = bytearray(draw.choice(seeds))
        directories = [match.start() for match in re.finditer(rb"DATA\0\0\0", data)]
        root = struct.unpack_from(">I", data, 26)[0]
        for _ in range(draw.randint(1, 5)):
            entry = draw.choice([6, *directories, *range(root, len(data) - 28, 28)])
            match draw.randrange(7):
                case 0 | 1:
                    width, at = draw.choice([(2, 8), (2, 10), (4, 12), (4, 16), (4, 20), (4, 4)])
                    data[entry + at : entry + at + width] = (draw.choice(_EDGES) % 256**width).to_bytes(width, "big")
                case 2:
                    data[entry + 20 : entry + 24] = draw.randrange(len(data) + 9).to_bytes(4, "big")
                case 3:
                    other = draw.randrange(0, max(len(data) - 28, 1))
                    data[entry : entry + 28] = data[other : other + 28]
                case 4:
                    for _ in range(draw.choice((1, 8, 64))):
                        data[draw.randrange(len(data))] = draw.randrange(256)
                case 5:
                    data = data[: draw.randrange(40, len(data) + 1)]
                case 6:
                    at, size = draw.randrange(len(data)), draw.choice((1, 28, 280))
                    data[at:at] = data[at : at + size]
            if len(data) < 64:
                break
        yield bytes(data)


def examine(data: bytes) -> bool:
    """Parse a file and look at every tag; return whether it is a run."""
    try:
        run = parse_hid(data, "mutant")
    except AbifError:
        return False
    for key in run.tags:
        try:
            run.tags[key]
        except AbifError:
            continue
    return True


@pytest.fixture(scope="module")
def seeds() -> list[bytes]:
    signal = traces(GENOTYPE)[:, 1_400:4_400]
    return [run_bytes(signal), run_bytes(signal, scrambled=True)]


@pytest.mark.parametrize("n_files", [400, pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.slow])])
def test_mutated_files_cost_bounded_time_and_memory(seeds: list[bytes], n_files: int) -> None:
    worst_cpu_s, worst_growth, runs = 0.0, 0.0, 0
    tracemalloc.start()
    try:
        for data in mutants(seeds, n_files, seed=n_files):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            start = time.process_time()
            runs += examine(data)
            worst_cpu_s = max(worst_cpu_s, time.process_time() - start)
            # The file's own bytes count as one of the four.
            growth = (tracemalloc.get_traced_memory()[1] - before) / len(data) + 1
            worst_growth = max(worst_growth, growth if len(data) > 10_000 else 0)
    finally:
        tracemalloc.stop()
    assert 0.05 * n_files < runs < 0.95 * n_files  # both ways are taken
    assert worst_cpu_s < MAX_CPU_S
    assert worst_growth <= MAX_GROWTH


def directory_bomb(n_entries: int, kind: int) -> bytes:
    """Return a file that is nearly all directory."""
    head = bytearray(128)
    entry = struct.pack(">4sIHHIIII", b"DATA", 1, kind, 2, 0, 0, 0, 0)
    root = struct.pack(">4sIHHIIII", b"tdir", 1, 1023, 28, n_entries, 28 * n_entries, 128, 0)
    head[:34] = b"ABIF\x01\x2c" + root
    return bytes(head) + entry * n_entries


@contextmanager
def bounded(data: bytes) -> Iterator[None]:
    """Fail where a file costs more time or memory than it may."""
    tracemalloc.start()
    start = time.process_time()
    yield
    cpu_s, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert cpu_s < MAX_CPU_S
    assert peak / len(data) + 1 <= MAX_GROWTH


@pytest.mark.parametrize("kind", [4, 28])
def test_a_file_that_is_all_directory_costs_no_more(kind: int) -> None:
    data = directory_bomb(150_000, kind)
    with bounded(data), pytest.raises(AbifError):
        parse_hid(data, "bomb")


@each_row(
    ("name", "kind", "value"),
    [
        ("ScPa", 19, b";" * 400_000),
        ("ScPa", 19, b"SizeStandardPeaks=" + b"9" * 400_000),
        ("AsyC", 2, b'name="Dyes">[' * 30_000),
        ("SpNm", 19, b"\xe9" * 400_000),
        ("Satd", 1, bytes(400_000)),
        ("Satd", 5, bytes(400_000)),
        ("Satd", 8, bytes(400_000)),
        ("DyeN", 2, b" " * 400_000),
    ],
)
def test_a_long_value_costs_no_more(seeds: list[bytes], name: str, kind: int, value: bytes) -> None:
    signal = traces(GENOTYPE)[:, 1_400:4_400]
    tags = [tag for tag in run_tags(signal) if (tag.name, tag.number) != (name, 1)]
    data = write_abif([*tags, TagBytes(name, 1, kind, value)])
    with bounded(data):
        parse_hid(data, "long")


def test_tags_that_share_their_bytes_are_refused() -> None:
    tags = [numbers("DATA", n, 4, np.arange(2_000)) for n in (1, 2, 3, 4, 105)]
    data = bytearray(write_abif(tags))
    root = struct.unpack_from(">I", data, 26)[0]
    for row in range(5):
        struct.pack_into(">III", data, root + 28 * row + 12, 9_000, 18_000, 128)
    with pytest.raises(AbifError, match="tags overlap"):
        parse_hid(bytes(data), "bomb")


def test_mutated_traces_are_sized_or_refused(seeds: list[bytes]) -> None:
    draw = random.Random(1)
    outcomes = set()
    for _ in range(25):
        data = bytearray(seeds[0])
        at = draw.randrange(128, len(data) - 12_000)
        data[at : at + 12_000] = draw.randbytes(12_000)
        try:
            sizing = size_run(parse_hid(bytes(data), "mutant"))
            outcomes.add("sized")
            assert (np.diff(sizing.scaler) >= 0).all()
        except (AbifError, SizingError) as err:
            outcomes.add(type(err).__name__)
    assert outcomes


@each_row("data", [*hid_seeds(), b"", b"ABIF"])
def test_where_fuzzing_begins(data: bytes) -> None:
    check_hid(data)


def test_a_seed_of_the_fuzzer_is_sized() -> None:
    sized = [data for data in hid_seeds() if b"SizeStandardPeaks" in data]
    assert len(sized) == 2
    for data in sized:
        assert size_run(parse_hid(data, "seed")).sizes_bp.tolist() == list(range(20, 161, 20))
