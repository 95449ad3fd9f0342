"""Field types of the catalogue, the base class of its sections, and the messages of its errors."""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from genolewm_assets.errors import CatalogError, ConfigurationError, InputError
from genolewm_assets.hub import HUB_SCHEME, HubFiles
from genolewm_assets.packages import NO_ASSERTION, NOT_STATED, SourceTerms
from genolewm_assets.sources.files import SCHEME
from genolewm_assets.variants import ReleaseKey

_SCHEMES = ("file", "http", "https", "s3", "gs")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_MD5 = re.compile(r"[0-9a-f]{32}")
_CITATION_LENGTH = 1_000


def refusal(
    problem: str, *, key: str = "", expected: str | None = None, got: str | None = None, remedy: str = ""
) -> PydanticCustomError:
    """Return an error that :func:`catalog_error` turns into a message; ``key`` is relative to the section."""
    facts = {"problem": problem, "key": key, "expected": expected, "got": got, "remedy": remedy}
    return PydanticCustomError("catalog", "{problem}", facts)


def _check_url(url: str) -> str:
    if not url or url != url.strip() or not url.isprintable():
        raise refusal("not a URL or a path", expected="printable text without outer blanks", got=repr(url))
    scheme = SCHEME.match(url)
    if scheme and scheme[1] not in _SCHEMES:
        raise refusal("unknown URL scheme", expected=" or ".join(_SCHEMES), got=repr(scheme[1]))
    # URLs are copied to recipes, and so to every manifest and package.
    if scheme and urlsplit(url).username is not None:
        raise refusal(
            "URL holds credentials", remedy="Give them to the server's client, such as ~/.netrc or AWS_PROFILE"
        )
    unknown = [name for name in _PLACEHOLDER.findall(url) if name != "{root}"]
    if unknown:
        raise refusal("unknown placeholder", expected="'{root}'", got=repr(unknown[0]))
    return url


def _check_corpus_url(url: str) -> str:
    if not url.startswith(HUB_SCHEME):
        return _check_url(url)
    try:
        HubFiles.parse(url)
    except InputError as error:
        raise refusal(error.problem, expected=error.expected, got=error.got, remedy=error.remedy) from error
    return url


def _check_folder_name(name: str) -> str:
    # Names of contigs, releases and profiles are used as folder names in the root and as partition keys.
    if not FOLDER_NAME.fullmatch(name):
        raise refusal("cannot name a folder", expected="letters, digits, '_', '-' and inner '.'", got=repr(name))
    return name


def _check_md5(digest: str) -> str:
    if not _MD5.fullmatch(digest):
        raise refusal("not an MD5", expected="32 lower-case hexadecimal digits", got=repr(digest))
    return digest


def _check_file_md5(digest: str) -> str:
    return digest if digest == "published" else _check_md5(digest)


def _check_release_key(key: str) -> str:
    try:
        return str(ReleaseKey.parse(key))
    except InputError as error:
        raise refusal(error.problem, expected=error.expected, got=error.got) from error


def _check_license(text: str) -> str:
    # Loaded here: Dagster reads a catalogue at import.
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression as error:
        raise refusal(
            "not an SPDX licence expression",
            expected="ids of https://spdx.org/licenses, such as 'CC0-1.0'",
            got=_short_repr(text),
            remedy="Name a licence that SPDX does not list LicenseRef-NAME",
        ) from error


def _check_citation(text: str) -> str:
    if not text.strip() or not text.isprintable() or "|" in text or len(text) > _CITATION_LENGTH:
        expected = f"1 to {_CITATION_LENGTH:,} printable characters on one line, without '|'"
        raise refusal("cannot be a citation", expected=expected, got=_short_repr(text))
    return text


def _off_is_none(value: object) -> object:
    if value is None:
        raise refusal("nothing is given", expected="off, or keys", got="null")
    # YAML reads an unquoted ``off`` as false.
    return None if value is False or value == "off" else value


#: Makes of ``off`` the None of an optional section.
OFF = BeforeValidator(_off_is_none)

