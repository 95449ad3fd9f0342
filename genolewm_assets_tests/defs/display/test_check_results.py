"""What the UI shows of a failed check: rows at fault or why there are none, what to do, and the figures after them."""

from __future__ import annotations

import ast
import re
from typing import get_args

import dagster as dg

from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets.defs.display.check_results import check_description, check_metadata, check_pages
from genolewm_assets.defs.operations import JOBS
from genolewm_assets.sources.catalog import Catalog
from genolewm_assets.store.artefacts import NOT_RUN, CheckResult, RowsAtFault
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.referees.shown_rows import watched_checks

CHECKS = sorted({check for asset in PUBLISHING.values() for check in (*asset.check_names, *asset.advisory_names)})
RESULT = CheckResult("ref_mismatches_rare", passed=False, figures={"fraction": 0.5, "examined": 20_000})
_MODULES = sorted((REPOSITORY / "genolewm_assets").rglob("*.py"))


def result_calls() -> list[tuple[str, ast.Call]]:
    """Return every call of ``CheckResult`` in the product, with the place of the call."""
    return [
        (f"{path.relative_to(REPOSITORY)}:{node.lineno}", node)
        for path in _MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "CheckResult"
    ]


def names_rows(call: ast.Call) -> bool:
    """Tell whether a call gives rows, passes for certain, or gives the reason why the check was not run."""
    keywords = {each.arg: each.value for each in call.keywords}
    passed = keywords.get("passed") or (call.args[1] if len(call.args) > 1 else None)
    passes = isinstance(passed, ast.Constant) and passed.value is True
    figures = ast.unparse(keywords["figures"]) if "figures" in keywords else ""
    told = "rows" in keywords or re.search("NOT_RUN|missed|not_run", figures) is not None
    return passes or len(call.args) == 4 or told


def test_every_result_of_a_check_is_made_with_its_rows() -> None:
    calls = result_calls()
    assert len(calls) > 50
    # The parser of manifests makes results as they were written, without rows; that of a job's messages with theirs.
    written = ("genolewm_assets/store/artefacts/manifest.py", "genolewm_assets/defs/engines/slurm/job_messages.py")
    assert [place for place, call in calls if not names_rows(call) and not place.startswith(written)] == []


def test_a_failed_result_of_the_product_without_rows_is_noticed() -> None:
    product = {"__name__": "genolewm_assets.anything", "CheckResult": CheckResult}
    with watched_checks() as faults:
        for text in (
            "CheckResult('a', True)",
            "CheckResult('b', False, {'error': 'not run: no table'})",
            "CheckResult('c', False, rows=[{'pos': n} for n in range(20)])",
        ):
            assert len(eval(text, product).rows) <= 10
        assert faults == []
        eval("CheckResult('d', False, {'wrong': 1})", product)
        assert [fault.partition(":")[0] for fault in faults] == ["genolewm_assets.anything"]


def test_rows_hold_nothing_that_a_terminal_obeys() -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\nchr1: all checks passed\u202e\ud800"
    signed = "https://me:SECRET@host/a.vcf?versionId=7&token=SECRET"
    (row,) = CheckResult("c", passed=False, rows=[{"id": hostile, "name": "Größe 5 %", "url": signed}]).rows
    assert str(row["id"]).isprintable()
    assert row["name"] == "Größe 5 %"
    assert row["url"] == "https://…@host/a.vcf?versionId=7&token=…"


def test_rows_at_fault_are_all_counted_and_ten_are_kept() -> None:
    wrong = RowsAtFault()
    asked = []
    for n in range(25):
        asked.append(wrong.keeps_next())
        wrong.add(n=n)
    assert (len(wrong), [row["n"] for row in wrong], asked) == (25, list(range(10)), [True] * 10 + [False] * 15)


def test_every_check_has_one_meaning_and_says_what_it_guarantees_and_what_to_do() -> None:
    assert len(CHECKS) > 80
    assert all(re.fullmatch(r"[A-Z].{20,}\.", text) for check in CHECKS for text in (check.means, check.remedy))
    declared = {id(check): check for asset in PUBLISHING.values() for check in asset.check_names}
    assert len(declared) == len(set(declared.values()))


