from .checks import PACKAGE_CHECKS as PACKAGE_CHECKS
from .epoch_checks import WINDOWS_SUFFICE as WINDOWS_SUFFICE
from .epoch_checks import check_windows_suffice as check_windows_suffice
from .rows import SHARD_COLUMNS as SHARD_COLUMNS
from .sharing import count_training_windows as count_training_windows
from .sources import PackageSources as PackageSources
from .writer import write_package as write_package
