"""What surrounds a command: its standard streams, the encoding of its locale, its arguments, how errors are printed."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from genolewm_assets.console import err as err_console
from genolewm_assets.errors import GenoLeWMError, InputError, ResourceError


def enter_utf8() -> None:
    """Run this command again in UTF-8 mode if the locale has another encoding, so that names and output fit."""
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
                ascii(argument), "holds bytes that are not UTF-8", remedy="Rename it or use a link to it"
            ) from err


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Print an error raised inside, also by output, as one line, and exit with its code; with 130 after Ctrl-C."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except (GenoLeWMError, OSError) as error:
        stated = error if isinstance(error, GenoLeWMError) else _named_error(error)
        _print_last(str(stated), "red")
        sys.exit(stated.exit_code)
    except KeyboardInterrupt:
        _print_last("stopped; run the same command again to continue")
        sys.exit(130)


def _named_error(err: OSError) -> GenoLeWMError:
    """Return the error that states a fault of the file system; one without a name of a console is of its stream."""
    *_, (frame, _) = traceback.walk_tb(err.__traceback__)
    if err.filename is None and frame.f_globals["__name__"].split(".")[0] in {__package__, "rich", "click", "typer"}:
        err.filename = "standard output"
    return stated_error(err)


def open_closed_streams() -> None:
    """Open the null device, for child processes too, in place of closed standard streams; else the next file is one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _print_last(line: str, style: str | None = None) -> None:
    """Print the last line of a process; what cannot be written is dropped, or Python would try once more."""
    with suppress(OSError):
        err_console.say(line, style=style)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def stated_error(err: OSError) -> GenoLeWMError:
    """Return the error that states a fault of the file system: its path, and what to do."""
    return ResourceError(
        str(err.filename or "a file"),
        f"cannot be read or written ({err.strerror or err})",
        remedy="Check that it is what it should be, its permissions and the free space, and run this again",
    )
