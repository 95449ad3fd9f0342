"""The edits of tuples as arrays of codes, and the published tables of codes.

Not here: the arrays of a batch that trainers always need (``batches``), tensors (``tensors``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import GRCH38, EditType

if TYPE_CHECKING:
    from genolewm_assets.lewm.training.batches import TrainingBatch

#: Code of a missing value in every array: no label, no placement, padding of edits and of bases.
MISSING: Final = -1

#: Places for the edits of a tuple.
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
#: Code by contig, in the order of GRCh38: chr1 0 to chr22 21, chrX 22, chrY 23, chrM 24.
CONTIG_CODES: Final[Mapping[str, int]] = {contig.name: code for code, contig in enumerate(GRCH38)}


def edit_arrays(batch: TrainingBatch) -> dict[str, NDArray[np.generic]]:
    """Return what is known of the edits of a batch of n tuples, as arrays by name.

    Edits are in the order of ``TrainingTuple.rel_edits``; places behind the last edit hold -1, lengths 0.

    Returns
    -------
    dict
        Of shape (n, 3): ``edit_mask`` bool, True where there is an edit; ``edit_type`` int8, see
        :data:`EDIT_TYPE_CODES`; ``edit_rel_pos`` int64, first base of ``ref`` in the unedited window, 0-based;
        ``edit_pos`` int64, the same edit in the reference's normal form, 1-based as in VCF, -1 in a window without an
        exact placement; ``edit_ref_length``, ``edit_alt_length`` int64, bases of the alleles; ``edit_truncated`` bool,
        True if an allele is longer than 16 bases.

        Of shape (n, 3, 16): ``edit_ref``, ``edit_alt`` int8, the alleles in the window's normal form and on its strand:
        A 0, C 1, G 2, T 3, another base 4; -1 behind the end. Of a longer allele the first 16 bases are given.

        Of shape (n,): ``n_edits`` int64; ``label`` int8, place in ``genome.CLASSES``, -1 without; ``edit_source``,
        ``planned_source`` int8, see ``lewm.edits.EDIT_SOURCE_CODES``; ``frame_shift`` int8, 0 to 5; ``length_change``
        int64, in bases; ``contig`` int8, see :data:`CONTIG_CODES`, -1 without an exact placement or on a contig not
        listed.
    """
    edits, windows = batch.edits, batch.windows
    lengths = edits.edit_ref_length, edits.edit_alt_length
    codes = np.array([*(CONTIG_CODES.get(name, MISSING) for name in windows.contigs), MISSING], dtype=np.int8)
    return {
        **{name: getattr(edits, name) for name in _SAME_NAME},
        "edit_mask": edits.edit_type != MISSING,
        "edit_truncated": np.maximum(*lengths) > ALLELE_BP,
        "label": batch.stated.label,
        "contig": codes[windows.contig[edits.window]],
    }


#: Arrays that the edits of a batch hold under the same name.
_SAME_NAME: Final = (
    "edit_type", "edit_rel_pos", "edit_pos", "edit_ref_length", "edit_alt_length", "edit_ref", "edit_alt", "n_edits",
    "edit_source", "planned_source", "frame_shift", "length_change",
)  # fmt: skip
