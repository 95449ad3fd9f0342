"""Declaration of one asset as a value, from which its Dagster definition, checks and metadata are made."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

import genolewm_assets
from genolewm_assets.defs.display import OWNERS, Sources, definition_metadata, picture_of
from genolewm_assets.defs.engines import H100_ASSET_TAGS, H100_POOL, cpu_op_tags, h100_op_tags
from genolewm_assets.defs.runtime.failure_hook import report_failure
from genolewm_assets.defs.runtime.partitions import NOT_PARTITIONED, Partitioning
from genolewm_assets.defs.runtime.release_age import NEWEST_RELEASE_BUILT
from genolewm_assets.defs.runtime.settings import configured_source_url
from genolewm_assets.store.artefacts import Check
from genolewm_assets.store.tables import TableSchema

#: Folder that holds the package: the root of the repository, or ``site-packages``.
_ABOVE = Path(genolewm_assets.__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class CodePlace:
    """One line, from 1, of a source file with an absolute path: where an asset is declared, which the UI links to."""

    file: str
    line: int

    def link(self, source_url: str | None) -> dg.CodeReferencesMetadataValue:
        """Return the link to the line: on the web, or, without ``source_url``, in an editor on this machine."""
        file = Path(self.file)
        label = f"{file.stem}:{self.line}"  # the panel of the UI has room for about 20 characters
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            if source_url is None or not file.is_relative_to(_ABOVE):
                local = dg.LocalFileCodeReference(file_path=self.file, line_number=self.line, label=label)
                return dg.CodeReferencesMetadataValue(code_references=[local])
            path = file.relative_to(_ABOVE).as_posix()
            page = dg.UrlCodeReference(url=f"{source_url}/{path}#L{self.line}", label=label)
            return dg.CodeReferencesMetadataValue(code_references=[page])


def place_of_caller(passed: Collection[str]) -> CodePlace:
    """Return the line of the nearest caller outside the files ``passed`` and outside generated code."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in {__file__, *passed} and not file.startswith("<"):
            return CodePlace(str(Path(file).resolve()), frame.f_lineno)
        frame = frame.f_back
    raise AssertionError("every frame is generated or passed")


