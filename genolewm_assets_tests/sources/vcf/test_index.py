from __future__ import annotations

import random
import struct
import tracemalloc
from itertools import groupby
from pathlib import Path

import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf.header_size import MAX_HEADER_LINES
from genolewm_assets.sources.vcf.index import INDEX_LIMIT_BYTES, IndexedContig, VariantIndex, find_index, read_index
from genolewm_assets_tests.fuzz.index_check import AS_IT_IS, check_index, make_index_input
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.index_files import (
    bgzip,
    contig_bins,
    csi,
    index_beside,
    layout,
    placed_lines,
    tbi,
)
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

REAL = [
    "clinvar/vcf_GRCh38/clinvar_20201107.vcf.gz",
    "clinvar/vcf_GRCh38/clinvar_20260226.vcf.gz",
    "clinvar/vcf_GRCh38/clinvar_20220525.chrM.vcf.gz",
    "gnomad/release/2.0.1-liftover/vcf/exomes/gnomad.exomes.r2.0.1.sites.chr21.vcf.bgz",
    "gnomad/release/3.1/vcf/genomes/gnomad.genomes.v3.1.sites.chrM.vcf.bgz",
    "gnomad/release/4.1/vcf/joint/gnomad.joint.v4.1.sites.chr17.vcf.bgz",
    "thousand_genomes/1000G_cohort.af.chr20_chr21_100k.vcf.gz",
    "thousand_genomes/1000G_phase3.af.chr21.vcf.gz",
    "thousand_genomes/1000G_phase3.phased.chr17_BRCA1_exons.vcf.gz",
]
PSEUDO_BIN = 37450
SMALL = tbi(
    ["chr1", "2"],
    [
        contig_bins([(4681, [(100, 300)]), (4682, [(300, 900)]), (PSEUDO_BIN, [(100, 900), (7, 0)])], [100, 300]),
        contig_bins([(0, [(900, 901)]), (PSEUDO_BIN, [(900, 901), (1, 0)])], [900]),
    ],
)


def check_against_lines(index: VariantIndex, vcf: Path) -> None:
    """Every contig lies where its lines lie, has as many, and every cut is the start of one of them."""
    runs = [(name, [at for at, _ in run]) for name, run in groupby(placed_lines(vcf), key=lambda line: line[1])]
    assert list(index.contigs) == [name for name, _ in runs]
    before = 0
    for (name, offsets), contig in zip(runs, index.contigs.values(), strict=True):
        assert (contig.name, contig.begin, contig.records) == (name, offsets[0], len(offsets))
        assert index.lines_before(name) == before
        before += len(offsets)
        assert set(offsets[1:]).issuperset(contig.cuts)
        assert list(contig.cuts) == sorted(set(contig.cuts))
    for contig, (_, following) in zip(index.contigs.values(), runs[1:], strict=False):
        assert contig.end == following[0]
    with pysam.BGZFile(str(vcf)) as file:
        file.seek(list(index.contigs.values())[-1].end)
        assert file.read() == b""


@pytest.mark.parametrize("how", ["as published", "tbi", "csi", "csi, small bins"])
@pytest.mark.parametrize("name", REAL)
def test_real_files(shared_data: Path, tmp_path: Path, name: str, how: str) -> None:
    vcf = shared_data / name
    if how == "as published":
        path = find_index(vcf)
        assert path is not None
    else:
        min_shift = 9 if "small" in how else 14
        path = index_beside(vcf, tmp_path / vcf.name, csi="csi" in how, min_shift=min_shift)
    index = read_index(path, where=path.name)
    check_against_lines(index, vcf)
    with pysam.TabixFile(str(vcf), index=str(path)) as tabix:
        assert list(index.contigs) == tabix.contigs
        for contig in index.contigs.values():
            assert contig.records == sum(1 for _ in tabix.fetch(contig.name))


#: Compresses badly, so that a file has several blocks that end inside lines.
NOISE = random.Random(5).randbytes(35_000).hex()


