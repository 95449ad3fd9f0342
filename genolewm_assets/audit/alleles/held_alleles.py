"""The alleles that are held out of a package, in normal form, and the 31-mers that they make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.alleles.normal_alleles import (
    ALLELES,
    KEY,
    alleles_of,
    canonical_names,
    keys_of,
    known_forms,
    normalise_alleles,
)
from genolewm_assets.audit.held_kmers import Keys, KmerTable, SievedTable, count_in_reference
from genolewm_assets.audit.reading.intervals import rows_by_contig
from genolewm_assets.audit.reading.package_files import EVALUATION, PackageFiles, table_of
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.audit.reading.window_bases import Bases, Integers

#: Bases before and behind an allele with which it makes 31-mers, and alleles whose 31-mers are made at once.
_REACH_BP, _AT_ONCE = 30, 100_000
#: An allele, and whether its bases fit the FASTA, so that the form is normal.
_FORM = ALLELES.append(pa.field("fits", pa.bool_()))


class HeldAlleles:
    """Alleles in bcftools' normal form; those without one as they are written."""

    def __init__(self, forms: pa.Table, written: pa.Array, moved: pa.Array) -> None:
        """Keep the different ``forms``, :data:`_FORM`; keys of alleles ``written`` otherwise, and of their forms."""
        self._forms, self._written, self._moved = forms.sort_by("pos").combine_chunks(), written, moved
        self._pos: Integers = self._forms["pos"].to_numpy()
        #: Number of alleles without a normal form.
        self.n_raw = len(forms) - (pc.sum(forms["fits"]).as_py() or 0)

    @classmethod
    def of_package(cls, files: PackageFiles, reference: Reference) -> Self:
        """Read the held-out alleles of a package, and those that it evaluates with."""
        tables = [files.holdout("alleles", KEY), *(files.variants(split, KEY) for split in EVALUATION)]
        return cls._of(pa.concat_tables([table_of(each, KEY) for each in tables]), reference)

    @classmethod
    def _of(cls, alleles: pa.Table, reference: Reference) -> Self:
        """Normalise alleles contig by contig, which takes the least memory."""
        forms, written, moved = [_FORM.empty_table()], list[pa.Array](), list[pa.Array]()
        for _, rows in rows_by_contig(canonical_names(alleles["chrom"])):
            ours = alleles_of(alleles.take(pa.array(rows))).group_by(list(KEY)).aggregate([]).combine_chunks()
            normal = normalise_alleles(ours, reference)
            found = known_forms(ours, normal)
            keys = keys_of(ours), keys_of(found)
            for kept, each in zip((written, moved), keys, strict=True):
                kept.append(each.filter(pc.not_equal(*keys)))
            rows_of = found.append_column("fits", normal["pos"].is_valid()).group_by(_FORM.names)
            forms.append(rows_of.aggregate([]).combine_chunks())
            pa.default_memory_pool().release_unused()
        keys_moved = (pa.chunked_array(each, pa.string()).combine_chunks() for each in (written, moved))
        return cls(pa.concat_tables(forms), *keys_moved)

    def with_added(self, alleles: pa.Table, reference: Reference) -> HeldAlleles:
        """Return these and further alleles of :data:`KEY`."""
        more = self._of(alleles, reference)
        forms = pa.concat_tables([self._forms, more._forms.filter(pa.array(~self.have(more._forms)))])
        written, moved = ((self._written, more._written), (self._moved, more._moved))
        return HeldAlleles(forms, pa.concat_arrays(written), pa.concat_arrays(moved))

    def __len__(self) -> int:
        return len(self._forms)

    def have(self, alleles: pa.Table) -> npt.NDArray[np.bool_]:
        """Tell which alleles, in normal form, are held out."""
        pos, held = alleles["pos"].to_numpy(), np.zeros(alleles.num_rows, np.bool_)
        first, end = (np.searchsorted(self._pos, pos, side) for side in ("left", "right"))
        rows = np.flatnonzero(first < end)
        there = np.zeros(len(self._pos) + 1, np.int64)
        np.add.at(there, first[rows], 1)
        np.add.at(there, end[rows], -1)
        forms = keys_of(self._forms.filter(pa.array(np.cumsum(there)[:-1] > 0)))
        held[rows] = pc.is_in(keys_of(alleles.take(pa.array(rows))), value_set=forms).to_numpy(zero_copy_only=False)
        return held

    def forms_of(self, alleles: pa.Table) -> pa.Array:
        """Return the keys of held-out alleles in normal form; as they are written where there is none."""
        keys = keys_of(alleles)
        return pc.coalesce(self._moved.take(pc.index_in(keys, value_set=self._written)), keys)

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
        normal = self._forms.filter(self._forms["fits"])
        for contig, rows in rows_by_contig(normal["chrom"].combine_chunks()):
            ours = normal.take(pa.array(rows)).combine_chunks()
            yield from (_made(ours.slice(at, _AT_ONCE), contig, reference) for at in range(0, ours.num_rows, _AT_ONCE))


def _made(alleles: pa.Table, contig: str, reference: Reference) -> Keys:
    """Return the keys of the 31-mers that alleles of a contig make."""
    from genolewm_assets.audit.kmer_kernels import altered_keys

    start, lost = alleles["pos"].to_numpy() - 1, pc.binary_length(alleles["ref"]).to_numpy()
    alts = Bases.of(alleles["alt"].combine_chunks())
    keys = np.empty(alts.codes.size + 2 * _REACH_BP * len(start), dtype=np.uint64)
    return keys[: altered_keys(reference.codes(contig), start, start + lost, *alts, keys)]
