"""Run folders: the instrument files of a run become profiles in an array store, with an account of every file.

Does not belong here: from a file to a profile (``forensic.dataset``), which folders there are and when one is complete
(``sources.run_folders``), alleles of one injection (``forensic.calling``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
