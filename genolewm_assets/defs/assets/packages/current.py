"""``packages/current``: the package in use."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from genolewm_assets.defs.assets.packages.audit import packages_audit
from genolewm_assets.defs.assets.packages.move_report import Report, report_move
from genolewm_assets.defs.assets.packages.split import CARD_ENTRIES, describe_card, packages_split
from genolewm_assets.defs.display import check_description, check_metadata, check_pages
from genolewm_assets.defs.runtime import (
    FOLLOWING,
    Currency,
    GatedEvents,
    LogProgress,
    PublishingAsset,
    Workspace,
    WorkspaceResource,
    clinvar_release_partitions,
    dismiss_releases,
    on_every_partition,
    page_url,
    post,
    webhook_url,
)
from genolewm_assets.defs.status import RELEASE_ENTRIES, read_release_table, release_metadata
from genolewm_assets.errors import GenoLeWMError, MissingResourceError
from genolewm_assets.packages import (
    CARD,
    Move,
    find_current,
    mark_reported,
    move_current,
    read_current,
    read_move,
    read_package_info,
    read_pin,
    read_pointer,
)
from genolewm_assets.store.artefacts import ArtefactId, Check, CheckResult
from genolewm_assets.variants import is_before

#: Fields of ``packages/current.json``.
_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("release", "string", description="ClinVar release of the package"),
        dg.TableColumn("path", "string", description="folder of the package, relative to the root"),
        dg.TableColumn("manifest_sha256", "string", description="SHA-256 of the package's manifest.json"),
        dg.TableColumn("since", "string", description="time of the move to the package, UTC"),
        dg.TableColumn("why", "string", description="why the package came into use: a pin, or newest"),
        dg.TableColumn("reported", "bool", description="whether this asset has reported the move"),
        dg.TableColumn("pin", "string", description="pinned release; null without a pin"),
        dg.TableColumn("code_version", "string", description="version of this asset when it last chose the package"),
        dg.TableColumn("earlier", "list", description="the packages in use before, oldest first"),
    ]
)

_VERIFIES = Check(
    "package_verifies",
    "The latest audit of the package in use passed. Names and sizes of all its files and of its caches are as "
    "recorded; files modified since have the recorded SHA-256.",
    "Do what the row says: materialise packages/split of its release again, then packages/audit, or pin another "
    "release: genolewm package pin RELEASE.",
)

#: Figures of a move that are posted to the webhook; null where they are not known.
POSTED = ("clinvar_added", "clinvar_removed", "clinvar_reclassified", "bench_labels_changed", "train_labels_changed")

#: Code that opens the package in use: for training, and to read its tables.
_OPEN = """```python
from genolewm_assets.lewm import GenoLeWMDataset; dataset = GenoLeWMDataset.current({root!r}, seed=0{option})
from genolewm_assets.packages.pointer import open_current; package = open_current({root!r})
```"""


@dataclass(frozen=True, eq=False, kw_only=True)
class PointerAsset(PublishingAsset):
    """Declaration of the pointer to the package in use."""

    of_packages = True

    def currency(self, workspace: Workspace, partition: str | None) -> Currency:
        """Compare the package in use with the one that a build of now would choose; contents are not read."""
        artefact, root = ArtefactId(self.key, partition), workspace.root.path
        try:
            pointer = read_pointer(root)
        except MissingResourceError:
            return Currency(artefact, "not built")
        except GenoLeWMError as err:
            return Currency(artefact, "not compared", (str(err),))
        try:
            chosen = find_current(root)
        except (GenoLeWMError, OSError) as err:
            return Currency(artefact, "not compared", (str(err),))
        used, version, stale = pointer.used.ref, pointer.code_version, []
        if version is None:
            return Currency(artefact, "not compared", ("it is not recorded which code version moved the pointer",))
        if version != self.code_version:
            stale.append(f"code version: built by {version}, now {self.code_version}")
        if chosen != used:
            pin = f" (pinned: {pointer.pin})" if pointer.pin else ""
            stale.append(f"input: {used.path} is in use, now {chosen.path} would be chosen{pin}")
        return Currency(artefact, "stale" if stale else "current", tuple(stale))

    def newest_release(self, workspace: Workspace, keys: Sequence[str]) -> str | None:
        """Return the release of the package in use, if it is one of the given keys; None if there is none."""
        try:
            release = read_current(workspace.root.path).release
        except GenoLeWMError:
            return None
        return release if release in keys else None

    def release_shown(self, workspace: Workspace, release: str) -> str:
        """Return words for the release of the package in use."""
        try:
            pinned = " (pinned)" if read_pin(workspace.root.path) else ""
        except GenoLeWMError:
            pinned = " (the pin cannot be read)"
        return f"the release of the package in use, {release}{pinned}"


def _move_pointer(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[WorkspaceResource]) -> GatedEvents:
    opened = workspace.open()
    root = opened.root.path
    try:
        move_current(root, code_version=packages_current.code_version)
        move = read_move(root)
    except GenoLeWMError as err:
        row = {"where": err.where, "problem": err.problem, "expected": err.expected, "got": err.got}
        row["remedy"] = err.remedy
        check = CheckResult(_VERIFIES, passed=False, figures={"error": str(err)}, rows=[row])
        said = check_description(check)
        shown = check_metadata(check, _VERIFIES.remedy)
        yield dg.AssetCheckResult(check_name=check.name, passed=False, metadata=shown, description=said)
        yield from packages_current.advice(opened, packages_current.currency(opened, None), context.instance)
        raise dg.Failure(str(err), metadata=check_pages(packages_current.key, [check]), allow_retries=False) from err
    ref = move.after
    context.log.info("package in use: release %s, %s", ref.release, ref.path)
    _end_past_refusals(context, ref.release)
    report = _report(opened, move)
    if not move.reported:
        mark_reported(root, ref)
    facts = {"release": ref.release, "package": ref.path}
    yield dg.MaterializeResult(
        metadata={**_describe(root, move, report), **release_metadata(read_release_table(opened, context.instance))},
        data_version=dg.DataVersion(f"sha256:{ref.manifest_sha256}"),
        check_results=[
            dg.AssetCheckResult(check_name=str(_VERIFIES), passed=True, metadata=facts),
            *packages_current.advice(opened, packages_current.currency(opened, None), context.instance),
        ],
    )
    # Posted once the page that the message leads to is there.
    if not move.reported:
        _announce(move, report, context.run.run_id)


def _end_past_refusals(context: dg.AssetExecutionContext, served: str) -> None:
    """End the failures of releases that are older than the one in use: nothing waits for them any more."""
    # The list of all assets has this one too.
    from genolewm_assets.defs.assets import GATED

    keys = context.instance.get_dynamic_partitions(str(clinvar_release_partitions.name))
    past = [key for key in keys if is_before(key, served)]
    of_releases = (each for each in GATED.values() if each.partitions.definition is clinvar_release_partitions)
    assets = [dg.AssetKey(each.path) for each in of_releases]
    for artefact in dismiss_releases(context.instance, context.run, assets, past):
        context.log.info("%s was refused and is older than the release in use: its failure is ended", artefact)


def _report(workspace: Workspace, move: Move) -> Report | None:
    """Return the report of a move; None, with a warning in the log, if there can be none."""
    log = dg.get_dagster_logger()
    try:
        with LogProgress(log.info) as progress:
            report = report_move(workspace, move, progress)
    except Exception as err:  # noqa: BLE001
        # The pointer has moved: whatever a report meets, the move is recorded.
        log.warning("no report was made: %s", err or type(err).__name__)
        return None
    for name, problem in report.problems.items():
        log.warning("the report lacks the comparison of %s with the one before: %s", name, problem)
    return report


def _describe(root: Path, move: Move, report: Report | None) -> dict[str, dg.MetadataValue]:
    """Return the metadata of the package in use, what a reader looks for first at the top."""
    from genolewm_assets.defs.display import FIGURES, after_a_click, describe_ref, for_readers, plotted

    ref, shown = move.after, dict[str, dg.MetadataValue]()
    if report is not None:
        shown = {
            **plotted(**{name: report.figures[name] for name in FIGURES if name in report.figures}),
            "report": dg.MetadataValue.md(report.markdown),
            "report_file": dg.MetadataValue.path(str(root / report.path)),
        }
    entries = {
        "release": dg.MetadataValue.text(ref.release),
        "pinned": dg.MetadataValue.bool(read_pin(root) is not None),
        "path": dg.MetadataValue.path(str(root / ref.path)),
        "manifest_sha256": dg.MetadataValue.text(ref.manifest_sha256),
        "before": dg.MetadataValue.text(describe_ref(move.before)),
        **shown,
        **describe_card((root / ref.path / CARD).read_text()),
    }
    option = "" if read_package_info(root / ref.path).caches else ", with_states=False"
    return {**for_readers(entries, root), "open": after_a_click(_OPEN.format(root=str(root), option=option))}


def _announce(move: Move, report: Report | None, run_id: str) -> None:
    """Post a move to the webhook, if one is set; a webhook that does not take it gets a line in the log."""
    url = webhook_url()
    if url is None:
        return
    from genolewm_assets.defs.display import write_title

    figures = {} if report is None else report.figures
    problem = post(
        url,
        {
            "title": write_title(move),
            "release": move.after.release,
            "before": None if move.before is None else move.before.release,
            "figures": {name: figures.get(name) for name in POSTED},
            "manifest_sha256": move.after.manifest_sha256,
            "run_id": run_id,
            "url": page_url("assets/packages/current"),
            "run_url": page_url(f"runs/{run_id}"),
        },
    )
    if problem:
        dg.get_dagster_logger().warning("the move was not posted to the webhook: %s", problem)


packages_current = PointerAsset(
    key="packages/current",
    description="""
    One row per package in use: of the pinned release, or of the newest release whose package is audited and verifies.

    Trainers that name no release open this package. A release that is missing, damaged, not audited or failed its audit
    is skipped, unless it is pinned; the page says so, and an older good one stays. The report of the latest
    materialisation says what changed since the package before: in ClinVar, in the benches and in training.
    """,
    kinds={"json"},
    code_version="4",
    deps=(on_every_partition(packages_split), on_every_partition(packages_audit)),
    automation=FOLLOWING,
    follows_releases=True,
    pictured=True,
    columns=_COLUMNS,
    checks=(_VERIFIES,),
    entries={
        "release, path, manifest_sha256": "the package in use",
        **RELEASE_ENTRIES,
        "pinned": "whether a person chose it",
        "before": "the package that was in use before",
        "clinvar_added, clinvar_removed, clinvar_reclassified": "alleles of ClinVar that differ since then",
        "bench_alleles_added, bench_alleles_removed, bench_labels_changed": "alleles of all benches that differ",
        "train_labels_changed": "ClinVar alleles of training with another label than before",
        "train_*, validation_*, test_*": "rows of each split that the move added and removed",
        "report, report_file": "what changed since the package before",
        "open": "code that opens the package",
        **CARD_ENTRIES,
    },
    body=_move_pointer,
)
