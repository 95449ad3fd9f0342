"""How much of a contig's assembled sequence the reference holds, which says whether a search of it finds everything."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

import pyarrow as pa

from genolewm_assets.genome import GRCH38

#: Bases other than N of each GRCh38 contig in the analysis sets, which blank the second copies of repeat arrays on
#: chr5, 14, 19, 21 and 22 and chrY's pseudo-autosomal regions; what they blank can be found in its first copy. The
#: whole assembly has 40,088,619 on chr21: against that, the analysis sets themselves would miss 5.1 %.
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

#: Below this share of a contig, that a search finds nothing says nothing.
CONCLUSIVE_SHARE = 0.95


def assembled_shares(genome: pa.Table, contigs: Iterable[str]) -> dict[str, float]:
    """Return the share, 0 to 1, of each contig's assembled bases that the genome holds.

    Parameters
    ----------
    genome
        Schema ``lewm.window_schema.GENOME_CONTIGS``.
    contigs
        Canonical names.

    Returns
    -------
    dict
        0 for a contig that the genome lacks. A contig whose length is not GRCh38's is of another genome, which is all
        there is of it: 1.
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
