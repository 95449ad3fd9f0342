"""Mutants of the product: one operator, constant, condition or statement of a function's body is another."""

from __future__ import annotations

import ast
import random
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.rooms import modules, room_of

_PAIRS = ("< <=", "> >=", "== !=", "in not·in", "is is·not", "+ -", "* //", "& |", "+= -=", "*= //=", "&= |=", "and or")
_SWAPS = {a: b for pair in _PAIRS for a, b in (pair.split(), pair.split()[::-1])} | {"%": "//"}
_OPERATOR = re.compile(r"not\s+in|is\s+not|\*\*|<<|>>|//=|[-+*&|<>=!]=|//|[-+*/%&|^@<>]|\b(?:and|or|in|is)\b")

#: What is shown or logged, and what only costs time: functions, keywords, files.
_QUIET_CALL = re.compile(r"progress|console|\b(?:print|echo|log|logger|warn|warning|info|debug|close|sleep)\b")
_QUIET_KEYWORD = re.compile(r"^(?:stacklevel|indent|maxsize|max_workers|timeout\w*|fontsize|dpi)$")
_QUIET_FILE = re.compile(r"/(?:defs/display/.*|progress\.py|console\.py)$")


@dataclass(frozen=True)
class Mutant:
    """``before`` at byte ``start`` of a file of the repository is ``after``; the bytes around it find it again."""

    room: str
    path: str
    line: int
    start: int
    before: str
    after: str

    def source(self, repository: Path = REPOSITORY) -> bytes:
        """Return the whole file as it is."""
        return (repository / self.path).read_bytes()

    def applied(self, source: bytes) -> bytes:
        """Return the file with the fault; the source may differ elsewhere from this repository's."""
        own, end = self.source(), self.start + len(self.before.encode())
        around = own[max(0, self.start - 200) : end + 200]
        if source != own and (source.count(around) != 1 or own.count(around) != 1):
            raise ValueError(f"{self.path}:{self.line}: the source is another one there")
        shift = source.find(around) - own.find(around)
        return source[: self.start + shift] + self.after.encode() + source[end + shift :]


def _inside(node: ast.AST, *, in_function: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes of function bodies, without what is said to people or to a type checker."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and _QUIET_KEYWORD.search(node.arg or "")):
        return
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(call, ast.Call) and _QUIET_CALL.search(ast.unparse(call.func)):
        return
    if in_function:
        yield node
    function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if isinstance(node, ast.Raise) or (function and node.name in {"__repr__", "__str__"}):
        return
    for child in node.body if function or isinstance(node, ast.ClassDef) else ast.iter_child_nodes(node):
        if child is not getattr(node, "annotation", None):
            yield from _inside(child, in_function=in_function or function)


def _operands(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.BinOp():
            return [node.left, node.right]
        case ast.BoolOp():
            return node.values
        case ast.AugAssign():
            return [node.target, node.value]
    return []


def _edits(node: ast.AST, source: bytes, starts: Sequence[int]) -> Iterator[tuple[str, int, int, str]]:
    """Yield the faults of a node: kind, from byte, to byte, new text."""

    def span(part: ast.AST) -> tuple[int, int]:
        return starts[part.lineno - 1] + part.col_offset, starts[part.end_lineno - 1] + part.end_col_offset

    def negated(test: ast.AST) -> tuple[int, int, str]:
        start, end = span(test)
        return start, end, f"not ({source[start:end].decode()})"

    for left, right in pairwise(_operands(node)):
        start = span(left)[1]
        between = source[start : span(right)[0]].decode()
        found = _OPERATOR.search(between)
        if found and "#" not in between and (new := _SWAPS.get("·".join(found[0].split()))):
            yield type(node).__name__, start + found.start(), start + found.end(), new.replace("·", " ")
    match node:
        case ast.Constant(value=bool(value)):
            yield "bool", *span(node), str(not value)
        case ast.Constant(value=int(value)):
            yield "int", *span(node), str(value + 1)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "test", *negated(test)
        case ast.Raise() | ast.Expr(value=ast.Call()):
            yield type(node).__name__, *span(node), "pass"
        case ast.Return(value=ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) as value):
            yield "return", *negated(value)
        case ast.Return(value=ast.AST() as value) if not isinstance(value, ast.Constant | ast.Name):
            yield "return", *span(node), "return None"


@cache
def mutants_of(path: str, room: str) -> dict[str, list[Mutant]]:
    """Return all mutants of a file by kind."""
    source = (REPOSITORY / path).read_bytes()
    starts = list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))
    found: dict[str, list[Mutant]] = {}
    for node in _inside(ast.parse(source)):
        for kind, start, end, after in _edits(node, source, starts):
            line = bisect(starts, start)
            found.setdefault(kind, []).append(Mutant(room, path, line, start, source[start:end].decode(), after))
    return found


def _files() -> dict[str, str]:
    """Return the room of each file that is mutated."""
    paths = {path.relative_to(REPOSITORY).as_posix(): room_of(name) for name, path in modules().items()}
    loud = {path: room for path, room in paths.items() if not _QUIET_FILE.search(path)}
    return {path: room for path, room in loud.items() if mutants_of(path, room)}


def draw(seed: int, count: int) -> list[Mutant]:
    """Draw mutants, one of each first-level room and then by lines of code; a longer draw begins with the shorter."""
    files = _files()
    lines = {path: len((REPOSITORY / path).read_bytes().splitlines()) for path in files}
    first = sorted({room.partition("/")[0] for room in files.values()})
    drawn: list[Mutant] = []
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        asked = first[number : number + 1] or first
        here = [path for path, room in files.items() if room.partition("/")[0] in asked]
        while len(drawn) == number:
            (path,) = rng.choices(here, [lines[one] for one in here])
            kinds = mutants_of(path, files[path])
            mutant = rng.choice(kinds[rng.choice(sorted(kinds))])
            drawn += [mutant] if mutant not in drawn else []
    return drawn
