from .run import SizeStandard as SizeStandard
from .run import Sizing as Sizing
from .run import SizingRules as SizingRules
from .run import size_run as size_run
from .run import standard_of as standard_of
