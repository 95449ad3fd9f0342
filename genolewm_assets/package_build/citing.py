"""How to cite a package and its sources: text, BibTeX and Citation File Format 1.2.0."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import yaml

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.package_build.statements import title
from genolewm_assets.packages import PackageInfo, read_package_info
from genolewm_assets.store.artefacts import PROVENANCE
from genolewm_assets.store.files import read_document


class CitationFormat(StrEnum):
    """Form of a citation."""

    TEXT = "text"
    BIBTEX = "bibtex"
    CFF = "cff"


def cite_package(directory: Path, form: CitationFormat = CitationFormat.TEXT) -> str:
    """Return how to cite a package: its title, release and digest, and every source with release and licence.

    Parameters
    ----------
    directory
        Folder of the package. Where ``provenance.json`` is in it, the day of the build is stated, by which the sources
        had been read.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        As :func:`genolewm_assets.packages.read_package_info`.
    """
    info, built = read_package_info(directory), None
    with suppress(GenoLeWMError):
        record = read_document(directory / PROVENANCE, remedy="")
        built = str(record.get("built_at", ""))[:10] if isinstance(record, dict) else None
    return {CitationFormat.TEXT: _text, CitationFormat.BIBTEX: bibtex, CitationFormat.CFF: _cff}[form](info, built)


def _text(info: PackageInfo, built: str | None = None) -> str:
    lines = [f"{title(info)}. {_note(info, built)}.", "", "Sources:"]
    for name, each in sorted(info.terms.items()):
        lines.append(f"- {name} {each.release} ({each.license}): {each.citation}")
    return "\n".join(map(_printable, lines))


def bibtex(info: PackageInfo, built: str | None = None) -> str:
    """Return one BibTeX entry for the package and one for each source."""
    year = info.release[:4]
    entries = [
        _entry(f"genolewm-{info.release}", title(info), "genolewm_assets", _note(info, built), {"year": year}),
        *(
            _entry(f"genolewm-{info.release}-{name}", f"{name} {each.release}", name, each.citation, {})
            for name, each in sorted(info.terms.items())
        ),
    ]
    return "\n\n".join(entries)


def _entry(key: str, headline: str, author: str, note: str, others: dict[str, str]) -> str:
    fields = {"title": headline, "author": f"{{{_escaped(author)}}}", **others, "note": note}
    lines = (f"  {name} = {{{value if name == 'author' else _escaped(value)}}}" for name, value in fields.items())
    return f"@misc{{{''.join(c for c in key if c.isalnum() or c in '-.')},\n" + ",\n".join(lines) + "\n}"


def _cff(info: PackageInfo, built: str | None = None) -> str:
    document = {
        "cff-version": "1.2.0",
        "message": "Cite the package and the sources that it is made of.",
        "type": "dataset",
        "title": title(info),
        "authors": [{"name": "genolewm_assets"}],
        "version": info.release,
        "date-released": info.release[:10],
        "identifiers": [{"type": "other", "value": f"sha256:{info.sha256}", "description": "SHA-256 of package.json"}],
        "references": [
            {
                "type": "data",
                "title": f"{name} {each.release}",
                "authors": [{"name": name}],
                "version": each.release,
                "notes": f"{each.citation} Licence: {each.license}.",
            }
            for name, each in sorted(info.terms.items())
        ],
    }
    if built:
        document["abstract"] = f"{_note(info, built)}."
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10_000).rstrip()


def _note(info: PackageInfo, built: str | None) -> str:
    read = f"; sources read by {built}, when it was built" if built else ""
    return f"Release {info.release}, SHA-256 of package.json {info.sha256}{read}"


def _printable(text: str) -> str:
    """Return a text on one line, without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def _escaped(text: str) -> str:
    r"""Return a text that BibTeX reads as it is.

    >>> _escaped("50 % of {A} & B")
    '50 \\% of \\{A\\} \\& B'
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c) or (f"\\{c}" if c in "{}%&#$_" else c) for c in _printable(text))
