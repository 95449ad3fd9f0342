"""A root together with its catalogue: sources, contigs, encoder and reference readers for the assets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genolewm_assets.encoders import TINY_LLAMA, EncoderIdentity, read_identity, state_config, write_tiny_llama
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Bases, Contig, ContigSet
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sample import write_sample
from genolewm_assets.sources.catalog import Catalog, load_catalog
from genolewm_assets.sources.files import SourceFile
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.store.artefacts import Manifest, Published, Root
from genolewm_assets.store.files import JsonValue

if TYPE_CHECKING:
    from genolewm_assets.encoders import CausalLMStateEncoder

#: Name used in paths and recipes for a contig or an asset for which the catalogue names no source.
NO_SOURCE = "no_source"


@dataclass(frozen=True)
class Workspace:
    """A root directory together with the catalogue it belongs to."""

    root: Root
    catalog: Catalog

    @classmethod
    def open(cls, root: str | Path, catalog: str) -> Workspace:
        """Open a root for a catalogue; a new root is claimed for it.

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
        """Contigs of the catalogue's genome, in genome order."""
        return self.catalog.contigs

    @property
    def mitochondrion(self) -> Contig | None:
        """The circular contig of the genome; None if it has none, in which case the mitochondrial assets are empty.

        Raises
        ------
        ConfigurationError
            If the genome has several circular contigs, or none although the catalogue names mitochondrial files.
        """
        circular = [contig for contig in self.contigs if contig.circular]
        mito = self.catalog.mito
        if len(circular) > 1 or (not circular and (mito.genomes or mito.heteroplasmy)):
            raise ConfigurationError(
                f"{self.catalog.file} (genome.contigs)",
                "the mitochondrial contig is not unique",
                expected="exactly one circular contig",
                got=", ".join(contig.name for contig in circular) or "none",
            )
        return next(iter(circular), None)

    def is_packaged(self, release: str) -> bool:
        """Tell whether packages of a ClinVar release are built without a request by a person."""
        packaged = self.catalog.clinvar.packaged
        return packaged is None or release in packaged

    def gnomad_release(self, contig: str) -> str:
        """Return the gnomAD release of a contig, or :data:`NO_SOURCE`."""
        source = self.catalog.gnomad.sources.get(contig)
        return source.release if source else NO_SOURCE

    def cache_config(self, windows: Manifest) -> dict[str, JsonValue]:
        """Return the configuration that identifies the states of a window table; see ``encoders.state_cache``.

        Parameters
        ----------
        windows
            Manifest of ``windows/index`` or ``corpus/windows``; its ``windows.parquet`` is part of the configuration.
        """
        (table,) = (entry for entry in windows.files if entry.path == "windows.parquet")
        profile = self.catalog.window_profile
        return state_config(self.encoder_identity, windows_sha256=table.sha256, window_bp=profile.window_bp)

    @cached_property
    def encoder_identity(self) -> EncoderIdentity:
        """Identity of the encoder, read from the model's files without loading the model."""
        return read_identity(self._model, **self._encoder_settings)

    def load_encoder(self, device: str) -> CausalLMStateEncoder:
        """Load the catalogue's model on a torch device; ``auto`` selects the best one available."""
        from genolewm_assets.encoders import CausalLMStateEncoder

        return CausalLMStateEncoder(self._model, device=device, **self._encoder_settings)

    @property
    def _encoder_settings(self) -> dict[str, Any]:
        return self.catalog.encoder.model_dump(exclude={"model"})

    @cached_property
    def _model(self) -> str | Path:
        """The model's folder or hub id; the built-in model is written to its folder first."""
        model = self.catalog.encoder.model
        if model == TINY_LLAMA:
            folder = self.root.path / "models" / model
            write_tiny_llama(folder)
            return folder
        is_folder = model.startswith((".", "/", "{root}"))
        return Path(self.catalog.resolve_url(model, root=self.root.path)) if is_folder else model

    def source(self, reference: str, *, md5: str | None = None, progress: Progress = NO_PROGRESS) -> SourceFile:
        """Return the source file for a URL or path of the catalogue; ``md5`` as in :class:`SourceFile`."""
        return SourceFile(self.url(reference), md5, downloads=self.root.path / "work" / "downloads", progress=progress)

    @contextmanager
    def borrow(self, files: Sequence[SourceFile]) -> Iterator[list[Path]]:
        """Yield the local paths of several sources, valid inside the block; see :meth:`SourceFile.local`."""
        with ExitStack() as stack:
            yield [stack.enter_context(file.local()).path for file in files]

    def url(self, reference: str) -> str:
        """Resolve a URL or path of the catalogue; writes the simulated sources first if the catalogue has them."""
        _ = self._generated_sources
        return self.catalog.resolve_url(reference, root=self.root.path)

    @cached_property
    def _generated_sources(self) -> Published | None:
        """The simulated sources, written on first access; None for a catalogue without a generator."""
        return write_sample(self.root.path) if self.catalog.generator == "sample" else None


def reference_reader(genome: Published, contigs: ContigSet) -> Callable[[Contig], bytes]:
    """Return a function from a contig to its upper-case bases; the last contig read stays in memory."""
    reader = FastaReader(genome.file("genome.fa.gz"), contigs)
    return lru_cache(maxsize=1)(lambda contig: reader.read_contig(contig.name))


def reference_opener(genome: Published, contigs: ContigSet) -> Callable[[Contig], Bases]:
    """Return a function from a contig to its upper-case bases, of which only a few pieces are in memory at a time."""
    reader = FastaReader(genome.file("genome.fa.gz"), contigs)
    return lru_cache(maxsize=1)(lambda contig: reader.open_contig(contig.name))
