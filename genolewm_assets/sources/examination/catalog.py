"""Every place that a catalogue names, and the findings about all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from genolewm_assets.errors import counted
from genolewm_assets.sources.catalog import Catalog, find_contradictions
from genolewm_assets.sources.examination.files import (
    look_at_corpus,
    look_at_fasta,
    look_at_genomes,
    look_at_heteroplasmy,
    look_at_panels,
    look_at_runs,
    look_at_samples,
    look_at_track,
)
from genolewm_assets.sources.examination.finding import Examination, Finding, contradictions
from genolewm_assets.sources.examination.places import look_at_digest, look_into
from genolewm_assets.sources.examination.variants import (
    look_at_gnomad,
    look_at_index,
    look_at_listing,
    look_at_phased,
    look_at_stream,
)

#: Places looked at at once; most of the time is the latency of servers.
_THREADS = 16


def examine_catalog(
    catalog: Catalog, *, root: Path | None = None, offline: bool = False, more: Sequence[Examination] = ()
) -> list[Finding]:
    """Look at everything that a catalogue names, and return all findings in the order of the catalogue.

    Parameters
    ----------
    root
        Folder that ``{root}`` stands for; None: places under it are not looked at.
    offline
        Whether to compare the keys of the catalogue with each other only.
    more
        Examinations besides those of the sources.

    Notes
    -----
    Files are opened, not read in full: FASTA and VCF by header and index, Parquet by footer. Files of at most 8 MiB are
    compared with their MD5. Of remote files size and published MD5 are asked for.
    """
    found = contradictions(find_contradictions(catalog))
    if offline:
        return found
    every = [
        *_genome(catalog),
        *_variants(catalog),
        *_corpus(catalog),
        *more,
        *_mito(catalog, root),
        *_forensic(catalog, root),
    ]
    later = [each for each in every if _under_root(catalog, each.url) and not _is_written(catalog, root)]
    known = [each for each in every if each not in later]
    with ThreadPoolExecutor(_THREADS) as pool:
        results = pool.map(lambda each: each.run(catalog.resolve_url(each.url, root=root or Path())), known)
        found += [finding for findings in results for finding in findings]
    if later:
        why = "give --root" if root is None else "the simulated sources are written by genolewm demo or ui"
        places = len({each.url for each in later})
        found.append(Finding("{root}", f"not looked at: {counted(places, 'place')} under it ({why})"))
    return found


def _under_root(catalog: Catalog, url: str) -> bool:
    return catalog.resolve_url(url, root=Path("/a")) != catalog.resolve_url(url, root=Path("/b"))


def _is_written(catalog: Catalog, root: Path | None) -> bool:
    """Tell whether what lies under the root can be there; a generator writes to the folder of its name."""
    return root is not None and (catalog.generator is None or (root / catalog.generator).exists())


def _genome(catalog: Catalog) -> Iterator[Examination]:
    genome, contigs = catalog.genome, catalog.contigs
    yield Examination("genome.fasta", genome.fasta, look_into(partial(look_at_fasta, contigs)))
    yield from _digest("genome.md5", genome.fasta, genome.md5)
    for name, url in genome.tracks.urls.items():
        yield Examination(f"genome.tracks.{name}", url, look_into(partial(look_at_track, contigs)))


def _variants(catalog: Catalog) -> Iterator[Examination]:
    contigs, clinvar = catalog.contigs, catalog.clinvar
    for name, source in catalog.gnomad.sources.items():
        look = look_into(partial(look_at_gnomad, contigs[name], contigs, source.release))
        yield Examination(f"gnomad.sources.{name}.url", source.url, look)
        yield from _digest(f"gnomad.sources.{name}.md5", source.url, source.md5)
        if source.read == "ranges":
            yield Examination(f"gnomad.sources.{name}.read", source.url, look_at_index)
        if source.read == "stream":
            yield Examination(f"gnomad.sources.{name}.read", source.url, look_at_stream)
    named = {
        *(clinvar.releases or ()),
        *(clinvar.packaged or ()),
        *clinvar.predecessors,
        *clinvar.predecessors.values(),
    }
    if (t0 := catalog.holdouts.temporal.release) is not None:
        named.add(t0)
    look_at_releases = partial(look_at_listing, contigs, named, clinvar.releases)
    yield Examination("clinvar.listing", clinvar.listing, look_at_releases)
    for name, phased in catalog.haplotypes.sources.items():
        look = look_into(partial(look_at_phased, contigs[name], contigs))
        yield Examination(f"haplotypes.sources.{name}.url", phased.url, look)
        yield from _digest(f"haplotypes.sources.{name}.md5", phased.url, phased.md5)


def _corpus(catalog: Catalog) -> Iterator[Examination]:
    for name, source in catalog.corpus.sources.items():
        yield Examination(f"corpus.sources.{name}.url", source.url, partial(look_at_corpus, source))


def _mito(catalog: Catalog, root: Path | None) -> Iterator[Examination]:
    circle = next((contig for contig in catalog.contigs if contig.circular), None)
    for at, collection in enumerate(catalog.mito.genomes):
        look = look_into(partial(look_at_genomes, collection.format))
        yield Examination(f"mito.genomes[{at}].url", collection.url, look)
        yield from _digest(f"mito.genomes[{at}].md5", collection.url, collection.md5)
    for at, calls in enumerate(catalog.mito.heteroplasmy):
        yield Examination(f"mito.heteroplasmy[{at}].url", calls.url, look_into(partial(look_at_heteroplasmy, circle)))
        yield from _digest(f"mito.heteroplasmy[{at}].md5", calls.url, calls.md5)
    if catalog.mito.heteroplasmy:
        look = partial(look_at_samples, catalog, root or Path())
        yield Examination("mito.heteroplasmy", catalog.mito.heteroplasmy[0].url, look)


def _forensic(catalog: Catalog, root: Path | None) -> Iterator[Examination]:
    forensic, resolve = catalog.forensic, partial(catalog.resolve_url, root=root or Path())
    if forensic.runs is not None:
        yield Examination("forensic.runs", forensic.runs, look_at_runs)
    if forensic.panels:
        look = partial(look_at_panels, resolve, forensic.panels, forensic.panel)
        yield Examination("forensic.panels", forensic.panels[0], look)


def _digest(place: str, url: str, md5: str | None) -> Iterator[Examination]:
    if md5 is not None:
        yield Examination(place, url, partial(look_at_digest, md5))
