"""Share of a contig's assembled sequence that the reference FASTA contains.

If much of a contig is missing, an alignment to the reference cannot show that a corpus window is not from that contig.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

import pyarrow as pa

from genolewm_assets.genome import GRCH38

#: Number of bases other than N of each GRCh38 contig in the analysis sets. These sets mask (as N) the second copies of
#: repeat arrays on chr5, 14, 19, 21 and 22, and the pseudo-autosomal regions of chrY. Masked sequence can be found in
#: its first copy. The whole assembly has 40,088,619 such bases on chr21; compared with it, the sets lack 5.1 %.
GRCH38_BASES = MappingProxyType(
    {
        "chr1": 230_481_012,
        "chr2": 240_548_228,
        "chr3": 198_100_135,
        "chr4": 189_752_667,
        "chr5": 178_983_193,
        "chr6": 170_078_522,
        "chr7": 158_970_131,
        "chr8": 144_768_136,
        "chr9": 121_790_550,
        "chr10": 133_262_962,
        "chr11": 134_533_742,
        "chr12": 133_137_816,
        "chr13": 97_983_125,
        "chr14": 88_518_101,
        "chr15": 84_641_325,
        "chr16": 81_805_943,
        "chr17": 82_920_204,
        "chr18": 80_089_605,
        "chr19": 55_766_397,
        "chr20": 63_944_257,
        "chr21": 38_038_574,
        "chr22": 37_071_985,
        "chrX": 154_893_029,
        "chrY": 23_636_355,
        "chrM": 16_568,
    }
)

#: Smallest share, 0 to 1, of a contig's bases with which a search of the contig that finds nothing is conclusive.
CONCLUSIVE_SHARE = 0.95


def assembled_shares(genome: pa.Table, contigs: Iterable[str]) -> dict[str, float]:
    """Return the share, 0 to 1, of each contig's assembled bases that the reference genome contains.

    Parameters
    ----------
    genome
        Schema ``lewm.windows.schema.GENOME_CONTIGS``.
    contigs
        Canonical names.

    Returns
    -------
    dict
        Share by contig; 0 for a contig that the genome lacks. A contig whose length differs from GRCh38's belongs to
        another genome; no base count is known for it, and it counts as complete: 1.
    """
    held = dict(zip(genome["contig"].to_pylist(), genome.to_pylist(), strict=True))
    shares = {}
    for name in contigs:
        row = held.get(name)
        if row is None:
            shares[name] = 0.0
        elif name in GRCH38 and name in GRCH38_BASES and GRCH38[name].length == row["length"]:
            shares[name] = min(1.0, row["acgt_bases"] / GRCH38_BASES[name])
        else:
            shares[name] = 1.0
    return shares
