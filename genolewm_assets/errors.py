"""The exception tree of the package, and the format of its messages.

::

    GenoLeWMError
      InputError (ValueError)          bad input: exit 2
        FastaError, VcfError, IntervalError, SequenceError, UnknownContigError,
        UnknownTermError, ReferenceMismatchError, AlleleError, EditError, WindowError,
        AbifError, SizingError, PanelError
      ConfigurationError (ValueError)  bad configuration: exit 3
        CatalogError, RootError
      ResourceError (OSError)          corrupt, missing or busy resource: exit 4
        MissingResourceError, CorruptResourceError, RejectedResourceError, BusyError,
        VersionError, DeviceError, FetchError
          ChecksumError

Every message has one format, made by ``GenoLeWMError.__str__``:
``where: what is wrong: expected X, got Y. What to do.`` Text from outside, such as names of files, is in it as
``printable`` returns it.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

#: Controls of a terminal, and characters that hide text or change its direction; line ends and tabs are none.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
#: User and password of a URL, and values of its query that are passwords.
_USER = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s@?#]+@")
_PASSWORD = re.compile(
    r"(?i)([?&;](?:[\w.-]*(?:signature|credential|token|secret|passw(?:or)?d|api[_-]?key|access[_-]?(?:key)?id)"
    r"|sig|key|key-pair-id|policy|auth|pwd)=)[^&;\s#\"'<>()]+"
)


def printable(text: str) -> str:
    r"""Return text from outside as it may be printed, logged and recorded.

    Control characters are written as in JSON (``\u001b``). User, password, signatures and tokens of URLs are ``…``.

    >>> printable("\x1b[31m s3://me:pw@host/a.vcf?versionId=7&X-Amz-Signature=0a1b")
    '\\u001b[31m s3://…@host/a.vcf?versionId=7&X-Amz-Signature=…'
    """
    shown = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return _PASSWORD.sub(r"\1…", _USER.sub(r"\1…@", shown))


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, whose plural has an s by default: ``1 fault``, ``2 faults``, ``1,000 entries``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


class GenoLeWMError(Exception):
    """Base class of every error that the package raises on purpose.

    Parameters
    ----------
    where
        File, record, asset partition or configuration key at fault.
    problem
        What is wrong, without a final full stop.
    expected, got
        Printed after the problem, each if given; quote names with ``!r`` before passing them.
    remedy
        What the user should do; a sentence without its full stop.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self, where: str, problem: str, *, expected: str | None = None, got: str | None = None, remedy: str = ""
    ) -> None:
        self.where, self.problem, self.expected, self.got, self.remedy = where, problem, expected, got, remedy
        super().__init__(where, problem)

    def __str__(self) -> str:
        facts = [
            f"{label} {value}" for label, value in (("expected", self.expected), ("got", self.got)) if value is not None
        ]
        body = f"{self.where}: {self.problem}" + (f": {', '.join(facts)}" if facts else "")
        return printable(" ".join(f"{body}. {self.remedy}{'.' if self.remedy else ''}".split()))

    def __reduce__(self) -> tuple[object, ...]:
        details = {"expected": self.expected, "got": self.got, "remedy": self.remedy}
        return _rebuild, (type(self), self.where, self.problem, details)


def _rebuild(kind: type[GenoLeWMError], where: str, problem: str, details: dict[str, Any]) -> GenoLeWMError:
    """Rebuild an unpickled error, so that it keeps its keyword arguments between processes."""
    return kind(where, problem, **details)


class InputError(GenoLeWMError, ValueError):
    """An input file or argument is invalid."""

    exit_code = 2


class FastaError(InputError):
    """A FASTA file cannot be read or differs from the genome that the catalogue names."""


class VcfError(InputError):
    """A VCF file or record is malformed, truncated or of an unknown layout."""


class IntervalError(InputError):
    """Coordinates are out of order or outside their contig."""


class SequenceError(InputError):
    """A sequence holds a symbol, length or type that the operation does not accept."""


class UnknownContigError(InputError):
    """A contig name is neither canonical nor a known alias."""


class UnknownTermError(InputError):
    """A term is missing from a closed vocabulary, such as ClinVar's CLNSIG."""


class ReferenceMismatchError(InputError):
    """A stated reference allele differs from the reference sequence."""


class AlleleError(InputError):
    """An allele cannot be written as a sequence variant."""


class EditError(InputError):
    """An edit does not fit its window."""


class WindowError(InputError):
    """Window parameters are impossible for the contig."""


class AbifError(InputError):
    """An instrument file is not ABIF, is truncated, or its directory contradicts its bytes."""


class SizingError(InputError):
    """The size standard of a run cannot be found or does not fit."""


class PanelError(InputError):
    """A panel, bin or ladder definition is malformed, or a run's allelic ladder does not match it."""


class ConfigurationError(GenoLeWMError, ValueError):
    """A setting is missing, malformed or contradicts another setting."""

    exit_code = 3


class CatalogError(ConfigurationError):
    """A catalogue file is malformed or names something that does not exist."""


class RootError(ConfigurationError):
    """A root belongs to another catalogue or genome, or its file system lacks a feature that a root needs."""


class ResourceError(GenoLeWMError, OSError):
    """A stored artefact or a download is corrupt, missing or busy, or the storage failed."""

    exit_code = 4


class MissingResourceError(ResourceError):
    """A published artefact or a file is missing."""


class CorruptResourceError(ResourceError):
    """A published artefact differs from its manifest, or a file in the store is malformed."""


class RejectedResourceError(ResourceError):
    """The latest build of an artefact was rejected, or its manifest contains a failed check."""


class VersionError(ResourceError):
    """Another version of this code began the unfinished work; only that version continues it."""


class DeviceError(ResourceError):
    """An accelerator failed or has too little memory; another attempt or another machine may succeed."""


class FetchError(ResourceError):
    """A download failed."""


class ChecksumError(FetchError):
    """A download is complete, but its checksum differs from the expected one."""


class BusyError(ResourceError):
    """Another process holds the lock, or has taken it from this process."""
