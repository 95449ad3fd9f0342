"""Metadata that the Dagster UI shows: columns and their lineage, figures, pictures, descriptions of checks.

Not here: reading of artefacts and what an asset shows (``assets``), figures of checks (the modules that run them).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
