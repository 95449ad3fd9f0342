"""After how long without a new ClinVar release people are warned: the catalogue's days as a freshness policy."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg

from genolewm_assets.defs.resources import configured_catalog
from genolewm_assets.sources.catalogs import Catalog, load_catalog


def release_freshness(catalog: Catalog) -> dg.FreshnessPolicy:
    """Return the policy of what every new ClinVar release renews.

    Dagster holds it against the latest materialisation of any partition, which is the question: is the newest one old?
    """
    days = catalog.clinvar.freshness
    return dg.FreshnessPolicy.time_window(
        warn_window=timedelta(days=days.warn_days), fail_window=timedelta(days=days.fail_days)
    )


RELEASE_FRESHNESS = release_freshness(load_catalog(configured_catalog()))
