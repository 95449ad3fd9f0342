from .checks import WINDOW_CHECKS as WINDOW_CHECKS
from .checks import WINDOW_HASHES_RIGHT as WINDOW_HASHES_RIGHT
from .checks import WINDOWS_HOLD_ONLY_ACGT as WINDOWS_HOLD_ONLY_ACGT
from .checks import check_window_table as check_window_table
from .schema import GENOME_CONTIGS as GENOME_CONTIGS
from .schema import WINDOWS as WINDOWS
from .table import build_window_table as build_window_table
from .table import coverage_counts as coverage_counts
