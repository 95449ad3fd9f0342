"""The pages that people work with: what they must be able to see there."""

from __future__ import annotations

import io
import re

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from genolewm_assets.definitions import defs
from genolewm_assets.defs.assets.graph import DECLARATIONS
from genolewm_assets_tests.browser.pages import EXPANDED_GRAPH, SPECS, wait_for_graph
from genolewm_assets_tests.pictures import PICTURES
from genolewm_assets_tests.worlds.graph.shown_root import BROKEN_CONTIG, WAITING_RELEASE
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS, RELEASES

CHECKED = {key.asset_key.to_user_string() for key in defs.resolve_asset_graph().asset_check_keys}
H100_ASSETS = {"embeddings/cache", "embeddings/corpus", "tuples/frozen", "packages/evaluation"}
#: The catalogue asks for no frozen epoch and no evaluation, and no run folder is built in this root.
NOT_BUILT = {"tuples/frozen", "packages/evaluation", "forensic/profiles"}


def open_asset(page: Page, asset: str, view: str, **more: str) -> None:
    page.goto(f"/assets/{asset}?view={view}" + "".join(f"&{name}={value}" for name, value in more.items()))


def section(page: Page, title: str) -> Locator:
    """Return the value under a title in the panel beside an asset."""
    return page.get_by_text(title, exact=True).locator("xpath=..")


def test_the_lineage_shows_every_asset_in_its_group_with_its_state(page: Page) -> None:
    # Of a graph that does not fit, the page draws a part.
    page.add_init_script("""localStorage.setItem("asset-graph-direction", '"vertical"')""")
    page.set_viewport_size({"width": 3_800, "height": 2_600})
    page.goto(EXPANDED_GRAPH)
    graph = wait_for_graph(page)
    assert {asset for asset, text in graph.items() if "h100" in text} == H100_ASSETS
    assert "75% filled (1 failed)" in graph["gnomad/shard"]
    assert "4 partitions" in graph["gnomad/shard"]
    assert "66% filled" in graph["clinvar/shard"]
    without_failure = {asset for asset, text in graph.items() if re.search(r"\D(\d+) / \1 Passed", text)}
    assert without_failure == CHECKED - NOT_BUILT - {"gnomad/shard"}


def test_assets_for_the_h100_are_found_by_their_tag(page: Page) -> None:
    page.goto("/asset-groups")
    expect(page.get_by_text("reference", exact=True).first).to_be_visible()
    page.locator(".CodeMirror").first.click()
    page.keyboard.type('tag:"genolewm/accelerator"="h100"')
    page.keyboard.press("Enter")
    # Groups stay folded where there are several.
    for group in {asset.split("/")[0] for asset in H100_ASSETS}:
        expect(page.get_by_text(group, exact=True).first).to_be_visible()
    expect(page.get_by_text("holdouts", exact=True)).to_have_count(0)


def test_the_page_of_an_asset_says_what_it_is_whose_and_where_its_columns_come_from(page: Page) -> None:
    open_asset(page, "holdouts/manifest", "overview")
    expect(page.get_by_text("One row per interval, allele or window that is excluded")).to_be_visible()
    expect(page.get_by_text("Scores on held-out data are valid only if")).to_be_visible()
    expect(section(page, "Owners")).to_contain_text("genolewm")
    expect(section(page, "Kinds")).to_contain_text("Parquet")
    expect(section(page, "Group")).to_contain_text("holdouts")
    expect(page.get_by_text("genolewm/partitioned_by: clinvar_release")).to_be_visible()
    for column in SPECS["holdouts/manifest"].metadata["dagster/column_schema"].columns:
        row = page.locator("tr", has=page.get_by_text(column.name, exact=True))
        expect(row).to_have_count(1)
        expect(row).to_contain_text(str(column.description).replace("`", ""))
    row = page.locator("tr", has=page.get_by_text("alleles.label", exact=True))
    expect(row).to_contain_text("from clinvar/shard.label")
    expect(row).to_contain_text("string")
    for upstream in ("clinvar / shard", "gnomad / shard", "corpus / windows"):
        expect(page.get_by_role("link", name=upstream).first).to_be_visible()


