from __future__ import annotations

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.store.artefacts.build import BuildRejectedError, build
from genolewm_assets.store.artefacts.rejected import clear_rejected, rejection_reason
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.store.plans import LOCATION, failing_plan, make_plan


def test_the_reason_is_told_as_far_as_it_is_known(root: Root) -> None:
    with pytest.raises(VcfError):
        build(root, failing_plan())
    assert rejection_reason(root, LOCATION) == "in.vcf:3: is malformed. Correct it."
    (root.path / "rejected" / LOCATION / "failure.json").write_bytes(b"{")
    assert rejection_reason(root, LOCATION) == f"see {root.path}/rejected/{LOCATION}"
    with pytest.raises(BuildRejectedError):
        build(root, make_plan(passed=False))
    assert (
        rejection_reason(root, LOCATION)
        == "failed checks ['content_is_right'] (content_is_right: bad [1, 2], share 0.25)"
    )


def test_clearing_takes_the_marker_of_one_location_only(root: Root) -> None:
    other = LOCATION.replace("chr21", "chr21.x")
    for location in (LOCATION, other):
        with pytest.raises(BuildRejectedError):
            build(root, make_plan(passed=False, location=location))
    clear_rejected(root, LOCATION)
    clear_rejected(root, LOCATION)
    assert not root.is_rejected(LOCATION)
    assert (
        rejection_reason(root, other) == "failed checks ['content_is_right'] (content_is_right: bad [1, 2], share 0.25)"
    )
