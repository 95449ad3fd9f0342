"""How fast windows are encoded, and how fast the device multiplies matrices; imports torch and transformers."""

from __future__ import annotations

import platform
import time

import torch
import transformers

from genolewm_assets.encoders.identity import Compute
from genolewm_assets.encoders.network import StateNetwork, exact_products
from genolewm_assets.store.files import JsonValue

#: Rows and columns of the matrices that are multiplied, and seconds that it goes on: on the CPU, on an accelerator.
_SIZES, _SECONDS = (512, 8_192), (0.1, 0.3)


def describe_run(network: StateNetwork, *, n_windows: int, seconds: float, n_tokens: int) -> dict[str, JsonValue]:
    """Return what encoded ``n_windows`` windows in ``seconds`` of wall-clock time, and how fast."""
    about: dict[str, JsonValue] = {
        "device": device_name(network.device),
        "compute": network.compute.value,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    if not n_windows:
        return about
    rate = n_windows / seconds
    done = rate * network.count_flops(n_tokens)
    possible = measure_matrix_rate(network.device, network.compute, cpu_threads=network.cpu_threads)
    return {
        **about,
        "windows_per_s": round(rate, 3),
        "tflops": float(f"{done / 1e12:.4g}"),
        "matrix_tflops": float(f"{possible / 1e12:.4g}"),
        "share_of_matrix_rate": float(f"{done / possible:.4g}"),
    }


def measure_matrix_rate(device: torch.device, compute: Compute, *, cpu_threads: int = 1) -> float:
    """Measure operations a second in products of large square matrices of a precision; it takes about a second."""
    fast = device.type != "cpu"
    size, wanted_s = _SIZES[fast], _SECONDS[fast]
    dtype = torch.bfloat16 if compute is Compute.BFLOAT16 else torch.float32
    with exact_products(device.type, cpu_threads):
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        product = left @ right
        products, seconds = 1, 0.0
        while seconds < wanted_s:
            products *= 2
            _wait(device)
            started = time.perf_counter()
            for _ in range(products):
                torch.mm(left, right, out=product)
            _wait(device)
            seconds = time.perf_counter() - started
    return products * 2 * size**3 / seconds


def device_name(device: torch.device) -> str:
    """Return the name of the accelerator, or ``cpu`` with the processor's architecture."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device} ({platform.machine()})"


def _wait(device: torch.device) -> None:
    """Wait until the device has done what was started."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
