"""Windows that the audit of an earlier package searched, and that have nothing of what is new since.

A window that had no leak can have one only through a 31-mer that is held out now and was not, or through a window of
evaluation that was none: its bases have the first 31-mer of that window then. All bases are looked through for these
31-mers, as trainers read them; windows that have one are searched again, and so are those that did not train.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.duplicates import BEGIN_BP, DIGEST, Evaluated, digests_of
from genolewm_assets.audit.held_kmers import PART_BP, HeldSequence, Keys, KmerTable, held_31mers, keys_of
from genolewm_assets.audit.reading.intervals import OF_LENGTH, HeldSpans
from genolewm_assets.audit.reading.package_files import EVALUATION, TRAIN, OwnFiles
from genolewm_assets.audit.reading.parquet_batches import TEXTS
from genolewm_assets.audit.reading.pieces import Piece
from genolewm_assets.audit.reading.reference import Reference, encode
from genolewm_assets.audit.reading.window_bases import PLACE_COLUMNS, Bools, Integers

#: Bits of the filter through which 16-mers are looked for, as a power of 2: 2 MiB.
_FILTER_BITS = 24
#: New 31-mers, 32 bits of the filter each, with which it still tells most windows apart.
MOST_NEW = 1 << 16


@dataclass(frozen=True, slots=True)
class Searched:
    """Windows of training that need no second search; ``rows``: bool by piece, shape (rows,)."""

    files: OwnFiles
    rows: Mapping[str, Bools]

    def others(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all other windows of training, those of files behind those of pieces."""
        for piece in self.files.pieces():
            yield from piece.windows(columns, ~self.rows[piece.name])
        yield from self.files.beside_pieces(TRAIN, columns)

    def places(self) -> Iterator[pa.RecordBatch]:
        """Yield names and places of the windows, with the lengths of their texts in place of these."""
        sizes, first = self.files.train_array("sizes"), 0
        for piece in self.files.pieces():
            trains, rows = np.flatnonzero(piece.trains), self.rows[piece.name]
            lengths, first = sizes[first : first + len(trains)][rows[trains]].astype(np.int64), first + len(trains)
            at = 0
            for batch in piece.windows(PLACE_COLUMNS, rows):
                ours, at = lengths[at : at + batch.num_rows], at + batch.num_rows
                names = [*batch.schema.names, *(f"{name}{OF_LENGTH}" for name in TEXTS)]
                yield pa.RecordBatch.from_arrays([*batch.columns, *map(pa.array, ours.T)], names=names)


def find_searched(
    files: OwnFiles,
    earlier: OwnFiles,
    reference: Reference,
    held: HeldSpans,
    sequence: HeldSequence,
    *,
    evaluated: Evaluated,
) -> Searched | None:
    """Find the windows of training that both packages have in the same piece and that have nothing new.

    ``earlier``: a package in which an audit by this version, against the same FASTA, found nothing and lacked nothing.
    ``sequence``: that of ``held``. ``evaluated``: that of ``files``. None if more than :data:`MOST_NEW` 31-mers are
    new, or a new window of evaluation is shorter than one: all is to be searched then.
    """
    from genolewm_assets.audit.kmer_kernels import NO_KEY

    before, starts = HeldSpans.of_package(earlier), _starts_of_new(evaluated, earlier)
    if sequence.soft_masked:
        # Which 31-mers count is told by each one's own bases.
        added = held_31mers(reference, [*held.added(before, 30)], soft_masked=True)
        parts = [part[part != NO_KEY] for part in added]
    else:
        known = KmerTable.joined(held_31mers(reference, [*before], soft_masked=False))
        parts = [*_missing(sequence.table.kmers.keys, known.keys)]
    if starts is None or starts.size + sum(part.size for part in parts) > MOST_NEW:
        return None
    new = KmerTable.of(np.concatenate([*parts, starts]))
    pieces = {piece.name: piece for piece in earlier.pieces()}
    rows, first = dict[str, Bools](), 0
    first_byte, sizes = (files.train_array(name) for name in ("first_byte", "sizes"))
    bits = _filter_of(new)
    for piece in files.pieces():
        rows[piece.name], last = np.zeros(len(piece.trains), np.bool_), first + int(np.count_nonzero(piece.trains))
        same = pieces.get(piece.name)
        if same is not None and same.digest == piece.digest and len(same.trains) == len(piece.trains):
            ours = np.flatnonzero(piece.trains)
            was = same.trains[ours]
            at, n = first_byte[first:last][was], sizes[first:last][was].sum(axis=1, dtype=np.int64)
            rows[piece.name][ours[was]] = ~_have_any(piece, at, n, new, bits)
        first = last
    return Searched(files, rows)


def _missing(keys: Keys, known: Keys) -> Iterator[Keys]:
    """Yield the keys, which are sorted like those known, that are not known."""
    for at in range(0, keys.size, PART_BP):
        part = keys[at : at + PART_BP]
        found = np.searchsorted(known, part)
        is_known = known[np.minimum(found, known.size - 1)] == part if known.size else np.zeros(part.size, np.bool_)
        yield part[~is_known]


def _starts_of_new(evaluated: Evaluated, earlier: OwnFiles) -> Keys | None:
    """Return the first 31-mer of each window of evaluation that the earlier package has not; None for a short one."""
    from genolewm_assets.audit.kmer_kernels import NO_KEY

    known, compared = list[pa.Array](), pa.array(sorted(earlier.compared_holdouts()), pa.string())
    for split in EVALUATION:
        for batch in earlier.windows(split, ("sequence", "holdout")):
            known.append(digests_of(batch.filter(pc.is_in(batch["holdout"], value_set=compared))))
    is_known = pc.is_in(evaluated.begins["digest"], value_set=pa.chunked_array(known, DIGEST))
    begins = evaluated.begins["begin"].filter(pc.invert(is_known)).to_pylist()
    if any(len(text) < BEGIN_BP for text in begins):
        return None
    # Bases of training are known, so that a window with an unknown base is equal to none.
    starts: Keys = np.array([keys_of(encode(text))[0] for text in begins], np.uint64)
    told: Keys = starts[starts != NO_KEY]
    return told


def _filter_of(table: KmerTable) -> npt.NDArray[np.uint64]:
    from genolewm_assets.audit.packed_kernels import mark_seeds

    bits = np.zeros((1 << _FILTER_BITS) >> 6, np.uint64)
    mark_seeds(table.keys, bits, np.uint32(32 - _FILTER_BITS))
    return bits


def _have_any(
    piece: Piece, first_byte: Integers, n_bases: Integers, table: KmerTable, bits: npt.NDArray[np.uint64]
) -> Bools:
    """Tell which windows, flanks included, have a 31-mer of a table."""
    from genolewm_assets.audit.packed_kernels import find_any

    packed, found = piece.bases(first_byte, n_bases), np.zeros(len(n_bases), np.bool_)
    find_any(packed, np.ascontiguousarray(first_byte), n_bases, table, bits, np.uint32(32 - _FILTER_BITS), found)
    return found
