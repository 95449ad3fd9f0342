"""A small circle with a placeholder, and a collection of genomes that differ from it where a test can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from genolewm_assets.genome import reverse_complement
from genolewm_assets.mito.genomes.qc import GenomeQcPolicy
from genolewm_assets.mito.genomes.records import GenomeRecord

_PLACEHOLDER = 1_500
_BASES = "".join("ACGT"[code] for code in np.random.default_rng(3).integers(0, 4, 4_000))
REFERENCE = f"{_BASES[:_PLACEHOLDER]}N{_BASES[_PLACEHOLDER + 1 :]}"
QC = GenomeQcPolicy(min_length_bp=3_000, max_length_bp=5_000)


@dataclass(frozen=True)
class Genome:
    """A genome by its differences; sites are 0-based, ``inserted`` gives the bases after a site."""

    name: str
    substituted: Mapping[int, str] = field(default_factory=dict)
    inserted: Mapping[int, str] = field(default_factory=dict)
    haplogroup: str | None = None
    turn: int = 0
    reverse: bool = False

    def spell(self) -> str:
        """Return its bases as the reference is cut, without the placeholder."""
        bases = list(REFERENCE.replace("N", "-"))
        for site, base in self.substituted.items():
            bases[site] = base
        for site, more in self.inserted.items():
            bases[site] += more
        return "".join(bases).replace("-", "")

    def names(self) -> list[str]:
        found = [(site + 1, 0, f"{site + 1}{base}") for site, base in self.substituted.items()]
        for site, more in self.inserted.items():
            found += [(site + 1, n, f"{site + 1}.{n}{base}") for n, base in enumerate(more, 1)]
        return [name for *_, name in sorted(found)]

    def record(self, number: int, file: str = "a.fa") -> GenomeRecord:
        """Return it as a collection gives it: cut at ``turn``, perhaps of the other strand."""
        bases = self.spell()
        bases = bases[self.turn :] + bases[: self.turn]
        bases = reverse_complement(bases) if self.reverse else bases
        return GenomeRecord(self.name, f"about {self.name}", bases, self.haplogroup, file, number)


def substitutions(seed: int, count: int) -> dict[int, str]:
    """Return other bases at sites that lie apart, none near the placeholder or the cut."""
    slots = np.random.default_rng(seed).choice(np.arange(5, 360), size=count, replace=False)
    # Genomes of different seeds share no site.
    sites = sorted(int(slot) * 11 + seed for slot in slots if abs(slot * 11 - _PLACEHOLDER) > 30)
    return {site: "ACGT"["ACGT".index(REFERENCE[site]) ^ 2] for site in sites}


def _foreign(site: int) -> str:
    """Return a base that neither neighbour of an insertion after this site has."""
    return next(base for base in "ACGT" if base not in REFERENCE[site : site + 2])


_H, _U, _LONE, _K = (substitutions(seed, 40) for seed in (1, 2, 3, 4))
_NEAR = {**_LONE, 100: next(base for base in "CAGT" if base != REFERENCE[100])}

#: Two of haplogroup H far from each other, near copies with and without a haplogroup, one with inserted bases.
GENOMES = (
    Genome("h1", _H, haplogroup="H1"),
    Genome("h2", substitutions(5, 40), haplogroup="H2a", turn=777),
    Genome("u5", _U, haplogroup="U5", reverse=True),
    Genome("lone", _LONE, turn=2_900, reverse=True),
    Genome("near", _NEAR, turn=31),
    Genome("k1", _K, inserted={2_000: _foreign(2_000) * 2, 3_999: _foreign(-1)}, haplogroup="K1"),
    Genome("plain"),
    Genome("n5", {**substitutions(6, 40), 3_500: "N", 3_520: "R"}),
)


def chimera() -> str:
    """Return a genome half of which is turned round: fit by all that looks at it alone."""
    bases = GENOMES[0].spell()
    return bases[:2_000] + reverse_complement(bases[2_000:])


def misfits(first: int) -> list[GenomeRecord]:
    """Return records that are rejected after :data:`GENOMES`, in the order of :data:`MISFIT_REASONS`."""
    lone, h1 = GENOMES[3].spell(), GENOMES[0].spell()
    sequences = {
        "short": h1[:2_999],
        "gapped": h1[:1_000] + "N" * 50 + h1[1_050:],
        "overlap": h1 + h1[:37],
        "twin": reverse_complement(lone[55:] + lone[:55]),
        "h1": h1[55:] + h1[:55],
        "chimera": chimera(),
    }
    return [
        GenomeRecord(name, "", sequence, None, "a.fa", number)
        for number, (name, sequence) in enumerate(sequences.items(), start=first)
    ]


MISFIT_REASONS = ("too_short", "too_many_n", "junction_repeat", "duplicate_sequence", "duplicate_name", "not_alignable")


def collection() -> list[GenomeRecord]:
    return [genome.record(number) for number, genome in enumerate(GENOMES, 1)] + misfits(len(GENOMES) + 1)
