"""What a trainer imports."""

from __future__ import annotations


def test_the_trainers_names_are_those_of_training() -> None:
    from genolewm_assets import lewm, training

    assert {"GenoLeWMDataset", "GenoLeWMValDataset", "GenoLeWMTestDataset", "TrainingTuple"} <= set(lewm.__all__)
    assert [getattr(lewm, name) for name in lewm.__all__] == [getattr(training, name) for name in lewm.__all__]
