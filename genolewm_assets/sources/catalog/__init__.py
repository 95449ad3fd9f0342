"""Read a YAML catalogue as validated settings.

Not here: reading what a catalogue names (the other rooms of ``sources``), the assets built from it (``defs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
