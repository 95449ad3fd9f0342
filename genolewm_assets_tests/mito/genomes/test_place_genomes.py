"""A genome that does not align stands in the way of no other."""

from __future__ import annotations

from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.records import GenomeRecord
from genolewm_assets.mito.genomes.table import place_genomes
from genolewm_assets_tests.worlds.mito.genome_world import GENOMES, QC, REFERENCE, chimera


def test_a_chimera_takes_up_neither_a_name_nor_a_circle() -> None:
    whole = GENOMES[0].spell()
    records = [
        GenomeRecord(name, "", sequence, None, "a.fa", number)
        for number, (name, sequence) in enumerate(
            [("h1", chimera()), ("h1", whole), ("twin", chimera()), ("h1", GENOMES[2].spell())], start=1
        )
    ]

    found = place_genomes(records, CircularAligner(REFERENCE), QC)

    assert [(genome.record.name, genome.record.number) for genome in found.genomes] == [("h1", 2)]
    assert [(r.number, r.reason) for r in found.rejected] == [
        (1, "not_alignable"),
        (3, "not_alignable"),
        (4, "duplicate_name"),
    ]
