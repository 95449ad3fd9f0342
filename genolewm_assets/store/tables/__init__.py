"""Tables: schema declarations, reproducible Parquet files, exports, Arrow columns, and buffers for batches.

Does not belong here: the declarations of particular tables, which are beside the code that makes them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
