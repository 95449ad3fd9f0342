"""Where an asset is declared in the source code, and the link to it that the UI shows."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

import genolewm_assets

#: Folder that holds the package: the root of the repository, or ``site-packages``.
_ABOVE = Path(genolewm_assets.__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class CodePlace:
    """One line of a source file.

    Attributes
    ----------
    file
        Absolute path.
    line
        Number of the line, from 1.
    """

    file: str
    line: int

    def link(self, source_url: str | None) -> dg.CodeReferencesMetadataValue:
        """Return the link to the line: on the web, or, without ``source_url``, in an editor on this machine.

        Parameters
        ----------
        source_url
            Web address of the folder that holds the package, in the version that is installed, without its last ``/``.
        """
        file = Path(self.file)
        label = f"{file.stem}:{self.line}"  # the panel of the UI has room for about 20 characters
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            if source_url is None or not file.is_relative_to(_ABOVE):
                local = dg.LocalFileCodeReference(file_path=self.file, line_number=self.line, label=label)
                return dg.CodeReferencesMetadataValue(code_references=[local])
            path = file.relative_to(_ABOVE).as_posix()
            page = dg.UrlCodeReference(url=f"{source_url}/{path}#L{self.line}", label=label)
            return dg.CodeReferencesMetadataValue(code_references=[page])


def place_of_caller(passed: Collection[str]) -> CodePlace:
    """Return the line that is executed in the nearest caller outside the files ``passed`` and outside generated code.

    ``__init__`` of a data class is generated code, whose file has no path.
    """
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in {__file__, *passed} and not file.startswith("<"):
            return CodePlace(str(Path(file).resolve()), frame.f_lineno)
        frame = frame.f_back
    raise AssertionError("every frame is generated or passed")
