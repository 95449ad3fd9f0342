"""Read a YAML file as mappings, lists and scalars.

A repeated key is an error, although YAML libraries keep the last one; ``2026-02-26`` is read as text, not as a date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import yaml

from genolewm_assets.errors import CatalogError

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
    """Return the document of a YAML file.

    Raises
    ------
    CatalogError
        If the file cannot be read, is not UTF-8 or is not YAML; a syntax error is reported with line and column.
    """
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_StrictLoader)  # noqa: S506 - a safe loader
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
