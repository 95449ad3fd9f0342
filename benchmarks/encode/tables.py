"""Tables of the encoder's speed: on the CPU in CPU seconds, on an accelerator in wall-clock seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from benchmarks.encode.jobs import WINDOW_BP
from benchmarks.encode.shapes import SHAPES, write_model
from benchmarks.vcf.tables import Setting
from benchmarks.workers import Figures, Job, measure

#: The ratio is to the plain loop in float32; of edited windows, to whole windows.
_HEADS = "share of products | ratio | peak MiB | accelerator MiB |"
_TOKENS = WINDOW_BP // 6 + 2
_MIB = 1 << 20
_RATES = {"float32": "float32 products, TFLOP/s", "bfloat16": "bfloat16 products, TFLOP/s", "copy": "copying, GB/s"}
_ROWS = {
    "loop-float32": ("transformers, plain loop, float32", "float32"),
    "loop-bfloat16": ("transformers, plain loop, bfloat16", "bfloat16"),
    "encode-float32": ("genolewm_assets, float32", "float32"),
    "encode-bfloat16": ("genolewm_assets, bfloat16", "bfloat16"),
    "write-float32": ("genolewm_assets, float32, with writing", "float32"),
    "write-bfloat16": ("genolewm_assets, bfloat16, with writing", "bfloat16"),
    "edits-whole": ("8 edits a window, whole windows", ""),
    "edits-prefix": ("8 edits a window, from the first changed token", ""),
}


def encode_tables(setting: Setting, *, shape: str) -> Iterator[str]:
    """Yield the lines of the tables: the machine's rates, then what every way to encode makes of them."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU, one thread"
    folder = setting.folder / f"model-{shape}"
    write_model(folder, SHAPES[shape])

    def command(job: str) -> list[str]:
        return [sys.executable, "-m", "benchmarks.encode.jobs", job, shape, device, str(folder)]

    jobs = [Job(f"rate {task}", command("rates"), task=task) for task in _RATES]
    for job in _ROWS:
        jobs += [Job(job, command(job)), Job(f"memory {job}", command(job), task="memory")]
    found = {figures.name: figures for figures in measure(jobs, runs=setting.runs)}
    clock = "wall s" if device == "cuda" else "CPU s"
    yield f"\n| {name} | |\n|---|---:|"
    for task, words in _RATES.items():
        scale = 1e9 if task == "copy" else 1e12
        yield f"| {words} | {_rate(found[f'rate {task}'], device) / scale:,.3g} |"
    flops = SHAPES[shape].window_flops(_TOKENS)
    yield f"\n| {shape}, {flops / 1e12:.3g} TFLOP a window | windows | windows per {clock} | TFLOP/s | {_HEADS}"
    yield from _lines(found, device, flops)


def _lines(found: Mapping[str, Figures], device: str, flops: float) -> Iterator[str]:
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for job, (words, dtype) in _ROWS.items():
        figures = found[job]
        if figures.failure:
            yield f"| {words} | failed: {figures.failure} | | | | | | |"
            continue
        rate, peer = _rate(figures, device), found["edits-whole" if job.startswith("edits") else "loop-float32"]
        share = f"{rate * flops / _rate(found[f'rate {dtype}'], device):.0%}" if dtype else ""
        done = f"{rate * flops / 1e12:.3g}" if dtype else ""
        ratio = "" if peer.failure else f"{rate / _rate(peer, device):.2f}"
        memory = f"{figures.peak_bytes / _MIB:,.0f} | {(found[f'memory {job}'].records or 0) / _MIB:,.0f}"
        yield f"| {words} | {figures.records:,} | {rate:,.3g} | {done} | {share} | {ratio} | {memory} |"


def _rate(figures: Figures, device: str) -> float:
    """Return records per second of the device's clock."""
    return (figures.records or 0) / (figures.wall_s if device == "cuda" else figures.cpu_s)
