"""Post small JSON documents to the webhook of ``GENOLEWM_WEBHOOK_URL``, which may hold a secret and is in no message.

A webhook never changes the outcome of a run and delays its end by at most :data:`TIMEOUT_S`.
"""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

import tenacity

from genolewm_assets.errors import printable
from genolewm_assets.store.files import JsonValue

WEBHOOK_VARIABLE = "GENOLEWM_WEBHOOK_URL"
UI_VARIABLE = "GENOLEWM_UI_URL"

#: Seconds to wait for the webhook, over all attempts.
TIMEOUT_S = 10.0

#: Statuses after which the document is sent again: the server says that it did not take it.
_AGAIN = frozenset({429, 503})
_ATTEMPTS = 3
_PAUSE = tenacity.wait_exponential(multiplier=0.5, max=2)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Lets a redirect be an error: urllib would follow it with a GET without the document."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


class _NotPostedError(Exception):
    """The document was not posted; ``again`` if the webhook certainly did not take it and may do so later."""

    def __init__(self, problem: str, *, again: bool = False) -> None:
        self.again = again
        super().__init__(problem)


def webhook_url() -> str | None:
    """Return the URL that documents are posted to; None if none is set."""
    return os.environ.get(WEBHOOK_VARIABLE) or None


def page_url(path: str) -> str:
    """Return the address of a page of the UI, such as ``runs/<id>``; the path alone without ``GENOLEWM_UI_URL``."""
    return f"{os.environ.get(UI_VARIABLE, '').rstrip('/')}/{path.lstrip('/')}"


def pointing_to(text: str, *paths: str) -> str:
    """Return a line of a log that ends with the addresses of the pages that explain it, with spaces around each."""
    return " ".join([text, "See", *map(page_url, paths)])


def post(url: str, document: Mapping[str, JsonValue]) -> str | None:
    """Post a document as JSON; return the problem, or None if the webhook answered with a status below 300.

    It is sent at most twice more, and only if the connection was refused or the webhook answered 429 or 503.
    """
    if not url.startswith(("http://", "https://")):
        return f"{WEBHOOK_VARIABLE} is not an http(s) URL"
    outcome: list[str | None] = []
    # A socket's time-out restarts with every byte; a daemon thread bounds the total time.
    thread = threading.Thread(target=_deliver, args=(url, document, outcome), name="webhook", daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return (outcome[-1] and printable(outcome[-1])) if outcome else _no_answer()


def _deliver(url: str, document: Mapping[str, JsonValue], outcome: list[str | None]) -> None:
    """Send a document until it is taken or it is of no use, and append what came of each attempt to ``outcome``."""
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS) | tenacity.stop_before_delay(TIMEOUT_S),
        wait=_PAUSE,
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, _NotPostedError) and error.again),
        before_sleep=lambda attempt: outcome.append(str(attempt.outcome and attempt.outcome.exception())),
        reraise=True,
    )
    try:
        retrying(_send, url, document)
        outcome.append(None)
    except _NotPostedError as err:
        outcome.append(str(err))


def _send(url: str, document: Mapping[str, JsonValue]) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "genolewm"}
    try:
        request = urllib.request.Request(url, json.dumps(document).encode(), headers)  # noqa: S310 - scheme checked
        with _OPENER.open(request, timeout=TIMEOUT_S):
            return
    except urllib.error.HTTPError as err:
        err.close()
        raise _NotPostedError(f"HTTP {err.code} {err.reason}", again=err.code in _AGAIN) from None
    except urllib.error.URLError as err:
        if isinstance(err.reason, TimeoutError):
            raise _NotPostedError(_no_answer()) from None
        raise _NotPostedError(str(err.reason), again=isinstance(err.reason, ConnectionRefusedError)) from None
    except TimeoutError:
        raise _NotPostedError(_no_answer()) from None
    except (OSError, HTTPException, ValueError) as err:
        raise _NotPostedError(type(err).__name__) from None


def _no_answer() -> str:
    return f"no answer within {TIMEOUT_S:g} s"
