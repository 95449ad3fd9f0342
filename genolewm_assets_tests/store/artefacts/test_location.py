from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.artefacts.location import LockedLocation, locked_location, resumable_name
from genolewm_assets.store.artefacts.root import Root

NAME, DIGEST, OTHER = "a/b", "0123456789ab", "ba9876543210"
RESUMED = resumable_name(DIGEST)


def publish(site: LockedLocation, digest12: str, text: str) -> Path:
    work = site.work_dir()
    (work / "f").write_text(text)
    return site.publish(work, digest12)


def test_what_was_left_unlinked_is_offered_after_what_is_linked_and_can_be_adopted(root: Root) -> None:
    with locked_location(root, NAME, resumed=RESUMED) as site:
        assert list(site.generations()) == []
        former, latest = publish(site, OTHER, "former"), publish(site, DIGEST, "latest")
        assert list(site.generations()) == [latest, former]
        site.work_dir()
        assert site.adopt(former) == former
        assert list(site.generations()) == [former, latest]
    assert (root.link_of(NAME) / "f").read_text() == "former"
    assert root.leftovers(NAME) == []


def test_locking_sweeps_what_cannot_be_gone_on_with(root: Root) -> None:
    for name in (RESUMED, resumable_name(OTHER), None):
        with root.lock(NAME) as lease:
            root.work_dir(NAME, lease, name=name)
    with locked_location(root, NAME, resumed=RESUMED) as site:
        work = site.work_dir()
        assert list(work.parent.glob("*.*.*")) == [work]
    with locked_location(root, NAME, resumed=None):
        assert not work.exists()


def test_what_cannot_be_healed_is_not_gone_on_with(root: Root) -> None:
    with locked_location(root, NAME, resumed=RESUMED) as site:
        generation = publish(site, DIGEST, "whole")
        (generation / "f").write_text("damaged")
        assert publish(site, DIGEST, "whole") == generation
        assert (site.link / "f").read_text() == "whole"
        root.link_of(NAME).unlink()
        root.link_of(NAME).touch()
        with pytest.raises(CorruptResourceError, match="in the place of the published link"):
            publish(site, DIGEST, "whole")
    assert root.leftovers(NAME) == []
    with pytest.raises(CorruptResourceError), locked_location(root, NAME, resumed=RESUMED):
        pass
