"""One allele table whatever its source: schema, normal form, order, ledger, checks, changes between releases."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
