"""Fixtures and Hypothesis profiles shared by every test module."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from genolewm_assets.genome import GRCH38, Contig, ContigSet
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.kinds import (
    BUDGET_S,
    KINDS,
    heavy_imports,
    is_nightly,
    is_slow,
    is_spread,
    kind_of,
    module_kind,
    only_units,
    tier_of,
)
from genolewm_assets_tests.places import SHARED_DATA, TESTS
from genolewm_assets_tests.referees.shown_rows import watched_checks
from genolewm_assets_tests.servers.server_logs import log_tails
from genolewm_assets_tests.servers.web_server import WebServer, running_server

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

    from genolewm_assets.store.artefacts import Published, Root

# What other modules than tests say `assert` in explains its failures too.
pytest.register_assert_rewrite("genolewm_assets_tests.worlds", "genolewm_assets_tests.pictures")


#: Tests write here where it is: of what many of them do on a disk, most is waiting for it. The room is several times
#: what they need.
MEMORY, ROOM_BYTES = Path("/dev/shm"), 6 << 30

FIRST_CLICK = "browser/test_first_click.py"

#: What takes longest; begun last, it would leave the other workers nothing to do. A worker with two tests left is given
#: its next file, so a short one comes after the four that the live tests begin with. The first test of `make test`
#: builds the world that those of ``defs`` need, which come last.
FIRST = (
    FIRST_CLICK,
    "live/test_postgres.py",
    "live/test_new_release.py",
    "live/test_ray.py",
    "live/test_slurm.py",
    "live/test_kubernetes.py",
    "deploy/test_backup.py",
    "live/test_web_directory.py",
    "browser/test_dagster_ui.py",
    "deploy/test_units.py",
    "tutorials/",
    "real/",
    "defs/operations/test_demo.py",
    "crash/test_shard_builds.py",
    "defs/display/test_metadata.py",
)
LAST = "defs/"

_STARTED = time.monotonic()

#: Folders whose tests share what is dear to build, and so a worker; the first click has a root of its own.
SHARING = ("/browser", "/encoders", "/real", "/sample")

# The same examples every time where a change is judged; nightly and in `make fuzz` new ones.
settings.register_profile("fast", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("nightly", deadline=None, max_examples=1_000, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "fuzz", max_examples=2_000, deadline=timedelta(seconds=10), suppress_health_check=[HealthCheck.too_slow]
)


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples Hypothesis draws, and put the tests' folders in memory.

    The folders lie elsewhere if ``PYTEST_DEBUG_TEMPROOT`` or ``--basetemp`` names a place.

    What a process remembers of packages that it verified (``GENOLEWM_CACHE``) is kept for this run alone. What begins
    in the background of a script ignores SIGINT; Dagster would make processes ignore SIGTERM then.
    """
    if config.getoption("hypothesis_profile", None) is None:
        settings.load_profile("nightly" if tier_of(config) == "test-nightly" else "fast")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "GENOLEWM_CACHE" not in os.environ:  # workers have that of the process that starts them
        cache = tempfile.TemporaryDirectory(prefix="genolewm-cache-", ignore_cleanup_errors=True)
        os.environ["GENOLEWM_CACHE"] = cache.name
        config.add_cleanup(cache.cleanup)
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(autouse=True)
def _failed_checks_show_their_rows() -> Iterator[None]:
    """Fail a test in which the product makes the result of a failed check without rows and without a reason."""
    with watched_checks() as faults:
        yield
    assert faults == []


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return a folder of the test's own; with the mark ``disk`` it lies on a disk all the same."""
    if request.node.get_closest_marker("disk") is None:
        yield tmp_path
    else:
        with tempfile.TemporaryDirectory(prefix="genolewm-test-", ignore_cleanup_errors=True) as folder:
            yield Path(folder).resolve()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip("the real sample data (../shared/data beside the repository) is absent")
    return SHARED_DATA


@pytest.fixture(scope="session")
def sliced_contigs() -> ContigSet:
    return ContigSet([GRCH38[name] for name in ("chr17", "chr20", "chr21", "chrM")])


@pytest.fixture(scope="session")
def sliced_fasta(shared_data: Path) -> Path:
    return shared_data / "reference" / "GRCh38.slices.fa.gz"


@pytest.fixture(scope="session")
def sliced_reference(sliced_fasta: Path) -> Callable[[Contig], bytes]:
    @lru_cache(maxsize=4)
    def read(name: str) -> bytes:
        import pysam

        with pysam.FastaFile(str(sliced_fasta)) as fasta:
            return str(fasta.fetch(name)).upper().encode()

    return lambda contig: read(contig.name)


