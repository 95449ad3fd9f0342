"""Markdown as the UI shows it: pictures at once, by their addresses; long text after a click; foreign text as code."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

#: Path of the web server below which pictures are served.
PICTURE_PATH = "/genolewm/pictures"
_EMBEDDED = re.compile(r"\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)")
_MARKUP = re.compile(r"[\\`*_\[\]<>|#~$!&{}()]")
#: The UI shows Markdown with fewer characters at once.
_SHOWN_AT_ONCE = 1_000


def is_picture(value: object) -> bool:
    """Return whether an entry of the metadata is one embedded picture."""
    return isinstance(value, dg.MarkdownMetadataValue) and (value.md_str or "").startswith("![")


def first_picture(metadata: Mapping[str, object], entry: str = "") -> bytes | None:
    """Return the first embedded picture of the metadata, or that of one entry, as SVG; None without one."""
    for name, value in metadata.items():
        text = (value.md_str or "") if isinstance(value, dg.MarkdownMetadataValue) and entry in {"", name} else ""
        if found := _EMBEDDED.search(text):
            return base64.b64decode(found[1])
    return None


def picture_of(key: str) -> str:
    """Return Markdown that shows the first picture of the latest materialisation of an asset, and opens it larger."""
    return _link("The first picture of the latest materialisation", f"{PICTURE_PATH}/{key}?")


def link_pictures(metadata: Mapping[str, object], key: str, run_id: str) -> dict[str, dg.MetadataValue]:
    """Return one entry that shows all embedded pictures of a materialisation, without a click; empty without any."""
    names = [name for name, value in metadata.items() if is_picture(value)]
    links = [_link(name.replace("_", " "), f"{PICTURE_PATH}/{key}?run={run_id}&entry={name}&") for name in names]
    while len(text := " ".join(links)) >= _SHOWN_AT_ONCE:
        links.pop()
    return {"pictures": dg.MetadataValue.md(text)} if links else {}


def after_a_click(text: str) -> dg.MetadataValue:
    """Return Markdown that the UI shows in a dialog, because it would leave its box."""
    return dg.MetadataValue.md(text.ljust(_SHOWN_AT_ONCE))


def as_code(text: str) -> str:
    """Return text of a source, a catalogue or an error as code that neither ends its cell nor is taken for Markdown."""
    plain = " ".join(text.replace("`", "'").replace("|", "/").split())
    return f"`{plain}`" if plain else ""


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)


def as_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells, the names of the columns first, as a Markdown table."""
    names, *others = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *others))


def _link(text: str, address: str) -> str:
    """Return a picture that leads to itself in full size; ``address`` ends where a parameter of it may begin."""
    return f"[![{text}]({address.rstrip('?&')})]({address}size=full)"
