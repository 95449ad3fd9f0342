"""The edits of tuples as arrays of codes, and the published tables of codes.

Not here: the arrays of a batch that trainers always need (``batches``), tensors (``tensors``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import CLASSES, GRCH38, EditType, encode_sequence
from genolewm_assets.lewm.edits import EditSource
from genolewm_assets.lewm.training.tuples import TrainingTuple

#: Code of a missing value in every array: no label, no placement, padding of edits and of bases.
MISSING: Final = -1

#: Places for edits; an array has more only if a tuple of the batch has more edits.
EDIT_PLACES: Final = 3

#: Bases of an allele that are stored: the longest synthetic allele, an anchor base and 15 others (RFC-0006 §3.4).
ALLELE_BP: Final = 16

#: Code by type of edit: SNV 0, insertion 1, deletion 2, MNV 3, deletion with insertion 4.
EDIT_TYPE_CODES: Final[Mapping[EditType, int]] = {
    EditType.SNV: 0,
    EditType.INS: 1,
    EditType.DEL: 2,
    EditType.MNV: 3,
    EditType.DELINS: 4,
}
#: Code by source of an edit, in the order of :class:`EditSource`, to which sources are appended.
EDIT_SOURCE_CODES: Final[Mapping[EditSource, int]] = {source: code for code, source in enumerate(EditSource)}
#: Code by clinical class, in the order of :data:`~genolewm_assets.genome.CLASSES`: P 0, LP 1, VUS 2, LB 3, B 4,
#: OTHER 5.
LABEL_CODES: Final[Mapping[str, int]] = {label: code for code, label in enumerate(CLASSES)}
#: Code by contig, in the order of GRCh38: chr1 0 to chr22 21, chrX 22, chrY 23, chrM 24.
CONTIG_CODES: Final[Mapping[str, int]] = {contig.name: code for code, contig in enumerate(GRCH38)}


def edit_arrays(tuples: Sequence[TrainingTuple]) -> dict[str, NDArray[np.generic]]:
    """Return what is known of the edits of n tuples, as arrays by name.

    E is 3, or the most edits of one tuple if that is more. Edits are in the order of ``TrainingTuple.rel_edits``;
    places behind the last edit hold -1, lengths 0.

    Returns
    -------
    dict
        Of shape (n, E): ``edit_mask`` bool, True where there is an edit; ``edit_type`` int8, see
        :data:`EDIT_TYPE_CODES`; ``edit_rel_pos`` int64, first base of ``ref`` in the unedited window, 0-based;
        ``edit_pos`` int64, the same edit in the reference's normal form, 1-based as in VCF, -1 in a window without an
        exact placement; ``edit_ref_length``, ``edit_alt_length`` int64, bases of the alleles; ``edit_truncated`` bool,
        True if an allele is longer than 16 bases.

        Of shape (n, E, 16): ``edit_ref``, ``edit_alt`` int8, the alleles in the window's normal form and on its strand:
        A 0, C 1, G 2, T 3, another base 4; -1 behind the end. Of a longer allele the first 16 bases are given.

        Of shape (n,): ``n_edits`` int64; ``label`` int8, see :data:`LABEL_CODES`, -1 without; ``edit_source``,
        ``planned_source`` int8, see :data:`EDIT_SOURCE_CODES`; ``frame_shift`` int8, 0 to 5; ``length_change`` int64,
        in bases; ``contig`` int8, see :data:`CONTIG_CODES`, -1 without an exact placement or on a contig not listed.
    """
    n, places = len(tuples), max([EDIT_PLACES, *(len(one.rel_edits) for one in tuples)])
    arrays = _empty_arrays(n, places)
    for row, one in enumerate(tuples):
        for place, edit in enumerate(one.rel_edits):
            at = row, place
            arrays["edit_mask"][at] = True
            arrays["edit_type"][at] = EDIT_TYPE_CODES[edit.kind]
            arrays["edit_rel_pos"][at] = edit.rel_pos
            if one.alleles:
                arrays["edit_pos"][at] = one.alleles[place].pos
            for name, allele in (("edit_ref", edit.ref), ("edit_alt", edit.alt)):
                arrays[name][at][: len(allele)] = encode_sequence(allele[:ALLELE_BP])
                arrays[f"{name}_length"][at] = len(allele)
            arrays["edit_truncated"][at] = max(len(edit.ref), len(edit.alt)) > ALLELE_BP
    for name, dtype, value_of in _PER_TUPLE:
        arrays[name] = np.array([value_of(one) for one in tuples], dtype=dtype)
    return arrays


_PER_TUPLE: tuple[tuple[str, type[np.generic], Callable[[TrainingTuple], int]], ...] = (
    ("n_edits", np.int64, lambda one: len(one.rel_edits)),
    ("label", np.int8, lambda one: MISSING if one.label is None else LABEL_CODES[one.label]),
    ("edit_source", np.int8, lambda one: EDIT_SOURCE_CODES[one.edit_source]),
    ("planned_source", np.int8, lambda one: EDIT_SOURCE_CODES[one.planned_source]),
    ("frame_shift", np.int8, lambda one: one.frame_shift),
    ("length_change", np.int64, lambda one: one.length_change),
    ("contig", np.int8, lambda one: CONTIG_CODES.get(one.contig or "", MISSING)),
)


def _empty_arrays(n: int, places: int) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of edits without an edit."""
    flags = ("edit_mask", "edit_truncated")
    empty: dict[str, NDArray[np.generic]] = {name: np.zeros((n, places), dtype=np.bool_) for name in flags}
    empty["edit_type"] = np.full((n, places), MISSING, dtype=np.int8)
    for name in ("edit_rel_pos", "edit_pos"):
        empty[name] = np.full((n, places), MISSING, dtype=np.int64)
    for name in ("edit_ref", "edit_alt"):
        empty[f"{name}_length"] = np.zeros((n, places), dtype=np.int64)
        empty[name] = np.full((n, places, ALLELE_BP), MISSING, dtype=np.int8)
    return empty
