"""Files of a Hugging Face model on this machine: location, configuration, digests.

This module does not import the model library, so identity and state size of an encoder are available without loading
it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, FetchError, MissingResourceError

CONFIG_FILE = "config.json"

#: Files that assign ids to tokens; those that a model has are part of its identity.
VOCABULARY_FILES = ("added_tokens.json", "dna_config.json", "tokenizer.json", "vocab.json")

_WEIGHTS, _WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_DOWNLOADED = ("*.json", "*.safetensors")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The folder of a model.

    Parameters
    ----------
    folder
        Folder that holds the files.
    model_id
        Hub id, or the name of a local folder (not its path, so that recipes do not depend on the machine).
    revision
        Commit of the hub repository. For a local folder: any text given by the caller, or None.
    code_trusted
        Whether the model's own Python code may run.
    """

    folder: Path
    model_id: str
    revision: str | None
    code_trusted: bool = False

    @property
    def config(self) -> dict[str, object]:
        """Content of ``config.json``; errors are those of :func:`read_json_object`."""
        return read_json_object(self.folder / CONFIG_FILE)

    def config_int(self, *names: str) -> int:
        """Return the first entry of ``config.json`` that exists among several names; model families differ in names.

        Parameters
        ----------
        names
            Names of the entry, in order of preference.

        Raises
        ------
        ConfigurationError
            If no entry exists, or its value is not a positive integer.
        """
        config = self.config
        found = next((config[name] for name in names if name in config), None)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise ConfigurationError(
                f"{self.model_id} ({CONFIG_FILE})",
                f"no usable {names[0]}",
                expected="a positive whole number",
                got=repr(found),
                remedy="Use a causal language model in Hugging Face format",
            )
        return found

    def weights(self) -> list[str]:
        """Return the names of the weight files, sorted.

        Raises
        ------
        ConfigurationError
            If the folder has no weights in safetensors format; pickled weights can run code and are not read.
        CorruptResourceError
            If the index of sharded weights is malformed or names a file outside the folder.
        """
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

    def settings_sha256(self) -> str:
        """Return the SHA-256, in hex, of the ``sha256sum`` lines of configuration, vocabulary and trusted code."""
        names = [CONFIG_FILE, *(name for name in VOCABULARY_FILES if (self.folder / name).is_file())]
        if self.code_trusted:
            names += [path.name for path in self.folder.glob("*.py")]
        return self._listing_sha256(sorted(names))

    def _listing_sha256(self, names: Iterable[str]) -> str:
        lines = []
        for name in names:
            try:
                with (self.folder / name).open("rb") as handle:
                    lines.append(f"{hashlib.file_digest(handle, 'sha256').hexdigest()}  {name}\n")
            except FileNotFoundError as err:
                raise MissingResourceError(
                    f"{self.model_id} ({name})",
                    "the model lacks this file",
                    remedy="Copy or download the whole model again",
                ) from err
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def locate_model(model: str | Path, *, revision: str | None = None, trusted_code: str | None = None) -> ModelFiles:
    """Return the files of a model; download a hub repository at one commit, use a local folder without the network.

    Parameters
    ----------
    model
        Local folder, or hub id ``owner/name``.
    revision
        Full commit hash, required for a hub id. Branches and tags are rejected because they can move.
    trusted_code
        The value of ``model`` again, to allow the model's own Python code to run; None: the code may not run.

    Raises
    ------
    ConfigurationError
        If the revision of a hub model is not a commit hash, ``trusted_code`` names another model, or trusted code
        comes from another repository.
    MissingResourceError
        If ``model`` is neither an existing folder nor a hub id, or ``config.json`` is missing.
    CorruptResourceError
        If ``config.json`` is not a JSON object.
    FetchError
        If the download fails.
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
    if revision is None or not _COMMIT.fullmatch(revision):
        raise ConfigurationError(
            f"encoder {model}",
            "not a local folder, and a hub model needs a commit hash as revision",
            expected="40 hexadecimal digits",
            got=repr(revision),
            remedy="Copy the commit hash from the model's page",
        )
    snapshot = _download(model, revision, with_code=trusted_code is not None)
    return _with_safe_code(ModelFiles(snapshot, model, revision, trusted_code is not None))


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON file whose content is an object.

    Raises
    ------
    MissingResourceError
        If the file does not exist.
    CorruptResourceError
        If the file cannot be read or is not a JSON object.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), "no such file", remedy="Check the path of the encoder") from err
    except (ValueError, OSError) as err:
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


def _download(model: str, revision: str, *, with_code: bool) -> Path:
    # Imported here because a local folder does not need the hub client.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = [*_DOWNLOADED, *(["*.py"] if with_code else [])]
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as err:
        raise FetchError(
            f"encoder {model}@{revision}", f"download failed ({err})", remedy="Try again, or pass a local folder"
        ) from err