@pytest.fixture(params=["states", pytest.param("kills", marks=pytest.mark.nightly)])
def kill_points(request: pytest.FixtureRequest) -> KillPoints:
    """Return what kills an action everywhere: in one run, or with the mark ``nightly`` in a run for each point."""
    return KillPoints(exhaustive=request.param == "kills")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """Return a web server on 127.0.0.1 that is reached without a proxy."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_server() as server:
        yield server


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: what compresses them may stamp the time, and xdist needs equal names everywhere."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of the servers that run beside a test that fails."""
    report = yield
    if report.failed:
        report.sections.extend(log_tails())
    return report


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules and folders without a test that is asked for: importing them takes seconds."""
    if TESTS not in collection_path.parents:
        return None
    without_units = only_units(config) and module_kind(collection_path) != "unit"
    by_day = tier_of(config) in {"test", "test-fast"}
    return True if without_units or (by_day and is_nightly(collection_path)) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test with its kind, and with the tier of its module."""
    item.add_marker(kind_of(item))
    if is_nightly(item.path):
        item.add_marker("nightly")
    if is_slow(item.path):
        item.add_marker("slow")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop a run of unit tests one of whose modules imports what none may."""
    if only_units(session.config) and (heavy := heavy_imports()):
        raise pytest.UsageError(f"a module of unit tests imports {' and '.join(sorted(heavy))}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a unit test that imports what none may; where other tests run too, these may have imported it before."""
    before = heavy_imports()
    yield
    if only_units(item.config) and (heavy := heavy_imports() - before):
        pytest.fail(f"a unit test imports {' and '.join(sorted(heavy))}", pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show how long the tests of each kind took, and the dearest of a run that is past its budget."""
    by_kind, by_test = defaultdict[str, float](float), defaultdict[str, float](float)
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if type(report) is pytest.TestReport:  # not one of a subtest, whose time is in that of its test
            by_test[report.nodeid] += report.duration
            for kind in set(KINDS) & report.keywords.keys():
                by_kind[kind] += report.duration
    if by_kind:
        terminalreporter.section("seconds by kind, all workers together")
    for kind in sorted(by_kind, key=by_kind.__getitem__, reverse=True):
        terminalreporter.line(f"{kind}: {by_kind[kind]:.0f} s")
    if (tier := tier_of(config)) is not None and _taken_s() > BUDGET_S[tier]:
        terminalreporter.line(f"WARNING: {tier} is past its budget; its dearest tests:")
        for test in sorted(by_test, key=by_test.__getitem__, reverse=True)[:10]:
            terminalreporter.line(f"  {by_test[test]:.1f} s  {test}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last how long the run took, and how long it may take."""
    tier = tier_of(config)
    if tier is not None and "PYTEST_XDIST_WORKER" not in os.environ and not config.option.collectonly:
        config.get_terminal_writer().line(f"{tier}: {_taken_s():.0f} s of {BUDGET_S[tier]} s")


def _taken_s() -> float:
    return time.monotonic() - _STARTED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, and end with what waits for the built world."""

    def rank(item: pytest.Item) -> int:
        path = item.nodeid.partition("/")[2]
        others = len(FIRST) + path.startswith(LAST)
        return next((n for n, start in enumerate(FIRST) if path.startswith(start)), others)

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Keep each file's tests on one worker, and all of some folders on one: they share what is dear to build.

    Files of long tests that share nothing are given out test by test.

    Not by marks of ``xdist_group``: xdist 3.8 adds a group to a name that pytest 9.2 no longer reads.
    """
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path, _, test = nodeid.partition("::")
            if is_spread(TESTS.parent / path):
                return f"{path}::{test.partition('[')[0]}"
            folder = path.rpartition("/")[0]
            return folder if folder.endswith(SHARING) and not path.endswith(FIRST_CLICK) else path

    return ByFile(config, log)


@pytest.fixture(scope="session")
def package_root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """Return a root with caches of states and nothing else; not to be changed."""
    from genolewm_assets.store.artefacts import Root
    from genolewm_assets_tests.worlds.lewm.package_world import GENOME_DIGEST

    root = Root(tmp_path_factory.mktemp("packages") / "root")
    root.claim("tiny", GENOME_DIGEST)
    return root


@pytest.fixture(scope="session")
def package(package_root: Root) -> Published:
    """Return a published package with its caches in that root; not to be changed."""
    from genolewm_assets_tests.worlds.lewm.package_world import make_caches, make_sources, publish

    sources = make_sources()
    return publish(package_root, replace(sources, caches=make_caches(package_root, sources)))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the sample encoder; tests that change files work on a copy."""
    from genolewm_assets import encoders
    from genolewm_assets_tests.worlds.once import built_once

    return built_once(tmp_path_factory, encoders.TINY_LLAMA, encoders.write_tiny_llama)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command line in this process: exit code, and what was printed meanwhile."""
    from genolewm_assets_tests.command_line import Answer, run

    def answer(*arguments: object) -> Answer:
        capfd.readouterr()
        return Answer(run(monkeypatch, *arguments), *capfd.readouterr())

    return answer