Url: TypeAlias = Annotated[str, AfterValidator(_check_url)]
#: A URL, or one of a data set of the Hugging Face hub with its commit.
CorpusUrl: TypeAlias = Annotated[str, AfterValidator(_check_corpus_url)]
FolderName: TypeAlias = Annotated[str, AfterValidator(_check_folder_name)]
Md5: TypeAlias = Annotated[str, AfterValidator(_check_md5)]
FileMd5: TypeAlias = Annotated[str, AfterValidator(_check_file_md5)]
Release: TypeAlias = Annotated[str, AfterValidator(_check_release_key)]
#: Not strict, because YAML has lists only and strict validation would require a tuple.
Keys: TypeAlias = Annotated[tuple[Release, ...], Field(strict=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """One mapping of the YAML: immutable, with strict types; an unknown key is an error that names the key."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            raise refusal("not a mapping", expected=f"keys {', '.join(cls.model_fields)}", got=_short_repr(data))
        for key in data:
            if key not in cls.model_fields:
                near = difflib.get_close_matches(str(key), list(cls.model_fields), 1)
                raise refusal(
                    "unknown key",
                    key=str(key),
                    expected=repr(near[0]) if near else f"one of {', '.join(cls.model_fields)}",
                    got=repr(key),
                )
        return data


class TermsSection(Section):
    """A section of sources, with what packages state of them."""

    #: SPDX expression that packages state, ``LicenseRef-NAME`` where SPDX lists none; not given: ``NOASSERTION``.
    license: Annotated[str, AfterValidator(_check_license)] | None = None
    #: Citation that packages state, in one line.
    citation: Annotated[str, AfterValidator(_check_citation)] | None = None

    def terms(self, releases: Iterable[str]) -> SourceTerms:
        """Return the terms of releases of these sources; what is not stated is said to be so."""
        release = ", ".join(sorted(set(releases))) or NOT_STATED
        return SourceTerms(release, self.license or NO_ASSERTION, self.citation or NOT_STATED)


class PolicySection(Section, ABC):
    """A section with the fields of a policy class, which defines the defaults and checks combinations of values."""

    @property
    @abstractmethod
    def policy(self) -> object:
        """The settings of the section as a policy."""

    @model_validator(mode="after")
    def _policy_is_possible(self) -> Self:
        try:
            _ = self.policy
        except ConfigurationError as error:
            key = error.where.rpartition(".")[2]
            raise refusal(
                error.problem, key=key, expected=error.expected, got=error.got, remedy=error.remedy
            ) from error
        return self


class InvalidCatalogError(CatalogError):
    """A catalogue has invalid keys; the message is about the first, ``faults`` has an error for each."""

    faults: tuple[CatalogError, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"faults": self.faults})


def catalog_error(file: Path, errors: list[ErrorDetails]) -> InvalidCatalogError:
    """Turn the errors of pydantic into one error about the first of them, with the number of the others."""
    faults = tuple(_fault(file, error) for error in errors)
    first, remedy = faults[0], faults[0].remedy
    if len(errors) > 1:
        remedy = f"{remedy}{'. ' if remedy else ''}{len(errors) - 1} more to correct after this one"
    whole = InvalidCatalogError(first.where, first.problem, expected=first.expected, got=first.got, remedy=remedy)
    whole.faults = faults
    return whole


def _fault(file: Path, error: ErrorDetails) -> CatalogError:
    """Turn one error of pydantic into an error that names the key."""
    context = error.get("ctx", {})
    key = "".join(_path_parts(error["loc"]))
    if error["type"] == "catalog":
        key += f".{context['key']}" if context["key"] else ""
        problem, expected, got = context["problem"], context["expected"], context["got"]
    elif error["type"] == "missing":
        problem, expected, got = "key is missing", None, None
    else:
        problem, expected, got = (
            "wrong value",
            error["msg"].removeprefix("Input should be "),
            _short_repr(error["input"]),
        )
    remedy = context.get("remedy", "")
    if error["type"] == "string_type" and isinstance(error["input"], int | float):
        remedy = "Put it in quotes"
    where = f"{file} ({key.removeprefix('.')})" if key else str(file)
    return CatalogError(where, problem, expected=expected, got=got, remedy=remedy)


def _path_parts(location: tuple[int | str, ...]) -> Iterator[str]:
    """Yield the parts of a key's path, such as ``.contigs`` and ``[3]``."""
    for part in location:
        if isinstance(part, int):
            yield f"[{part}]"
        elif part != "[key]":
            yield f".{part}"


def _short_repr(value: object) -> str:
    """Return ``repr(value)``, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
