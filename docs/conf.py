"""The site, which `make docs` builds into `site/`; its pages are the Markdown files of this repository where they lie.

The links of a section's page are its navigation. What is generated is appended to its page while that is read.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

sys.path.insert(0, str(Path(__file__).parent))
from generated import PAGES

project = "genolewm_assets"
copyright = "The genolewm_assets maintainers. Apache-2.0"  # noqa: A001 - a setting of Sphinx
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "deploy/**.md", "benchmarks/*.md"]
exclude_patterns = [".*", "data", "site", "build", "dist", "genolewm_assets", "genolewm_assets_tests"]
nitpicky = True
smartquotes_action = "De"  # quotes of a command stay what they are
add_module_names = False

myst_heading_anchors = 4

autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = "genolewm_assets"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_favicon = "_static/icon.svg"
html_context = {"default_mode": "auto"}
# A table of contents with each decision on each decision's page would take a quarter of the build.
html_sidebars = {"docs/decisions/[0-9]*": []}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "collapse_navigation": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}

#: Pages whose lists of links are the navigation below them.
SECTIONS = {"docs/how_to", "docs/reference", "docs/explanation", "docs/decisions/README"}
_TOP = {
    "Tutorials": "docs/tutorials/index",
    "How-to": "docs/how_to",
    "Reference": "docs/reference",
    "Explanation": "docs/explanation",
}
_ENTRY = re.compile(r"^- \[([^]]*)\]\(([^)#:]+)\.md\)", re.MULTILINE)


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Append the table of contents of a section, and what is generated for a page."""
    links = _ENTRY.findall(source[0]) if page in SECTIONS else []
    # Decisions are listed by number: their titles are those of their pages.
    entries = [target if text.isdecimal() else f"{text} <{target}>" for text, target in links]
    if page == root_doc:
        entries = [f"{title} <{target}>" for title, target in _TOP.items()]
    option = ":hidden:"
    if page == _TOP["Tutorials"]:
        option, entries = ":maxdepth: 1", sorted(file.stem for file in Path(app.srcdir, page).parent.glob("[0-9]*.md"))
    if entries:
        source[0] += "\n\n" + "\n".join(("```{toctree}", option, "", *entries, "```")) + "\n"
    if page in PAGES:
        source[0] += "\n" + PAGES[page]()


def find_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> nodes.Element | None:
    """Link a name of this project by the face that shows it; a type that no page shows stays text."""
    if node.get("refdomain") != "py":
        return None
    objects = env.domains.python_domain.objects
    tail = re.search(r"([A-Z]\w*\.)?\w+$", str(node["reftarget"]))
    found = {(one.docname, one.node_id) for name, one in objects.items() if tail and name.endswith(f".{tail[0]}")}
    if len(found) == 1:
        return make_refnode(app.builder, node["refdoc"], *found.pop(), shown)
    # What is written as a role, :class:`Name`, is a literal; other classes are types.
    return shown if node["reftype"] == "class" and not isinstance(shown, nodes.literal) else None


def shorten_room(_app: Sphinx, kind: str, _name: str, thing: object, _options: object, lines: list[str]) -> None:
    """Leave out of a room's docstring what does not belong there, which is for those who change the code."""
    if kind == "module" and hasattr(thing, "__path__") and "" in lines:
        del lines[lines.index("") :]


def open_at_home(app: Sphinx, problem: Exception | None) -> None:
    """Make the README the page that a server shows first."""
    if problem is None:
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> None:
    """Connect what this project adds to Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("missing-reference", find_name)
    app.connect("autodoc-process-docstring", shorten_room)
    app.connect("build-finished", open_at_home)
