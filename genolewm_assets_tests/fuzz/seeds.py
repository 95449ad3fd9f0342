"""Cut-down headers and records of gnomAD (CC0), ClinVar (public domain) and the 1000 Genomes Project, and indexes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from genolewm_assets_tests.fuzz import index_check, vcf_check
from genolewm_assets_tests.worlds.sources.index_files import bgzip, contig_bins, csi, index_beside, tbi
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text

_FOLDER = Path(__file__).parent / "seeds"

#: What mutation alone seldom writes.
WORDS = (
    *(
        "##fileformat=VCFv4.3\n",
        "##INFO=<ID=",
        "##contig=<ID=chr1,length=",
        "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO",
    ),
    *(
        "AF=",
        "AC=",
        "AN=",
        ";AF=0.5",
        ";AF=1e-3,2E-5",
        "=.;",
        "%3B",
        "%2C",
        "%25",
        "%0",
        "PASS",
        "<DEL>",
        "*",
        ".",
        ",.",
    ),
    *("\r\n", "\n\n", "\t.\t.\t", "\ufeff", "\u0131nf", "nan", "inf", "-0", "+1.", ".5e0", "1e", "0.1e-22", "\u0661"),
    *("000000000000000001", "9999999999", "12345678901", "0.123456789012345", "0.1234567890123456", "1e-400", "\0"),
)


def vcf_seeds() -> Iterator[bytes]:
    texts = [path.read_bytes() for path in sorted(_FOLDER.glob("*.vcf"))]
    values = [
        ("1", 5, "7", "A", "C,G", "PASS", "AF=0.25,1e-3;AC=1,2;AN=8;flag;s=a%3Bb%2c,%25"),
        ("1", 5, ".", "A", ".", ".", "AF=.;AC=;AN=000000000000000001;;=x"),
        ("2", 4_000_000_000, "rs1;rs2", "AC", "*,<DEL>,A", "AC0;RF", "AF=.,nan,1.0;flag=1;s=."),
    ]
    texts.append(vcf_text(values, info=["AF:A:Float", "AC:A:Integer"]).replace("VCFv4.2", "VCFv4.3").encode())
    texts.append(texts[-1].replace(b"\n", b"\r\n") + b"\r\n\n")
    texts.append(b"\xef\xbb\xbf" + texts[-2].rstrip(b"\n"))
    for number, text in enumerate(texts):
        yield vcf_check.make_input(text)
        how = (vcf_check.GZIP, vcf_check.BGZF, vcf_check.PLAIN)[number % 3]
        yield vcf_check.make_input(text, how=how, piece=(0, 5, 40)[number // 3 % 3])
    packed = bgzip(texts[0], block_bytes=200)
    for data in (packed, packed[:-28], packed[: len(packed) // 2]):
        yield vcf_check.make_input(data, how=vcf_check.AS_IT_IS)


def index_seeds() -> Iterator[bytes]:
    bins = [(0, [(60, 70)]), (4681, [(70 << 16, 80 << 16), (90 << 16, 95 << 16)])]
    whole = (60, 95 << 16)
    contents = [
        tbi(["chr1", "chr2"], [contig_bins([*bins, (37_450, [whole, (3, 0)])], [60, 70 << 16]), contig_bins([])]),
        tbi(["a"], [contig_bins(bins)], end=b""),
        csi(["a", "b"], [contig_bins(bins, is_csi=True), contig_bins([], is_csi=True)]),
        csi(["a"], [contig_bins([(0, [(60, 70)]), (74, [(60, 70), (9, 0)])], is_csi=True)], min_shift=20, depth=2),
    ]
    for content in contents:
        yield index_check.make_index_input(content, how=index_check.INFLATED)
        yield index_check.make_index_input(bgzip(content), how=index_check.AS_IT_IS)
    records = [(name, pos, ".", "A", "C", ".", ".") for name in ("chr1", "chr2") for pos in range(1, 40_000, 4_000)]
    with tempfile.TemporaryDirectory() as folder:
        vcf = Path(folder) / "a.vcf.gz"
        vcf.write_bytes(
            bgzip(vcf_text(records, meta=["##contig=<ID=chr1>", "##contig=<ID=chr2>"]).encode(), block_bytes=99)
        )
        for as_csi in (False, True):
            index = index_beside(vcf, vcf, csi=as_csi)
            yield index_check.make_index_input(index.read_bytes(), how=index_check.AS_IT_IS)
