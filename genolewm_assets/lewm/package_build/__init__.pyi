from .checks import PACKAGE_CHECKS as PACKAGE_CHECKS
from .checks import realised_mix as realised_mix
from .plan import PackageSources as PackageSources
from .writer import write_package as write_package
