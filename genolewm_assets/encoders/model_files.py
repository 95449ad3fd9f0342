"""Files of a Hugging Face model on this machine: location, configuration, digests.

This module does not import the model library, so identity and state size of an encoder are available without loading
it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.hub import COMMIT, HubRepository, check_cached, download_files, hub_errors
from genolewm_assets.store.files import open_regular

CONFIG_FILE = "config.json"

#: Files that assign ids to tokens; those that a model has are part of its identity.
VOCABULARY_FILES = ("added_tokens.json", "dna_config.json", "tokenizer.json", "vocab.json", "vocab.txt")

#: Files that say, where no vocabulary in JSON does, which special tokens stand around a sequence.
_TOKENIZER_SETTINGS = ("special_tokens_map.json", "tokenizer_config.json")
_SELF_CONTAINED = ("dna_config.json", "tokenizer.json", "vocab.json")

_WEIGHTS, _WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_DOWNLOADED = ("*.json", "*.safetensors", "vocab.txt")


def _read_sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The folder of a model; ``sha256_of`` returns the SHA-256, in hex, of a file, by default by reading it.

    For a file that changed and is not read it may return a text, which then stands for the digests of this class too.
    """

    folder: Path
    model_id: str
    revision: str | None
    code_trusted: bool = False
    sha256_of: Callable[[Path], str] = _read_sha256

    @property
    def config(self) -> dict[str, object]:
        """Content of ``config.json``; errors are those of :func:`read_json_object`."""
        return read_json_object(self.folder / CONFIG_FILE)

    def config_int(self, *names: str) -> int:
        """Return the first entry of ``config.json`` that exists among several names; model families differ in names."""
        config = self.config
        found = next((config[name] for name in names if name in config), None)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise ConfigurationError(
                f"{self.model_id} ({CONFIG_FILE})",
                f"no usable {names[0]}",
                expected="a positive whole number",
                got=repr(found),
                remedy="Use a language model in Hugging Face format",
            )
        return found

    def weights(self) -> list[str]:
        """Return the names of the weight files, sorted."""
        if (self.folder / _WEIGHTS).is_file():
            return [_WEIGHTS]
        index = self.folder / _WEIGHTS_INDEX
        if not index.is_file():
            raise ConfigurationError(
                self.model_id,
                "no safetensors weights",
                expected=f"{_WEIGHTS} or {_WEIGHTS_INDEX}",
                got=", ".join(sorted(path.name for path in self.folder.iterdir())) or "an empty folder",
                remedy="Convert the weights to safetensors; pickled weights are not read",
            )
        placed = read_json_object(index).get("weight_map")
        names = sorted({str(name) for name in placed.values()}) if isinstance(placed, dict) else []
        if not names or any(Path(name).name != name for name in names):
            raise CorruptResourceError(
                f"{self.model_id} ({_WEIGHTS_INDEX})", "weight_map does not name files in this folder"
            )
        return names

    def weights_sha256(self) -> str:
        """Return the SHA-256, in hex, of the weight files' ``sha256sum`` lines."""
        return self._listing_sha256(self.weights())

    def settings(self) -> list[str]:
        """Return the names of configuration, vocabulary and, if it may run, the model's own code, sorted."""
        complete = any((self.folder / name).is_file() for name in _SELF_CONTAINED)
        wanted = (*VOCABULARY_FILES, *(() if complete else _TOKENIZER_SETTINGS))
        names = [CONFIG_FILE, *(name for name in wanted if (self.folder / name).is_file())]
        if self.code_trusted:
            names += [path.name for path in self.folder.glob("*.py")]
        return sorted(names)

    def settings_sha256(self) -> str:
        """Return the SHA-256, in hex, of the ``sha256sum`` lines of :meth:`settings`."""
        return self._listing_sha256(self.settings())

    def _listing_sha256(self, names: Iterable[str]) -> str:
        lines = []
        for name in names:
            try:
                digest = self.sha256_of(self.folder / name)
            except FileNotFoundError as err:
                raise MissingResourceError(
                    f"{self.model_id} ({name})",
                    "the model lacks this file",
                    remedy="Copy or download the whole model again",
                ) from err
            if not _SHA256.fullmatch(digest):
                return f"{name} {digest}"
            lines.append(f"{digest}  {name}\n")
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def locate_model(
    model: str | Path, *, revision: str | None = None, trusted_code: str | None = None, download: bool = True
) -> ModelFiles:
    """Return the files of a model; download a hub repository at one commit, use a local folder without the network.

    Parameters
    ----------
    revision
        Full commit hash, required for a hub id. Branches and tags are rejected because they can move.
    trusted_code
        The value of ``model`` again, to allow the model's own Python code to run; None: the code may not run.
    download
        Whether a hub repository may be downloaded; otherwise it must be in the hub's cache on this machine.

    Raises
    ------
    ConfigurationError
        If the revision of a hub model is not a commit hash, ``trusted_code`` names another model, or trusted code comes
        from another repository.
    MissingResourceError
        If ``model`` is neither an existing folder nor a hub id, or ``config.json`` is missing, or the hub's cache lacks
        a model that may not be downloaded.
    CorruptResourceError, InputError, FetchError
        If ``config.json`` is not a JSON object; if the download fails, or a downloaded file differs from what the hub
        states (:class:`ChecksumError`).
    """
    if trusted_code is not None and trusted_code != str(model):
        raise ConfigurationError(
            "trusted_code", "names another model", expected=repr(str(model)), got=repr(trusted_code)
        )
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _with_safe_code(ModelFiles(folder, folder.absolute().name, revision, trusted_code is not None))
    if isinstance(model, Path) or not _HUB_ID.fullmatch(model):
        raise MissingResourceError(str(model), "no such model folder", remedy="Check the path of the encoder")
    if revision is None or not COMMIT.fullmatch(revision):
        raise ConfigurationError(
            f"encoder {model}",
            "not a local folder, and a hub model needs a commit hash as revision",
            expected="40 hexadecimal digits",
            got=repr(revision),
            remedy="Copy the commit hash from the model's page",
        )
    snapshot = _fetch_snapshot(model, revision, with_code=trusted_code is not None, download=download)
    return _with_safe_code(ModelFiles(snapshot, model, revision, trusted_code is not None))


