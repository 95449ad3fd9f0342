from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets import encoders
from genolewm_assets.encoders import EncoderIdentity
from genolewm_assets.encoders.identity import StateDtype
from genolewm_assets.encoders.state_checks import NULL_EDIT_BOUND, STATE_CHECKS, check_states, null_edit_ratio
from genolewm_assets.errors import EditError, ReferenceMismatchError
from genolewm_assets.genome import GRCH38, Contig, RelEdit
from genolewm_assets_tests.encoders.conftest import random_snvs, random_windows
from genolewm_assets_tests.rows import each_row

#: Targets are computed from the first token that changes, in sums of another order than those of whole windows.
_ROUNDING = 1e-4


class CountingEncoder:
    """One number per block, the mean of its letters, plus what a test adds to the states of targets."""

    def __init__(self, artefact: Sequence[float] = (0.0,), sensitivity: float = 1.0) -> None:
        self.artefact, self.sensitivity = artefact, sensitivity

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity("fake", None, "", "", 0, 4, StateDtype.FLOAT32, 1)

    @property
    def hidden_size(self) -> int:
        return 1

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        values = np.array([[ord(base) for base in sequence] for sequence in sequences], dtype=np.float32)
        return np.asarray(self.sensitivity * values.reshape(len(sequences), -1, 24, 1).mean(axis=2))

    def encode_edited(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        return np.asarray(self.encode_windows(sequences) + np.resize(self.artefact, (len(sequences), 1, 1)))


def test_the_ratio_is_the_largest_artefact_over_the_typical_effect() -> None:
    windows = ["A" * 240] * 3
    snvs = [RelEdit(100, "A", "C"), RelEdit(100, "A", "G"), RelEdit(100, "A", "T")]
    # A SNV moves one of the five blocks of 24 bases round it by (C 2, G 6, T 19) / 24; the artefact moves each by 0.01.
    ratio = null_edit_ratio(CountingEncoder(artefact=[0.01]), windows, snvs, radius_tokens=8)
    assert ratio == pytest.approx(0.01 / (6 / 24 / 5 + 0.01), rel=1e-3)
    one_of_three = CountingEncoder(artefact=[0.0, 0.0, 0.02, 0.0, 0.0, 0.0])
    assert null_edit_ratio(one_of_three, windows, snvs, radius_tokens=8) == pytest.approx(0.02 / (6 / 24 / 5), rel=1e-3)
    assert null_edit_ratio(CountingEncoder(), windows, snvs) == 0.0


def test_effects_that_are_nothing_do_not_pass() -> None:
    windows = random_windows(2, 240)
    assert null_edit_ratio(CountingEncoder(sensitivity=0.0), windows, random_snvs(windows)) == float("inf")


def test_a_cache_of_other_windows_is_found(encoder: encoders.CausalLMStateEncoder) -> None:
    windows = random_windows(4, 1_536)
    snvs = random_snvs(windows)
    cached = encoder.encode_windows(windows)
    assert null_edit_ratio(encoder, windows, snvs, cached=cached) < _ROUNDING
    assert null_edit_ratio(encoder, windows, snvs, cached=cached[::-1]) > NULL_EDIT_BOUND


@pytest.mark.parametrize("dtype", list(StateDtype))
@pytest.mark.parametrize("side", [pytest.param("both", marks=pytest.mark.slow), "right"])
def test_the_tiny_encoder_stays_under_the_bound(dtype: str, side: Any, tiny_folder: Path) -> None:
    windows = random_windows(6)
    ratio = null_edit_ratio(
        encoders.CausalLMStateEncoder(tiny_folder, dtype=dtype), windows, random_snvs(windows), side=side
    )
    assert ratio < NULL_EDIT_BOUND


def test_real_windows_stay_under_the_bound(
    sliced_windows: Callable[[int], list[str]], encoder: encoders.CausalLMStateEncoder
) -> None:
    windows = sliced_windows(8)
    snvs = random_snvs(windows)
    half = encoder.encode_windows(windows).astype(np.float16)
    # Even a float16 cache against float32 targets: the rounding of one side is under the bound too.
    assert 0.0 < null_edit_ratio(encoder, windows, snvs, cached=half) < NULL_EDIT_BOUND
    assert null_edit_ratio(encoder, windows, snvs) < _ROUNDING


@pytest.fixture
def sliced_windows(shared_data: Path) -> Callable[[int], list[str]]:
    """Return windows of real bases, evenly spaced over the slice of chr17."""
    pysam = pytest.importorskip("pysam")
    contig: Contig = GRCH38["chr17"]
    with pysam.FastaFile(str(shared_data / "reference" / "GRCh38.slices.fa.gz")) as fasta:
        bases = str(fasta.fetch(contig.name, 42_424_999, 43_600_000)).upper()
    return lambda n: [bases[at : at + 12_288] for at in range(0, len(bases) - 12_288, len(bases) // n)][:n]


@each_row(
    ("windows", "snvs"),
    [
        ([], []),
        (["A" * 60], []),
        (["A" * 60], [RelEdit(20, "A", "A")]),
        (["A" * 60], [RelEdit(20, "A", "AC")]),
        (["A" * 72], [RelEdit(72, "A", "C")]),
    ],
)
def test_what_is_no_snv_is_refused(windows: list[str], snvs: list[RelEdit]) -> None:
    with pytest.raises(EditError):
        null_edit_ratio(CountingEncoder(), windows, snvs)


def test_an_edit_of_another_window_is_refused() -> None:
    with pytest.raises(ReferenceMismatchError):
        null_edit_ratio(CountingEncoder(), ["A" * 96], [RelEdit(70, "C", "G")])


def test_a_cache_without_rows_compared_nothing_and_says_so() -> None:
    results = check_states(lambda rows: np.zeros((len(rows), 1, 1)), 0, CountingEncoder(), [], n_blocks=1)
    assert tuple(result.name for result in results) == STATE_CHECKS
    assert all(result.passed for result in results)
    for result in results[1:]:
        assert (result.figures["compared"], result.figures["not_compared"]) == (0, "the window table has no row")
