from .check import check_root as check_root
