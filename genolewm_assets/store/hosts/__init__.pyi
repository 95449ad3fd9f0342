from .check import RootCheck as RootCheck
from .check import check_root as check_root
