"""What to do about an error of the hub's client, in one line without its token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from genolewm_assets.errors import FetchError, GenoLeWMError, InputError, MissingResourceError
from genolewm_assets.hub.repository import HubRepository


@contextmanager
def hub_errors(
    repository: HubRepository, where: str, files: str, *, to: Literal["read", "write to"] = "read"
) -> Iterator[None]:
    """Turn errors of the hub's client into errors of this package that say what to do.

    Parameters
    ----------
    where, files
        Where the messages say that the error is, and the path or pattern of the files that are wanted.
    to
        What the token is needed for.

    Raises
    ------
    InputError
        If the repository has no such commit or file.
    MissingResourceError
        If the repository is gated, absent or private, or files are not in the hub's cache while it is offline.
    FetchError
        If the hub cannot be reached or a download fails: another attempt may succeed.
    """
    try:
        yield
    except GenoLeWMError:
        raise
    except Exception as error:  # noqa: BLE001 - of the client, its HTTP library, or its storage library
        # It may quote a request with its token, so it is no cause that would be logged.
        raise _explained(error, repository, where, files, to) from None


def _explained(error: Exception, repository: HubRepository, where: str, files: str, to: str) -> GenoLeWMError:
    from huggingface_hub import constants, errors, get_token

    page, token = repository.page, get_token()
    with_token = f"give HF_TOKEN the token of an account that may {to} it" if token else "set HF_TOKEN"
    kind: type[GenoLeWMError] = MissingResourceError
    match error:
        case errors.OfflineModeIsEnabled() | errors.LocalEntryNotFoundError() if constants.is_offline_mode():
            problem = "is not whole in this machine's hub cache, and HF_HUB_OFFLINE is set"
            remedy = f"Run {repository.download_command(files)} on a machine with a network, or unset HF_HUB_OFFLINE"
        case errors.GatedRepoError():
            problem, remedy = "is gated", f"Accept its terms at {page} and {with_token}"
        case errors.RepositoryNotFoundError():
            problem = f"the hub has no such {repository.kind}, or does not show it"
            remedy = f"Correct the id; if it is private, {with_token}"
        case errors.RevisionNotFoundError():
            kind, problem = InputError, f"the {repository.kind} has no commit {repository.commit}"
            remedy = f"Copy the commit hash from {page}/commits/main"
        case errors.RemoteEntryNotFoundError():
            kind, problem = InputError, f"the commit has no file {files!r}"
            remedy = f"Its files are listed at {page}/tree/{repository.commit}"
        case errors.HfHubHTTPError() if error.response.status_code in (401, 403):
            problem, remedy = "the hub refuses the token", f"{with_token[0].upper()}{with_token[1:]}"
        case _:
            kind = FetchError
            detail = str(error.__cause__ or error).strip().partition("\n")[0] or type(error).__name__
            done = "read from" if to == "read" else "written to"
            problem = f"cannot be {done} the hub ({detail.replace(token, '…') if token else detail})"
            remedy = "Run it again later, or check the network and HF_ENDPOINT"
    return kind(where, problem, remedy=remedy)
