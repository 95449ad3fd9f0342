"""Write alleles as sorted arrays. Not here: windows (``window_writer``), sampling (``training.sampler``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.errors import InputError
from genolewm_assets.genome import CLASSES
from genolewm_assets.memory_mapped.layout import ALLELE_COLUMNS, CLASS_COLUMNS, AlleleIndexNames
from genolewm_assets.store.tables import BatchSpool
from genolewm_assets.windows.bases import ArrayWriter, Create, create_file, write_array

_ALLELE: Final = (("pos", pa.int64()), ("ref", pa.string()), ("alt", pa.string()))
_CLASS: Final = (
    ("label", pa.string()), ("stars", pa.int8()), ("clinvar_id", pa.int64()), ("gene_ids", pa.list_(pa.int64())),
)  # fmt: skip
#: Parts of the key of a spooled batch: holdout and contig.
_PARTS: Final = "\t"
#: Most bytes of the texts of one folder, whose offsets are uint32.
_MOST_BYTES: Final = 2**32 - 1


class AlleleWriter(ExitStack):
    """Writes alleles that arrive in any order of holdouts and contigs, and holds those of one pair in memory.

    ``scratch`` is the folder in which alleles wait; by default that of the arrays.
    """

    def __init__(
        self, folder: Path, *, with_classes: bool = False, create: Create = create_file, scratch: Path | None = None
    ) -> None:
        super().__init__()
        self._folder, self._with_classes, self._create = folder, with_classes, create
        schema = pa.schema([*_ALLELE, *(_CLASS if with_classes else ())])
        self._spool = self.enter_context(BatchSpool(schema, scratch or folder))
        self._keys: set[tuple[str, str]] = set()

    def add(self, alleles: pa.Table) -> None:
        """Append alleles: chrom, pos (1-based), ref, alt, holdout (null for none), and the classes that are written."""
        names = pc.fill_null(alleles["holdout"], "")
        for holdout in sorted(pc.unique(names).to_pylist()):
            ours = alleles.filter(pc.equal(names, holdout))
            for contig in sorted(pc.unique(ours["chrom"]).to_pylist()):
                rows = ours.filter(pc.equal(ours["chrom"], contig)).select(self._spool.schema.names)
                self._keys.add((holdout, contig))
                for batch in rows.cast(self._spool.schema).combine_chunks().to_batches():
                    self._spool.append(holdout + _PARTS + contig, batch)

    def finish(self) -> AlleleIndexNames:
        """Write the arrays, sorted by holdout, contig, pos, ref and alt, and return their names."""
        holdouts = tuple(sorted({holdout for holdout, _ in self._keys})) or ("",)
        contigs = tuple(sorted({contig for _, contig in self._keys}))
        rows = np.zeros((len(holdouts), len(contigs), 2), dtype=np.int64)
        longest = []
        with _Columns(self._folder, self._create, with_classes=self._with_classes) as columns:
            for at, holdout in enumerate(holdouts):
                longest_bp = 0
                for number, contig in enumerate(contigs):
                    rows[at, number, 0] = columns.n_alleles
                    table = pa.Table.from_batches(self._spool.batches(holdout + _PARTS + contig), self._spool.schema)
                    columns.append(_sorted(table))
                    rows[at, number, 1] = columns.n_alleles
                    longest_bp = max(longest_bp, pc.max(pc.binary_length(table["alt"])).as_py() or 0)
                longest.append(longest_bp)
        write_array(self._folder / "rows.npy", rows, ALLELE_COLUMNS["rows"].dtype, self._create)
        return AlleleIndexNames(
            holdouts, contigs, columns.n_alleles, columns.n_text_bytes, columns.n_genes, tuple(longest)
        )


class _Columns(ExitStack):
    """The files of one folder of alleles, but ``rows``."""

    def __init__(self, folder: Path, create: Create, *, with_classes: bool) -> None:
        super().__init__()
        self.n_text_bytes, self.n_genes, self._with_classes = 0, 0, with_classes
        kinds = {**ALLELE_COLUMNS, **(CLASS_COLUMNS if with_classes else {})}
        self._files = {
            name: self.enter_context(ArrayWriter(folder / f"{name}.npy", column.dtype, create=create))
            for name, column in kinds.items()
            if name != "rows"
        }
        for name in ("at", "gene_at"):
            if name in self._files:
                self._files[name].append(np.zeros(1, kinds[name].dtype))

    @property
    def n_alleles(self) -> int:
        """Number of alleles written so far."""
        return self._files["pos"].rows

    def append(self, table: pa.Table) -> None:
        """Write alleles that are sorted."""
        for batch in filter(len, table.to_batches()):
            refs, alts = batch.column("ref"), batch.column("alt")
            sizes = np.stack([pc.binary_length(one).to_numpy(zero_copy_only=False) for one in (refs, alts)], axis=1)
            ends = self.n_text_bytes + np.cumsum(sizes.ravel(), dtype=np.int64)
            if ends[-1] > _MOST_BYTES:
                most, got = f"at most {_MOST_BYTES:,} bytes", f"{ends[-1]:,}"
                raise InputError("alleles of a split", "texts too long", expected=most, got=got)
            large = [one.cast(pa.large_string()) for one in (refs, alts)]
            data = pc.binary_join_element_wise(*large, pa.scalar("", pa.large_string())).buffers()[2]
            text = np.frombuffer(data, np.uint8)[: int(ends[-1]) - self.n_text_bytes] if data else np.zeros(0, np.uint8)
            self._files["pos"].append(batch.column("pos").to_numpy())
            self._files["at"].append(ends.astype(np.uint32))
            self._files["text"].append(text)
            self.n_text_bytes = int(ends[-1])
            if self._with_classes:
                self._append_classes(batch)

    def _append_classes(self, batch: pa.RecordBatch) -> None:
        label = pc.index_in(batch.column("label"), value_set=pa.array(CLASSES))
        for name, values in (("label", label), *((name, batch.column(name)) for name in ("stars", "clinvar_id"))):
            codes = pc.fill_null(values, -1).to_numpy(zero_copy_only=False)
            self._files[name].append(codes.astype(CLASS_COLUMNS[name].dtype))
        genes = batch.column("gene_ids")
        counts = pc.fill_null(pc.list_value_length(genes), 0).to_numpy(zero_copy_only=False)
        ends = self.n_genes + np.cumsum(counts, dtype=np.int64)
        self._files["gene_at"].append(ends)
        self._files["gene_ids"].append(pc.list_flatten(genes).to_numpy(zero_copy_only=False))
        self.n_genes = int(ends[-1])


def _sorted(table: pa.Table) -> pa.Table:
    """Return alleles of one contig sorted by pos, ref and alt; those of a package mostly are."""
    if table.num_rows < 2 or not _any_descends([table[name].combine_chunks() for name, _ in _ALLELE]):
        return table
    return table.sort_by([(name, "ascending") for name, _ in _ALLELE])


def _any_descends(columns: Sequence[pa.Array]) -> bool:
    """Tell whether a row is less than the one before it, by the columns in their order."""
    same: NDArray[np.bool_] = np.ones(len(columns[0]) - 1, dtype=np.bool_)
    for column in columns:
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        if (same & pc.less(after, before).to_numpy(zero_copy_only=False)).any():
            return True
        same &= pc.equal(after, before).to_numpy(zero_copy_only=False)
    return False
