"""The alleles that are held out of a package, in normal form, and the 31-mers that they make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.normal_alleles import KEY, alleles_of, keys_of, known_forms, normalise_alleles
from genolewm_assets.audit.held_kmers import Keys, KmerTable, SievedTable, count_in_reference
from genolewm_assets.audit.reading.package_files import EVALUATION, PackageFiles, table_of
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.reading.window_bases import Bases, Integers

#: Bases before and behind an allele with which it makes 31-mers, and alleles whose 31-mers are made at once.
_REACH_BP, _AT_ONCE = 30, 100_000


class HeldAlleles:
    """Alleles in bcftools' normal form; those without one as they are written."""

    def __init__(self, stated: pa.Array, forms: pa.Array, pos: Integers, normal: pa.Table) -> None:
        self._stated, self._forms, self._pos, self._normal = stated, forms, pos, normal
        self._by_pos, self._n = np.argsort(pos), len(pc.unique(forms))
        #: Number of alleles without a normal form.
        self.n_raw = len(stated) - normal.num_rows

    @classmethod
    def of_package(cls, files: PackageFiles, reference: Reference) -> Self:
        """Read the held-out alleles of a package, and those that it evaluates with."""
        tables = [files.holdout("alleles", KEY), *(files.variants(split, KEY) for split in EVALUATION)]
        return cls._of(pa.concat_tables([alleles_of(table_of(each, KEY)) for each in tables]), reference)

    @classmethod
    def _of(cls, alleles: pa.Table, reference: Reference) -> Self:
        alleles = alleles.group_by(list(KEY)).aggregate([]).combine_chunks()
        normal = normalise_alleles(alleles, reference)
        forms = known_forms(alleles, normal)
        pa.default_memory_pool().release_unused()
        return cls(keys_of(alleles), keys_of(forms), forms["pos"].to_numpy(), normal.filter(normal["pos"].is_valid()))

    def with_added(self, alleles: pa.Table, reference: Reference) -> HeldAlleles:
        """Return these and further alleles of :data:`KEY`."""
        more = self._of(alleles, reference)
        return HeldAlleles(
            pa.concat_arrays([self._stated, more._stated]),
            pa.concat_arrays([self._forms, more._forms]),
            np.concatenate([self._pos, more._pos]),
            pa.concat_tables([self._normal, more._normal]),
        )

    def __len__(self) -> int:
        return self._n

    def have(self, alleles: pa.Table) -> npt.NDArray[np.bool_]:
        """Tell which alleles, in normal form, are held out."""
        pos, held = alleles["pos"].to_numpy(), np.zeros(alleles.num_rows, np.bool_)
        first, end = (np.searchsorted(self._pos, pos, side, sorter=self._by_pos) for side in ("left", "right"))
        rows = np.flatnonzero(first < end)
        there = np.zeros(len(self._pos) + 1, np.int64)
        np.add.at(there, first[rows], 1)
        np.add.at(there, end[rows], -1)
        forms = self._forms.take(pa.array(self._by_pos[np.cumsum(there)[:-1] > 0]))
        held[rows] = pc.is_in(keys_of(alleles.take(pa.array(rows))), value_set=forms).to_numpy(zero_copy_only=False)
        return held

    def forms_of(self, alleles: pa.Table) -> pa.Array:
        """Return the keys of held-out alleles in normal form; as they are written where there is none."""
        return self._forms.take(pc.index_in(keys_of(alleles), value_set=self._stated))

    @property
    def gaps(self) -> tuple[str, ...]:
        """What a search by allele cannot tell."""
        return (f"{self.n_raw:,} held-out alleles do not fit the FASTA and have no normal form",) if self.n_raw else ()

    def altered_kmers(self, reference: Reference) -> SievedTable:
        """Return the 31-mers that held-out alleles make and the reference does not have."""
        table = KmerTable.joined(self._made(reference))
        return SievedTable.of(table.those(count_in_reference(table, reference) == 0))

    def _made(self, reference: Reference) -> Iterator[Keys]:
        """Yield the keys of the 31-mers that alleles make, of many alleles at once."""
        for contig in pc.unique(self._normal["chrom"]).to_pylist():
            ours = self._normal.filter(pc.equal(self._normal["chrom"], contig)).sort_by("pos").combine_chunks()
            yield from (_made(ours.slice(at, _AT_ONCE), contig, reference) for at in range(0, ours.num_rows, _AT_ONCE))


def _made(alleles: pa.Table, contig: str, reference: Reference) -> Keys:
    """Return the keys of the 31-mers that alleles of a contig make."""
    from genolewm_assets.audit.kmer_kernels import altered_keys

    start, lost = alleles["pos"].to_numpy() - 1, pc.binary_length(alleles["ref"]).to_numpy()
    alts = Bases.of(alleles["alt"].combine_chunks())
    keys = np.empty(alts.codes.size + 2 * _REACH_BP * len(start), dtype=np.uint64)
    return keys[: altered_keys(reference.codes(contig), start, start + lost, *alts, keys)]
