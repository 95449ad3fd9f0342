from .memmap_reader import MemmapCacheReader as MemmapCacheReader
from .memmap_writer import MemmapCacheWriter as MemmapCacheWriter
from .profile import PreprocessedProfile as PreprocessedProfile
