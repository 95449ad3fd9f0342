"""Files of a split's mapped form, and its index: names, counts and bounds that are read before any array.

::

    arrays/<split>/index.json
    arrays/<split>/windows/<column>.npy                      one row per row of data/<split>-*.parquet, in that order
    arrays/<split>/gnomad/, clinvar/, held_out/              alleles
    arrays/<split>/held_sequences/                           31-mers; only where a window has no exact placement

Every array is in NumPy's own format, version 1.0, little-endian, in C order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Label
from genolewm_assets.store.files import canonical_json, read_document

INDEX: Final = "index.json"
#: Version of the files below ``arrays/<split>``; readers refuse another.
FORM_VERSION: Final = "1.0"
#: Folders of the windows, of the alleles that no edit may make, and of the 31-mers that these make.
WINDOWS, HELD_OUT, HELD_SEQUENCES = "windows", "held_out", "held_sequences"

#: Types of the columns of windows. ``bases``: bytes, four bases each, the first in the lowest bits; left flank, window
#: and right flank of a row, each row from ``first_byte`` on. ``sizes``: bases of the three, shape (n, 3). ``first_row``:
#: first row with the same ``window_id``. ``contig``, ``start``, ``is_reverse``: exact placement (code, 0-based), else -1,
#: -1, False. ``origin``, ``cache``, ``holdout``: codes in the lists of the index; -1 for no cache. ``cache_row``: row
#: there, -1 for none.
WINDOW_COLUMNS: Final[Mapping[str, np.dtype[Any]]] = {
    name: np.dtype(kind)
    for name, kind in {
        "bases": "|u1",
        "first_byte": "<i8",
        "sizes": "<i4",
        "window_id": "|S32",
        "first_row": "<i8",
        "contig": "<i4",
        "start": "<i8",
        "is_reverse": "|b1",
        "origin": "<i2",
        "cache": "<i2",
        "cache_row": "<i8",
        "frozen": "|b1",
        "holdout": "|i1",
    }.items()
}
#: Rows of the views of an index that do not show all windows, one view after another: int64.
VIEW_ROWS: Final = "view_rows"

#: Types of the columns of alleles. ``pos``: 1-based. ``at``, ``text``: ref of row i is ``text[at[2 i]:at[2 i + 1]]``, alt
#: the text from there to ``at[2 i + 2]``. ``rows``: first row, and the row behind the last, by holdout and contig:
#: shape (n_holdouts, n_contigs, 2).
ALLELE_COLUMNS: Final[Mapping[str, np.dtype[Any]]] = {
    name: np.dtype(kind) for name, kind in {"pos": "<i4", "at": "<u4", "text": "|u1", "rows": "<i8"}.items()
}
#: Types of what ClinVar states of alleles; -1 for null. ``label``: code in :data:`LABELS`. ``gene_at``: genes of row i
#: are ``gene_ids[gene_at[i]:gene_at[i + 1]]``.
CLASS_COLUMNS: Final[Mapping[str, np.dtype[Any]]] = {
    name: np.dtype(kind)
    for name, kind in {"label": "|i1", "stars": "|i1", "clinvar_id": "<i8", "gene_at": "<u4", "gene_ids": "<i8"}.items()
}
#: Names of the codes of ``label``.
LABELS: Final = tuple(map(str, Label))

#: Types of the 31-mers, as ``lewm.edits.HeldSequences`` holds them.
KMER_COLUMNS: Final[Mapping[str, np.dtype[Any]]] = {"keys": np.dtype("<u8"), "bits": np.dtype("|u1")}


@dataclass(frozen=True, slots=True)
class ViewIndex:
    """Windows that are read together: those of one holdout.

    Attributes
    ----------
    holdout
        Name of the holdout; empty in train.
    frozen_only
        Whether windows that are there only to score alleles are left out.
    rows
        First and last (exclusive) place of the view's rows in ``view_rows``; None: all windows.
    n_windows
        Number of windows.
    shortest_bp
        Bases of the shortest window; 0 if there is none.
    all_placed
        Whether every window has an exact placement.
    """

    holdout: str
    frozen_only: bool
    rows: tuple[int, int] | None
    n_windows: int
    shortest_bp: int
    all_placed: bool


@dataclass(frozen=True, slots=True)
class AlleleIndexNames:
    """Names of the alleles of one folder.

    Attributes
    ----------
    holdouts
        Holdouts, sorted: first axis of ``rows``; an empty name for alleles that are of none.
    contigs
        Contigs, sorted: second axis of ``rows``.
    n_alleles, n_text_bytes, n_genes
        Number of alleles, of bytes of their refs and alts, and of their genes.
    longest_bp
        Bases of the longest alt of each holdout.
    """

    holdouts: tuple[str, ...]
    contigs: tuple[str, ...]
    n_alleles: int
    n_text_bytes: int
    n_genes: int
    longest_bp: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitIndex:
    """Content of ``index.json``.

    Attributes
    ----------
    n_windows, n_bytes
        Number of windows, and of bytes of their bases.
    contigs, origins, caches, holdouts
        Names of the codes of the columns of windows, each in the order in which the rows name them.
    views
        Windows that are read together.
    alleles
        Alleles by folder: ``gnomad``, ``clinvar`` and ``held_out``.
    kmer_shift
        Shift of the 31-mers' table of bits; None without 31-mers.
    n_kmers
        Number of 31-mers.
    version
        :data:`FORM_VERSION`.
    """

    n_windows: int
    n_bytes: int
    contigs: tuple[str, ...]
    origins: tuple[str, ...]
    caches: tuple[str, ...]
    holdouts: tuple[str, ...]
    views: tuple[ViewIndex, ...]
    alleles: Mapping[str, AlleleIndexNames]
    kmer_shift: int | None = None
    n_kmers: int = 0
    version: str = FORM_VERSION

    def to_bytes(self) -> bytes:
        """Return the canonical JSON that is written to ``index.json``."""
        return canonical_json(asdict(self), INDEX)

    @classmethod
    def read(cls, folder: Path, *, remedy: str) -> Self:
        """Read the index of a split's mapped form.

        Parameters
        ----------
        folder
            Folder of the split.
        remedy
            What to do about a missing or damaged file, for messages.

        Raises
        ------
        MissingResourceError
            If the file is missing.
        CorruptResourceError
            If it is no index, or one of another version.
        """
        document = read_document(folder / INDEX, remedy=remedy)
        version = document.get("version") if isinstance(document, dict) else None
        if version != FORM_VERSION:
            raise CorruptResourceError(
                str(folder / INDEX),
                "cannot be read by this code",
                expected=f"version {FORM_VERSION}",
                got=repr(version),
                remedy=remedy,
            )
        try:
            return cls(**_with_tuples(document))
        except (AttributeError, TypeError, ValueError) as err:
            raise CorruptResourceError(
                str(folder / INDEX), f"is no index of a split ({err})", remedy=remedy
            ) from err


def _with_tuples(document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a :class:`SplitIndex` from JSON values."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
    fields["views"] = tuple(
        ViewIndex(**{**view, "rows": None if view["rows"] is None else tuple(view["rows"])}) for view in fields["views"]
    )
    fields["alleles"] = {
        name: AlleleIndexNames(**{key: tuple(one) if isinstance(one, list) else one for key, one in names.items()})
        for name, names in fields["alleles"].items()
    }
    return fields
