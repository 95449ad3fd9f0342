"""Small builds for the tests of the store, and a picture of a root that two runs can be compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from genolewm_assets.errors import VcfError
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.store.artefacts.manifest import InputRef
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files.canonical_json import JsonValue

ARTEFACT = ArtefactId("gnomad/shard", "chr21")
LOCATION = "gnomad/4.1/chr21"
CONTENT: Mapping[str, bytes] = {"variants.bin": bytes(range(256)) * 40, "rejects.bin": b"none\n", "sub/extra.bin": b"e"}


def new_root(path: Path, *, lock_wait_s: float = 30.0) -> Root:
    """A root as people make it: claimed."""
    root = Root(path, lock_wait_s=lock_wait_s)
    root.claim("sample", "a" * 64)
    return root


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(data)


def make_plan(
    files: Mapping[str, bytes] = CONTENT,
    *,
    artefact: ArtefactId = ARTEFACT,
    location: str = LOCATION,
    code_version: str = "1",
    recipe: Mapping[str, JsonValue] | None = None,
    inputs: tuple[InputRef, ...] = (),
    passed: bool = True,
    surface: bool = False,
    before_write: Callable[[Path], None] = lambda _: None,
) -> BuildPlan:
    def write(directory: Path) -> BuildReport:
        before_write(directory)
        write_files(directory, files)
        counts = {"files": len(files)}
        return BuildReport(counts, {name: len(data) for name, data in files.items()}, (check,))

    check = CheckResult("content_is_right", passed, {"share": 0.25, "bad": [1, 2]})
    settings = {"min_af": 0.01} if recipe is None else recipe
    return BuildPlan(artefact, location, code_version, settings, inputs, write, surface)


def failing_plan(message: str = "is malformed") -> BuildPlan:
    def fail(directory: Path) -> None:
        (directory / "half.bin").write_bytes(b"half")
        raise VcfError("in.vcf:3", message, remedy="Correct it")

    return make_plan(code_version="2", before_write=fail)


def picture(root: Root) -> dict[str, bytes | str]:
    """Everything in a root but what may differ: work areas, what failed builds left, provenance."""
    found: dict[str, bytes | str] = {}
    for path in sorted(root.path.rglob("*")):
        name = str(path.relative_to(root.path))
        differs = path.name == "provenance.json" or ".digests" in path.name
        if name.split("/", maxsplit=1)[0] in {"work", "rejected"} or differs:
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def flip(path: Path, index: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[index] ^= 1 << bit
    path.write_bytes(data)


def numbered_plan(number: int, *, before_write: Callable[[Path], None] = lambda _: None) -> BuildPlan:
    """One of many partitions, each with content of its own."""
    return make_plan(
        {name: data + f"{number}\n".encode() for name, data in CONTENT.items()},
        artefact=ArtefactId("gnomad/shard", f"part{number}"),
        location=f"gnomad/4.1/part{number}",
        before_write=before_write,
    )
