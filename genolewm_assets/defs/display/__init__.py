"""Metadata that the Dagster UI shows: columns and their lineage, figures, pictures, descriptions of checks.

Here: functions from tables and counts to Dagster metadata. Not here: reading of artefacts and the choice of what an
asset shows (``assets``), the figures of checks (the modules that run them).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
