"""The Dagster code location: ``dagster dev -m genolewm_assets.definitions``.

Reads the catalogue's YAML for the contig partitions and nothing else; settings come from ``GENOLEWM_ROOT``,
``GENOLEWM_CATALOG`` and ``GENOLEWM_EXECUTOR``.
"""

import dagster as dg

from genolewm_assets.defs import clinvar, corpus, embeddings, gnomad, holdouts, packages, reference, windows
from genolewm_assets.defs.executors import configured_executor
from genolewm_assets.defs.resources import WorkspaceResource, configured_catalog, configured_root

defs = dg.Definitions(
    assets=dg.load_assets_from_modules([reference, gnomad, clinvar, windows, corpus, embeddings, holdouts, packages]),
    resources={"workspace": WorkspaceResource(root=configured_root(), catalog=configured_catalog())},
    executor=configured_executor(),
)
