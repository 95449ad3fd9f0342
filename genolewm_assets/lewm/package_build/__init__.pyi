from .checks import PACKAGE_CHECKS as PACKAGE_CHECKS
from .plan import PackageSources as PackageSources
from .rows import SHARD_COLUMNS as SHARD_COLUMNS
from .writer import write_package as write_package
