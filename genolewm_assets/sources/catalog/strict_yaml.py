"""Read a YAML file as mappings, lists and scalars.

A repeated key is an error, although YAML libraries keep the last one; ``2026-02-26`` is read as text, not as a date.
Size and depth are bounded before the document is built: libyaml's builder calls itself for each level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NoReturn

import yaml

from genolewm_assets.errors import CatalogError
from genolewm_assets.store.files import open_regular

#: Largest file in bytes, deepest nesting, and most values that it may stand for, each alias counted as what it names.
_MAX_BYTES, _MAX_DEPTH, _MAX_NODES = 4 << 20, 50, 100_000
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe loader that reads dates as text and refuses repeated keys; libyaml's loader if PyYAML has it."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, object]]]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if key_node.value in seen and isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key_node.value!r} is given twice", key_node.start_mark
                )
            seen.add(key_node.value if isinstance(key_node, yaml.ScalarNode) else id(key_node))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read_yaml(file: Path) -> object:
    """Return the document of a YAML file."""
    try:
        with open_regular(file, links=True) as handle:
            data = handle.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise CatalogError(str(file), "is too large for a catalogue", expected=f"at most {_MAX_BYTES:,} bytes")
        text = data.decode("utf-8")
        _check_extent(text)
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a safe loader
    except UnicodeDecodeError as error:
        raise CatalogError(str(file), "not UTF-8", got=f"byte {error.object[error.start]:#04x}") from error
    except OSError as error:
        raise CatalogError(str(file), f"cannot be read ({error.strerror})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        raise CatalogError(where, f"not valid YAML ({error.problem})", remedy="Correct the file") from error
    except yaml.YAMLError as error:
        raise CatalogError(str(file), f"not valid YAML ({error})", remedy="Correct the file") from error


def _check_extent(text: str) -> None:
    """Raise MarkedYAMLError where a text is nested too deep, or an alias is in what it names or stands for too much."""
    # Depth and number of nodes of what each anchor names; of the collections that are open, with their anchors.
    named: dict[str | None, tuple[int, int]] = {}
    levels: list[tuple[str | None, int, int]] = [(None, 0, 0)]
    for event in yaml.parse(text, Loader=_StrictLoader):
        anchor, depth, nodes = getattr(event, "anchor", None), 0, 1
        if isinstance(event, yaml.CollectionStartEvent):
            levels.append((anchor, 0, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, depth, nodes = levels.pop()
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == each for each, _, _ in levels):
                _refuse(f"alias {anchor!r} is inside of what it names", event)
            depth, nodes = named.get(anchor, (0, 1))
        elif not isinstance(event, yaml.ScalarEvent):
            continue
        if not isinstance(event, yaml.CollectionStartEvent):
            if anchor is not None:
                named[anchor] = depth, nodes
            above, deepest, number = levels.pop()
            levels.append((above, max(deepest, depth + 1), number + nodes))
        if max(len(levels), levels[-1][1]) > _MAX_DEPTH:
            _refuse(f"nested deeper than {_MAX_DEPTH} levels", event)
        if levels[-1][2] > _MAX_NODES:
            _refuse(f"its aliases stand for more than {_MAX_NODES:,} values", event)


def _refuse(problem: str, event: Any) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