@st.composite
def vcfs(draw: st.DrawFn) -> bytes:
    """VCFs of a few contigs, in any order of names; lines up to beyond a BGZF block, deletions across bins."""
    names = draw(st.lists(st.sampled_from(["chr1", "2", "chrM", "HLA-A*01:01", "10"]), min_size=1, unique=True))
    records: list[tuple[object, ...]] = []
    for name in names:
        count = draw(st.integers(1, 30))
        steps = draw(st.lists(st.sampled_from([0, 1, 700, 20_000, 3_000_000]), min_size=count, max_size=count))
        widths = draw(st.lists(st.sampled_from([0, 5, 3_000, 70_000]), min_size=count, max_size=count))
        pos = draw(st.integers(1, 40_000))
        for step, width in zip(steps, widths, strict=True):
            pos += step
            info = NOISE[:width] or "."
            ref = "A" * draw(st.sampled_from([1, 1, 1, 40_000]))
            records.append((name, pos, ".", ref, "T", "PASS", info))
    return vcf_text(records).encode()


@pytest.mark.nightly
@given(vcfs(), st.sampled_from([(False, 14), (True, 14), (True, 9), (True, 12)]))
def test_made_files(tmp_path_factory: pytest.TempPathFactory, text: bytes, how: tuple[bool, int]) -> None:
    vcf = write_text(tmp_path_factory.mktemp("made") / "made.vcf.gz", text, "bgzip")
    path = index_beside(vcf, vcf, csi=how[0], min_shift=how[1])
    check_against_lines(read_index(path.read_bytes(), where="made"), vcf)
    check_against_lines(read_index(path, where="made"), vcf)


def test_contigs_stand_in_the_order_of_the_file() -> None:
    contigs = [
        contig_bins([(0, [(50, 90)]), (PSEUDO_BIN, [(50, 90), (2, 1)])]),
        contig_bins([]),
        contig_bins([(0, [(10, 50)]), (PSEUDO_BIN, [(10, 50), (5, 0)])]),
    ]
    index = read_index(bgzip(tbi(["chr1", "chr2", "chr3"], contigs)), where="small")
    assert list(index.contigs) == ["chr3", "chr1"]
    assert index.lines_before("chr1") == 5
    assert index.contigs["chr1"].records == 3


@pytest.mark.parametrize("end", [b"", bytes(8)])
def test_an_index_without_counts(end: bytes) -> None:
    contigs = [contig_bins([(4681, [(60, 90), (100, 120)])], [0, 100, 119]), contig_bins([(0, [(120, 140)])], [])]
    index = read_index(bgzip(tbi(["chr1", "chr2"], contigs, end=end)), where="small")
    assert index.contigs["chr1"] == IndexedContig("chr1", 60, 120, None, (100, 119))
    assert (index.lines_before("chr1"), index.lines_before("chr2")) == (0, None)


@each_row(("depth", "pseudo_bin"), [(0, 2), (5, 37450), (6, 299594), (10, 1227133514)])
def test_the_pseudo_bin_follows_the_depth(depth: int, pseudo_bin: int) -> None:
    bins = [(0, [(60, 90)]), (pseudo_bin, [(60, 90), (3, 1)])]
    content = csi(["chr1"], [contig_bins(bins, is_csi=True)], depth=depth)
    assert read_index(bgzip(content), where="small").contigs["chr1"].records == 4
    above = csi(["chr1"], [contig_bins([(0, [(60, 90)]), (pseudo_bin + 1, [(1, 2)])], is_csi=True)], depth=depth)
    with pytest.raises(VcfError, match=rf"small: the index is damaged: bin {pseudo_bin + 1} of 'chr1', with 1 chunks"):
        read_index(bgzip(above), where="small")


def test_an_index_is_found_beside_its_file(tmp_path: Path) -> None:
    vcf = tmp_path / "a.vcf.bgz"
    assert find_index(vcf) is None
    (tmp_path / "a.vcf.bgz.tbi").mkdir()
    assert find_index(vcf) is None
    (tmp_path / "a.vcf.bgz.tbi").rmdir()
    (tmp_path / "a.vcf.bgz.csi").touch()
    assert find_index(vcf) == tmp_path / "a.vcf.bgz.csi"
    (tmp_path / "a.vcf.bgz.tbi").touch()
    assert find_index(vcf) == tmp_path / "a.vcf.bgz.tbi"


