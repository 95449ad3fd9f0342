"""Every error this package raises on purpose, and how its message reads.

::

    GenoLeWMError
      InputError (ValueError)          bad input: exit 2
        FastaError, VcfError, IntervalError, SequenceError, UnknownContigError,
        UnknownTermError, ReferenceMismatchError, AlleleError, EditError, WindowError
      ConfigurationError (ValueError)  bad configuration: exit 3
        CatalogError, RootError
      ResourceError (OSError)          corrupt, missing or busy resource: exit 4
        MissingResourceError, CorruptResourceError, RejectedResourceError, BusyError,
        VersionError, FetchError
          ChecksumError

A message has one form, made here and nowhere else:
``where: what is wrong: expected X, got Y. What to do.``
"""

from __future__ import annotations

from typing import Any, ClassVar


class GenoLeWMError(Exception):
    """Root of the tree.

    Parameters
    ----------
    where
        File, record, asset partition or configuration key at fault.
    problem
        What is wrong, without a final full stop.
    expected, got
        Printed with the problem when both are given; quote names with ``!r`` before passing them.
    remedy
        What the reader should do; a sentence without its full stop.
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
        return " ".join(f"{body}. {self.remedy}{'.' if self.remedy else ''}".split())

    def __reduce__(self) -> tuple[object, ...]:
        details = {"expected": self.expected, "got": self.got, "remedy": self.remedy}
        return _rebuild, (type(self), self.where, self.problem, details)


def _rebuild(kind: type[GenoLeWMError], where: str, problem: str, details: dict[str, Any]) -> GenoLeWMError:
    """Restore an error that crossed a process border together with its keyword arguments."""
    return kind(where, problem, **details)


class InputError(GenoLeWMError, ValueError):
    """A file or value handed in from outside is not what it should be."""

    exit_code = 2


class FastaError(InputError):
    """A FASTA file cannot be read or is not the pinned genome."""


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


class ConfigurationError(GenoLeWMError, ValueError):
    """A setting is missing, malformed or contradicts another."""

    exit_code = 3


class CatalogError(ConfigurationError):
    """A catalogue file is malformed or names something that does not exist."""


class RootError(ConfigurationError):
    """A root belongs to another catalogue or another genome, or its file system cannot hold one."""


class ResourceError(GenoLeWMError, OSError):
    """Something this platform wrote, or has to fetch, is corrupt, missing or busy."""

    exit_code = 4


class MissingResourceError(ResourceError):
    """A published artefact is not there."""


class CorruptResourceError(ResourceError):
    """A published artefact differs from its manifest."""


class RejectedResourceError(ResourceError):
    """The latest build of an artefact failed its checks."""


class VersionError(ResourceError):
    """Unfinished work was begun by another version of this code, and is left to it."""


class FetchError(ResourceError):
    """A download failed."""


class ChecksumError(FetchError):
    """A download is complete and its checksum differs from the expected one."""


class BusyError(ResourceError):
    """Another process holds the lock, or has taken it over."""
