"""Fuzz each target for a set time, guided if atheris (``.[fuzz]``) is installed; the first failure ends it."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

_TARGETS = ("vcf", "index", "hid")
_MAX_BYTES = 6_000
_MEMORY_MB = 4_096
_INPUT_TIMEOUT_S = 30
#: Modules whose branches guide the fuzzer; compiled loops are not among them, because numba could not read them then.
_GUIDES = [
    *(
        f"genolewm_assets.sources.vcf.{name}"
        for name in ("block", "bgzf", "count", "header", "header_size", "index", "scan", "text")
    ),
    "genolewm_assets.sources.files.local",
    *(f"genolewm_assets.forensic.abif.{name}" for name in ("directory", "file", "tags", "values")),
    "genolewm_assets.forensic.sizing.run",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=_TARGETS, metavar=f"{{{','.join(_TARGETS)}}}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=1, help="same seed, same inputs")
    parser.add_argument("--engine", choices=("atheris", "mutation"), help="default: atheris where it is installed")
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"), help="folder of inputs that failed")
    parser.add_argument("--replay", type=Path, help="check one input and end")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.targets) - set(_TARGETS):
        parser.error(f"unknown target {sorted(unknown)[0]!r}: expected one of {', '.join(_TARGETS)}")
    if options.engine is None:
        options.engine = "atheris" if importlib.util.find_spec("atheris") else "mutation"
    if options.inside:
        _fuzz_target(options, options.targets[0])
        return 0
    for target in options.targets:
        print(f"{target}: {options.seconds} s of {options.engine}, seed {options.seed}", flush=True)  # noqa: T201
        command = [sys.executable, "-m", __spec__.parent, target, *sys.argv[1:], "--inside"]
        with tempfile.TemporaryDirectory(prefix="fuzz-numba-") as cache:
            checking = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
            ended = subprocess.run([*command, "--engine", options.engine], env=checking, check=False)
        if ended.returncode:
            print(f"{target}: failed; the input is in {options.keep}; run it again with --replay FILE")  # noqa: T201
            return 1
    return 0


def _fuzz_target(options: argparse.Namespace, target: str) -> None:
    guided = options.engine == "atheris"
    if guided:
        import atheris
    with atheris.instrument_imports(include=_GUIDES) if guided else nullcontext():
        from genolewm_assets_tests.fuzz import hid_check, index_check, seeds, vcf_check
    check, begin, words = {
        "vcf": (vcf_check.check_vcf, seeds.vcf_seeds, [word.encode() for word in seeds.WORDS]),
        "index": (index_check.check_index, seeds.index_seeds, [word.encode() for word in seeds.WORDS]),
        "hid": (hid_check.check_hid, hid_check.hid_seeds, hid_check.WORDS),
    }[target]
    if options.replay:
        check(options.replay.read_bytes())
        return
    inputs = list(begin())
    for data in inputs:
        check(data)
    keep = options.keep / target
    if guided:
        keep.mkdir(parents=True, exist_ok=True)
        _guided(check, inputs, words, options, keep)
        return
    from genolewm_assets_tests.fuzz.mutation import fuzz

    tried = fuzz(check, inputs, words, seconds=options.seconds, seed=options.seed, max_bytes=_MAX_BYTES, keep=keep)
    print(f"{target}: {tried:,} inputs")  # noqa: T201


def _guided(
    check: Callable[[bytes], None], inputs: list[bytes], words: list[bytes], options: argparse.Namespace, keep: Path
) -> None:
    """Let libFuzzer run the check; it ends the process."""
    import atheris

    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
        corpus, dictionary = Path(folder) / "corpus", Path(folder) / "words"
        corpus.mkdir()
        for number, data in enumerate(inputs):
            (corpus / f"{number}").write_bytes(data)
        quoted = ("".join(f"\\x{byte:02x}" for byte in word) for word in words)
        dictionary.write_text("".join(f'"{word}"\n' for word in quoted))
        arguments = [
            *(sys.argv[0], str(corpus), f"-dict={dictionary}", f"-max_total_time={options.seconds}"),
            *(f"-seed={options.seed}", f"-max_len={_MAX_BYTES}", f"-timeout={_INPUT_TIMEOUT_S}"),
            *(f"-rss_limit_mb={_MEMORY_MB}", f"-artifact_prefix={keep}/", "-print_final_stats=1", "-verbosity=1"),
        ]
        atheris.Setup(arguments, check)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