def one(bins: list[tuple[int, list[tuple[int, int]]]], linear: list[int] | None = None) -> bytes:
    return tbi(["c"], [contig_bins(bins, linear)])


HUGE = (2**31 - 1).to_bytes(4, "little")
NEGATIVE = (-1).to_bytes(4, "little", signed=True)
HEAD = b"TBI\x01\x01\0\0\0" + layout(b"c\0")
CSI_HEAD = b"CSI\x01" + (14).to_bytes(4, "little") + (5).to_bytes(4, "little")
WRONG = {
    "empty content": (b"", "ends after 0 bytes, before the end of its first four bytes"),
    "BAI": (b"BAI\x01" + bytes(40), r"not a tabix or CSI index: expected .* got b'BAI\\x01'"),
    "a VCF": (vcf_text([]).encode(), "not a tabix or CSI index"),
    "BCF's": (csi([], [], aux=b""), "not an index of a VCF text file: .* no contig names"),
    "SAM's": (HEAD[:8] + layout(b"c\0", format_=1) + bytes(8), "not an index of a VCF text file"),
    "BED's": (HEAD[:8] + layout(b"c\0", format_=0x10000) + bytes(8), "not an index of a VCF text file"),
    "GFF's": (HEAD[:8] + layout(b"c\0", column=4, format_=0) + bytes(8), "contigs in column 4"),
    "huge contigs": (b"TBI\x01" + HUGE + HEAD[8:], "states 2,147,483,647 contigs with 30 bytes left"),
    "negative contigs": (b"TBI\x01" + NEGATIVE + HEAD[8:], "states -1 contigs"),
    "huge names": (HEAD[:8] + layout(b"c\0", size=2**31 - 1), "before the end of the contig names"),
    "negative names": (HEAD[:8] + layout(b"c\0", size=-1), "-1 bytes of contig names"),
    "open name": (HEAD[:8] + layout(b"c") + bytes(8), "not distinct, or not ended by NUL"),
    "empty name": (tbi([""], [contig_bins([])]), "not distinct, or not ended by NUL"),
    "one name twice": (tbi(["c", "c"], [contig_bins([])] * 2), "not distinct, or not ended by NUL"),
    "not UTF-8": (HEAD[:8] + layout(b"\xff\0") + bytes(8), "not UTF-8"),
    "names too many": (tbi(["c", "d"], [contig_bins([])]), "1 contigs have 2 names"),
    "huge bins": (HEAD + HUGE + bytes(100), "states 2,147,483,647 bins of 'c' with 100 bytes left"),
    "negative bins": (HEAD + NEGATIVE + bytes(100), "states -1 bins"),
    "huge chunks": (HEAD + b"\1\0\0\0" + bytes(4) + HUGE + bytes(90), "states 2,147,483,647 chunks of 'c' with 90"),
    "negative chunks": (HEAD + b"\1\0\0\0" + bytes(4) + NEGATIVE + bytes(90), "states -1 chunks"),
    "huge linear": (HEAD + bytes(4) + HUGE + bytes(90), "states 2,147,483,647 linear offsets"),
    "bins too many": (HEAD + b"\2\0\0\0" + bytes(4) + b"\1\0\0\0" + bytes(16), "before the end of the bins of 'c'"),
    "more behind": (SMALL + b"x", "9 bytes follow the last contig"),
    "reversed chunk": (one([(0, [(60, 50)])]), "the chunks of 'c' are empty or reversed"),
    "empty chunk": (one([(0, [(60, 60)])]), "the chunks of 'c' are empty or reversed"),
    "summary alone": (one([(PSEUDO_BIN, [(60, 90), (3, 0)])]), "the chunks of 'c' are empty or reversed"),
    "other summary": (one([(0, [(60, 90)]), (PSEUDO_BIN, [(60, 91), (3, 0)])]), "contradicts its chunks"),
    "no record": (one([(0, [(60, 90)]), (PSEUDO_BIN, [(60, 90), (0, 0)])]), "contradicts its chunks"),
    "short summary": (
        one([(0, [(60, 90)]), (PSEUDO_BIN, [(60, 90)])]),
        "bin 37450 of 'c', with 1 chunks, is impossible",
    ),
    "two summaries": (one([(0, [(6, 9)]), *[(PSEUDO_BIN, [(6, 9), (3, 0)])] * 2]), "with 2 chunks, is impossible"),
    "overlap": (
        tbi(["c", "d"], [contig_bins([(0, [(60, 90)])]), contig_bins([(0, [(89, 99)])])]),
        "'c' and 'd' overlap",
    ),
    "depth": (csi(["c"], [contig_bins([], is_csi=True)], depth=11), "a binning of depth 11"),
    "negative depth": (csi(["c"], [contig_bins([], is_csi=True)], depth=-1), "a binning of depth -1"),
    "shift": (csi(["c"], [contig_bins([], is_csi=True)], min_shift=48), r"above 2\^48 bp is impossible"),
    "huge aux": (CSI_HEAD + HUGE + bytes(40), "states 2,147,483,647 auxiliary bytes"),
}


