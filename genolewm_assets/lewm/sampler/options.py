"""How the kernels are compiled."""

from __future__ import annotations

from typing import Any, Final

#: Keyword arguments of ``numba.njit``. No kernel makes an array, so none counts references (``_nrt``): atomic counters
#: take more than half of the time otherwise. Divisors are never 0 (``error_model``).
KERNEL: Final[dict[str, Any]] = {"nogil": True, "cache": True, "error_model": "numpy", "_nrt": False}
