"""What the sections of a catalogue say together, and what is impossible whatever the sources hold.

Not here: whether the sources exist (``sources.examination``).
"""

from __future__ import annotations

from collections.abc import Iterator

from genolewm_assets.errors import CatalogError, ConfigurationError, UnknownContigError
from genolewm_assets.genome import Contig
from genolewm_assets.packages import MIX_TOLERANCE, REFERENCE_ORIGIN, Shares, SourceTerms, present_shares
from genolewm_assets.sources.catalog.catalog import Catalog


def mitochondrial_contig(catalog: Catalog) -> Contig | None:
    """Return the circular contig of the genome; None if it has none.

    Raises
    ------
    ConfigurationError
        If the genome has several circular contigs, or none although the catalogue names mitochondrial files.
    """
    circular = [contig for contig in catalog.contigs if contig.circular]
    mito = catalog.mito
    if len(circular) > 1 or (not circular and (mito.genomes or mito.heteroplasmy)):
        raise ConfigurationError(
            f"{catalog.file} (genome.contigs)",
            "the mitochondrial contig is not unique",
            expected="exactly one circular contig",
            got=", ".join(contig.name for contig in circular) or "none",
        )
    return next(iter(circular), None)


def source_terms(catalog: Catalog, release: str) -> dict[str, SourceTerms]:
    """Return release, licence and citation of the sources of a package by section; ``release`` is that of ClinVar."""
    gnomad, phased, corpus = catalog.gnomad, catalog.haplotypes, catalog.corpus
    revisions = [revision for source in corpus.sources.values() for revision in source.pinned.values()]
    found = {
        "genome": catalog.genome.terms([catalog.genome.name]),
        "tracks": catalog.genome.tracks.terms([]) if catalog.genome.tracks.urls else None,
        "gnomad": gnomad.terms(source.release for source in gnomad.sources.values()) if gnomad.sources else None,
        "clinvar": catalog.clinvar.terms([release]),
        "haplotypes": phased.terms(source.release for source in phased.sources.values()) if phased.sources else None,
        "corpus": corpus.terms(revisions) if corpus.sources else None,
    }
    return {name: terms for name, terms in found.items() if terms is not None}


def find_contradictions(catalog: Catalog) -> Iterator[ConfigurationError]:
    """Yield each contradiction between sections that makes some asset impossible, with the key at fault."""
    try:
        mitochondrial_contig(catalog)
    except ConfigurationError as error:
        yield error
    try:
        catalog.holdouts.policy.canonical(catalog.contigs)
    except UnknownContigError as error:
        where = f"{catalog.file} (holdouts)"
        yield CatalogError(where, "held-out contig: " + error.problem, expected=error.expected, got=error.got)
    yield from find_impossible_shares(catalog)


def find_impossible_shares(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each share of the mix that no package can serve, because its source is not in the catalogue.

    No share is impossible where no encoder is named, without packaged releases, and where ``mix_declared: true``
    accepts any.
    """
    mix = catalog.packages.policy
    served = mix.wanted if mix.declared is None else mix.declared
    is_refused = catalog.encoder is not None and catalog.encoder.source is None
    if is_refused or catalog.clinvar.packaged == () or not isinstance(served, Shares):
        return
    key = "packages.mix" if mix.declared is None else "packages.mix_declared"
    sources = [*catalog.corpus.sources, *([REFERENCE_ORIGIN] if any(not c.circular for c in catalog.contigs) else [])]
    lacking = {name: share for name, share in served.windows.items() if name not in sources and share > MIX_TOLERANCE}
    if lacking:
        rest = ", ".join(f"{name}: {share:.6g}" for name, share in present_shares(served.windows, set(sources)).items())
        written = f"{{mix: {{{rest}}}}}" if mix.declared is None else f"{{mix_declared: {{windows: {{{rest}}}}}}}"
        remedy = f"Name their files in corpus.sources, or write packages: {written}"
        yield _impossible(catalog, key, lacking, sources, remedy)
    gnomad = served.edits.get("gnomad", 0.0)
    if gnomad > MIX_TOLERANCE and not catalog.gnomad.sources:
        key = "packages.edits" if mix.declared is None else "packages.mix_declared"
        remedy = "Name VCFs in gnomad.sources, or state edits without gnomad in packages.edits"
        yield _impossible(catalog, key, {"gnomad": gnomad}, [], remedy)


def _impossible(catalog: Catalog, key: str, lacking: dict[str, float], sources: list[str], remedy: str) -> CatalogError:
    return CatalogError(
        f"{catalog.file} ({key})",
        "gives shares to sources that the catalogue does not have, so every package would be refused",
        expected=f"shares of {', '.join(sources)} alone" if sources else None,
        got=", ".join(f"{name} {share:g}" for name, share in lacking.items()),
        remedy=remedy,
    )
