from .checks import FROZEN_CHECKS as FROZEN_CHECKS
from .writer import write_frozen as write_frozen
