"""Where the steps of a run are executed: tags that choose a node, and executors of engines with several machines.

Not here: the choice of the executor (``runtime``), and which assets need an H100 (``assets``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
