"""Where the artefacts of one root lie, and the one way in which assets open each other's output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sample import write_sample
from genolewm_assets.sources.catalogs import Catalog, load_catalog
from genolewm_assets.sources.fasta import FastaReader
from genolewm_assets.sources.source_file import SourceFile
from genolewm_assets.store import NO_PROGRESS, ArtefactId, Progress, Published, Root, open_input

#: Folder that stands for the release of a contig whose catalogue names no gnomAD source.
NO_SOURCE = "no_source"


@dataclass(frozen=True)
class Workspace:
    """A root directory together with the catalogue it belongs to."""

    root: Root
    catalog: Catalog

    @classmethod
    def open(cls, root: str | Path, catalog: str) -> Workspace:
        """Open a root for a catalogue, and claim it when it is new.

        Raises
        ------
        CatalogError
            If the catalogue is malformed.
        RootError
            If the root belongs to another catalogue or another genome.
        """
        workspace = cls(Root(Path(root).resolve()), load_catalog(catalog))
        workspace.root.claim(workspace.catalog.name, workspace.catalog.genome_digest)
        return workspace

    @property
    def contigs(self) -> ContigSet:
        """Contigs of the catalogue's genome, in its order."""
        return self.catalog.contigs

    def location(self, artefact: ArtefactId) -> str:
        """Return the root-relative path at which an artefact is published."""
        partition = artefact.partition or ""
        match artefact.asset:
            case "reference/genome":
                return f"reference/{self.catalog.genome_digest[:12]}"
            case "gnomad/shard":
                source = self.catalog.gnomad.sources.get(partition)
                return f"gnomad/{source.release if source else NO_SOURCE}/{partition}"
            case "clinvar/release":
                return f"clinvar/{partition}/vcf"
            case "clinvar/shard":
                return f"clinvar/{partition}/shard"
            case "windows/index":
                return f"windows/{self.catalog.window_profile.name}/{partition}"
            case other:
                raise KeyError(other)

    def open_input(self, asset: str, partition: str | None = None) -> Published:
        """Open what another asset published; see :func:`genolewm_assets.store.open_input` for what is refused."""
        artefact = ArtefactId(asset, partition)
        return open_input(self.root, artefact, self.location(artefact))

    def source(self, reference: str, *, md5: str | None = None, progress: Progress = NO_PROGRESS) -> SourceFile:
        """Return a source that the catalogue names by URL or path."""
        return SourceFile(self.url(reference), md5, downloads=self.root.path / "work" / "downloads", progress=progress)

    def url(self, reference: str) -> str:
        """Resolve a URL or path of the catalogue, after writing the simulated sources it may point to."""
        _ = self._generated_sources
        return self.catalog.resolve_url(reference, root=self.root.path)

    @cached_property
    def _generated_sources(self) -> Published | None:
        """The simulated sources, written when they are first asked for."""
        return write_sample(self.root.path) if self.catalog.generator == "sample" else None


def reference_reader(genome: Published, contigs: ContigSet) -> Callable[[Contig], bytes]:
    """Return a function from a contig to its upper-case bases; the last contig stays in memory."""
    reader = FastaReader(genome.file("genome.fa.gz"), contigs)
    return lru_cache(maxsize=1)(lambda contig: reader.read_contig(contig.name))
