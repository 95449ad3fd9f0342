"""Stores of states from end to end: a contig's cache with all its checks, and frozen epochs of a package."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.turns import Record, Setting, failure
from benchmarks.gpu.windows import COMPILER, WINDOW_BP, open_encoder, random_windows
from benchmarks.stream.simulated_package import HeldOut, PackageShape, publish_package, write_inputs
from genolewm_assets.encoders import state_config, write_states
from genolewm_assets.genome import Contig
from genolewm_assets.store.artefacts import BuildReport
from genolewm_assets.training import write_frozen
from genolewm_assets_tests.worlds.lewm.cache_world import listed_windows

#: Common alleles per million bases of the package of frozen epochs, as in gnomAD at 1 %.
_PER_MBP = 8_333
#: Figures of checks that the table shows.
_FIGURES = (
    ("states_reproducible", "largest_difference"),
    ("null_edit_bounded", "ratio"),
    ("precision_sufficient", "rounding_share"),
    ("precision_sufficient", "cosine_min"),
    ("frozen_tuples_recomputed", "largest_difference"),
)


def measure_cache(setting: Setting) -> Iterator[Record]:
    """Write the cache of a contig as ``embeddings/cache`` does; ``precision_sufficient`` is one of its checks."""
    windows = random_windows(setting.shape.stored)
    for compute in ("bfloat16", "float32"):
        name = f"cache of a contig, {compute}"
        try:
            encoder = open_encoder(setting, compute, _compiler(setting))
            config = state_config(encoder.identity, windows_sha256="0" * 64, window_bp=WINDOW_BP)
            started = time.perf_counter()
            with tempfile.TemporaryDirectory(dir=setting.folder) as folder:
                report = write_states(
                    Path(folder) / "cache",
                    config,
                    encoder,
                    listed_windows(windows),
                    window_bp=WINDOW_BP,
                    sources={"windows": "0" * 64},
                )
        except Exception as err:  # noqa: BLE001 - the other precision keeps its time
            yield name, failure(err)
            continue
        yield from _reported(name, report, len(windows), time.perf_counter() - started)


def measure_frozen(setting: Setting) -> Iterator[Record]:
    """Build a package with states of the model, and freeze an epoch with the states of its edited windows."""
    encoder = open_encoder(setting, "bfloat16", _compiler(setting))
    with tempfile.TemporaryDirectory(dir=setting.folder) as scratch:
        folder, name = Path(scratch) / "package", "frozen epoch, bfloat16"
        shape = PackageShape((Contig("chr21", setting.shape.frozen_bp),), setting.shape.frozen_corpus, _PER_MBP, 0)
        write_inputs(folder, shape, encoder)
        package, frozen = publish_package(folder, "plain", HeldOut()), folder / "frozen"
        started = time.perf_counter()
        report = write_frozen(frozen, package, encoder, epochs=1, allow_unaudited=True)
        yield from _reported(name, report, report.counts["tuples"], time.perf_counter() - started)


def _compiler(setting: Setting) -> str | None:
    return COMPILER if setting.device == "cuda" else None


def _reported(name: str, report: BuildReport, items: int, seconds: float) -> Iterator[Record]:
    """Yield what a build says of itself: rates with and without its checks, and what the checks found."""
    encoding_s = float(str(report.run["encoding_s"]))
    run: dict[str, Any] = {key: report.run.get(key) for key in ("batch_windows", "share_of_matrix_rate")}
    yield name, {"items": items, "rate": items / encoding_s, "with_checks": items / seconds, **run}
    found = {check.name: check for check in report.checks}
    about = {
        f"{check}.{figure}": found[check].figures[figure]
        for check, figure in _FIGURES
        if check in found and figure in found[check].figures
    }
    failed = ", ".join(check.name for check in report.checks if not check.passed)
    yield f"{name}, checks", {"passed": not failed, "items": len(found), **about, "failed": failed or None}
