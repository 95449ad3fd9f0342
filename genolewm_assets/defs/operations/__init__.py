"""Jobs, schedules and sensors of the graph, and the demo that builds a whole catalogue in one process.

Not here: what an asset builds (``assets``), automation conditions (``runtime``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
