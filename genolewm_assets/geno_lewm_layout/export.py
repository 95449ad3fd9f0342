"""Write a package as a data folder of geno-lewm 0.2.1: windows, alleles, states, and the documents of its preflight."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from genolewm_assets.errors import InputError, ResourceError
from genolewm_assets.geno_lewm_layout.chosen_rows import ChosenRows
from genolewm_assets.geno_lewm_layout.columns import GENO_LEWM_CLINVAR, GENO_LEWM_GNOMAD, write_geno_lewm
from genolewm_assets.geno_lewm_layout.documents import Exported, write_documents
from genolewm_assets.geno_lewm_layout.state_shards import StateShards
from genolewm_assets.packages import REFERENCE_ORIGIN, Package, VariantSource, open_package, open_tables
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.files import make_directories, remove_tree, sync_directory, sync_tree
from genolewm_assets.store.locks import locked_folder
from genolewm_assets.store.tables import check_output

_SHARDS = {VariantSource.GNOMAD: GENO_LEWM_GNOMAD, VariantSource.CLINVAR: GENO_LEWM_CLINVAR}
#: A release that may name a folder.
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def export_package(
    package: Path | str,
    output: Path,
    *,
    cache_root: Path | None = None,
    with_states: bool = True,
    allow_unaudited: bool = False,
    progress: Progress = NO_PROGRESS,
) -> Exported:
    """Write the training rows of a package as a data folder of geno-lewm 0.2.1, which appears when it is complete.

    Parameters
    ----------
    package
        Folder of the package.
    output
        The folder to make; it must not exist.
    cache_root
        Root that contains the state caches; None: the root that contains the package.
    with_states
        Whether to write the mean state of each window; a package built without states has none.
    allow_unaudited
        Export a package whose audit has not passed; geno-lewm's preflight then refuses the folder.

    Returns
    -------
    Exported
        Rows of each file, and counts of what was exported and left out, by reason.

    Raises
    ------
    InputError
        If ``output`` exists, or no window or no allele of gnomAD is left: geno-lewm does not train without.
    RejectedResourceError, MissingResourceError, CorruptResourceError, RootError
        As :func:`genolewm_assets.packages.open_package`.
    BusyError, ResourceError
        If another export writes the same folder, or the storage fails; nothing is left then.

    Notes
    -----
    Windows are in ``carbon/`` if one is of the corpus: its trainer reads ``carbon/`` only where ``placed/`` is empty,
    and fills missing alleles of gnomAD only where a window has no place. Corpus windows have ``chrom`` null, as we
    train with synthetic edits alone there.
    """
    open_it = open_package if with_states else open_tables
    opened = open_it(package, cache_root=cache_root, allow_unaudited=allow_unaudited)
    with _new_folder(Path(output)) as folder:
        exported = _write(folder, opened, progress, audited=not allow_unaudited)
        write_documents(folder, opened, exported, progress)
    return exported


def _write(folder: Path, package: Package, progress: Progress, *, audited: bool) -> Exported:
    chosen, states, rows = ChosenRows(package), StateShards(package), dict[str, int]()
    n_windows = package.info.splits["train"].windows

    def lines(windows: Iterable[pa.Table]) -> Iterator[bytes]:
        for table in windows:
            states.add(table)
            progress.advance(chosen.total("windows"), n_windows, "windows")
            yield from map(_line, table.to_pylist())

    corpus = folder / "carbon" / "corpus.jsonl"
    rows["carbon/corpus.jsonl"] = _write_lines(corpus, lines(chosen.corpus()))
    place = "carbon" if chosen.has_corpus else "placed"
    rows[f"{place}/reference.jsonl"] = _write_lines(folder / place / "reference.jsonl", lines(chosen.reference()))
    if not chosen.has_corpus:
        remove_tree(folder / "carbon")
        del rows["carbon/corpus.jsonl"]
    for source, schema in _SHARDS.items():
        path = f"{source}/{_release_of(package, source)}/variants.parquet"
        rows[path] = write_geno_lewm(chosen.alleles(source), folder / path, schema)
    for noun in ("windows", f"alleles.{VariantSource.GNOMAD}"):
        if not chosen.total(noun, "exported"):
            left_out = ", ".join(f"{name} {n:,}" for name, n in sorted(chosen.counts.items()) if n)
            problem = f"no row of {noun} may be exported, and geno-lewm does not train without ({left_out})"
            raise InputError(str(package.directory), problem, remedy="Hold out less, or build more windows")
    rows |= states.write(folder, progress)
    return Exported(rows, {**chosen.counts, "states.same_sequence": states.repeated}, audited)


def _line(window: dict[str, object]) -> bytes:
    """Return a window as its trainer reads it, with the number of a corpus window in its record besides."""
    if window["origin"] == REFERENCE_ORIGIN:
        place = {"chrom": window["contig"], "start_bp": window["start"]}
        record = f"{window['contig']}:{window['start']}"
    else:
        place = {"chrom": None, "start_bp": 0, "window_index": window["window_index"]}
        record = str(window["record_id"])
    row = {"record_id": record, "source": window["origin"], **place, "sequence": window["sequence"]}
    return json.dumps(row).encode() + b"\n"


def _write_lines(path: Path, lines: Iterable[bytes]) -> int:
    path.parent.mkdir(exist_ok=True)
    n = 0
    with path.open("wb") as file:
        for line in lines:
            file.write(line)
            n += 1
    return n


def _release_of(package: Package, source: VariantSource) -> str:
    """Return the one release of a source as the name of a folder; ``releases`` where there are several."""
    if source is VariantSource.CLINVAR:
        return package.info.release
    found = {release for key, release in package.info.sources.items() if key.startswith(f"{source}[")}
    release = found.pop() if len(found) == 1 else ""
    return release if _RELEASE.fullmatch(release) else "releases"


@contextmanager
def _new_folder(output: Path) -> Iterator[Path]:
    """Provide a work folder that becomes ``output`` at the end; one that a killed export left is emptied."""
    make_directories(output.absolute().parent)
    check_output(output, overwrite=False)
    work = output.with_name(f".{output.name}.export")
    try:
        work.mkdir(exist_ok=True)
        with locked_folder(work, wait=False):
            for left in work.iterdir():
                remove_tree(left)
            try:
                yield work
                sync_tree(work)
                check_output(output, overwrite=False)
                os.rename(work, output)  # noqa: PTH104 - the crash tests kill at the functions of `os`
            except BaseException:
                remove_tree(work)
                raise
        sync_directory(output.absolute().parent)
    except ResourceError:
        raise
    except OSError as err:
        problem, remedy = f"the storage refused to write ({err.strerror or err})", "Correct the cause, run this again"
        raise ResourceError(str(output), problem, remedy=remedy) from err
