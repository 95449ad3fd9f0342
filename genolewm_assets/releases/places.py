"""Where releases lie, told by URL: a data set of the hub, or a folder of any protocol that fsspec knows."""

from __future__ import annotations

from genolewm_assets.errors import InputError
from genolewm_assets.hub import HUB_SCHEME
from genolewm_assets.releases.hub_place import HubPlace
from genolewm_assets.releases.store_place import StorePlace

_NOTATION = "hf://datasets/OWNER/NAME[@REVISION], or a URL such as s3://BUCKET/FOLDER[@RELEASE]"


def open_place(url: str) -> tuple[HubPlace | StorePlace, str | None]:
    """Return the place that a URL names, and the release or revision after its ``@``; nothing is asked.

    Raises
    ------
    InputError
        If it is no URL, or names another thing on the hub than a data set.
    """
    base, at, reference = url.rpartition("@")
    if not at or "/" in reference or "://" not in base:
        base, reference = url, ""
    scheme, separator, rest = base.partition("://")
    if not separator or not scheme or not rest.strip("/") or (at and base != url and not reference):
        raise InputError(url, "is no URL of releases", expected=_NOTATION, got=repr(url))
    if not base.startswith(HUB_SCHEME):
        return StorePlace(base.rstrip("/")), reference or None
    place = HubPlace.parse(base.rstrip("/"))
    if place is None:
        raise InputError(url, "is no data set of the hub", expected=_NOTATION, got=repr(url))
    return place, reference or None
