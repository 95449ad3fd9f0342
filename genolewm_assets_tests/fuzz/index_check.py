"""The index reader on any bytes: a consistent index, or an error of the package."""

from __future__ import annotations

from itertools import pairwise

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf.index import read_index
from genolewm_assets_tests.worlds.sources.index_files import bgzip

INFLATED, AS_IT_IS = range(2)


def make_index_input(data: bytes, *, how: int) -> bytes:
    """Return what :func:`check_index` takes: a whole file, or the content to compress."""
    return bytes([how]) + data


def check_index(data: bytes) -> None:
    how, content = (data[0] % 2, data[1:]) if data else (AS_IT_IS, data)
    try:
        index = read_index(content if how == AS_IT_IS else bgzip(content), where="fuzz.tbi")
    except VcfError as err:
        assert "\n" not in str(err).rstrip("\n"), f"an error of several lines: {err}"
        return
    contigs = list(index.contigs.values())
    for one, following in pairwise(contigs):
        assert one.end <= following.begin, f"{one.name!r} and {following.name!r} overlap"
    for name, contig in index.contigs.items():
        assert contig.name == name != ""
        assert 0 <= contig.begin < contig.end
        assert contig.records is None or contig.records > 0
        assert all(contig.begin < cut < contig.end for cut in contig.cuts)
        assert list(contig.cuts) == sorted(set(contig.cuts))
        before = index.lines_before(name)
        assert before is None or before >= 0
