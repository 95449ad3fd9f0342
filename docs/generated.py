"""What `make docs` appends to a page: tables from their schemas, commands from the app, keys from the declarations."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_args, get_type_hints

import typer.main
import yaml
from pydantic_core import to_jsonable_python
from typer.cli import get_docs_for_click

from genolewm_assets.cli import app
from genolewm_assets.defs.assets.packages import audit_table
from genolewm_assets.encoders import state_cache
from genolewm_assets.evaluation import table as evaluation_table
from genolewm_assets.forensic.runs import tables as run_tables
from genolewm_assets.geno_lewm_layout import columns as geno_lewm_columns
from genolewm_assets.holdouts import schema as holdout_schema
from genolewm_assets.memory_mapped import layout
from genolewm_assets.mito.genomes import table as genome_table
from genolewm_assets.mito.tokens import store as token_store
from genolewm_assets.mito.variants import schema as variant_schema
from genolewm_assets.packages import schema as package_schema
from genolewm_assets.sources.catalog import Catalog
from genolewm_assets.sources.catalog.fields import PolicySection, Section
from genolewm_assets.store.tables.schema import TableSchema
from genolewm_assets.training.precomputed_epochs import rows as frozen_rows
from genolewm_assets.variants import schema
from genolewm_assets.windows.corpus import windows as corpus_windows
from genolewm_assets.windows.reference import schema as window_schema

MODULES = (
    schema,
    window_schema,
    corpus_windows,
    state_cache,
    holdout_schema,
    package_schema,
    audit_table,
    frozen_rows,
    evaluation_table,
    genome_table,
    token_store,
    variant_schema,
    run_tables,
    geno_lewm_columns,
)
EVERY_TABLE = [table for module in MODULES for table in module.TABLES]


def render_table(table: TableSchema) -> str:
    """Return one table's section in Markdown."""
    lines = [
        f"## `{table.name}`",
        "",
        f"One row per {table.one_row_per}. Key: {', '.join(f'`{name}`' for name in table.key)}.",
        "",
        "| column | type | null | meaning |",
        "|---|---|---|---|",
    ]
    for field in table.arrow:
        null = "yes" if field.nullable else "no"
        lines.append(f"| `{field.name}` | {field.type} | {null} | {table.describe(field.name)} |")
    return "\n".join(lines)


def render_arrays() -> str:
    """Return the section of the mapped form in Markdown."""
    folders = {
        f"{layout.WINDOWS}/": {**layout.WINDOW_COLUMNS, layout.VIEW_ROWS: layout.VIEW_ROWS_COLUMN},
        "gnomad/, clinvar/, held_out/": layout.ALLELE_COLUMNS,
        "clinvar/": layout.CLASS_COLUMNS,
        f"{layout.HELD_SEQUENCES}/": layout.KMER_COLUMNS,
    }
    lines = [
        "## Mapped form",
        "",
        "What trainers read of a package: the rows of `package_windows` in file order, the alleles that edits of the "
        "split are drawn from, and those that no edit may make. NumPy files, `arrays/SPLIT/FOLDER/NAME.npy`; "
        "`arrays/SPLIT/index.json` has the names of the codes. `held_sequences` is there only for windows without an "
        "exact place. The check `mapped_form_right` compares them with the tables.",
        "",
        "Most windows of train are in the folder `pieces/NAME` of a package, one for each contig and piece of the "
        "corpus: `windows.parquet` (a link to the table [`windows`](#windows) or [`corpus_windows`](#corpus_windows), "
        "all rows), `bases.npy` (a link too) and `trains.npy` (bool, one a row: whether it trains). The other rows may "
        "be held out. As rows of `package_windows` they have the same columns, but `source` is `origin`, "
        "`placed_contig`, `placed_start` and `placed_end` are `contig`, `start` and `end`, `frame` is `start` modulo "
        "6, and `cache_row` is the number of the row.",
        "",
        "| folder | array | type | meaning |",
        "|---|---|---|---|",
    ]
    for folder, columns in folders.items():
        lines += [f"| `{folder}` | `{name}` | {one.dtype.name} | {one.meaning} |" for name, one in columns.items()]
    return "\n".join(lines)


def render_tables() -> str:
    """Return every table, and the mapped form."""
    return "\n\n".join([*map(render_table, EVERY_TABLE), render_arrays()])


