"""What follows a refused release: checks that say so at once, and the end of its failures when it is past."""

import dagster as dg
from pydantic import Field

from genolewm_assets.defs.assets import PUBLISHING
from genolewm_assets.defs.engines import cpu_op_tags
from genolewm_assets.defs.operations.currency_job import Evaluations
from genolewm_assets.defs.operations.demo import QUIET, open_instance
from genolewm_assets.defs.runtime import (
    WorkspaceResource,
    clinvar_release_partitions,
    dismiss_releases,
    recorded_releases,
    report_failure,
)
from genolewm_assets.errors import MissingResourceError


@dg.run_failure_sensor(
    name="refused_release_sensor",
    default_status=dg.DefaultSensorStatus.RUNNING,
    monitor_all_code_locations=False,
    description=(
        "When a run for a ClinVar release fails, evaluates newest_release_built of every asset that follows ClinVar: "
        "packages/current then says which release was refused and why. Builds nothing."
    ),
)
def refused_release_sensor(
    context: dg.RunFailureSensorContext, workspace: dg.ResourceParam[WorkspaceResource]
) -> dg.SkipReason | None:
    """Evaluate what follows ClinVar after a run for a release has failed."""
    key, instance = context.dagster_run.tags.get("dagster/partition"), context.instance
    if key is None or not instance.has_dynamic_partition(str(clinvar_release_partitions.name), key):
        return dg.SkipReason("the failed run is of no ClinVar release")
    opened, evaluations = workspace.open(), Evaluations(instance)
    releases = recorded_releases(opened)
    for asset in PUBLISHING.values():
        if asset.follows_releases:
            instance.report_runless_asset_event(evaluations.of_age(opened, asset, releases))
    return None


class DismissConfig(dg.Config):
    """Run config of ``dismiss_release``."""

    release: str = Field(description="Key of the refused ClinVar release whose failures end.")


@dg.op(out=dg.Out(dg.Nothing), tags=cpu_op_tags())
def end_failures(context: dg.OpExecutionContext, config: DismissConfig) -> dg.Output[None]:
    """End the failures of one refused release."""
    partitioned = [each for each in PUBLISHING.values() if each.partitions.definition is clinvar_release_partitions]
    assets = [dg.AssetKey(each.path) for each in partitioned]
    ended = dismiss_releases(context.instance, context.run, assets, [config.release])
    if not ended:
        context.log.warning(f"no failed build of {config.release} is there to end: genolewm releases lists all")
    for each in ended:
        context.log.info(f"{each}: its failure is ended; it is not built, and nothing else changes")
    return dg.Output(None, metadata={"ended": ", ".join(map(str, ended))})


@dg.job(
    name="dismiss_release",
    hooks={report_failure},
    description=(
        "End the failures of a refused ClinVar release: its failed checks and partitions are no longer red. Nothing is "
        "built, published or deleted; genolewm releases still tells that it was refused."
    ),
)
def dismiss_release_job() -> None:
    """Run ``end_failures``."""
    end_failures()


def run_dismissal(graph: dg.Definitions, release: str) -> list[str]:
    """Run ``dismiss_release`` in this process, and return the partitions whose failures it ended.

    Raises
    ------
    MissingResourceError
        If no build of the release has failed since it was last published.
    """
    config = {"ops": {end_failures.name: {"config": {"release": release}}}, **QUIET}
    with open_instance() as instance:
        result = graph.resolve_job_def(dismiss_release_job.name).execute_in_process(
            instance=instance, run_config=config
        )
    (output,) = (event for event in result.all_events if event.is_successful_output)
    ended = str(output.step_output_data.metadata["ended"].value)
    if not ended:
        raise MissingResourceError(
            f"release {release}",
            "no build of it has failed since it was last published",
            remedy="genolewm releases lists what became of each",
        )
    return ended.split(", ")
