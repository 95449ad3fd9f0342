"""What surrounds a command: the text encoding of its locale, its arguments, how its errors are printed."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from genolewm_assets.console import err as err_console
from genolewm_assets.errors import GenoLeWMError, InputError, ResourceError


def enter_utf8() -> None:
    """Run this command again in UTF-8 mode if the locale has another encoding; later output never fails to encode.

    Names of files are UTF-8 whatever the locale: in ``LC_ALL=POSIX``, Python would read them as ASCII.
    """
    if sys.getfilesystemencoding().lower() not in {"utf-8", "utf8"}:
        # For processes that this one starts, too.
        environment = {**os.environ, "PYTHONUTF8": "1"}
        os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], environment)  # noqa: S606
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise :class:`InputError` for an argument that holds bytes that are not UTF-8."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as err:
            raise InputError(
                ascii(argument),
                "holds bytes that are not UTF-8",
                remedy="Rename it or use a link to it",
            ) from err


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Print an error raised inside as one line, and exit with its code; with 130 after Ctrl-C."""
    try:
        yield
    except (GenoLeWMError, OSError) as error:
        stated = error if isinstance(error, GenoLeWMError) else stated_error(error)
        err_console.print(str(stated), style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(stated.exit_code)
    except KeyboardInterrupt:
        err_console.print("stopped; run the same command again to continue")
        sys.exit(130)


def stated_error(err: OSError) -> GenoLeWMError:
    """Return the error that states a fault of the file system: its path, and what to do."""
    return ResourceError(
        str(err.filename or "a file"),
        f"cannot be read or written ({err.strerror or err})",
        remedy="Check that it is what it should be, its permissions and the free space, and run this again",
    )
