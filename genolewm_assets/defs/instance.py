"""Dagster's instance of one machine, which lies under the root however Dagster is started.

``dagster.yaml`` names this class, because ``dagster dev`` without ``DAGSTER_HOME`` keeps runs in a temporary folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

# Not among Dagster's top-level names.
from dagster._cli.utils import TMP_DAGSTER_HOME_PREFIX
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._serdes import ConfigurableClassData

from genolewm_assets.defs import packed_events
from genolewm_assets.defs.run_storage import RootStorage
from genolewm_assets.defs.runtime import configured_root
from genolewm_assets.defs.ui_process import end_with_ui
from genolewm_assets.defs.warm_runs import start_runs_warm
from genolewm_assets.defs.web_guard import guard_web_server
from genolewm_assets.defs.web_pictures import serve_pictures

#: Module of the definitions, which is also the name of their code location in the UI.
CODE_LOCATION = "genolewm_assets.definitions"


class PicturesInstance(dg.DagsterInstance):
    """Instance whose web server also serves the pictures of assets; see :mod:`~genolewm_assets.defs.web_pictures`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._registered = dict[str, tuple[float, frozenset[str]]]()

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Tell whether a partition is there, or was a second ago: the UI asks for each by itself, here for all."""
        read_at, keys = self._registered.get(partitions_def_name, (0.0, frozenset[str]()))
        if partition_key not in keys or time.monotonic() > read_at + 1:
            keys = frozenset(self.get_dynamic_partitions(partitions_def_name))
            self._registered[partitions_def_name] = time.monotonic(), keys
        return partition_key in keys

    @staticmethod
    def config_schema() -> Mapping[str, dg.Field]:
        """Return the keys that this class adds to ``dagster.yaml``: none."""
        return {}

    @staticmethod
    def config_defaults(base_dir: str) -> Mapping[str, ConfigurableClassData | None]:
        """Return Dagster's default storages."""
        return InstanceRef.config_defaults(base_dir)

    def optimize_for_webserver(self, statement_timeout: int, pool_recycle: int, max_overflow: int) -> None:
        """Add the pictures to the web server, which calls this before it creates its application."""
        serve_pictures()
        super().optimize_for_webserver(statement_timeout, pool_recycle, max_overflow)


class RootInstance(PicturesInstance):
    """Instance whose storages lie in its own folder, or in ``<root>/dagster`` if that folder is a temporary one.

    A run of a process without a code location, such as ``genolewm demo``, is recorded under that of the UI, whose pages
    would leave it out. Its web server is guarded (:mod:`~genolewm_assets.defs.web_guard`). A web server or daemon of a
    ``genolewm ui`` that was killed ends itself.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        packed_events.install()
        super().__init__(*arguments, **named)
        end_with_ui()
        start_runs_warm()

    @staticmethod
    def config_defaults(base_dir: str) -> Mapping[str, ConfigurableClassData | None]:
        """Return the default storages of an instance in ``base_dir``; a root's folder is made if it is missing."""
        folder = Path(base_dir)
        if folder.name.startswith(TMP_DAGSTER_HOME_PREFIX):
            folder = Path(configured_root()).resolve() / "dagster"
            folder.mkdir(parents=True, exist_ok=True)
        stored = ConfigurableClassData(
            RootStorage.__module__, RootStorage.__name__, yaml.safe_dump({"base_dir": str(folder)})
        )
        return {**InstanceRef.config_defaults(str(folder)), "storage": stored}

    # Every caller names the further arguments, as `execute_in_process` does.
    def create_run_for_job(  # type: ignore[override]
        self, job_def: dg.JobDefinition, *, remote_job_origin: RemoteJobOrigin | None = None, **kwargs: Any
    ) -> dg.DagsterRun:
        """Create a run; without an origin it gets the one of the UI's code location."""
        origin = remote_job_origin or _origin().get_job_origin(job_def.name)
        return super().create_run_for_job(job_def, remote_job_origin=origin, **kwargs)

    def optimize_for_webserver(self, statement_timeout: int, pool_recycle: int, max_overflow: int) -> None:
        """Guard the web server with its pictures."""
        super().optimize_for_webserver(statement_timeout, pool_recycle, max_overflow)
        guard_web_server()


def _origin() -> RemoteRepositoryOrigin:
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=CODE_LOCATION)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, location_name=CODE_LOCATION)
    return RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME)
