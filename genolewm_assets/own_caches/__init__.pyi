from .compiling import compiled as compiled
from .folders import cache_folder as cache_folder
from .folders import is_own as is_own
from .folders import own_cache as own_cache
from .kernels import compile_kernels as compile_kernels
