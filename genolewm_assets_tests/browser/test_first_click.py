"""What a new user does, by clicks: from an empty root to a package, a good release, a bad one, and the one after it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from genolewm_assets.defs.runtime.run_log import KEPT_TAG
from genolewm_assets.genome import EVALUATION, Holdout
from genolewm_assets.lewm import GenoLeWMTestDataset, GenoLeWMValDataset
from genolewm_assets.packages import open_tables
from genolewm_assets_tests.browser.readme_pictures import take_pictures
from genolewm_assets_tests.live.graphql import GraphQL
from genolewm_assets_tests.live.harness import LiveServer, live_server, wait_until
from genolewm_assets_tests.servers.programs import free_port

pytestmark = [pytest.mark.timeout(4_800)]

FIRST, NEXT, BAD, LAST = "2025-01-05", "2025-01-12", "2025-01-19", "2025-01-26"
SENSOR, REFRESH = "clinvar_release_sensor", "refresh_release"

#: Two slow cores that other tests use too need half an hour to build everything.
BUILT_WITHIN_S = 3_000.0
PATIENCE_MS = 120_000


def test_one_click_builds_everything_and_releases_follow(browser: Browser, tmp_path: Path) -> None:
    expect.set_options(timeout=PATIENCE_MS)
    with live_server(tmp_path / "root", "sample") as server:
        graphql, page = server.graphql, open_ui(browser, server)
        wait_until(lambda: any(tick.skip_reason for tick in graphql.ticks(SENSOR)), "a tick of the sensor")
        assert f"{FIRST} waits for reference/genome" in str(graphql.ticks(SENSOR)[-1].skip_reason)

        # Who forgot that the UI runs is told where; its page goes on as if nothing had been.
        page.goto("/")
        a_second_ui_is_refused(server)
        launch_everything(page)
        run_page = page.url
        leave(page)
        (build,) = graphql.runs(job="build_everything")
        graphql.wait_for_run(build.id, timeout_s=BUILT_WITHIN_S)
        page.goto(run_page)
        expect(page.get_by_text("Success", exact=True).first).to_be_visible()
        assert release_in_use(server) == FIRST
        assert failed_runs(graphql) == []
        # Every run was queued at the start and held until its turn: the sensor requested none of them.
        requested = graphql.runs(tags={"genolewm/requested_by": build.id})
        assert {run.tags["genolewm/held"] for run in requested} == {"false"}
        assert {run.tags["dagster/partition"] for run in requested if run.job == REFRESH} == {"2024-01-07", FIRST}
        assert graphql.runs(job=REFRESH, tags={"dagster/sensor_name": SENSOR}) == []
        # Nor did a condition make anything, but for the pointer, which follows every audit. Dagster reads what is built
        # when a tick begins: for a build that ends during the tick a condition asks once more, and all of it is kept.
        wait_until(lambda: not graphql.runs(statuses=["QUEUED", "STARTING", "STARTED"]), "the queue to be empty")
        asked = graphql.runs(tags={"dagster/sensor_name": "cpu_automation_sensor"})
        assert {run.assets for run in asked if KEPT_TAG not in run.tags} <= {("packages/current",)}
        shows_package(page, FIRST)
        every_holdout_has_windows(server)
        take_pictures(browser, server.url)

        leave(page)
        publish(server)
        wait_until(lambda: release_in_use(server) == NEXT, f"the package of {NEXT}")
        assert failed_runs(graphql) == []
        shows_package(page, NEXT)
        expect(page.get_by_text(re.compile(rf"^{FIRST} \(packages/{FIRST}/"))).to_be_visible()

        leave(page)
        publish(server, "--bad")
        wait_until(lambda: graphql.runs(job=REFRESH, tags={"dagster/partition": BAD}), f"a run for {BAD}")
        (refresh,) = graphql.runs(job=REFRESH, tags={"dagster/partition": BAD})
        assert graphql.wait_for_run(refresh.id).status == "FAILURE"
        shows_why(page, refresh.id)
        shows_package(page, NEXT)

        # A crash loses nothing, and what its server shows is still there.
        leave(page)
        server.kill()
        server.start()
        publish(server)
        wait_until(lambda: release_in_use(server) == LAST, f"the package of {LAST}")
        shows_package(page, LAST)


def open_ui(browser: Browser, server: LiveServer) -> Page:
    """Return a page of the UI, as wide as that of a small laptop."""
    context = browser.new_context(base_url=server.url, viewport={"width": 1300, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def leave(page: Page) -> None:
    """Show an empty page: one that follows runs is drawn again and again, which takes half a core."""
    page.goto("about:blank")


def a_second_ui_is_refused(server: LiveServer) -> None:
    """Start ``genolewm ui`` on the root that is served: it ends, and says what holds the root and where."""
    command = [sys.executable, "-m", "genolewm_assets", "ui", "--root", str(server.root), "--port", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert f"{server.root}: the UI of this root is already served at {server.url} by process " in done.stderr
    assert f"Open {server.url}, or end it (kill " in done.stderr


def launch_everything(page: Page) -> None:
    """From any page, launch ``build_everything`` as its description says."""
    page.get_by_text("Jobs", exact=True).first.click()
    page.get_by_text("build_everything", exact=True).first.click()
    expect(page.get_by_text("from an empty root to packages/current with one click on Launch Run")).to_be_visible()
    page.get_by_role("tab", name="Launchpad").click()
    page.get_by_text("Launch Run", exact=True).click()
    page.wait_for_url("**/runs/*")


def shows_package(page: Page, release: str) -> None:
    """Wait until the page of ``packages/current`` shows a release and the line that opens the package."""
    page.goto("/assets/packages/current")
    row = page.locator("tr", has=page.get_by_text("release", exact=True))
    expect(row.filter(has_text=release)).to_be_visible()
    page.locator("tr", has=page.get_by_text("open", exact=True)).get_by_text("[Show Markdown]").click()
    expect(page.get_by_text("GenoLeWMDataset.current").first).to_be_visible()
    page.keyboard.press("Escape")


def shows_why(page: Page, run_id: str) -> None:
    """From the failed run, find the check, its rows and what to do."""
    page.goto(f"/runs/{run_id}")
    expect(page.get_by_text("the build failed its checks ['ref_mismatches_rare']").first).to_be_visible()
    page.goto("/assets/clinvar/shard?view=checks&checkDetail=ref_mismatches_rare")
    expect(page.get_by_text("ref_mismatches_rare does not hold: examined")).to_be_visible()
    # A column of the table of rows names the file.
    expect(page.get_by_text(f"clinvar_{BAD.replace('-', '')}.vcf.gz", exact=True)).to_have_count(10)
    expect(page.get_by_text("The file is most likely of another assembly.")).to_be_visible()


def publish(server: LiveServer, *options: str) -> None:
    """Run ``genolewm demo release``."""
    command = [sys.executable, "-m", "genolewm_assets", "demo", "release", "--root", str(server.root), *options]
    subprocess.run(command, check=True, capture_output=True)


def every_holdout_has_windows(server: LiveServer) -> None:
    """Check that each holdout of the sample has 100 windows, and that some haplotypes are phased."""
    document = json.loads((server.root / "packages/current.json").read_bytes())
    package = open_tables(server.root / document["path"])
    rows = [row for split in EVALUATION for row in package.windows(split, ["holdout", "frozen"]).to_pylist()]
    assert min(Counter(row["holdout"] for row in rows if row["frozen"]).values()) >= 100
    assert len({row["holdout"] for row in rows}) == len(Holdout)
    streams = (GenoLeWMValDataset, GenoLeWMTestDataset)
    batches = (b for each in streams for b in each(package.directory, Holdout.HAPLOTYPES, with_states=False))
    phases = Counter(each.phase for batch in batches for each in batch.tuples)
    assert min(phases["phased"], phases["unphased"]) > 100


def release_in_use(server: LiveServer) -> str:
    """Return the release that trainers read."""
    return str(json.loads((server.root / "packages/current.json").read_bytes())["release"])


def failed_runs(graphql: GraphQL) -> list[str]:
    """Return the ids of the runs that did not succeed."""
    return [run.id for run in graphql.runs(statuses=["FAILURE", "CANCELED"])]
