from .checks import MAPPED_FORM_RIGHT as MAPPED_FORM_RIGHT
from .checks import check_mapped as check_mapped
from .checks import find_mapped_faults as find_mapped_faults
from .split import open_mapped as open_mapped
from .windows import MappedWindows as MappedWindows
from .writer import SplitWriter as SplitWriter
from .writer import closed_alleles as closed_alleles
from .writer import write_from_tables as write_from_tables
