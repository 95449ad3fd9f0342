"""How the kernels are compiled."""

from __future__ import annotations

from typing import Any, Final

#: Keyword arguments of ``numba.njit``. No kernel makes an array, so none counts references (``_nrt``): atomic counters
#: would take more than half of the time. No divisor is 0 (``error_model``). Only ``entry_kernels`` are cached on disk.
KERNEL: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy", "_nrt": False}
