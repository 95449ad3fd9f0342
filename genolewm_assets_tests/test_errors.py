"""What is printed, logged and recorded of text from outside, and numbers with their nouns."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from genolewm_assets.console import SafeConsole
from genolewm_assets.errors import FetchError, InputError, counted, printable
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.rows import each_row

#: Clears a screen, sets the title of a window, and turns text around.
HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\r"
QUERY = "?X-Amz-Credential=AKSECRET%2Faws4&X-Amz-Signature=0SECRET&versionId=7&token=SECRET"
SIGNED = f"https://SECRET:SECRET@host/a.vcf.gz{QUERY}"
SHOWN = "https://…@host/a.vcf.gz?X-Amz-Credential=…&X-Amz-Signature=…&versionId=7&token=…"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = printable(text)
    assert all(each.isprintable() or each.isspace() or ord(each) > 0x9F for each in shown)
    assert not set(shown) & {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x200B)}
    shown.encode()
    assert printable(shown) == shown


@each_row(
    "text, shown",
    [
        (SIGNED, SHOWN),
        (f"cannot open {SIGNED!r}: HTTP 403", f"cannot open {SHOWN!r}: HTTP 403"),
        ("s3://b/k?AWSAccessKeyId=SECRET&Signature=SECRET", "s3://b/k?AWSAccessKeyId=…&Signature=…"),
        ("https://b/k?sv=1&sig=SECRET&se=2", "https://b/k?sv=1&sig=…&se=2"),
        ("https://b/k?access_token=SECRET#x", "https://b/k?access_token=…#x"),
        ("gs://b/k?generation=3&X-Goog-Signature=SECRET", "gs://b/k?generation=3&X-Goog-Signature=…"),
        ("https://host/a@b?design=1&tokens=2", "https://host/a@b?design=1&tokens=2"),
        ("chr1:5 A>C; token=3 in 1/1, ü \u20ac\n\tb", "chr1:5 A>C; token=3 in 1/1, ü \u20ac\n\tb"),
    ],
)
def test_passwords_of_a_url_are_left_out_and_nothing_else(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_errors_and_consoles_show_text_as_it_may_be_printed() -> None:
    told = str(FetchError(SIGNED, f"download failed ({HOSTILE})", got=repr(QUERY), remedy=f"Ask {SIGNED}"))
    table = Table("what")
    table.add_row(f"{HOSTILE}{SIGNED}")
    table.add_row(Text(f"{HOSTILE}{SIGNED}"))
    console = SafeConsole(file=io.StringIO(), width=400)
    for what in (f"{HOSTILE}{SIGNED}", f"[bold]{HOSTILE}[/bold]", table, Text(HOSTILE)):
        console.print(what)
    console.print_json(json.dumps({"name": HOSTILE, "url": SIGNED}))
    assert isinstance(console.file, io.StringIO)
    written = console.file.getvalue()
    for shown in (told, written):
        assert "SECRET" not in shown
        assert not set(shown) & set(HOSTILE) & set(map(chr, [*range(10), *range(11, 32), 0x9B, 0x202E]))
    assert json.loads(written[written.index("{") :])["name"] == HOSTILE
    # What the console itself sends stays.
    coloured = SafeConsole(file=io.StringIO(), force_terminal=True, color_system="standard")
    coloured.print("[red]a[/red]")
    assert isinstance(coloured.file, io.StringIO)
    assert coloured.file.getvalue() == "\x1b[31ma\x1b[0m\n"


def test_a_release_name_from_outside_moves_no_cursor(command: Command) -> None:
    printed = command("catalog", "check", f"a{HOSTILE}.yaml")
    assert printed.code == 3
    assert "\\u001b[2J" in printed.out
    assert "\x1b" not in printed.out + printed.err


@each_row(
    "number, noun, plural, text",
    [
        *((0, "fault", "", "0 faults"), (1, "fault", "", "1 fault"), (1_234, "row", "", "1,234 rows")),
        *((2, "directory", "directories", "2 directories"), (1, "directory", "directories", "1 directory")),
    ],
)
def test_numbers_have_their_nouns(number: int, noun: str, plural: str, text: str) -> None:
    assert counted(number, noun, plural) == text


def test_an_error_keeps_the_place_as_it_is() -> None:
    assert InputError(SIGNED, "is wrong").where == SIGNED