def render_commands() -> str:
    """Return every command with its help, as Typer writes it, but with whole sentences in the lists of commands."""
    command = typer.main.get_command(app)
    _give_short_help(command)
    context = typer.Context(command, info_name="genolewm")
    text = get_docs_for_click(obj=command, ctx=context, name="genolewm", title="All commands")
    # Two dashes in a sentence would become a long one.
    text = re.sub(
        r"(```.*?```|`[^`]*`)|(?<=[ (])(--[a-z][a-z-]*)",
        lambda found: found[1] or f"`{found[2]}`",
        text,
        flags=re.DOTALL,
    )
    return re.sub(r"^#", "##", text, flags=re.MULTILINE)


def _give_short_help(command: object) -> None:
    for one in getattr(command, "commands", {}).values():
        one.short_help = (one.help or "").partition("\n\n")[0].replace("\n", " ")
        _give_short_help(one)


def render_keys() -> str:
    """Return every key of a catalogue with its type, default and meaning, section by section."""
    schema = Catalog.model_json_schema()
    return "\n".join(_section_lines("", Catalog, schema["$defs"] | {"Catalog": schema}))


def _section_lines(path: str, section: type[Section], schemas: dict[str, Any]) -> list[str]:
    """Return the table of one mapping, and those of the mappings in it."""
    schema = schemas[section.__name__]
    lead, meanings = _paragraph(section.__doc__), _meanings(section)
    title = f"`{path}`" if path else "The top of the file"
    lines = [f"## {title}", "", lead, "", "| key | type | default | meaning |", "|---|---|---|---|"]
    nested: list[str] = []
    for name, declared in section.model_fields.items():
        field = schema["properties"][name]
        place = ".<name>" if "additionalProperties" in field else "[]" if field.get("type") == "array" else ""
        for below in _sections_in(declared.annotation):
            nested += _section_lines(f"{path}.{name}{place}".removeprefix("."), below, schemas)
        default = "required" if declared.is_required() else _value(declared.get_default(call_default_factory=True))
        lines.append(f"| `{name}` | {_type(field)} | {default} | {meanings[name]} |")
    return [*lines, "", *nested]


def _meanings(section: type[Section]) -> dict[str, str]:
    """Return the meaning of each key: the comment ``#:`` at its declaration, or what its policy says of it."""
    # Loaded here: tests read the tables without Sphinx.
    from sphinx.pycode import ModuleAnalyzer

    found: dict[str, str] = {}
    policy = get_type_hints(section.policy.fget)["return"] if issubclass(section, PolicySection) else None
    for one in (policy, *reversed(section.__mro__)):
        if one is not None and one.__module__.startswith("genolewm_assets"):
            for names, text in re.findall(r"^(\w[\w, ]*)\n((?: {4}.*\n?)+)", inspect.getdoc(one) or "", re.MULTILINE):
                found |= dict.fromkeys(names.split(", "), text)
            documented = ModuleAnalyzer.for_module(one.__module__).find_attr_docs()
            found |= {name: "\n".join(lines) for (owner, name), lines in documented.items() if owner == one.__name__}
    return {name: _paragraph(text) for name, text in found.items()}


def _paragraph(text: str | None) -> str:
    """Return the first paragraph as one line; names of classes are in it as code."""
    line = " ".join((text or "").strip().partition("\n\n")[0].split())
    return re.sub(r":\w+:`~?([\w.]*\.)?(\w+)`", r"`\2`", line).replace("|", "\\|")


def _sections_in(annotation: Any) -> list[type[Section]]:
    """Return the sections in a type, such as that of a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [one for part in get_args(annotation) for one in _sections_in(part)]


def _type(field: dict[str, Any]) -> str:
    """Return the type of a value in words."""
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if one.get("type") != "null")
    if "$ref" in field or field.get("type") == "object":
        return "mapping"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if "enum" in field or "const" in field:
        return ", ".join(f"`{one}`" for one in field.get("enum", [field.get("const")]))
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    bounds = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    limits = [f"{word} {field[name]:,}" for name, word in bounds.items() if name in field]
    return ", ".join([words.get(field.get("type", ""), "see the meaning"), *limits])


def _value(value: object) -> str:
    """Return a default as YAML."""
    plain = to_jsonable_python(value)
    if isinstance(value, Section):
        return "see below"
    if plain in (None, [], {}):
        return "none"
    if isinstance(plain, dict):
        plain = {name: one for name, one in plain.items() if one is not None}
    return f"`{yaml.safe_dump(plain, default_flow_style=True, width=1000).partition(chr(10))[0]}`"


#: What is appended to which page.
PAGES = {"docs/data_model": render_tables, "docs/commands": render_commands, "docs/catalogue": render_keys}
