"""Link the published tables of windows that a package refers to."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genolewm_assets.package_build.plan import PackagePlan
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.packages import PIECE_BASES, PIECE_TRAINS, PIECE_WINDOWS, REFERENCE_ORIGIN, PieceRef, piece_path
from genolewm_assets.store.files import FileDigests
from genolewm_assets.windows.corpus import parse_piece


def link_pieces(
    work_dir: Path, sources: PackageSources, plan: PackagePlan, digests: FileDigests
) -> tuple[tuple[PieceRef, ...], int]:
    """Link pieces with training windows and write which of their rows train; return them, and how many are copies."""
    found, copied = list[PieceRef](), 0
    for source, piece in sources.pieces.items():
        kept = plan.train[source] if source in plan.train else plan.corpus[source]
        if not len(kept):
            continue
        linked = [
            digests.link(piece.directory, name, piece_path(source, name)) for name in (PIECE_WINDOWS, PIECE_BASES)
        ]
        copied += not all(linked)
        (rows,) = (entry.rows or 0 for entry in piece.manifest.files if entry.path == PIECE_WINDOWS)
        trains = np.zeros(rows, dtype=np.bool_)
        trains[kept] = True
        np.save(work_dir / piece_path(source, PIECE_TRAINS), trains)
        origin = REFERENCE_ORIGIN if source in plan.train else str(parse_piece(source)[0])
        found.append(PieceRef(source, origin, rows, len(kept), piece.manifest.sha256))
    return tuple(found), copied
