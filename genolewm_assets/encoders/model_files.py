"""The files of a Hugging Face model on this machine: where they are, what they say, what they hash to.

Nothing here imports the model library: identity and size of an encoder are known before anything heavy is loaded.
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

#: Files that decide which token gets which id; those of them that a model has count towards its identity.
VOCABULARY_FILES = ("added_tokens.json", "dna_config.json", "tokenizer.json", "vocab.json")

_WEIGHTS, _WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_DOWNLOADED = ("*.json", "*.safetensors")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model folder.

    Parameters
    ----------
    folder
        Where the files lie.
    model_id
        Hub id, or the name of a local folder (not its path, so that a recipe is the same wherever it is built).
    revision
        Commit of the hub repository; of a local folder whatever its owner states, or none.
    code_trusted
        The model's own Python code may run.
    """

    folder: Path
    model_id: str
    revision: str | None
    code_trusted: bool = False

    @property
    def config(self) -> dict[str, object]:
        """The model's ``config.json``."""
        return read_json_object(self.folder / CONFIG_FILE)

    def config_int(self, *names: str) -> int:
        """Return the first of these entries of ``config.json`` that is there; model families name them differently.

        Raises
        ------
        ConfigurationError
            If none is there, or it is not a positive whole number.
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
            If the weights are not in safetensors format: pickled ones can run code.
        CorruptResourceError
            If the index of sharded weights is malformed or names a file elsewhere.
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
                f"{self.model_id} ({_WEIGHTS_INDEX})", "weight_map does not name files of this folder"
            )
        return names

    def weights_sha256(self) -> str:
        """Return the SHA-256 over the ``sha256sum`` lines of the weight files, hex."""
        return self._listing_sha256(self.weights())

    def settings_sha256(self) -> str:
        """Return the same over what else decides the states: configuration, vocabulary and trusted code."""
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
                    f"{self.model_id} ({name})", "the model lacks this file", remedy="Copy or download it again, whole"
                ) from err
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def locate_model(model: str | Path, *, revision: str | None = None, trusted_code: str | None = None) -> ModelFiles:
    """Find a model's files; a hub repository is downloaded at one commit, a local folder never touches the network.

    Parameters
    ----------
    model
        A folder, or a hub id ``owner/name``.
    revision
        The full commit hash for a hub id; a branch or tag may move, so none is accepted.
    trusted_code
        Repeats ``model`` where the model's own Python code may run.

    Raises
    ------
    ConfigurationError
        If the id or revision is malformed, or ``trusted_code`` names another model.
    MissingResourceError
        If there is no such folder.
    FetchError
        If the download failed.
    """
    if trusted_code is not None and trusted_code != str(model):
        raise ConfigurationError(
            "trusted_code", "names another model than the encoder's", expected=repr(str(model)), got=repr(trusted_code)
        )
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _with_safe_code(ModelFiles(folder, folder.absolute().name, revision, trusted_code is not None))
    if isinstance(model, Path) or not _HUB_ID.fullmatch(model):
        raise MissingResourceError(str(model), "no such model folder", remedy="Check the path of the encoder")
    if revision is None or not _COMMIT.fullmatch(revision):
        raise ConfigurationError(
            f"encoder {model}",
            "no such folder, and a hub model needs its commit",
            expected="revision of 40 hexadecimal digits",
            got=repr(revision),
            remedy="Copy the commit hash from the model's page",
        )
    snapshot = _download(model, revision, with_code=trusted_code is not None)
    return _with_safe_code(ModelFiles(snapshot, model, revision, trusted_code is not None))


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON file that holds an object.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        If there is no such file, or it holds something else.
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
    """Refuse trusted code that would come from a third repository, whose commit nobody pinned."""
    hooks = files.config.get("auto_map")
    if files.code_trusted and isinstance(hooks, dict):
        foreign = sorted(str(hook) for hook in hooks.values() if "--" in str(hook))
        if foreign:
            raise ConfigurationError(
                f"{files.model_id} ({CONFIG_FILE})",
                "auto_map takes code from another repository",
                expected="code beside the weights",
                got=", ".join(foreign),
                remedy="Copy that code into the model folder and name it there",
            )
    return files


def _download(model: str, revision: str, *, with_code: bool) -> Path:
    # Here and not above: a local folder needs no hub client.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = [*_DOWNLOADED, *(["*.py"] if with_code else [])]
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as err:
        raise FetchError(
            f"encoder {model}@{revision}", f"download failed ({err})", remedy="Try again, or hand in a local folder"
        ) from err
