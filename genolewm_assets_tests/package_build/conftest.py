"""What mlcroissant imports holds no captured stderr."""

from __future__ import annotations

import sys

from absl import logging

# Its handler would close the stderr captured when it was made, of all tests, as soon as logging is configured anew.
logging.get_absl_handler().python_handler.setStream(sys.__stderr__)
