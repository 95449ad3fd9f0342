"""Facts about rCRS that other programs found."""

from __future__ import annotations

#: Given with the shared data: rCRS, k = 6, stride 1, circular, ids from 6 on, 3 for a k-mer with an N.
RCRS_IDS_SHA256 = "b45a2f168d767fe57a90030eb8517afd87a2efa396b049c925334eb20f953163"
