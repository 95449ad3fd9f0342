from .checks import MAPPED_FORM_RIGHT as MAPPED_FORM_RIGHT
from .checks import check_mapped as check_mapped
from .writer import SplitWriter as SplitWriter