@pytest.mark.parametrize(
    ("asset", "path"),
    [
        ("reference/genome", r"^reference/[0-9a-f]{12}$"),
        ("gnomad/shard", r"^gnomad/[a-z0-9_.]+/chr[0-9M]+$"),
        ("packages/current", r"^packages/[0-9-]+/[0-9a-f]+$"),
    ],
)
def test_the_page_of_an_asset_shows_where_its_latest_version_lies(page: Page, asset: str, path: str) -> None:
    open_asset(page, asset, "overview")
    row = page.locator("tr", has=page.get_by_text("path", exact=True))
    expect(row.get_by_text(re.compile(path))).to_be_visible()
    expect(page.get_by_text(asset.replace("/", "."), exact=True)).to_have_count(0)


def test_an_h100_asset_carries_the_tag_that_automation_goes_by(page: Page) -> None:
    open_asset(page, "embeddings/cache", "overview")
    expect(page.get_by_text("genolewm/accelerator: h100")).to_be_visible()
    expect(section(page, "Kinds")).to_contain_text("h100")


@pytest.mark.parametrize(
    ("asset", "counts"),
    [
        ("gnomad/shard", {"Failed": 1, "Materialized": 3, "Missing": 0}),
        ("clinvar/shard", {"Failed": 0, "Materialized": 2, "Missing": 1}),
        ("windows/index", {"Failed": 0, "Materialized": 3, "Missing": 0}),
    ],
)
def test_partitions_are_counted_by_what_became_of_them(page: Page, asset: str, counts: dict[str, int]) -> None:
    open_asset(page, asset, "partitions")
    for status, n in counts.items():
        expect(page.get_by_text(f"{status} ({n})", exact=True)).to_be_visible()


def test_a_partition_shows_its_rows_files_and_place(page: Page) -> None:
    open_asset(page, "gnomad/shard", "partitions", partition="chr17")
    row = page.locator("tr", has=page.get_by_text("dagster/partition_row_count", exact=True))
    expect(row).to_contain_text("45")
    expect(page.get_by_text(re.compile(r"^gnomad/4\.1/chr17$"))).to_be_visible()
    expect(page.locator("tr", has=page.get_by_text("variants.parquet", exact=True)).last).to_contain_text("45")


def test_a_failed_partition_says_so_and_shows_the_version_that_stays(page: Page) -> None:
    open_asset(page, "gnomad/shard", "partitions", partition=BROKEN_CONTIG)
    expect(page.get_by_text(re.compile(r"^Run [0-9a-f]{8} failed, and did not materialize this asset"))).to_be_visible()
    row = page.locator("tr", has=page.get_by_text("dagster/partition_row_count", exact=True))
    expect(row).to_contain_text("45")
    page.get_by_text("View logs").click()
    expect(page.get_by_text("the build failed its checks ['ref_mismatches_rare']").last).to_be_visible()


def test_a_release_that_is_registered_but_not_built_is_missing(page: Page) -> None:
    open_asset(page, "clinvar/shard", "partitions", partition=WAITING_RELEASE)
    expect(page.get_by_text("Missing (1)", exact=True)).to_be_visible()
    expect(page.get_by_text("View all historical events (0)")).to_be_visible()
    expect(page.get_by_text("No metadata entries")).to_be_visible()


def test_checks_have_a_status_per_partition_also_the_failed_one(page: Page) -> None:
    open_asset(page, "gnomad/shard", "checks", checkDetail="ref_mismatches_rare")
    expect(
        page.get_by_text("The share of alleles whose REF does not fit the reference is within the catalogue's bound")
    ).to_be_visible()
    for listed in (r"ref_mismatches_rare\s*Failed", r"frequencies_consistent\s*Succeeded"):
        expect(page.locator("body")).to_contain_text(re.compile(listed))
    expect(page.get_by_text("Evaluation result").locator("xpath=..")).to_contain_text("Failed")
    page.get_by_role("tab", name="Partitions").last.click()
    for text in ("Failed (1)", "Passed (3)", "Missing (0)", "Execution Failed (0)"):
        expect(page.get_by_text(text, exact=True)).to_be_visible()


