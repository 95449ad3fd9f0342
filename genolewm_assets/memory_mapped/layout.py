"""Files of a split's mapped form, and its index: names, counts and bounds that are read before any array.

::

    arrays/<split>/index.json
    arrays/<split>/windows/<column>.npy                      one row per window: of the pieces, then of data/<split>-*
    arrays/<split>/gnomad/, clinvar/, held_out/              alleles
    arrays/<split>/held_sequences/                           31-mers of held-out alleles, and which windows spell them;
                                                             only where a window has no exact placement

Every array is in NumPy's own format, version 1.0, little-endian, in C order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.files import canonical_json, read_document
from genolewm_assets.windows.bases import REBUILD

INDEX: Final = "index.json"
#: Version of the files below ``arrays/<split>``; readers refuse another.
FORM_VERSION: Final = "2.0"
#: Folders of the windows, of the alleles that no edit may make, and of the 31-mers that these make.
WINDOWS, HELD_OUT, HELD_SEQUENCES = "windows", "held_out", "held_sequences"

#: Rows of the views of an index that do not show all windows.
VIEW_ROWS: Final = "view_rows"


class Column(NamedTuple):
    """Type of an array's numbers, and what they mean."""

    dtype: np.dtype[Any]
    meaning: str


def _columns(columns: Mapping[str, tuple[str, str]]) -> Mapping[str, Column]:
    return MappingProxyType({name: Column(np.dtype(kind), meaning) for name, (kind, meaning) in columns.items()})


#: Arrays of ``windows``, but ``view_rows``: one row per window.
WINDOW_COLUMNS: Final = _columns(
    {
        "bases": (
            "|u1",
            "left flank, window and right flank of a row: A 0, C 1, G 2, T 3, four bases a byte, the first in the "
            "lowest bits; a row begins at a byte; those of a piece are in its own file, `pieces/<name>/bases.npy`",
        ),
        "piece": ("<i2", "piece whose file has the bases: code in `pieces`; -1 where it is `bases`"),
        "first_byte": ("<i8", "first byte of the row in that file"),
        "sizes": ("<i4", "bases of left flank, window and right flank; shape (n, 3)"),
        "window_id": ("|S32", "first 32 hex digits of the window's SHA-256; not unique"),
        "first_row": ("<i8", "first row with the same `window_id`"),
        "contig": ("<i4", "exact placement: code in `contigs`; -1 without one"),
        "start": ("<i8", "exact placement: first base, 0-based; -1 without one"),
        "is_reverse": ("|b1", "exact placement: the window is the contig's reverse complement"),
        "origin": ("<i2", "code in `origins`"),
        "cache": ("<i2", "cache of states: code in `caches`; -1 for none"),
        "cache_row": ("<i8", "row in that cache; -1 for none"),
        "frozen": ("|b1", "as in `package_windows`"),
        "holdout": ("|i1", "code in `holdouts`, where train has one empty name"),
    }
)
#: Type of ``windows/view_rows``.
VIEW_ROWS_COLUMN: Final = Column(
    np.dtype("<i8"), "rows of each holdout, without and with the windows that are not `frozen`: `views` says where"
)

#: Arrays of every folder of alleles, which are sorted by holdout, contig, pos, ref and alt.
ALLELE_COLUMNS: Final = _columns(
    {
        "pos": ("<i8", "1-based"),
        "at": ("<u4", "ref of row i is `text[at[2 i]:at[2 i + 1]]`, alt `text[at[2 i + 1]:at[2 i + 2]]`"),
        "text": ("|u1", "refs and alts, upper-case ASCII"),
        "rows": ("<i8", "first row, and the row behind the last, by holdout and contig; shape (holdouts, contigs, 2)"),
    }
)
#: Further arrays of ``clinvar``.
CLASS_COLUMNS: Final = _columns(
    {
        "label": ("|i1", "class: 0 P, 1 LP, 2 VUS, 3 LB, 4 B, 5 OTHER; -1 where not known"),
        "stars": ("|i1", "review stars; -1 where not known"),
        "clinvar_id": ("<i8", "VariationID; -1 where not known"),
        "gene_at": ("<i8", "genes of row i are `gene_ids[gene_at[i]:gene_at[i + 1]]`"),
        "gene_ids": ("<i8", "NCBI GeneIDs in ClinVar's order"),
    }
)
#: Arrays of ``held_sequences``.
KMER_COLUMNS: Final = _columns(
    {
        "keys": ("<u8", "31-mers of either strand that held-out alleles make, as sorted keys"),
        "seeds": ("<u8", "word k has two bits of every 16-mer of the 31-mers, if the leading bits of its key are k"),
        "spells_held": ("|b1", "whether a row without an exact placement, flanks included, spells one of the 31-mers"),
    }
)


@dataclass(frozen=True, slots=True)
class ViewIndex:
    """Windows of one holdout, or of train (empty name); ``frozen_only`` leaves out those that only score alleles."""

    holdout: str
    frozen_only: bool
    #: First and last (exclusive) place of the rows in ``view_rows``; None: all windows.
    rows: tuple[int, int] | None
    n_windows: int
    #: Bases of the shortest window; 0 if there is none.
    shortest_bp: int
    all_placed: bool


@dataclass(frozen=True, slots=True)
class AlleleIndexNames:
    """Names and counts of the alleles of one folder."""

    #: Sorted, the axes of ``rows``; an empty name of a holdout for alleles that are of none.
    holdouts: tuple[str, ...]
    contigs: tuple[str, ...]
    n_alleles: int
    n_text_bytes: int
    n_genes: int
    #: Bases of the longest alt of each holdout.
    longest_bp: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitIndex:
    """Content of ``index.json``; names of codes are in the order in which the rows name them."""

    n_windows: int
    n_bytes: int
    contigs: tuple[str, ...]
    origins: tuple[str, ...]
    caches: tuple[str, ...]
    holdouts: tuple[str, ...]
    views: tuple[ViewIndex, ...]
    #: Names of the pieces, and bytes of the bases of each.
    pieces: tuple[str, ...]
    piece_bytes: tuple[int, ...]
    #: By folder: ``gnomad``, ``clinvar`` and ``held_out``.
    alleles: Mapping[str, AlleleIndexNames]
    #: Number of 31-mers; None where none is needed.
    n_kmers: int | None = None
    #: Words of the table of their 16-mers: a power of two, at least 2; 0 without 31-mers.
    n_seed_words: int = 0
    version: str = FORM_VERSION

    def to_bytes(self) -> bytes:
        """Return the canonical JSON that is written to ``index.json``."""
        return canonical_json(asdict(self), INDEX)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the index of a folder; one that is missing, damaged or of another version is an error."""
        document = read_document(folder / INDEX, remedy=REBUILD)
        version = document.get("version") if isinstance(document, dict) else None
        if version != FORM_VERSION:
            raise CorruptResourceError(
                str(folder / INDEX),
                "cannot be read by this code",
                expected=f"version {FORM_VERSION}",
                got=repr(version),
                remedy=REBUILD,
            )
        try:
            return cls(**_with_tuples(document))
        except (AttributeError, KeyError, TypeError, ValueError) as err:
            raise CorruptResourceError(str(folder / INDEX), f"is no index of a split ({err})", remedy=REBUILD) from err


def _with_tuples(document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a :class:`SplitIndex` from JSON values."""
    views = tuple(ViewIndex(**_tuples(view)) for view in document["views"])
    alleles = {name: AlleleIndexNames(**_tuples(names)) for name, names in document["alleles"].items()}
    return {**_tuples(document), "views": views, "alleles": alleles}


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
