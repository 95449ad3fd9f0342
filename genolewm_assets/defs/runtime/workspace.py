"""A root together with its catalogue: sources, contigs, encoder and reference readers for the assets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genolewm_assets.encoders import TINY_LLAMA, EncoderIdentity, read_identity, state_config, write_tiny_llama
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.genome import Bases, Contig, ContigSet
from genolewm_assets.holdouts import TemporalChoice, choose_t0, find_kept, keep_t0
from genolewm_assets.hub import HubFile
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sample import check_sample, write_sample
from genolewm_assets.sources.catalog import Catalog, EncoderSection, load_catalog, mitochondrial_contig
from genolewm_assets.sources.clinvar import read_ledger
from genolewm_assets.sources.files import Digests, KnownDigests, RecordedDigests, SourceFile, check_local_file
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.run_folders import list_run_folders
from genolewm_assets.store.artefacts import DIGESTS, WORK, Manifest, Published, Root, read_manifest
from genolewm_assets.store.files import JsonValue, is_published_link, resolve_generation
from genolewm_assets.variants import in_order
from genolewm_assets.windows.corpus import piece_keys

if TYPE_CHECKING:
    from genolewm_assets.encoders import CausalLMStateEncoder

#: Name used in paths and recipes for a contig or an asset for which the catalogue names no source.
NO_SOURCE = "no_source"

#: What is said once where states are not built.
STATES_OFF = (
    "states are off (encoder: off in the catalogue, or GENOLEWM_WITHOUT_STATES=1): embeddings/cache, embeddings/corpus "
    "and what reads them (tuples/frozen, packages/evaluation) are not built, and trainers open packages with "
    "with_states=False"
)


def replace_encoder(catalog: Catalog, *, compute: str | None, with_states: bool) -> Catalog:
    """Return a catalogue whose encoder computes in another precision (None: its own), or is off."""
    encoder = catalog.encoder if with_states else None
    if encoder is not None and compute is not None:
        encoder = encoder.model_copy(update={"compute": compute})
    return catalog.model_copy(update={"encoder": encoder})


@dataclass(frozen=True)
class Workspace:
    """A root directory together with the catalogue it belongs to.

    Attributes
    ----------
    surveyed
        Whether plans are made to be compared and not to be built: files are told by the digests recorded when they were
        read, and read again only if their time is another; published artefacts by their manifests; nothing is
        downloaded, and nothing but such digests written.
    progress
        Receives the bytes that a survey reads.
    """

    root: Root
    catalog: Catalog
    surveyed: bool = False
    progress: Progress = NO_PROGRESS

    @classmethod
    def open(cls, root: str | Path, catalog: str, *, compute: str | None = None, with_states: bool = True) -> Workspace:
        """Open a root for a catalogue: a new root is claimed for it, and its simulated sources are written.

        ``compute`` replaces that of the encoder; ``with_states=False`` turns it off.

        Raises
        ------
        CatalogError
            If the catalogue is malformed.
        RootError
            If the root belongs to another catalogue or another genome.
        """
        loaded = replace_encoder(load_catalog(catalog), compute=compute, with_states=with_states)
        workspace = cls(Root(Path(root).resolve()), loaded)
        workspace.root.claim(workspace.catalog.name, workspace.catalog.genome_digest)
        if loaded.generator == "sample":
            write_sample(workspace.root.path)
        return workspace

    def survey(self) -> Workspace:
        """Return this workspace with :attr:`surveyed` set."""
        return self if self.surveyed else replace(self, surveyed=True)

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
        return mitochondrial_contig(self.catalog)

    def is_packaged(self, release: str) -> bool:
        """Tell whether packages of a ClinVar release are built without a request by a person."""
        packaged = self.catalog.clinvar.packaged
        return packaged is None or release in packaged

    def known_releases(self) -> list[str]:
        """Return the ClinVar releases that the root knows and the catalogue admits, oldest first."""
        admitted = self.catalog.clinvar.releases
        known = (release.key for release in read_ledger(self.root.path))
        return [key for key in known if admitted is None or key in admitted]

    def temporal(self, release: str) -> TemporalChoice:
        """Return T0 of a release and the rule that chose it; the first T0 of ``months: N`` is recorded in the root.

        Raises
        ------
        CorruptResourceError
            If the record of T0 or of the releases is damaged.
        BusyError
            If another process holds the lock of the record.
        """
        setting, known = self.catalog.holdouts.temporal, in_order({*self.known_releases(), release})
        newest = self._newest_packaged(known)
        if self.surveyed:
            return choose_t0(release, setting, known, find_kept(self.root.path, setting, newest, known))
        return choose_t0(release, setting, known, keep_t0(self.root, setting, newest, known))

    def temporal_of_all(self) -> dict[str, TemporalChoice]:
        """Return T0 of every known release, oldest first, as :meth:`temporal` does, and record nothing."""
        setting, known = self.catalog.holdouts.temporal, self.known_releases()
        kept = find_kept(self.root.path, setting, self._newest_packaged(known), known) if known else None
        return {release: choose_t0(release, setting, known, kept) for release in known}

    def _newest_packaged(self, known: Sequence[str]) -> str:
        return ([key for key in known if self.is_packaged(key)] or known)[-1]

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
        """Identity of the encoder, read from the model's files without loading the model.

        Raises
        ------
        ConfigurationError
            If the catalogue names no model, or its windows are longer than the model's context; see also
            :func:`~genolewm_assets.encoders.read_identity`.
        """
        return read_identity(
            self.model,
            **self.encoder.settings,
            window_bp=self.catalog.window_profile.window_bp,
            download=not self.surveyed,
            sha256_of=lambda path: self._digests.of(path, "sha256"),
        )

    @cached_property
    def _digests(self) -> Digests:
        folder = self.root.path / DIGESTS
        return KnownDigests(folder, self.progress) if self.surveyed else RecordedDigests(folder)

    def load_encoder(self, device: str, **batch: Any) -> CausalLMStateEncoder:
        """Load the catalogue's model on a torch device (``auto``: the best one); states do not depend on ``batch``."""
        from genolewm_assets.encoders import CausalLMStateEncoder

        window_bp = self.catalog.window_profile.window_bp
        return CausalLMStateEncoder(self.model, device=device, window_bp=window_bp, **batch, **self.encoder.settings)

    @property
    def with_states(self) -> bool:
        """Whether states are built; without them packages refer to no cache."""
        return self.catalog.encoder is not None

    @property
    def encoder(self) -> EncoderSection:
        """The catalogue's encoder, which has a source.

        Raises
        ------
        ConfigurationError
            If the encoder is off, or the catalogue names no model.
        """
        encoder, where = self.catalog.encoder, f"{self.catalog.file} (encoder.model)"
        if encoder is None:
            raise ConfigurationError(where, STATES_OFF, remedy="Name a model, and unset GENOLEWM_WITHOUT_STATES")
        if encoder.source is None:
            raise ConfigurationError(
                where,
                "no encoder is named, so no states can be computed",
                remedy="Write 'encoder: {model: carbon-500m, revision: COMMIT}' or 'encoder: {model: /models/NAME}' (a "
                "folder in Hugging Face format); 'model: tiny-llama-random' gives states of random weights. For "
                "packages without states write 'encoder: off', or build with --without-states",
            )
        return encoder

    @cached_property
    def model(self) -> str | Path:
        """The model's folder or hub id; the built-in model is written to its folder first; raises as ``encoder``."""
        model = str(self.encoder.source)
        if model == TINY_LLAMA:
            folder = self.root.path / "models" / model
            if not self.surveyed:
                write_tiny_llama(folder)
            return folder
        return Path(self.catalog.resolve_url(model, root=self.root.path)) if self.encoder.is_folder else model

    def source(self, reference: str, *, md5: str | None = None, progress: Progress = NO_PROGRESS) -> SourceFile:
        """Return the source file for a URL or path of the catalogue; ``md5`` as in :class:`SourceFile`."""
        downloads = self.root.path / WORK / "downloads"
        return SourceFile(self.url(reference), md5, downloads=downloads, progress=progress, digests=self._digests)

    def sha256_of(self, path: Path) -> str:
        """Return the SHA-256 of a local file, hex; in a survey, of a file of another size than recorded, a text.

        Raises
        ------
        InputError
            If the file is missing or not a regular file.
        """
        check_local_file(path)
        return self._digests.of(path, "sha256")

    def run_folders(self) -> dict[str, Path]:
        """Return the run folders of the catalogue by partition key; raises as ``sources.run_folders``."""
        runs = self.catalog.forensic.runs
        return {} if runs is None else list_run_folders(self.local_path(runs))

    def published_runs(self) -> list[str]:
        """Return the partition keys of the run folders whose profiles are published, in order."""
        folder = self.root.path / "forensic"
        return sorted(link.name for link in folder.iterdir() if is_published_link(link)) if folder.is_dir() else []

    def divided_pieces(self) -> list[str]:
        """Return the keys of the pieces of every corpus source; one that is not divided yet counts as one piece."""
        found = list[str]()
        for source in self.catalog.corpus.sources:
            pieces = 1
            with suppress(MissingResourceError, CorruptResourceError):
                generation = resolve_generation(self.root.link_of(f"corpus/records/{source}"))
                pieces = read_manifest(generation).counts.get("pieces", 1)
            found += piece_keys(source, pieces)
        return found

    def local_path(self, reference: str) -> Path:
        """Return the path of a file or folder of the catalogue that is never on a server."""
        path = self.source(reference).path
        assert path is not None, "the catalogue refuses URLs of servers here"
        return path

    @contextmanager
    def borrow(self, files: Sequence[SourceFile] | Sequence[HubFile]) -> Iterator[list[Path]]:
        """Yield the local paths of several sources, valid inside the block; see :meth:`SourceFile.local`.

        Files of the hub stay in the hub's cache.
        """
        with ExitStack() as stack:
            yield [
                file.fetch() if isinstance(file, HubFile) else stack.enter_context(file.local()).path for file in files
            ]

    def url(self, reference: str) -> str:
        """Resolve a URL or path of the catalogue; raises :class:`MissingResourceError` if its sample is not there."""
        if self.catalog.generator == "sample":
            check_sample(self.root.path)
        return self.catalog.resolve_url(reference, root=self.root.path)


def reference_reader(genome: Published, contigs: ContigSet) -> Callable[[Contig], bytes]:
    """Return a function from a contig to its upper-case bases; the last contig read stays in memory."""
    reader = FastaReader(genome.file("genome.fa.gz"), contigs)
    return lru_cache(maxsize=1)(lambda contig: reader.read_contig(contig.name))


def reference_opener(genome: Published, contigs: ContigSet) -> Callable[[Contig], Bases]:
    """Return a function from a contig to its upper-case bases, of which only a few pieces are in memory at a time."""
    reader = FastaReader(genome.file("genome.fa.gz"), contigs)
    return lru_cache(maxsize=1)(reader.open_contig)