def test_the_line_of_a_failed_run_leads_to_the_rows_at_fault(page: Page) -> None:
    query = """{runsOrError(filter: {statuses: [FAILURE]}) {... on Runs {results {eventConnection(limit: 1000) {
        events {... on LogMessageEvent {message}}}}}}}"""
    answer = page.request.post("/graphql", data={"query": query}).json()
    (run,) = answer["data"]["runsOrError"]["results"]
    said = [event.get("message", "") for event in run["eventConnection"]["events"]]
    (line,) = [message for message in said if message.startswith(f"gnomad/shard[{BROKEN_CONTIG}] failed: ")]
    # Without GENOLEWM_UI_URL the address is a path.
    page.goto(line.split(" ")[-1])
    expect(page.get_by_text("Evaluation result").locator("xpath=..")).to_contain_text("Failed")
    expect(page.get_by_text("First row at fault:")).to_be_visible()
    expect(page.locator("tr", has=page.get_by_text("remedy", exact=True)).first).to_be_visible()


def test_every_check_of_an_asset_is_listed_with_what_it_guarantees(page: Page) -> None:
    open_asset(page, "packages/split", "checks", checkDetail="splits_disjoint")
    graph = defs.resolve_asset_graph()
    names = sorted(key.name for key in graph.asset_check_keys if key.asset_key == SPECS["packages/split"].key)
    expect(page.get_by_text(f"Checks ({len(names)})")).to_be_visible()
    for name in names:
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    expect(page.get_by_text("No allele is in two splits, no window is in both")).to_be_visible()


def partition_of(asset: str) -> str:
    """Return a partition with something to draw."""
    domain = asset.partition("/")[0]
    by_domain = {"corpus": CORPUS[0], "clinvar": RELEASES[1], "holdouts": RELEASES[1], "packages": RELEASES[1]}
    return CORPUS[0] if asset == "embeddings/corpus" else by_domain.get(domain, "chr17")


@pytest.mark.parametrize(("asset", "name"), [(asset, name) for asset in PICTURES for name in sorted(PICTURES[asset])])
def test_a_picture_is_drawn_where_people_ask_for_it(page: Page, asset: str, name: str) -> None:
    open_asset(page, asset, "partitions", partition=partition_of(asset))
    page.locator("tr", has=page.get_by_text(name, exact=True)).get_by_text("[Show Markdown]").click()
    picture = page.locator("img[src^='data:image/svg']")
    expect(picture).to_be_visible()
    width, height, shown = picture.evaluate("(i) => [i.naturalWidth, i.naturalHeight, i.clientWidth]")
    assert (width, shown) == (560, 560), "as wide as the dialog: neither cut nor blurred"
    assert height > 100
    assert len(str(picture.get_attribute("alt"))) > 15
    with Image.open(io.BytesIO(picture.screenshot())) as seen:
        inked = sum(seen.convert("L").histogram()[:250])
    assert inked > 0.005 * width * height, "the picture is blank"


#: How far the metadata of a page reach beyond their box, in pixels.
_BEYOND = """(title) => {
  const boxes = [...document.querySelectorAll("div")].filter((box) =>
    getComputedStyle(box).overflowX !== "visible" && box.innerText.slice(0, 40).includes(title));
  return boxes.map((box) => box.scrollWidth - box.clientWidth) }"""


@pytest.mark.parametrize(("width", "height"), [(1_366, 768), (1_920, 1_080)])
def test_no_metadata_leave_their_box_and_a_picture_is_seen_without_a_click(
    page: Page, subtests: pytest.Subtests, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    for declared in DECLARATIONS:
        with subtests.test(declared.key):
            open_asset(page, declared.key, "overview")
            if declared.key not in NOT_BUILT | {"forensic/source", "platform/status"}:
                expect(page.get_by_text("Timestamp", exact=True)).to_be_visible()
            assert [far for far in page.evaluate(_BEYOND, "Timestamp") if far > 1] == []
            if declared.key in PICTURES:
                picture = page.locator(f"img[src='/genolewm/pictures/{declared.key}']")
                page.wait_for_function("(i) => i.naturalHeight > 100", arg=picture.element_handle())
                expect(picture).to_be_in_viewport(ratio=1)


def test_figures_are_plotted_by_partition(page: Page) -> None:
    open_asset(page, "embeddings/cache", "overview")
    page.get_by_text("Plots", exact=True).click()
    for name in ("norm_median", "dagster/partition_row_count", "dagster/size_bytes"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()
