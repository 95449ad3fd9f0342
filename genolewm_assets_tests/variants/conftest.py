"""The real slices of GRCh38, as the tests of the sources have them."""

from __future__ import annotations

from genolewm_assets_tests.sources.conftest import sliced_contigs, sliced_fasta, sliced_reference

__all__ = ["sliced_contigs", "sliced_fasta", "sliced_reference"]