def test_a_remedy_names_only_what_exists() -> None:
    sections, jobs = Catalog.model_fields, {job.name for job in JOBS}
    for check in CHECKS:
        for section, key in re.findall(r"\b([a-z]+)\.([a-z_]+)\b", check.remedy):
            if section in sections:
                fields = (*get_args(sections[section].annotation), sections[section].annotation)[0].model_fields
                assert key in fields, (check, f"{section}.{key}")
        for key in re.findall(r"\b[a-z]+/[a-z]+\b", check.remedy):
            assert key in PUBLISHING, (check, key)
        for job in re.findall(r"\brun ([a-z]+_[a-z_]+)", check.remedy):
            assert job in jobs, (check, job)


def test_a_failed_check_shows_rows_or_why_there_are_none_and_what_to_do_first() -> None:
    figures = {"figure": 3, "remedy_of": "none"}
    shown = check_metadata(CheckResult("sorted", False, figures, [{"contig": "chr17", "pos": 3}]), "Sort it.")
    assert list(shown)[:2] == ["offending", "remedy"]
    assert isinstance(shown["offending"], dg.TableMetadataValue)
    assert shown["remedy"].value == "Sort it."
    bare = check_metadata(CheckResult("sorted", passed=False, figures={NOT_RUN: "not run: no table"}), "Sort it.")
    assert bare["offending"].value == "none: not run: no table"
    assert check_metadata(CheckResult("sorted", True, figures, [{"contig": "chr17"}]), "Sort it.") == figures
    # Without rows and without a reason it says that it compares totals.
    assert check_metadata(RESULT, "Look.")["offending"].value.startswith("none: ")
    # The remedy of a result replaces that of its check.
    shown = check_metadata(CheckResult("mix_served", passed=False, figures={"remedy": "Do this", "served": 1}), "Look.")
    assert (shown["remedy"].value, list(shown)) == ("Do this", ["offending", "remedy", "served"])


def test_a_result_has_the_plain_name_of_its_check() -> None:
    assert type(CheckResult(CHECKS[0], passed=True).name) is str
    assert PUBLISHING["gnomad/shard"].remedy("ref_mismatches_rare").startswith("The file is most likely of another")


def test_no_figure_of_a_check_is_raw() -> None:
    served = {"edits": {"snv": 0.5}, "windows": 3}
    figures = {"error": None, "problems": [], "first": ["a", "b"], "served": served, "ratio": 0.1234567891}
    shown = check_metadata(CheckResult("mix_served", passed=True, figures=figures), "Look.")
    assert (shown["problems"], shown["first"], shown["ratio"]) == ("none", "a; b", 0.123457)
    assert "error" not in shown
    rows = [tuple(record.data.items()) for record in shown["served"].records]
    assert rows == [(("name", "edits snv"), ("value", 0.5)), (("name", "windows"), ("value", 3))]


def test_rows_with_other_columns_share_a_table() -> None:
    rows = [{"pos": 3, "level": 1}, {"problem": "a", "pos": None, "level": 0.5}]
    table = check_metadata(CheckResult("mix_served", passed=False, rows=rows), "Look.")["offending"]
    columns = {column.name: column.type for column in table.schema.columns}
    assert list(columns.items()) == [("pos", "int"), ("level", "string"), ("problem", "string")]
    assert [[record.data[name] for name in columns] for record in table.records] == [[3, 1, None], [None, 0.5, "a"]]


def test_a_failure_is_described_with_figures_and_its_first_row() -> None:
    result = CheckResult(RESULT.name, passed=False, figures=RESULT.figures, rows=[{"pos": 3, "ref": "A", "id": None}])
    said = "ref_mismatches_rare does not hold: fraction 0.5, examined 20,000. First row at fault: pos 3, ref A."
    assert check_description(result) == said
    assert check_description(CheckResult("mix_served", passed=True)) is None


def test_links_lead_to_the_checks_that_were_run() -> None:
    at_fault = CheckResult("mix_served", passed=False, rows=[{"name": "reference"}])
    not_run = CheckResult("visits_bounded", passed=False, figures={NOT_RUN: "not run: no table"})
    (page,) = check_pages("packages/split", [at_fault, not_run, CheckResult("counts_add_up", passed=True)]).items()
    assert (page[0], page[1].value) == ("mix_served", "/assets/packages/split?view=checks&checkDetail=mix_served")
