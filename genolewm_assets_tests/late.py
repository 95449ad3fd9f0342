"""Modules that take long to import, imported when a test first asks something of them, not when tests are collected."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Late:
    """A module by its name: ``torch = Late("torch")`` at the head of a test module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        # pytest asks every global of a test module for such names: `__test__`, `_mock_name`, `pytestmark`.
        if attribute.startswith("_") or attribute == "pytestmark":
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