@each_row("which", WRONG)
def test_wrong_content_is_one_error_and_little_memory(which: str) -> None:
    content, message = WRONG[which]
    packed = bgzip(content)
    tracemalloc.start()
    try:
        with pytest.raises(VcfError, match=message) as caught:
            read_index(packed, where="wrong")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith("wrong: ")
    assert "\n" not in str(caught.value)
    assert peak < 1 << 20


@pytest.mark.parametrize("content", [SMALL, csi(["c"], [contig_bins([(0, [(60, 90)])], is_csi=True)])])
def test_content_cut_anywhere_is_an_error(content: bytes) -> None:
    whole = read_index(bgzip(content), where="cut")
    for size in range(len(content)):
        if size == len(content) - 8:  # what ends both formats is optional
            assert read_index(bgzip(content[:size]), where="cut") == whole
            continue
        with pytest.raises(VcfError, match=r"^cut: "):
            read_index(bgzip(content[:size]), where="cut")


@given(st.binary(max_size=300), st.sampled_from([b"", b"TBI\x01", HEAD, CSI_HEAD]))
def test_any_bytes_are_an_error_or_a_consistent_index(content: bytes, head: bytes) -> None:
    for data in (bgzip(head + content), head + content, bgzip(SMALL)[:-28] + content):
        check_index(make_index_input(data, how=AS_IT_IS))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an index of a VCF file: expected BGZF, got an empty file"),
        (SMALL, r"not an index of a VCF file: expected BGZF, got b'TBI\\x01"),
        (bgzip(SMALL)[:-28], "truncated: the BGZF end-of-file block is missing"),
        (bgzip(SMALL)[:-60] + bgzip(b""), "the compressed data of the index are damaged"),
        (b"x" * (INDEX_LIMIT_BYTES + 1), "too large for an index: expected at most 33,554,432 bytes, got 33,554,433"),
    ],
)
def test_files_that_are_no_complete_bgzf(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.tbi"
    path.write_bytes(data)
    for index in (data, path):
        with pytest.raises(VcfError, match=message):
            read_index(index, where="a.tbi")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(VcfError, match="does not exist: expected an index of a VCF file"):
        read_index(tmp_path / "a.tbi", where="a.tbi")


def test_a_bomb_is_not_inflated() -> None:
    bomb = bgzip(bytes(1 << 20), block_bytes=1 << 16)[:-28] * 200 + bgzip(b"")
    tracemalloc.start()
    try:
        with pytest.raises(VcfError, match=r"too large for an index: .* got more after decompression"):
            read_index(bomb, where="bomb")
        assert tracemalloc.get_traced_memory()[1] < 3 * INDEX_LIMIT_BYTES
    finally:
        tracemalloc.stop()


def test_more_contigs_than_a_header_can_declare_are_refused() -> None:
    names = [f"c{number}" for number in range(MAX_HEADER_LINES + 1)]
    message = r"a\.tbi: the index is damaged: 100,001 contigs are more than a header can declare \(100,000\)"
    with pytest.raises(VcfError, match=message):
        read_index(bgzip(tbi(names, [struct.pack("<2i", 0, 0)] * len(names))), where="a.tbi")
