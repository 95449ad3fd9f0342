"""The genome that the ``prepare-*`` commands compare a VCF with: a FASTA, or the genome of a root or catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from genolewm_assets.errors import FastaError, MissingResourceError
from genolewm_assets.genome import GRCH38, Bases, Contig, ContigSet, assemblies_of_length, known_aliases
from genolewm_assets.progress import Progress
from genolewm_assets.sources.catalog import load_catalog
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.store.artefacts import ArtefactId, Root, enclosing_root, open_input
from genolewm_assets.store.files import is_published_link
from genolewm_assets.store.tables import read_batches

#: Folder of roots that holds the genome, and the root of the commands that are given none.
_FOLDER, _USUAL_ROOT = "reference", Path("data")


class PreparedGenome(NamedTuple):
    """A genome: its contigs, its FASTA, and a function that returns the bases of a contig; None without a FASTA."""

    contigs: ContigSet
    fasta: Path | None
    bases: Callable[[Contig], Bases] | None


def open_genome(
    reference: Path | None, *, root: Path | None, catalog: str | None, output: Path, progress: Progress
) -> PreparedGenome:
    """Return the genome of the first of these: ``reference``, root, catalogue; else GRCh38 without bases."""
    if reference is not None:
        return _of_fasta(reference)
    home = root or (None if catalog is not None else enclosing_root(output.resolve()))
    published = _of_root(Root(home), progress) if home is not None else None
    if published is not None:
        return published
    if catalog is not None:
        return _of_catalog(catalog, root or _USUAL_ROOT)
    if root is not None:
        raise MissingResourceError(
            f"reference/genome in {root}",
            "is not published",
            remedy="Build it (genolewm demo, or materialise reference/genome), or give --reference",
        )
    return PreparedGenome(GRCH38, None, None)


def _of_fasta(reference: Path) -> PreparedGenome:
    reader = FastaReader(reference, GRCH38)
    contigs = [replace(GRCH38[name], length=n, md5=None) for name, n in reader.contigs.items() if name in GRCH38]
    if not contigs:
        raise FastaError(
            str(reference),
            "has no contig of GRCh38",
            expected=f"names such as {', '.join(map(repr, GRCH38.names[:3]))}",
            got=", ".join(map(repr, list(reader.contigs)[:6])),
            remedy="Give the GRCh38 FASTA, or leave --reference out",
        )
    _check_assembly(reference, reader.contigs)
    return PreparedGenome(ContigSet(contigs), reference, _opener(reader))


def _of_root(root: Root, progress: Progress) -> PreparedGenome | None:
    """Return the published genome of a root, after re-hashing it; None if there is none."""
    root.check_is_root()
    link = next(filter(is_published_link, sorted((root.path / _FOLDER).glob("*"))), None)
    if link is None:
        return None
    location = f"{_FOLDER}/{link.name}"
    genome = open_input(root, ArtefactId("reference/genome"), location, progress=progress)
    contigs = ContigSet(
        Contig(row["contig"], row["length"], row["circular"], row["md5"], known_aliases(row["contig"], row["length"]))
        for batch in read_batches(genome.file("contigs.parquet"), 1_000)
        for row in batch.to_pylist()
    )
    fasta = genome.file("genome.fa.gz")
    return PreparedGenome(contigs, fasta, _opener(FastaReader(fasta, contigs)))


def _of_catalog(name: str, root: Path) -> PreparedGenome:
    catalog = load_catalog(name)
    fasta = Path(catalog.resolve_url(catalog.genome.fasta, root=root))
    if not fasta.is_file():
        raise MissingResourceError(
            f"genome.fasta of catalogue {catalog.name!r}",
            "is not a file on this machine",
            got=repr(catalog.genome.fasta),
            remedy="Give --reference, or --root with a root whose reference/genome is built",
        )
    reader, contigs = FastaReader(fasta, catalog.contigs), catalog.contigs
    for contig in contigs:
        length = reader.contigs.get(contig.name)
        if length != contig.length:
            raise FastaError(
                str(fasta),
                f"is not the genome of catalogue {catalog.name!r}",
                expected=f"{contig.name} of {contig.length} bp",
                got="none" if length is None else f"{length} bp",
                remedy="Fetch the file again, or correct the catalogue",
            )
    return PreparedGenome(contigs, fasta, _opener(reader))


def _check_assembly(fasta: Path, lengths: Mapping[str, int]) -> None:
    """Raise :class:`FastaError` if a contig has its length in another known assembly."""
    for name, length in lengths.items():
        found = assemblies_of_length(name, length)
        if found and "GRCh38" not in found:
            raise FastaError(
                str(fasta),
                f"contig {name!r} has the length of another assembly",
                expected=f"{GRCH38[name].length} bp (GRCh38)",
                got=f"{length} bp ({' or '.join(sorted(found))})",
                remedy="Give the GRCh38 FASTA",
            )


def _opener(reader: FastaReader) -> Callable[[Contig], Bases]:
    return lru_cache(maxsize=1)(reader.open_contig)