def ask_hub(model: str, revision: str) -> dict[str, int]:
    """Return the sizes, in bytes, of a model's files at the hub by name; its ``config.json`` alone is fetched and read.

    Raises
    ------
    InputError, MissingResourceError, FetchError
        As :func:`~genolewm_assets.hub.hub_errors`.
    CorruptResourceError, ConfigurationError
        If ``config.json`` is not a JSON object; if there are no safetensors weights.
    """
    from huggingface_hub import HfApi, RepoFile, hf_hub_download

    where, at = f"encoder {model}@{revision}", HubRepository("model", model, revision)
    # Not into the hub's cache, where a model without its weights would look complete.
    with tempfile.TemporaryDirectory() as folder, hub_errors(at, where, CONFIG_FILE):
        read_json_object(Path(hf_hub_download(model, CONFIG_FILE, revision=revision, local_dir=folder)))
        tree = HfApi().list_repo_tree(model, revision=revision)
        sizes = {entry.path: entry.size for entry in tree if isinstance(entry, RepoFile)}
    if not {_WEIGHTS, _WEIGHTS_INDEX} & set(sizes):
        got = ", ".join(sizes)
        raise ConfigurationError(where, "no safetensors weights", expected=f"{_WEIGHTS} or {_WEIGHTS_INDEX}", got=got)
    return {name: sizes[name] for name in sizes if any(fnmatchcase(name, pattern) for pattern in _DOWNLOADED)}


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON file whose content is an object."""
    try:
        with open_regular(path, links=True) as handle:
            value = json.loads(handle.read())
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), "no such file", remedy="Check the path of the encoder") from err
    except (ValueError, OSError, RecursionError) as err:
        raise CorruptResourceError(str(path), f"not readable as JSON ({err})", remedy="Copy it again") from err
    if not isinstance(value, dict):
        raise CorruptResourceError(str(path), "not a JSON object", remedy="Copy it again")
    return value


def _with_safe_code(files: ModelFiles) -> ModelFiles:
    """Raise an error if trusted code would come from another repository, whose commit is not pinned."""
    hooks = files.config.get("auto_map")
    if files.code_trusted and isinstance(hooks, dict):
        foreign = sorted(str(hook) for hook in hooks.values() if "--" in str(hook))
        if foreign:
            raise ConfigurationError(
                f"{files.model_id} ({CONFIG_FILE})",
                "auto_map loads code from another repository",
                expected="code beside the weights",
                got=", ".join(foreign),
                remedy="Copy the code into the model folder and change auto_map to name it",
            )
    return files


def _fetch_snapshot(model: str, revision: str, *, with_code: bool, download: bool) -> Path:
    patterns = [*_DOWNLOADED, *(["*.py"] if with_code else [])]
    where, at = f"encoder {model}@{revision}", HubRepository("model", model, revision)
    if not download:
        return _find_snapshot(model, revision, patterns, where)
    with hub_errors(at, where, "*"):
        folder = download_files(at, patterns)
    for path in sorted(folder.iterdir()):
        check_cached(path, f"{model} ({path.name})")
    return folder


def _find_snapshot(model: str, revision: str, patterns: list[str], where: str) -> Path:
    # Imported here because a local folder does not need the hub client.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns, local_files_only=True))
    except LocalEntryNotFoundError as err:
        raise MissingResourceError(
            where,
            "the model is not in this machine's hub cache",
            remedy=f"Run hf download {model} --revision {revision}, or build embeddings/cache",
        ) from err
