"""Posting to webhooks on this machine: taken, taken at a second attempt, refused, and never answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import tenacity

from genolewm_assets.defs.runtime import webhook
from genolewm_assets.defs.runtime.webhook import UI_VARIABLE, page_url, pointing_to, post
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.servers.webhook import closed_port, dripping_server, mute_server, webhook_server

DOCUMENT = {"title": "a title", "figures": {"added": 3, "removed": None}}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_PAUSE", tenacity.wait_none())


def test_a_document_is_posted_as_it_is() -> None:
    with webhook_server() as site:
        assert post(site.url, DOCUMENT) is None
        assert site.posted == [DOCUMENT]


@pytest.mark.parametrize("status", [429, 503])
def test_a_webhook_that_asks_to_come_again_is_asked_again(status: int) -> None:
    with webhook_server() as site:
        site.statuses = [status, status]
        assert post(site.url, DOCUMENT) is None
        assert len(site.posted) == 3


@each_row(("status", "attempts"), [(503, 3), (500, 1), (502, 1), (504, 1), (404, 1), (401, 1), (301, 1)])
def test_a_webhook_that_may_have_taken_it_is_not_asked_again(status: int, attempts: int) -> None:
    with webhook_server() as site:
        site.status = status
        problem = str(post(site.url, DOCUMENT))
        assert problem.startswith(f"HTTP {status}")
        assert ("secret" in problem, len(site.posted)) == (False, attempts)


@pytest.mark.parametrize(
    ("server", "problem"),
    [(mute_server, "no answer within 0.5 s"), (dripping_server, "no answer within 0.5 s"), (closed_port, "refused")],
)
def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch, server: Callable[[], Iterator[str]], problem: str) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.5)
    started = time.monotonic()
    with server() as url:
        said = post(url, DOCUMENT)
    assert problem in said
    assert time.monotonic() - started < 3


def test_pauses_between_attempts_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(webhook, "_PAUSE", tenacity.wait_fixed(60))
    started = time.monotonic()
    with webhook_server() as site:
        site.status = 503
        assert post(site.url, DOCUMENT) == "HTTP 503 Service Unavailable"
        assert len(site.posted) == 1
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("ui", ["https://dagster.example", "https://dagster.example/"])
def test_a_page_is_named_where_the_address_of_the_ui_is_known(monkeypatch: pytest.MonkeyPatch, ui: str) -> None:
    monkeypatch.setenv(UI_VARIABLE, ui)
    assert page_url("assets/packages/current") == "https://dagster.example/assets/packages/current"
    monkeypatch.delenv(UI_VARIABLE)
    assert page_url("assets/packages/current") == "/assets/packages/current"
    assert pointing_to("It failed.", "/a?b&c", "runs/1") == "It failed. See /a?b&c /runs/1"
