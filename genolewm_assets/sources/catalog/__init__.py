"""Read a YAML catalogue as validated settings.

Belongs here: the sections of the catalogue, their field types and the messages of errors. Does not belong here: reading
the sources that a catalogue names (the other rooms of ``sources``), the assets built from them (``defs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
