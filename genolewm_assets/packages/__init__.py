"""Packages on disk: format, reading, verification, comparison, and the choice of the package that trainers read.

Belongs here: file names, table schemas, ``package.json``, checksums, references to caches of encoder states, and the
writers of single package files. Does not belong here: deciding which row goes into which split and building a whole
package (``package_build``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