@dataclass(frozen=True, eq=False, kw_only=True)
class Declaration:
    """One asset of the graph.

    Attributes
    ----------
    key
        ``domain/noun``; the domain is the asset's group in the UI.
    description
        Starts with "One row per"; a second paragraph says why the asset exists. May be indented. The UI shows
        ``entries`` after it.
    kinds
        Formats and libraries that the graph shows, at most three.
    code_version
        Raised when the build writes other files from the same inputs.
    deps
        Made by ``on_same_key``, ``on_every_partition`` and ``on_circular_contigs``, which state the partition mapping.
    partitions
        Partitioning of the asset; by default none.
    automation
        A condition of ``automation``; None if only a person, a sensor or a schedule requests builds.
    follows_releases
        Whether every new ClinVar release brings new data, so that the age of the newest release is checked.
    checks
        The blocking checks.
    table, tables
        Schema of the main table and, by noun, of further tables.
    columns
        Columns that the UI shows instead if the asset writes no table with a ``TableSchema``.
    sources
        Upstream columns that each column comes from.
    entries
        Meaning of the entries of its metadata; names with one meaning share a key, separated by ``", "``, and may hold
        ``*``. The UI has no place for it beside the value.
    pictured
        Whether materialisations have a picture, the first of which the description shows; by default of a gated asset.
    private
        Whether the tables are personal data, of which pages show no row.
    h100
        Whether the step needs an H100.
    registers
        Called with workspace and instance after a build or observation; registers the partitions that follow from it.
    body
        Function that the step runs.
    declared_at
        Line of the declaration, which the UI links to. The step's function would be one of this folder, the same for
        many assets.
    """

    key: str
    description: str
    kinds: Set[str]
    code_version: str = "1"
    deps: tuple[dg.AssetDep, ...] = ()
    partitions: Partitioning = NOT_PARTITIONED
    automation: dg.AutomationCondition[Any] | None = None
    follows_releases: bool = False
    checks: tuple[Check, ...] = ()
    table: TableSchema | None = None
    tables: Mapping[str, TableSchema] = field(default_factory=dict)
    columns: dg.TableSchema | None = None
    sources: Sources = field(default_factory=dict)
    entries: Mapping[str, str] = field(default_factory=dict)
    pictured: bool = False
    private: bool = False
    h100: bool = False
    registers: Callable[..., None] = lambda *_: None
    body: Callable[..., Any] | None = None
    declared_at: CodePlace = field(init=False)

    def __post_init__(self) -> None:
        """Note the line of the declaration."""
        object.__setattr__(self, "declared_at", place_of_caller({dataclasses.__file__}))

    @property
    def path(self) -> list[str]:
        """The parts of the key, as Dagster takes them."""
        return self.key.split("/")

    @property
    def check_names(self) -> tuple[Check, ...]:
        """All blocking checks of the asset."""
        return self.checks

    @property
    def advisory_names(self) -> tuple[Check, ...]:
        """The checks of the asset that block nothing."""
        return (NEWEST_RELEASE_BUILT,) if self.follows_releases else ()

    def remedy(self, check: str) -> str:
        """Return what to do if a check of the asset fails."""
        return {str(each): each.remedy for each in (*self.check_names, *self.advisory_names)}[check]

    def definition(self) -> dg.AssetsDefinition:
        """Return the Dagster definition of the asset."""
        needs_h100: dict[str, Any] = {"op_tags": h100_op_tags(), "pool": H100_POOL}
        placed = needs_h100 if self.h100 else {"op_tags": cpu_op_tags()}
        stated, step = self.attributes(), self.step()
        # Dagster reads the docstring as the asset's description. Given as an argument, the text would also describe the
        # step's output.
        step.__doc__ = stated.pop("description")
        make = dg.asset(**stated, check_specs=self.check_specs(), hooks={report_failure}, **placed)
        asset: dg.AssetsDefinition = make(step)
        return asset

    def step(self) -> Callable[..., Any]:
        """Return the function that the step runs."""
        assert self.body is not None
        return self.body

    def attributes(self) -> dict[str, Any]:
        """Return the arguments that ``dg.asset`` and ``dg.AssetSpec`` have in common."""
        # The UI shows the upper part of a long description: the picture comes after the first paragraph.
        first, _, more = inspect.cleandoc(self.description).partition("\n\n")
        described = (first, picture_of(self.key) if self.pictured else "", more, self._described_entries())
        return {
            "key": self.path,
            "description": "\n\n".join(part for part in described if part),
            "deps": self.deps,
            "partitions_def": self.partitions.definition,
            "automation_condition": self.automation,
            "group_name": self.path[0],
            "code_version": self.code_version,
            "metadata": self._metadata(),
            "owners": OWNERS,
            "tags": {"genolewm/partitioned_by": self.partitions.by, **(H100_ASSET_TAGS if self.h100 else {})},
            "kinds": self.kinds,
        }

    @property
    def entry_meanings(self) -> Mapping[str, str]:
        """Meaning of all entries, as in ``entries``."""
        return self.entries

    def _described_entries(self) -> str:
        """Return the meaning of the entries as a Markdown list with a heading; empty without any."""
        lines = [
            f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {meaning}"
            for names, meaning in self.entry_meanings.items()
        ]
        return "\n".join(["Metadata:", "", *lines]) if lines else ""

    def _metadata(self) -> dict[str, object]:
        code = {"dagster/code_references": self.declared_at.link(configured_source_url())}
        if self.columns is not None:
            return {"dagster/column_schema": self.columns, **code}
        main = {} if self.table is None else {"": self.table}
        return {**definition_metadata({**main, **self.tables}, self.sources), **code}

    def check_specs(self) -> list[dg.AssetCheckSpec]:
        """Return the specs of all checks: one per partition of the asset, except for the age of the newest release."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.PreviewWarning)  # partitioned checks, new in Dagster 1.13
            return [
                dg.AssetCheckSpec(
                    str(check),
                    asset=self.path,
                    description=check.means,
                    blocking=check in self.check_names,
                    partitions_def=None if check == NEWEST_RELEASE_BUILT else self.partitions.definition,
                )
                for check in (*self.check_names, *self.advisory_names)
            ]
