"""Section of the catalogue for forensic runs: the folder of run folders, the kit's panel files, and thresholds."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from genolewm_assets.forensic.runs import RunRules
from genolewm_assets.sources.catalog.fields import FOLDER_NAME, PolicySection, Url, refusal
from genolewm_assets.sources.files import SCHEME

_RULES = RunRules()

Patterns: TypeAlias = Annotated[tuple[str, ...], Field(strict=False)]


class ForensicSection(PolicySection):
    """Run folders of instrument files.

    The thresholds are those of :class:`~genolewm_assets.forensic.runs.RunRules`.
    """

    #: Folder on this machine in which each folder is one run and one partition; none: no profiles.
    runs: Url | None = None
    #: The kit's panel and bin file of GeneMapper, or one XML file of OSIRIS or GeneMarker.
    panels: Annotated[tuple[Url, ...], Field(strict=False)] = ()
    #: Name of the panel, if the files have several.
    panel: str | None = None
    #: A folder is taken when it holds this file, or ...
    complete_marker: str = "_COMPLETE"
    #: ... when nothing in it changed for so many minutes and every instrument file is whole.
    settle_minutes: Annotated[float, Field(ge=0, le=10_080)] = 10
    #: Seconds between two looks for new folders.
    look_every_s: Annotated[int, Field(ge=5)] = 60
    n_scanpoints: int = _RULES.n_scanpoints
    max_residual_bp: float = _RULES.max_residual_bp
    detection_rfu: float = _RULES.detection_rfu
    analytical_rfu: float = _RULES.analytical_rfu
    size_standard_bp: Annotated[tuple[float, ...], Field(strict=False)] = ()
    ladder_names: Patterns = _RULES.ladder_names
    negative_names: Patterns = _RULES.negative_names
    positive_names: Patterns = _RULES.positive_names
    annotation_names: Patterns = _RULES.annotation_names
    #: ``optional``: a run without a negative control is accepted.
    negative_control: Literal["required", "optional"] = "required"

    @property
    def policy(self) -> RunRules:
        """The settings of the section as rules."""
        own = {name: getattr(self, name) for name in RunRules.__dataclass_fields__ if name != "negative_required"}
        return RunRules(**own, negative_required=self.negative_control == "required")

    @model_validator(mode="after")
    def _runs_have_a_panel(self) -> ForensicSection:
        for key, urls in (("runs", (self.runs,)), ("panels", self.panels)):
            for url in urls:
                scheme = SCHEME.match(url or "")
                if scheme and scheme[1] != "file":
                    expected = "a path on this machine: profiles are personal data, and are not fetched"
                    raise refusal("is on a server", key=key, expected=expected, got=repr(url))
        if self.runs is not None and not self.panels:
            raise refusal("runs have no panel", key="panels", expected="the panel and bin file of the kit", got="none")
        if not FOLDER_NAME.fullmatch(self.complete_marker.lstrip("_.")):
            raise refusal("cannot name a file", key="complete_marker", got=repr(self.complete_marker))
        return self
