from .array_file import put_aside as put_aside
from .checks import MAPPED_FORM_RIGHT as MAPPED_FORM_RIGHT
from .checks import check_mapped as check_mapped
from .checks import find_mapped_faults as find_mapped_faults
from .opening import open_mapped as open_mapped
from .windows import MappedWindows as MappedWindows
from .writer import SplitWriter as SplitWriter
from .writer import closed_alleles as closed_alleles
