from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pysam
import pytest

from genolewm_assets.genome import GRCH38
from genolewm_assets.lewm.holdouts.assembly_coverage import CONCLUSIVE_SHARE, GRCH38_BASES, assembled_shares
from genolewm_assets_tests.worlds.lewm.holdout_world import genome


def contigs_table(**acgt: int) -> pa.Table:
    table = genome(contigs=type(GRCH38)(GRCH38[name] for name in acgt))
    return table.set_column(table.column_names.index("acgt_bases"), "acgt_bases", pa.array(list(acgt.values())))


def test_every_contig_of_grch38_has_a_figure_below_its_length() -> None:
    assert list(GRCH38_BASES) == list(GRCH38.names)
    assert all(0.4 * GRCH38[name].length < bases < GRCH38[name].length for name, bases in GRCH38_BASES.items())


def test_analysis_set_and_whole_assembly_are_conclusive() -> None:
    # What the analysis sets blank on chr21 is 5.1 % of the whole assembly's bases.
    whole = 40_088_619
    assert 38_038_574 / whole < CONCLUSIVE_SHARE
    assert assembled_shares(contigs_table(chr21=38_038_574), ["chr21"]) == {"chr21": 1.0}
    assert assembled_shares(contigs_table(chr21=whole), ["chr21"]) == {"chr21": 1.0}


def test_missing_contig_and_foreign_genome() -> None:
    table = genome({"chr21": 0.5})
    assert assembled_shares(table, ["chr21", "chr5"]) == {"chr21": 1.0, "chr5": 0.0}


def test_share_of_the_real_slices(shared_data: Path) -> None:
    with pysam.FastaFile(str(shared_data / "reference" / "GRCh38.slices.fa.gz")) as fasta:
        bases = fasta.fetch("chr21").upper()
    acgt = sum(map(bases.count, "ACGT"))
    (share,) = assembled_shares(contigs_table(chr21=acgt), ["chr21"]).values()
    assert share == pytest.approx(acgt / 38_038_574)
    assert 0.1 < share < 0.15
